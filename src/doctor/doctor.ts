import {randomBytes} from 'node:crypto';
import {existsSync} from 'node:fs';
import {linkBase} from '../config/derive.ts';
import {secretsFile} from '../config/secrets-file.ts';
import type {Settings} from '../config/settings.ts';
import {extraCa} from '../config/settings.ts';
import {type DaemonFile, liveDaemon} from '../data-folder/daemon-file.ts';
import {secretsOf} from '../data-folder/ensure-secrets.ts';
import {Families, findMxHosts} from '../deliver/find-hosts.ts';
import type {Host} from '../deliver/host.ts';
import {SecureContexts} from '../deliver/open-session.ts';
import {createResolver, openRecordSources} from '../dns/resolver.ts';
import type {OpenSources} from '../domains/check-records.ts';
import {sendingNames} from '../domains/domain-records.ts';
import type {Clock} from '../kit/clock.ts';
import {createLinks} from '../links/links.ts';
import type {NewId} from '../mail/ids.ts';
import type {Resolver} from '../net/dns.ts';
import {domainsCheck, mailboxCheck, returnPathCheck} from './domains.ts';
import {type Check, examine, type Finding, ok} from './finding.ts';
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
import {
	blocklistCheck,
	egressCheck,
	ehloSpfCheck,
	hostnameCheck,
	inboundCertificateCheck,
	noCertificateCheck,
	type OwnAddress,
	publicInterfaceAddresses,
	publicUrlCheck,
	relayCheck,
	resolverCheck,
	reverseDnsCheck,
	type SmtpReach,
	submissionCertificateCheck,
} from './outbound.ts';

/** Whom the checks ask unless the operator names others. */
export const usual = {
	targets: ['gmail.com', 'outlook.com'],
	blocklists: ['zen.spamhaus.org'],
	timeServer: {host: 'pool.ntp.org', port: 123},
} as const satisfies Partial<DoctorInput>;

const dnsTimeoutMs = 5000;

type InspectInput = Pick<DoctorInput, 'settings' | 'version' | 'returnPathChosen'> &
	Partial<Pick<DoctorInput, 'daemon' | 'targets' | 'blocklists' | 'timeServer'>> & {
		readonly tools: {readonly clock: Clock; readonly newId: NewId};
	};

/** Makes every check that fits the settings, beside a daemon or in it; it changes nothing. Takes up to a minute where no server answers. */
export async function inspect(
	{settings, tools, ...input}: InspectInput,
	onFinding: Parameters<typeof examine>[1],
): Promise<Finding[]> {
	const {clock} = tools;
	const resolver = createResolver({servers: settings.dnsServers, timeoutMs: dnsTimeoutMs, tries: 1, clock});
	const store = await openForDoctor(settings);
	try {
		const checks = checksFor({
			...usual,
			// With PostgreSQL the daemon's data folder need not be the command's.
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

/** The return path of a copy that does not exist; null where no secrets are there yet: none are made to look. */
async function selfToken(
	{newId}: InspectInput['tools'],
	settings: Settings,
	{store}: OpenedStore,
): Promise<string | null> {
	if (store === null || (settings.databaseUrl === null && !existsSync(secretsFile(settings.dataDir)))) {
		return null;
	}
	const keys = await secretsOf(store, settings);
	const links = createLinks({keys, publicUrl: '', random: randomBytes});
	return links.returnPathLocal(newId('rcp'), `postmaster@${settings.returnPathDomain}`);
}

type DoctorInput = {
	readonly settings: Settings;
	readonly version: string;
	/** Whether MAILCTL_RETURN_PATH_DOMAIN was set by the operator. */
	readonly returnPathChosen: boolean;
	readonly resolver: Resolver;
	readonly clock: Clock;
	readonly store: OpenedStore;
	readonly daemon: DaemonFile | null;
	/** The local part of a return path of our own; null: no secrets are there. */
	readonly selfToken: string | null;
	/** The public addresses of the machine's interfaces. */
	readonly interfaceAddresses: readonly string[];
	/** Domains with the mail hosts to greet. */
	readonly targets: readonly string[];
	/** Zones of blocklists to ask. */
	readonly blocklists: readonly string[];
	readonly timeServer: TimeServer;
	/** Servers to ask for the records of domains, opened for one domain. */
	readonly openSources: OpenSources;
};

/** Every check that fits the settings, in the order in which one would look: the machine, its names, the ways out, the way back. */
function checksFor(input: DoctorInput): Check[] {
	const {settings, resolver, clock} = input;
	const here = [
		nodeCheck(),
		diskCheck(settings.dataDir, settings.minFreeDisk),
		openFilesCheck(settings.maxSessions),
		firstKeysCheck(settings.dataDir, clock),
		storeCheck(input.store),
		...walOf(input.store),
		...databaseClockOf(input.store),
		daemonCheck(input.daemon, input.version),
	];
	if (settings.delivery === 'capture') {
		return [...here, captureCheck, ...mailboxOf(input), ...submissionTlsOf(settings, clock)];
	}
	const [target = settings.hostname] = input.targets;
	return [
		...here,
		clockCheck({clock, resolver, server: input.timeServer}),
		resolverCheck(target, resolver),
		...waysOut(input),
		...waysBack(input),
		...domainsOf(input),
	];
}

function walOf({store}: OpenedStore): Check[] {
	return store?.wal ? [walCheck(store.wal)] : [];
}

function databaseClockOf({store}: OpenedStore): Check[] {
	return store?.dialect.isShared ? [databaseClockCheck(store)] : [];
}

const captureCheck: Check = {
	name: 'delivery',
	why: 'In capture mode mail is written to files and never leaves this machine.',
	look: async () => [
		ok('capture: nothing leaves this machine; the checks of delivery run with MAILCTL_DELIVERY=mx or relay'),
	],
};

function waysOut(input: DoctorInput): Check[] {
	const {settings, resolver} = input;
	const ca = extraCa(settings);
	const reach: SmtpReach = {
		hostname: settings.hostname,
		timeouts: settings.smtpTimeouts,
		secureContexts: new SecureContexts(ca ?? undefined),
	};
	const relay = settings.relays.length > 0 ? [relayCheck(settings.relays, reach)] : [];
	if (settings.delivery === 'relay') {
		return [hostnameCheck(settings.hostname, null), ...relay];
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
		blocklistCheck(addresses, input.blocklists, resolver),
	];
}

function waysBack({settings, resolver, clock, ...input}: DoctorInput): Check[] {
	const {inboundListen, returnPathDomain, hostname} = settings;
	return [
		returnPathCheck({
			returnPathDomain,
			listening: inboundListen !== null,
			polling: settings.bounceMailbox !== null,
			chosen: input.returnPathChosen,
			selfToken: input.selfToken,
			hostname,
			port: settings.mxPort,
			resolver,
		}),
		...mailboxOf({settings}),
		...listenerTlsOf(settings, clock),
		...submissionTlsOf(settings, clock),
		publicUrlCheck({
			publicUrl: linkBase(settings),
			running: input.daemon !== null,
		}),
	];
}

function listenerTlsOf(settings: Settings, clock: Clock): Check[] {
	const {inboundListen, inboundTlsCert: certFile, inboundTlsKey: keyFile, returnPathDomain: hostname} = settings;
	if (certFile !== null && keyFile !== null) {
		return [inboundCertificateCheck({certFile, keyFile, hostname, clock})];
	}
	return inboundListen === null ? [] : [noCertificateCheck];
}

function submissionTlsOf(settings: Settings, clock: Clock): Check[] {
	const {submissionListen, submissionTlsCert: certFile, submissionTlsKey: keyFile, hostname} = settings;
	return submissionListen.length > 0 && certFile !== null && keyFile !== null
		? [submissionCertificateCheck({certFile, keyFile, hostname, clock})]
		: [];
}

function mailboxOf({settings}: Pick<DoctorInput, 'settings'>): Check[] {
	const {bounceMailbox} = settings;
	return bounceMailbox === null ? [] : [mailboxCheck(bounceMailbox, extraCa(settings))];
}

function domainsOf({settings, store: {store}, openSources, clock}: DoctorInput): Check[] {
	return store === null ? [] : [domainsCheck({store, names: sendingNames(settings), openSources, clock})];
}

function sourcesOf({sourceAddresses, hostname}: Settings): OwnAddress[] {
	return sourceAddresses.map(({ip, ehlo}) => ({address: ip, hostname: ehlo ?? hostname}));
}

/** What mail leaves from: as set, else the machine's public addresses. */
function ownAddresses({settings, interfaceAddresses}: DoctorInput): OwnAddress[] {
	const set = sourcesOf(settings);
	return set.length > 0 ? set : interfaceAddresses.map(address => ({address, hostname: settings.hostname}));
}

async function routesTo(domain: string, {settings, resolver, clock}: DoctorInput): Promise<readonly Host[] | string> {
	const {mxPort: port, allowPrivateMx, ipv6} = settings;
	const families = new Families({ipv6, resolver, allowPrivate: allowPrivateMx, clock});
	const sources = sourcesOf(settings);
	const found = await findMxHosts(
		domain,
		{recipientId: domain, terms: {sources}},
		{resolver, families, port, allowPrivateMx, ownAddresses: new Set()},
	);
	return Array.isArray(found) ? found : found.reply;
}
