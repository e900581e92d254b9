import {lookup} from 'node:dns/promises';
import {isIP} from 'node:net';
import type {Clock} from '../kit/clock.ts';
import type {Asked} from '../mail/outcome.ts';
import type {Relay} from '../net/relay-url.ts';
import type {Host} from './host.ts';
import {inTurn, mostAddresses} from './mx-hosts.ts';
import {deferral, type NoHost} from './no-host.ts';

/** The addresses of a host as the operating system knows them; throws where it knows none. */
export type LookUp = (host: string) => Promise<readonly string[]>;

export const systemLookUp: LookUp = async host => {
	const found = await lookup(host, {all: true, verbatim: true});
	return found.map(({address}) => address);
};

const keptMs = 60_000;

/**
 * Finds the addresses of smarthosts, in their order, those asked before last; one that cannot be found is the
 * next one's turn. None is crowded out by the many addresses of another: each is there at least once.
 */
export function createRelayHosts({
	clock,
	lookUp = systemLookUp,
}: {
	readonly clock: Clock;
	readonly lookUp?: LookUp;
}): (relays: readonly Relay[], asked?: readonly Asked[]) => Promise<Host[] | NoHost> {
	const kept = new Map<string, {readonly until: number; readonly addresses: Promise<readonly string[]>}>();

	function addresses(host: string): Promise<readonly string[]> {
		if (isIP(host) !== 0) {
			return Promise.resolve([host]);
		}

		const known = kept.get(host);
		if (known !== undefined && known.until > clock.monotonic()) {
			return known.addresses;
		}

		const found = lookUp(host);
		kept.set(host, {until: clock.monotonic() + keptMs, addresses: found});
		found.catch(() => kept.delete(host));
		return found;
	}

	return async (relays, asked = []) => {
		const found: Array<readonly Host[]> = [];
		let failure = 'no smarthost is set';
		for (const relay of relays) {
			try {
				const hosts = (await addresses(relay.host)).map(address => hostTo(relay, address));
				found.push(inTurn(hosts, asked));
			} catch (error) {
				failure = `the smarthost ${relay.host} was not found: ${(error as NodeJS.ErrnoException).code ?? String(error)}`;
			}
		}

		const hosts = shared(found, Math.max(mostAddresses, found.length));
		return hosts.length > 0 ? hosts : deferral('config', '4.4.3', failure);
	};
}

function hostTo({host, port, secure, tls, user, password}: Relay, address: string): Host {
	const login = user === null || password === null ? null : {user, password};
	return {name: host, address, port, tls, implicitTls: secure, login};
}

/** At most `most` items in all, one from each list in turn, in the order of the lists. */
function shared<T>(lists: ReadonlyArray<readonly T[]>, most: number): T[] {
	const depths = lists.map(() => 0);
	let left = most;
	for (let depth = 0; left > 0 && lists.some(list => list.length > depth); depth++) {
		for (const [n, list] of lists.entries()) {
			if (list.length > depth && left > 0) {
				depths[n] = depth + 1;
				left--;
			}
		}
	}

	return lists.flatMap((list, n) => list.slice(0, depths[n]));
}
