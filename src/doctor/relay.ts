import {isIP} from 'node:net';
import {type LookUp, systemLookUp} from '../deliver/relay-routes.ts';
import type {Relay} from '../net/relay-url.ts';
import {greet, type SmtpReach, wordsOf} from './egress.ts';
import {type Check, type Found, fail, ok} from './finding.ts';

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
	const greeted = await greet({host, address, port, tls, implicitTls: secure, login}, undefined, reach);
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
