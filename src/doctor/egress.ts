import {isIP, isIPv6} from 'node:net';
import {tlsText} from '../deliver/conversation.ts';
import {Dialogue} from '../deliver/dialogue.ts';
import {type LookUp, systemLookUp} from '../deliver/find-hosts.ts';
import type {Host} from '../deliver/host.ts';
import {openSession, type SecureContexts} from '../deliver/open-session.ts';
import type {Stop} from '../deliver/verdict.ts';
import {systemClock} from '../kit/clock.ts';
import type {Relay} from '../net/relay-url.ts';
import type {SmtpTimeouts} from '../net/smtp-timeouts.ts';
import {type Check, type Found, fail, ok, warn} from './finding.ts';
import type {OwnAddress} from './names.ts';

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
	stop.by === 'reply' ? `${stop.reply.code} ${stop.reply.text.split('\n')[0]}` : stop.text;

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
export function relayCheck(relays: readonly Relay[], reach: SmtpReach, lookUp: LookUp = systemLookUp): Check {
	return {
		name: 'relay',
		why: 'Mail that goes through a smarthost waits while it refuses the log-in.',
		look: async () => await Promise.all(relays.map(one => logIn(one, reach, lookUp))),
	};
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
	if (greeted.phase === 'auth') {
		return fail(where, 'correct user and password in MAILCTL_RELAY_URL (percent-encoded)');
	}
	return greeted.by === 'tls'
		? fail(where, 'add its CA by MAILCTL_CA_FILE, or say how far TLS must go with ?tls= in MAILCTL_RELAY_URL')
		: fail(where, 'check host and port in MAILCTL_RELAY_URL, and the firewall');
}
