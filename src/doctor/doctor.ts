import {randomBytes} from 'node:crypto';
import {existsSync} from 'node:fs';
import {createLinks} from '../compose/links/links.ts';
import {linkBase} from '../config/derive.ts';
import {secretsFile} from '../config/secrets-file.ts';
import {extraCa, type Settings} from '../config/settings.ts';
import {Dialogue} from '../deliver/dialogue.ts';
import {Families, findMxHosts} from '../deliver/find-hosts.ts';
import type {Host} from '../deliver/host.ts';
import {SecureContexts} from '../deliver/open-session.ts';
import {SmtpConnection} from '../deliver/smtp-connection.ts';
import type {Clock} from '../kit/clock.ts';
import type {NewId} from '../mail/ids.ts';
import type {Resolver} from '../net/dns.ts';
import {ProviderClient} from '../net/provider-client.ts';
import {createResolver, openRecordSources} from '../net/resolver.ts';
import type {OpenSources} from '../resources/domains/check-records.ts';
import {sendingNames} from '../resources/domains/domain-records.ts';
import {readMailboxNote} from '../resources/received/mailbox-store.ts';
import {type DaemonFile, liveDaemon} from '../store/data-folder/daemon-file.ts';
import {readSecrets} from '../store/data-folder/open.ts';
import {blocklistCheck} from './blocklists.ts';
import {acmeCheck} from './certificates.ts';
import {domainsCheck} from './domains.ts';
import {type Check, type CheckResult, examine, type Finding, fail, ok, warn} from './finding.ts';
import {inboundMxCheck} from './inbound-mx.ts';
import {
	clockCheck,
	daemonCheck,
	databaseClockCheck,
	diskCheck,
	firstKeysCheck,
	nodeCheck,
	type OpenedStore,
	openFilesCheck,
	openForDoctor,
	storeCheck,
	type TimeServer,
	walCheck,
} from './machine.ts';
import {mailboxCheck} from './mailbox.ts';
import {
	certificateChecks,
	egressCheck,
	ehloSpfCheck,
	findAddresses,
	hostnameCheck,
	type OwnAddress,
	publicInterfaceAddresses,
	relayCheck,
	resolverCheck,
	reverseDnsCheck,
	type SmtpReach,
	smarthostEventsCheck,
} from './outbound.ts';
import {publicUrlCheck} from './public-url.ts';

// `mailctl doctor` checks the machine, DNS, outbound delivery and bounce handling. This file picks the checks that fit
// the settings and runs them in order; each check is a `Check` of finding.ts that returns findings with a fix. The
// checks rely on the same resolver, SMTP client and store as the daemon, and run beside it or in it. They never change
// anything: no file or store is created, and no message is sent.

/** The servers that the checks contact unless the operator names others. */
export const doctorDefaults = {
	targets: ['gmail.com', 'outlook.com'],
	timeServer: {host: 'pool.ntp.org', port: 123},
} as const satisfies Partial<DoctorInput>;

const dnsTimeoutMs = 5000;
const apiLimitMs = 10_000;

type InspectInput = Pick<DoctorInput, 'settings' | 'version' | 'isReturnPathChosen'> &
	Partial<Pick<DoctorInput, 'daemon' | 'targets' | 'timeServer'>> & {
		readonly tools: {readonly clock: Clock; readonly newId: NewId};
	};

/**
 * Runs every check that fits the settings, beside a daemon or in it, and changes nothing. Takes up to a minute if no
 * server responds.
 */
export async function inspect(
	{settings, tools, ...input}: InspectInput,
	onFinding: Parameters<typeof examine>[1],
): Promise<Finding[]> {
	const {clock} = tools;
	const resolver = createResolver({servers: settings.dnsServers, timeoutMs: dnsTimeoutMs, tries: 1, clock});
	const store = await openForDoctor(settings);
	try {
		const checks = checksFor({
			...doctorDefaults,
			// With PostgreSQL, the daemon may use another data folder than this command.
			daemon: settings.databaseUrl === null ? liveDaemon(settings.dataDir) : null,
			...input,
			settings,
			resolver,
			clock,
			store,
			selfToken: await selfToken(tools, settings, store),
			interfaceAddresses: publicInterfaceAddresses(),
			openSources: () =>
				openRecordSources({servers: settings.dnsServers, allowPrivate: settings.allowPrivateMx, clock}),
		});
		return await examine(checks, onFinding);
	} finally {
		await store.store?.close();
	}
}

/**
 * Returns the return path of a recipient that does not exist, or `null` if there are no secrets yet: a check must not
 * create them.
 */
async function selfToken(
	{newId}: InspectInput['tools'],
	settings: Settings,
	{store}: OpenedStore,
): Promise<string | null> {
	if (store === null || (settings.databaseUrl === null && !existsSync(secretsFile(settings.dataDir)))) {
		return null;
	}
	const keys = await readSecrets(store, settings);
	const links = createLinks({keys, publicUrl: '', random: randomBytes});
	return links.returnPathLocal(newId('rcp'), `postmaster@${settings.returnPathDomain}`);
}

type DoctorInput = {
	readonly settings: Settings;
	readonly version: string;
	/** Whether the operator set MAILCTL_RETURN_PATH_DOMAIN. */
	readonly isReturnPathChosen: boolean;
	readonly resolver: Resolver;
	readonly clock: Clock;
	readonly store: OpenedStore;
	readonly daemon: DaemonFile | null;
	/** The local part of a valid return path, or `null` if there are no secrets yet. */
	readonly selfToken: string | null;
	/** The public addresses of the machine's interfaces. */
	readonly interfaceAddresses: readonly string[];
	/** Domains whose mail servers are greeted. */
	readonly targets: readonly string[];
	readonly timeServer: TimeServer;
	/** Opens the DNS servers that are queried for the records of one domain. */
	readonly openSources: OpenSources;
};

/**
 * Returns the checks that fit the settings, in the order of a manual search: the machine, its names, outbound delivery,
 * bounce handling.
 */
function checksFor(input: DoctorInput): Check[] {
	const {settings, resolver, clock} = input;
	const {store} = input.store;
	const machineChecks = [
		nodeCheck(),
		diskCheck(settings.dataDir, () => settings.minFreeDisk),
		openFilesCheck(settings.maxSessions),
		firstKeysCheck(settings.dataDir, clock),
		storeCheck(input.store),
		...(store?.wal ? [walCheck(store.wal)] : []),
		...(store?.dialect.isShared ? [databaseClockCheck(store)] : []),
		...(settings.acme && store ? [acmeCheck(store.reader, clock)] : []),
		daemonCheck(input.daemon, input.version),
	];
	if (settings.delivery === 'capture') {
		const inbound = settings.inboundListen === null ? [] : checkInbound(input);
		return [
			...machineChecks,
			captureCheck,
			...checkMailbox(input),
			...inbound,
			...certificateChecks(settings, clock),
		];
	}
	const [target = settings.hostname] = input.targets;
	return [
		...machineChecks,
		clockCheck({clock, resolver, server: input.timeServer}),
		resolverCheck(target, resolver),
		...outboundChecks(input),
		...bounceChecks(input),
		...checkDomains(input),
	];
}

const captureCheck: Check = {
	name: 'delivery',
	why: 'In capture mode, messages are written to files and never leave this machine.',
	run: async () => [
		ok('capture: nothing leaves this machine; delivery is checked with MAILCTL_DELIVERY=mx or relay'),
	],
};

function outboundChecks(input: DoctorInput): Check[] {
	const {settings, resolver, clock} = input;
	const {store} = input.store;
	const ca = extraCa(settings);
	const reach: SmtpReach = {
		hostname: settings.hostname,
		timeouts: settings.smtpTimeouts,
		secureContexts: new SecureContexts(ca ?? undefined),
	};
	const client = new ProviderClient({
		resolver,
		standIns: new Map(settings.providerHosts),
		ca: ca ?? undefined,
		userAgent: 'mailctl doctor',
		limitMs: apiLimitMs,
	});
	const relay =
		settings.relays.length > 0
			? [
					relayCheck(settings.relays, reach, client),
					...(store ? [smarthostEventsCheck(store.reader, clock)] : []),
				]
			: [];
	const blocklists = blocklistCheck(input);
	if (settings.delivery === 'relay') {
		return [hostnameCheck(settings.hostname, null), ...relay, blocklists];
	}
	const addresses = ownAddresses(input);
	return [
		hostnameCheck(settings.hostname, resolver),
		reverseDnsCheck(addresses, resolver),
		ehloSpfCheck(settings.hostname, resolver),
		egressCheck({
			...reach,
			targets: input.targets,
			routesTo: domain => routesTo(domain, input),
			sources: sourcesOf(settings),
		}),
		...relay,
		blocklists,
	];
}

function bounceChecks({settings, resolver, clock, store: {store}, ...input}: DoctorInput): Check[] {
	const {inboundListen, returnPathDomain, hostname} = settings;
	return [
		returnPathCheck({
			returnPathDomain,
			isListening: inboundListen !== null,
			isPolling: settings.bounceMailbox !== null,
			isReturnPathChosen: input.isReturnPathChosen,
			selfToken: input.selfToken,
			hostname,
			port: settings.mxPort,
			resolver,
		}),
		...checkMailbox({settings, clock, store: {store}}),
		...checkInbound({settings, resolver, store: {store}}),
		...certificateChecks(settings, clock),
		publicUrlCheck({
			publicUrl: linkBase(settings),
			isRunning: input.daemon !== null,
		}),
	];
}

type MailboxInput = Pick<DoctorInput, 'settings' | 'clock'> & {readonly store: Pick<OpenedStore, 'store'>};

function checkMailbox({settings, clock, store: {store}}: MailboxInput): Check[] {
	const {bounceMailbox} = settings;
	const readNote = async (name: string) => (store === null ? undefined : await readMailboxNote(store.reader, name));
	return bounceMailbox === null ? [] : [mailboxCheck(bounceMailbox, {ca: extraCa(settings), clock, readNote})];
}

type InboundInput = Pick<DoctorInput, 'settings' | 'resolver'> & {readonly store: Pick<OpenedStore, 'store'>};

function checkInbound({settings, resolver, store: {store}}: InboundInput): Check[] {
	const isListening = settings.inboundListen !== null;
	return store === null ? [] : [inboundMxCheck(store, resolver, sendingNames(settings), isListening)];
}

function checkDomains({settings, store: {store}, openSources, clock}: DoctorInput): Check[] {
	return store === null ? [] : [domainsCheck({store, names: sendingNames(settings), openSources, clock})];
}

function sourcesOf({sourceAddresses, hostname}: Settings): OwnAddress[] {
	return sourceAddresses.map(({ip, ehlo}) => ({address: ip, hostname: ehlo ?? hostname}));
}

/** Returns the addresses that mail is sent from: those of the settings, otherwise the machine's public ones. */
function ownAddresses({settings, interfaceAddresses}: DoctorInput): OwnAddress[] {
	const configured = sourcesOf(settings);
	return configured.length > 0
		? configured
		: interfaceAddresses.map(address => ({address, hostname: settings.hostname}));
}

/** Finds the mail servers of a domain as a delivery does. Returns the reason if it finds none. */
export async function routesTo(
	domain: string,
	{settings, resolver, clock}: Pick<DoctorInput, 'settings' | 'resolver' | 'clock'>,
): Promise<readonly Host[] | string> {
	const {mxPort: port, allowPrivateMx, ipv6} = settings;
	const families = new Families({ipv6, resolver, allowPrivate: allowPrivateMx, clock});
	const sources = sourcesOf(settings);
	const result = await findMxHosts(
		domain,
		{recipientId: domain, terms: {sources}},
		{resolver, families, port, allowPrivateMx, ownAddresses: new Set()},
	);
	return Array.isArray(result) ? result : result.reply;
}

const connectMs = 10_000;
const replyMs = 30_000;

type BouncesInput = {
	readonly returnPathDomain: string;
	/** Whether the listener accepts bounces. */
	readonly isListening: boolean;
	/** Whether a mailbox is polled for bounces. */
	readonly isPolling: boolean;
	/** Whether MAILCTL_RETURN_PATH_DOMAIN is set. */
	readonly isReturnPathChosen: boolean;
	/** The local part of a valid return path, or `null` if there are no secrets yet. */
	readonly selfToken: string | null;
	readonly hostname: string;
	readonly port: number;
	readonly resolver: Resolver;
};

/** Checks whether bounces would arrive: the MX of the return path must be a listener that accepts our token. */
export function returnPathCheck(input: BouncesInput): Check {
	return {
		name: 'return-path',
		why: 'Most bounces arrive hours later at the return path; if they are lost, dead addresses stay in use.',
		run: async () => [...checkDomainSetting(input), await checkReturnPath(input)],
	};
}

function checkDomainSetting({isReturnPathChosen, returnPathDomain}: BouncesInput): CheckResult[] {
	return isReturnPathChosen
		? []
		: [
				warn(
					`MAILCTL_RETURN_PATH_DOMAIN is not set; using ${returnPathDomain}`,
					'set it to a name that is used only for bounces, such as bounce.example.com',
				),
			];
}

async function checkReturnPath(input: BouncesInput): Promise<CheckResult> {
	const {returnPathDomain: domain, resolver, isListening, isPolling, hostname} = input;
	const answer = await resolver.mx(domain, true);
	if (answer.kind === 'failed') {
		return warn(
			`unknown: DNS did not respond for the MX of ${domain} (${answer.code})`,
			'check that DNS responds (MAILCTL_DNS_SERVERS)',
		);
	}
	const hosts =
		answer.kind === 'found'
			? answer.records.toSorted((a, b) => a.priority - b.priority).map(({exchange}) => exchange.toLowerCase())
			: [];
	const [host] = hosts;
	if (host === undefined || host === '') {
		return fail(
			`${domain} has no MX, bounces are lost`,
			hostname.includes('.')
				? `publish ${domain} MX "10 ${hostname}."`
				: 'set MAILCTL_HOSTNAME to a name such as mail.example.com first',
		);
	}
	if (!isListening) {
		return isPolling
			? ok(`bounces to ${domain} go to ${host}, and the mailbox is polled`)
			: fail(
					`nothing receives bounces here; ${domain} has MX ${host}`,
					'set MAILCTL_INBOUND_LISTEN or MAILCTL_BOUNCE_MAILBOX',
				);
	}
	const [address] = await findAddresses(resolver, host);
	if (address === undefined) {
		return fail(`${host}, the MX of ${domain}, has no address`, `publish ${host} A with this machine’s address`);
	}
	return await offerBounce(`${host} [${address}]`, address, input);
}

/** Offers a bounce with a valid token, up to RCPT. */
async function offerBounce(
	where: string,
	address: string,
	{port, hostname, returnPathDomain, selfToken}: BouncesInput,
): Promise<CheckResult> {
	const recipient = `${selfToken ?? 'postmaster'}@${returnPathDomain}`;
	const connection = new SmtpConnection({
		address,
		port,
		implicitTls: false,
		dialogue: new Dialogue(() => performance.now()),
	});
	const failure = await connection.connected(connectMs);
	const refusal =
		failure === null
			? await firstRefusal(connection, [`EHLO ${hostname}`, 'MAIL FROM:<>', `RCPT TO:<${recipient}>`])
			: failure.lost;
	void connection.quit(connectMs);
	if (refusal === null) {
		return ok(`${where} accepts bounces for ${returnPathDomain}`);
	}
	return fail(
		`${where} does not accept a bounce: ${refusal}`,
		failure === null
			? `point the MX of ${returnPathDomain} to this mailctl’s listener, and check that it is running`
			: 'start the daemon, and open port 25 to MAILCTL_INBOUND_LISTEN in the firewall',
	);
}

async function firstRefusal(connection: SmtpConnection, commands: readonly string[]): Promise<string | null> {
	for (const command of ['', ...commands]) {
		if (command !== '') {
			connection.write([`${command}\r\n`], 1);
		}
		const reply = await connection.read(replyMs);
		if ('lost' in reply) {
			return reply.lost;
		}
		if (reply.code >= 300) {
			return `${command === '' ? 'greeting' : command}: ${reply.code} ${reply.lines.join(' ')}`;
		}
	}
	return null;
}
