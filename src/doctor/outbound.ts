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
import {withoutAdvice} from '../mail/outcome.ts';
import {relayAdvice} from '../mail/relay-advice.ts';
import type {DnsAnswer, Resolver} from '../net/dns.ts';
import {reverseName} from '../net/host-name.ts';
import {isLoopbackAddress, isPublicAddress} from '../net/ip-address.ts';
import type {ProviderClient} from '../net/provider-client.ts';
import type {Relay, RelayApi} from '../net/relay-url.ts';
import type {SmtpTimeouts} from '../net/smtp-timeouts.ts';
import {listSmarthosts, type Smarthost} from '../store/smarthosts.ts';
import {type Check, type Found, fail, ok, warn} from './finding.ts';

const recordsOf = <T>(answer: DnsAnswer<T>): readonly T[] => (answer.kind === 'found' ? answer.records : []);
const bare = (name: string): string => name.toLowerCase().replace(/\.$/, '');

/** The addresses of a name, both families. */
export async function addressesOf(resolver: Resolver, name: string): Promise<string[]> {
	const answers = await Promise.all([resolver.a(name, true), resolver.aaaa(name, true)]);
	return answers.flatMap(recordsOf);
}

/**
 * Whether the EHLO name is a full name that DNS knows (RFC 5321 §4.1.1.1). No resolver: a smarthost talks to the
 * receivers.
 */
export function hostnameCheck(hostname: string, resolver: Resolver | null): Check {
	return {
		name: 'hostname',
		why: 'Receivers look the EHLO name up; a name that DNS does not know makes mail look like a bot’s.',
		async look() {
			if (!hostname.includes('.')) {
				return [
					fail(
						`${hostname} is not a fully qualified name`,
						'set MAILCTL_HOSTNAME to a name such as mail.example.com',
					),
				];
			}
			if (resolver === null) {
				return [ok(`${hostname}; not looked up, receivers see the smarthost’s name`)];
			}
			const addresses = await addressesOf(resolver, hostname);
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

/** Whether each address has a name that leads back to it, and is the EHLO name. */
export function reverseDnsCheck(addresses: readonly OwnAddress[], resolver: Resolver): Check {
	return {
		name: 'reverse-dns',
		why: 'Gmail, Outlook and others refuse mail from an address whose name (PTR) does not lead back to it.',
		async look() {
			if (addresses.length === 0) {
				const fix = 'set MAILCTL_SOURCE_ADDRESSES, or run this on the machine that sends';
				return [warn('the public address of this machine is not known', fix)];
			}
			return await Promise.all(addresses.map(one => reverseDns(one, resolver)));
		},
	};
}

async function reverseDns({address, hostname}: OwnAddress, resolver: Resolver): Promise<Found> {
	const fix = `ask the provider of the address to set its reverse DNS (PTR) to ${hostname}`;
	const answer = await resolver.ptr(reverseName(address), true);
	if (answer.kind === 'failed') {
		return warn(`the name of ${address} could not be looked up (${answer.code})`, 'try again');
	}
	const names = recordsOf(answer).map(bare);
	if (names.length === 0) {
		return fail(`${address} has no name (PTR)`, fix);
	}
	const forward = await Promise.all(
		names.map(async name => ((await addressesOf(resolver, name)).includes(address) ? name : null)),
	);
	const confirmed = forward.filter(name => name !== null);
	if (confirmed.length === 0) {
		return fail(`${address} is called ${names.join(', ')}, which does not lead back to it`, fix);
	}
	return confirmed.includes(hostname)
		? ok(`${address} is ${hostname}, both ways`)
		: warn(
				`${address} is ${confirmed.join(', ')}, EHLO says ${hostname}`,
				`${fix}, or set MAILCTL_HOSTNAME to its name`,
			);
}

/** Whether the EHLO name has an SPF record: it is what is checked for mail with an empty sender (RFC 7208 §2.4). */
export function ehloSpfCheck(hostname: string, resolver: Resolver): Check {
	return {
		name: 'spf-ehlo',
		why: 'Some receivers check the SPF record of the EHLO name too.',
		async look() {
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

/** An address that mail leaves from, and the name said in EHLO there. */
export type OwnAddress = {readonly address: string; readonly hostname: string};

type Interfaces = NodeJS.Dict<NetworkInterfaceInfo[]>;

/** The public addresses of this machine's interfaces; empty behind NAT. */
export function publicInterfaceAddresses(interfaces: Interfaces = networkInterfaces()): string[] {
	return Object.values(interfaces)
		.flatMap(list => list ?? [])
		.filter(({internal, address}) => !internal && isPublicAddress(address))
		.map(({address}) => address);
}

/** Whether DNS answers at all, for a domain that surely takes mail. */
export function resolverCheck(domain: string, resolver: Resolver): Check {
	return {
		name: 'dns',
		why: 'Without DNS no host for a recipient is found, and all mail waits.',
		async look() {
			const answer = await resolver.mx(domain, true);
			return [
				answer.kind === 'found'
					? ok(`${domain} has MX ${answer.records.map(({exchange}) => exchange).join(', ')}`)
					: fail(
							`DNS gave no MX of ${domain} (${answer.kind === 'failed' ? answer.code : answer.kind})`,
							'check the network, or set MAILCTL_DNS_SERVERS to resolvers that answer',
						),
			];
		},
	};
}

const day = 86_400_000;
const soonDays = 14;

/** A listener with a certificate to check. */
type Listener = {readonly check: string; readonly why: string; readonly settings: string};

const inbound: Listener = {
	check: 'listener-tls',
	why: 'Servers that demand TLS do not hand bounces to a listener that has none, or whose certificate is wrong.',
	settings: 'MAILCTL_INBOUND_TLS_CERT and MAILCTL_INBOUND_TLS_KEY',
};
const submission: Listener = {
	check: 'submission-tls',
	why: 'Programs that verify TLS, as most do, submit no mail where the certificate is not for the name that they connect to.',
	settings: 'MAILCTL_SUBMISSION_TLS_CERT and MAILCTL_SUBMISSION_TLS_KEY',
};

/** The listener has no certificate. */
export const noCertificateCheck: Check = {
	name: inbound.check,
	why: inbound.why,
	look: async () => [
		warn(
			'the listener offers no STARTTLS: reports come in unencrypted',
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

/** Whether the certificate of the listener for reports holds, for how long, and for which name. */
export function inboundCertificateCheck(certificate: Certificate): Check {
	return certificateCheck(inbound, certificate);
}

/** The same of the listener for submission. */
export function submissionCertificateCheck(certificate: Certificate): Check {
	return certificateCheck(submission, certificate);
}

/** What is to be looked at of the certificates of this machine's SMTP listeners. */
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
		async look() {
			let certificate: X509Certificate;
			try {
				certificate = new X509Certificate(readSettingFile(certFile));
				if (!certificate.checkPrivateKey(createPrivateKey(readSettingFile(keyFile)))) {
					return [
						fail(
							`the key of ${keyFile} is not that of ${certFile}`,
							'set the two files that belong together',
						),
					];
				}
			} catch (error) {
				return [fail((error as Error).message, `correct ${listener.settings}`)];
			}
			const days = Math.floor((Date.parse(certificate.validTo) - clock.now()) / day);
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

const answerMs = 10_000;

type Get = (url: string) => Promise<{readonly status: number; readonly headers: Headers}>;

/** Whether links in mail lead here, by https as one-click unsubscribing demands (RFC 8058 §3.1). */
export function publicUrlCheck({
	publicUrl,
	running,
	get = url => fetch(url, {redirect: 'manual', signal: AbortSignal.timeout(answerMs)}),
}: {
	readonly publicUrl: string;
	/** Whether a daemon runs that should answer there. */
	readonly running: boolean;
	readonly get?: Get;
}): Check {
	return {
		name: 'public-url',
		why: 'Gmail and Yahoo show their unsubscribe button only for https links that work; so do recipients.',
		async look() {
			const {protocol, hostname} = new URL(publicUrl);
			const found: Found[] = [];
			if (hostname === 'localhost' || isLoopbackAddress(hostname.replace(/^\[|\]$/g, ''))) {
				return [
					fail(`links in mail lead to ${publicUrl}, which is this machine only`, 'set MAILCTL_PUBLIC_URL'),
				];
			}
			if (protocol !== 'https:') {
				found.push(
					warn(
						`links in mail lead to ${publicUrl}`,
						'put an https proxy before it and set MAILCTL_PUBLIC_URL',
					),
				);
			}
			found.push(running ? await answers(publicUrl, get) : ok(`${publicUrl}; not asked, no daemon runs`));
			return found;
		},
	};
}

/**
 * A proxy may pass nothing but what links and the API need, so the check asks for the page of links, not `/healthz`.
 */
async function answers(publicUrl: string, get: Get): Promise<Found> {
	const url = `${publicUrl.replace(/\/+$/, '')}/unsubscribe`;
	try {
		const {status, headers} = await get(url);
		// Without a token the page is an error page; the id of the request says that it is ours.
		if (!headers.get('x-request-id')?.startsWith('req_')) {
			return fail(
				`${url} is not answered by mailctl (${status})`,
				'let the proxy pass /unsubscribe and /preferences to MAILCTL_HTTP_LISTEN',
			);
		}
		return status < 500 ? ok(`${url} answers`) : fail(`${url} answers ${status}`, 'read the log of the daemon');
	} catch (error) {
		const {message, cause} = error as Error;
		const reason = withoutAdvice(cause instanceof Error ? cause.message : message);
		return warn(
			`${url} could not be reached from here: ${reason}`,
			'open it in a browser elsewhere; check DNS and proxy',
		);
	}
}

/** Enough for a check; a mail waits longer. */
const waits: Pick<SmtpTimeouts, 'connect' | 'greeting' | 'ehlo' | 'starttls' | 'quit'> = {
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

/** What a session that was opened and ended again says: `host [address], TLS…`, or where it stopped. */
async function greet(
	route: Host,
	source: OwnAddress | undefined,
	{hostname, timeouts, secureContexts}: SmtpReach,
): Promise<{readonly said: string} | Stop> {
	const session = await openSession(route, {
		timeouts: {...timeouts, ...waits},
		hostname: source?.hostname ?? hostname,
		localAddress: source?.address,
		secureContexts,
		hello: 'usual',
		tlsFailed: false,
		clock: systemClock,
		plainHelo: false,
		dialogue: new Dialogue(() => performance.now()),
		opened: () => undefined,
	});
	if ('by' in session) {
		return session;
	}
	const tls = tlsText(route, session.connection.tls()) ?? 'no TLS';
	await session.connection.quit(waits.quit);
	return {said: `${route.name} [${route.address}], ${tls}`};
}

const wordsOf = (stop: Stop): string =>
	stop.by === 'reply' ? `${stop.reply.code} ${stop.reply.text.replaceAll(/\s+/g, ' ')}` : stop.text;

type EgressInput = SmtpReach & {
	/** Domains with the mail hosts to greet; one that answers is enough. */
	readonly targets: readonly string[];
	readonly routesTo: (domain: string) => Promise<readonly Host[] | string>;
	/** Set addresses to connect from; empty: the system's choice. */
	readonly sources: readonly OwnAddress[];
};

/** Whether mail hosts of others can be reached at all: many providers block port 25 until asked. */
export function egressCheck(input: EgressInput): Check {
	const {sources} = input;
	return {
		name: 'egress',
		why: 'Direct delivery needs port 25 to the world; many hosting providers block it until asked.',
		look: async () =>
			await Promise.all(sources.length === 0 ? [reach(undefined, input)] : sources.map(one => reach(one, input))),
	};
}

async function reach(source: OwnAddress | undefined, input: EgressInput): Promise<Found> {
	const from = source === undefined ? '' : ` from ${source.address}`;
	const failures: string[] = [];
	let refused = false;
	for (const target of input.targets) {
		const routes = await input.routesTo(target);
		if (typeof routes === 'string') {
			failures.push(routes);
			continue;
		}
		const route = routes.find(({address}) => source === undefined || isIPv6(address) === isIPv6(source.address));
		if (route === undefined) {
			failures.push(`${target} has no address of that family`);
			continue;
		}
		const greeted = await greet(route, source, input);
		if ('said' in greeted) {
			return ok(`a session${from} with ${greeted.said}`);
		}
		refused ||= greeted.by === 'reply';
		failures.push(`${route.name} [${route.address}]: ${wordsOf(greeted)}`);
	}
	const detail = `no mail host takes a session${from}: ${failures.join('; ')}`;
	return refused
		? warn(detail, 'the connection works, the hosts refuse this address: read their words, see reverse-dns')
		: fail(detail, 'ask the provider to open outgoing port 25, or use a smarthost (MAILCTL_DELIVERY=relay)');
}

/** Whether each smarthost takes a session, with the password where there is one. */
export function relayCheck(
	relays: readonly Relay[],
	reach: SmtpReach,
	client: Pick<ProviderClient, 'ask'>,
	lookUp: LookUp = systemLookUp,
): Check {
	return {
		name: 'relay',
		why: 'Mail that goes through a smarthost waits while it refuses the log-in.',
		look: async () =>
			await Promise.all(
				relays.map(one => (one.api ? reachApi(one.host, one.api, client) : logIn(one, reach, lookUp))),
			),
	};
}

/** A provider is silent that has posted nothing about a message for this long. */
const silentMs = dayMs;
/** A smarthost that accepted nothing for this long is no longer in use. */
const unusedMs = 7 * dayMs;

/** Whether the providers of smarthosts post their events. */
export function smarthostEventsCheck(reader: Knex, clock: Pick<Clock, 'now'>): Check {
	return {
		name: 'smarthost-events',
		why: 'A provider that sends your mail keeps its bounces and complaints, unless it posts them here.',
		async look() {
			const smarthosts = await listSmarthosts(reader, null);
			return smarthosts.length === 0
				? [
						warn(
							'no provider posts its events here',
							'mailctl smarthost add PROVIDER; `generic` is for a server of your own',
						),
					]
				: smarthosts.map(one => eventsFound(one, clock.now()));
		},
	};
}

/** Whether it accepted messages lately and reported on none of them. */
export function isSilent(
	{used_at: used, unreported_since: since}: Pick<Smarthost, 'used_at' | 'unreported_since'>,
	now: number,
): boolean {
	return used !== null && since !== null && now - Date.parse(since) > silentMs && now - Date.parse(used) < unusedMs;
}

/** What is wrong with a silent smarthost, and how to fix it. */
export function silenceOf({id, provider, unreported_since: since, last_event_at: last}: Smarthost) {
	const before = last === null ? 'it never posted one' : `the last event came ${last.slice(0, 16)} UTC`;
	return {
		detail: `${provider} posted no event about messages sent since ${since?.slice(0, 16)} UTC; ${before}`,
		fix: `check the webhook settings at ${provider}; mailctl smarthost show ${id}`,
	};
}

function eventsFound(smarthost: Smarthost, now: number): Found {
	const {provider, last_event_at: last} = smarthost;
	if (isSilent(smarthost, now)) {
		const {detail, fix} = silenceOf(smarthost);
		return warn(detail, fix);
	}
	return ok(last === null ? `${provider}: no event came yet` : `${provider}: last event ${last.slice(0, 16)} UTC`);
}

/** Nothing that a key may not do is asked for, so an answer of any kind is enough. */
async function reachApi(host: string, api: RelayApi, client: Pick<ProviderClient, 'ask'>): Promise<Found> {
	try {
		const {status} = await client.ask(api, new URL(`https://${host}/`));
		return ok(`${host} answers by HTTPS (${status}); the first mail shows whether it takes the key`);
	} catch (error) {
		return fail(
			(error as Error).message,
			'check the host in MAILCTL_RELAY_URL, DNS, and the firewall for port 443',
		);
	}
}

async function logIn(relay: Relay, reach: SmtpReach, lookUp: LookUp): Promise<Found> {
	const {host, port, secure, tls, user, password} = relay;
	const addresses = isIP(host) === 0 ? await lookUp(host).catch(() => []) : [host];
	const [address] = addresses;
	if (address === undefined) {
		return fail(`the smarthost ${host} was not found`, 'correct the host in MAILCTL_RELAY_URL');
	}
	const login = user === null || password === null ? null : {user, password};
	const greeted = await greet({name: host, address, port, tls, implicitTls: secure, login}, undefined, reach);
	if ('said' in greeted) {
		return ok(`${greeted.said}${login === null ? '' : ', logged in'}`);
	}
	const where = `${host}:${port}: ${wordsOf(greeted)}`;
	if (greeted.by === 'reply' || greeted.by === 'login') {
		return fail(where, relayAdvice(wordsOf(greeted)));
	}
	return greeted.by === 'tls'
		? fail(where, 'add its CA by MAILCTL_CA_FILE, or say how far TLS must go with ?tls= in MAILCTL_RELAY_URL')
		: fail(where, 'check host and port in MAILCTL_RELAY_URL, and the firewall');
}
