import {createPrivateKey, X509Certificate} from 'node:crypto';
import {isIP, isIPv6} from 'node:net';
import {type NetworkInterfaceInfo, networkInterfaces} from 'node:os';
import type {Knex} from 'knex';
import type {Settings} from '../config/settings.ts';
import {tlsText} from '../deliver/conversation.ts';
import {Dialogue} from '../deliver/dialogue.ts';
import {type LookUp, systemLookUp} from '../deliver/find-hosts.ts';
import type {Host} from '../deliver/host.ts';
import {openSession, type SecureContexts} from '../deliver/open-session.ts';
import type {Stop} from '../deliver/verdict.ts';
import {type Clock, systemClock} from '../kit/clock.ts';
import {readSettingFile} from '../kit/regular-file.ts';
import {dayMs} from '../kit/time.ts';
import {relayAdvice} from '../mail/relay-advice.ts';
import type {DnsAnswer, Resolver} from '../net/dns.ts';
import {reverseName} from '../net/host-name.ts';
import {isPublicAddress} from '../net/ip-address.ts';
import type {ProviderClient} from '../net/provider-client.ts';
import type {Relay, RelayApi} from '../net/relay-url.ts';
import type {SmtpTimeouts} from '../net/smtp-timeouts.ts';
import {listSmarthosts, type Smarthost} from '../resources/smarthosts/store.ts';
import {type Check, type CheckResult, fail, ok, warn} from './finding.ts';

const recordsOf = <T>(answer: DnsAnswer<T>): readonly T[] => (answer.kind === 'found' ? answer.records : []);
const normalize = (name: string): string => name.toLowerCase().replace(/\.$/, '');

/** Returns the IPv4 and IPv6 addresses of a name. */
export async function findAddresses(resolver: Resolver, name: string): Promise<string[]> {
	const answers = await Promise.all([resolver.a(name, true), resolver.aaaa(name, true)]);
	return answers.flatMap(recordsOf);
}

/**
 * Checks that the EHLO name is a fully qualified name with an address (RFC 5321 §4.1.1.1). Without a resolver it is not
 * looked up: if a relay sends the mail, receivers see the relay's name.
 */
export function hostnameCheck(hostname: string, resolver: Resolver | null): Check {
	return {
		name: 'hostname',
		why: 'Receivers look up the EHLO name; if it is not in DNS, mail looks like a bot’s.',
		async run() {
			if (!hostname.includes('.')) {
				return [
					fail(
						`${hostname} is not a fully qualified name`,
						'set MAILCTL_HOSTNAME to a name such as mail.example.com',
					),
				];
			}
			if (resolver === null) {
				return [ok(`${hostname}; not looked up, because receivers see the relay’s name`)];
			}
			const addresses = await findAddresses(resolver, hostname);
			return [
				addresses.length > 0
					? ok(`${hostname} is ${addresses.join(', ')}`)
					: fail(
							`${hostname} has no address in DNS`,
							`publish ${hostname} A and AAAA with this machine’s addresses`,
						),
			];
		},
	};
}

/** Checks that each address has a name that resolves back to it and is the EHLO name. */
export function reverseDnsCheck(addresses: readonly OwnAddress[], resolver: Resolver): Check {
	return {
		name: 'reverse-dns',
		why: 'Gmail, Outlook and others refuse mail from an address whose name (PTR) does not resolve back to it.',
		async run() {
			if (addresses.length === 0) {
				const fix = 'set MAILCTL_SOURCE_ADDRESSES, or run this on the machine that sends';
				return [warn('the public address of this machine is unknown', fix)];
			}
			return await Promise.all(addresses.map(address => reverseDns(address, resolver)));
		},
	};
}

async function reverseDns({address, hostname}: OwnAddress, resolver: Resolver): Promise<CheckResult> {
	const fix = `ask the provider of the address to set its reverse DNS (PTR) to ${hostname}`;
	const answer = await resolver.ptr(reverseName(address), true);
	if (answer.kind === 'failed') {
		return warn(`the name of ${address} could not be looked up (${answer.code})`, 'try again');
	}
	const names = recordsOf(answer).map(normalize);
	if (names.length === 0) {
		return fail(`${address} has no name (PTR)`, fix);
	}
	const forward = await Promise.all(
		names.map(async name => ((await findAddresses(resolver, name)).includes(address) ? name : null)),
	);
	const confirmed = forward.filter(name => name !== null);
	if (confirmed.length === 0) {
		return fail(`${address} has the name ${names.join(', ')}, which does not resolve back to it`, fix);
	}
	return confirmed.includes(hostname)
		? ok(`${address} is ${hostname}, both ways`)
		: warn(
				`${address} is ${confirmed.join(', ')}, but the EHLO name is ${hostname}`,
				`${fix}, or set MAILCTL_HOSTNAME to its name`,
			);
}

/** Checks that the EHLO name has an SPF record, which applies to mail with an empty sender (RFC 7208 §2.4). */
export function ehloSpfCheck(hostname: string, resolver: Resolver): Check {
	return {
		name: 'spf-ehlo',
		why: 'Some receivers check the SPF record of the EHLO name too.',
		async run() {
			const answer = await resolver.txt(hostname, true);
			const [record] = recordsOf(answer).filter(text => /^v=spf1(?: |$)/i.test(text));
			return [
				record === undefined
					? warn(`${hostname} has no SPF record`, `publish ${hostname} TXT "v=spf1 a -all"`)
					: ok(`${hostname}: ${record}`),
			];
		},
	};
}

/** An address that mail is sent from, and its EHLO name. */
export type OwnAddress = {readonly address: string; readonly hostname: string};

type Interfaces = NodeJS.Dict<NetworkInterfaceInfo[]>;

/** Returns the public addresses of this machine's interfaces; none behind NAT. */
export function publicInterfaceAddresses(interfaces: Interfaces = networkInterfaces()): string[] {
	return Object.values(interfaces)
		.flatMap(list => list ?? [])
		.filter(({internal, address}) => !internal && isPublicAddress(address))
		.map(({address}) => address);
}

/** Checks that DNS responds at all, by looking up a domain that certainly receives mail. */
export function resolverCheck(domain: string, resolver: Resolver): Check {
	return {
		name: 'dns',
		why: 'Without DNS, no mail server is found for any recipient, and all mail waits.',
		async run() {
			const answer = await resolver.mx(domain, true);
			return [
				answer.kind === 'found'
					? ok(`${domain} has MX ${answer.records.map(({exchange}) => exchange).join(', ')}`)
					: fail(
							`DNS returned no MX for ${domain} (${answer.kind === 'failed' ? answer.code : answer.kind})`,
							'check the network, or set MAILCTL_DNS_SERVERS to working resolvers',
						),
			];
		},
	};
}

const soonDays = 14;

/** A listener with a certificate to check. */
type Listener = {readonly check: string; readonly why: string; readonly settings: string};

const inbound: Listener = {
	check: 'listener-tls',
	why: 'Servers that require TLS do not send bounces to a listener without it or with an invalid certificate.',
	settings: 'MAILCTL_INBOUND_TLS_CERT and MAILCTL_INBOUND_TLS_KEY',
};
const submission: Listener = {
	check: 'submission-tls',
	why: 'Most programs verify TLS and do not submit mail if the certificate is not for the name they connect to.',
	settings: 'MAILCTL_SUBMISSION_TLS_CERT and MAILCTL_SUBMISSION_TLS_KEY',
};

/** Warns that the listener has no certificate. */
export const noCertificateCheck: Check = {
	name: inbound.check,
	why: inbound.why,
	run: async () => [
		warn(
			'the listener offers no STARTTLS: reports arrive unencrypted',
			`set MAILCTL_ACME=true, or ${inbound.settings}`,
		),
	],
};

type Certificate = {
	readonly certFile: string;
	readonly keyFile: string;
	/** The name that clients connect to. */
	readonly hostname: string;
	readonly clock: Clock;
};

/** Checks the key, name and dates of the certificate of the listener that receives bounces. */
export function inboundCertificateCheck(certificate: Certificate): Check {
	return certificateCheck(inbound, certificate);
}

/** Checks the same for the submission listener's certificate. */
export function submissionCertificateCheck(certificate: Certificate): Check {
	return certificateCheck(submission, certificate);
}

/** Returns the checks of the certificates of this machine's SMTP listeners. */
export function certificateChecks(settings: Settings, clock: Clock): Check[] {
	const {delivery, inboundListen, submissionListen, hostname} = settings;
	const checkOf = (
		check: typeof inboundCertificateCheck,
		certFile: string | null,
		keyFile: string | null,
		name: string,
	) => (certFile === null || keyFile === null ? null : check({certFile, keyFile, hostname: name, clock}));
	const inboundOwn = checkOf(
		inboundCertificateCheck,
		settings.inboundTlsCert,
		settings.inboundTlsKey,
		settings.returnPathDomain,
	);
	const checks = [
		delivery === 'capture'
			? null
			: (inboundOwn ?? (inboundListen === null || settings.acme ? null : noCertificateCheck)),
		submissionListen.length === 0
			? null
			: checkOf(submissionCertificateCheck, settings.submissionTlsCert, settings.submissionTlsKey, hostname),
	];
	return checks.filter(check => check !== null);
}

function certificateCheck(listener: Listener, {certFile, keyFile, hostname, clock}: Certificate): Check {
	return {
		name: listener.check,
		why: listener.why,
		async run() {
			let certificate: X509Certificate;
			try {
				certificate = new X509Certificate(readSettingFile(certFile));
				if (!certificate.checkPrivateKey(createPrivateKey(readSettingFile(keyFile)))) {
					return [
						fail(
							`the key in ${keyFile} does not match the certificate in ${certFile}`,
							'set both to a matching pair of files',
						),
					];
				}
			} catch (error) {
				return [fail((error as Error).message, `fix ${listener.settings}`)];
			}
			const days = Math.floor((Date.parse(certificate.validTo) - clock.now()) / dayMs);
			const detail = `${certFile} is valid until ${certificate.validTo}`;
			if (days < 0) {
				return [fail(`${certFile} expired on ${certificate.validTo}`, 'renew it and send the daemon SIGHUP')];
			}
			if (certificate.checkHost(hostname) === undefined) {
				return [warn(`${certFile} is not for ${hostname}`, `get a certificate for ${hostname}`)];
			}
			return [days < soonDays ? warn(detail, 'renew it') : ok(detail)];
		},
	};
}

/** Time limits of a check, shorter than those of a delivery. */
const timeLimits: Pick<SmtpTimeouts, 'connect' | 'greeting' | 'ehlo' | 'starttls' | 'quit'> = {
	connect: 10_000,
	greeting: 30_000,
	ehlo: 30_000,
	starttls: 30_000,
	quit: 5000,
};

export type SmtpReach = {
	readonly hostname: string;
	readonly timeouts: SmtpTimeouts;
	readonly secureContexts: SecureContexts;
};

/** Opens a session and quits. Returns `host [address], TLS…`, or the reason why it failed. */
async function greet(
	route: Host,
	source: OwnAddress | undefined,
	{hostname, timeouts, secureContexts}: SmtpReach,
): Promise<{readonly greeting: string} | Stop> {
	const session = await openSession(route, {
		timeouts: {...timeouts, ...timeLimits},
		hostname: source?.hostname ?? hostname,
		localAddress: source?.address,
		secureContexts,
		hello: 'usual',
		hasTlsFailed: false,
		clock: systemClock,
		isHeloOnly: false,
		dialogue: new Dialogue(() => performance.now()),
		opened: () => undefined,
	});
	if ('by' in session) {
		return session;
	}
	const tls = tlsText(route, session.connection.tls()) ?? 'no TLS';
	await session.connection.quit(timeLimits.quit);
	return {greeting: `${route.name} [${route.address}], ${tls}`};
}

const stopText = (stop: Stop): string =>
	stop.by === 'reply' ? `${stop.reply.code} ${stop.reply.text.replaceAll(/\s+/g, ' ')}` : stop.text;

type EgressInput = SmtpReach & {
	/** Domains whose mail servers are tried in order until one accepts a session. */
	readonly targets: readonly string[];
	readonly routesTo: (domain: string) => Promise<readonly Host[] | string>;
	/** The addresses to connect from; if empty, the system chooses. */
	readonly sources: readonly OwnAddress[];
};

/** Checks that mail servers can be reached at all: many hosting providers block port 25 by default. */
export function egressCheck(input: EgressInput): Check {
	const {sources} = input;
	return {
		name: 'egress',
		why: 'Direct delivery needs outgoing port 25, which many hosting providers block by default.',
		run: async () =>
			await Promise.all(
				sources.length === 0 ? [reach(undefined, input)] : sources.map(source => reach(source, input)),
			),
	};
}

async function reach(source: OwnAddress | undefined, input: EgressInput): Promise<CheckResult> {
	const from = source === undefined ? '' : ` from ${source.address}`;
	const failures: string[] = [];
	let isRefused = false;
	for (const target of input.targets) {
		const routes = await input.routesTo(target);
		if (typeof routes === 'string') {
			failures.push(routes);
			continue;
		}
		const route = routes.find(({address}) => source === undefined || isIPv6(address) === isIPv6(source.address));
		if (route === undefined) {
			failures.push(`${target} has no address of this family`);
			continue;
		}
		const result = await greet(route, source, input);
		if ('greeting' in result) {
			return ok(`a session${from} with ${result.greeting}`);
		}
		isRefused ||= result.by === 'reply';
		failures.push(`${route.name} [${route.address}]: ${stopText(result)}`);
	}
	const detail = `no mail server accepts a session${from}: ${failures.join('; ')}`;
	return isRefused
		? warn(
				detail,
				'the connection works, but the servers refuse this address: see their replies and the reverse-dns check',
			)
		: fail(detail, 'ask the hosting provider to open outgoing port 25, or use a relay (MAILCTL_DELIVERY=relay)');
}

/** Checks that each relay accepts a session, and the login if there is a password. */
export function relayCheck(
	relays: readonly Relay[],
	reach: SmtpReach,
	client: Pick<ProviderClient, 'send'>,
	lookUp: LookUp = systemLookUp,
): Check {
	return {
		name: 'relay',
		why: 'Mail for a relay waits while the relay cannot be reached or refuses the login.',
		run: async () =>
			await Promise.all(
				relays.map(relay =>
					relay.api ? reachApi(relay.host, relay.api, client) : logIn(relay, reach, lookUp),
				),
			),
	};
}

/** A provider that has posted nothing about a message for this long is silent. */
const silentMs = dayMs;
/** A relay that accepted nothing for this long is no longer in use. */
const unusedMs = 7 * dayMs;

/** Checks that the providers of relays post their events. */
export function smarthostEventsCheck(reader: Knex, clock: Pick<Clock, 'now'>): Check {
	return {
		name: 'smarthost-events',
		why: 'Bounces and complaints of mail sent by a provider are known only if the provider posts them here.',
		async run() {
			const smarthosts = await listSmarthosts(reader, null);
			return smarthosts.length === 0
				? [
						warn(
							'no provider is set up to post its events here',
							'mailctl smarthost add PROVIDER; `generic` is for your own server',
						),
					]
				: smarthosts.map(smarthost => judgeEvents(smarthost, clock.now()));
		},
	};
}

/** Reports whether a provider accepted messages recently but posted no event about them. */
export function isSilent(
	{used_at: used, unreported_since: since}: Pick<Smarthost, 'used_at' | 'unreported_since'>,
	now: number,
): boolean {
	return used !== null && since !== null && now - Date.parse(since) > silentMs && now - Date.parse(used) < unusedMs;
}

/** Describes the silence of a provider and how to fix it. */
export function describeSilence({id, provider, unreported_since: since, last_event_at: last}: Smarthost) {
	const lastEvent = last === null ? 'it has never posted one' : `its last event was at ${last.slice(0, 16)} UTC`;
	return {
		detail: `${provider} posted no event about messages sent since ${since?.slice(0, 16)} UTC; ${lastEvent}`,
		fix: `check the webhook settings at ${provider}; mailctl smarthost show ${id}`,
	};
}

function judgeEvents(smarthost: Smarthost, now: number): CheckResult {
	const {provider, last_event_at: last} = smarthost;
	if (isSilent(smarthost, now)) {
		const {detail, fix} = describeSilence(smarthost);
		return warn(detail, fix);
	}
	return ok(last === null ? `${provider}: no event yet` : `${provider}: last event ${last.slice(0, 16)} UTC`);
}

/** Only checks that the host responds: permissions of keys differ, so no request would prove that a key is accepted. */
async function reachApi(host: string, api: RelayApi, client: Pick<ProviderClient, 'send'>): Promise<CheckResult> {
	try {
		const {status} = await client.send(api, new URL(`https://${host}/`));
		return ok(`${host} responds by HTTPS (${status}); the first message shows whether it accepts the key`);
	} catch (error) {
		return fail(
			(error as Error).message,
			'check the host in MAILCTL_RELAY_URL, DNS, and the firewall for port 443',
		);
	}
}

async function logIn(relay: Relay, reach: SmtpReach, lookUp: LookUp): Promise<CheckResult> {
	const {host, port, secure, tls, user, password} = relay;
	const addresses = isIP(host) === 0 ? await lookUp(host).catch(() => []) : [host];
	const [address] = addresses;
	if (address === undefined) {
		return fail(`the relay ${host} was not found in DNS`, 'fix the host in MAILCTL_RELAY_URL');
	}
	const login = user === null || password === null ? null : {user, password};
	const result = await greet({name: host, address, port, tls, implicitTls: secure, login}, undefined, reach);
	if ('greeting' in result) {
		return ok(`${result.greeting}${login === null ? '' : ', logged in'}`);
	}
	const detail = `${host}:${port}: ${stopText(result)}`;
	if (result.by === 'reply' || result.by === 'login') {
		return fail(detail, relayAdvice(stopText(result)));
	}
	return result.by === 'tls'
		? fail(detail, 'add its CA with MAILCTL_CA_FILE, or set the required TLS with ?tls= in MAILCTL_RELAY_URL')
		: fail(detail, 'check the host and port in MAILCTL_RELAY_URL, and the firewall');
}
