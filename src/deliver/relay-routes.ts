import {lookup} from 'node:dns/promises';
import {isIP} from 'node:net';
import type {Clock} from '../mail/clock.ts';
import type {Relay, Route} from './route.ts';
import {mostAddresses, type NoRoute} from './routes.ts';

/** The addresses of a host as the operating system knows them; throws where it knows none. */
export type LookUp = (host: string) => Promise<readonly string[]>;

export const systemLookUp: LookUp = async host => {
	const found = await lookup(host, {all: true, verbatim: true});
	return found.map(({address}) => address);
};

const keptMs = 60_000;

/** Finds the addresses of the smarthosts, in their order. A name that cannot be found is the next one's turn. */
export function createRelayRoutes(
	relays: readonly Relay[],
	{clock, lookUp = systemLookUp}: {readonly clock: Clock; readonly lookUp?: LookUp},
): () => Promise<Route[] | NoRoute> {
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

	return async () => {
		const routes: Route[] = [];
		let failure = 'no smarthost is set';
		for (const relay of relays) {
			try {
				for (const address of await addresses(relay.host)) {
					routes.push({...relay, address});
				}
			} catch (error) {
				failure = `the smarthost ${relay.host} was not found: ${(error as NodeJS.ErrnoException).code ?? String(error)}`;
			}
		}

		return routes.length > 0 ? routes.slice(0, mostAddresses) : unfound(failure);
	};
}

function unfound(reply: string): NoRoute {
	return {
		outcome: {kind: 'deferred', category: 'config', reason: `4.4.3 ${reply}`},
		code: null,
		enhanced: '4.4.3',
		reply,
	};
}
