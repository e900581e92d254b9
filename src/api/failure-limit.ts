import {LRUCache} from 'lru-cache';
import type {RateLimit} from '../mail/api-key.ts';
import {atMost} from '../mail/at-most.ts';
import type {Clock} from '../mail/clock.ts';
import {clientNetwork} from '../net/client-network.ts';

const mostClients = 10_000;

/** Counts a failure of a client. Answers for how many milliseconds it has had too many; null: it may go on trying. */
export type FailureLimit = (ip: string) => number | null;

/** Slows down a client that tries keys or tokens. Only failures count: many people may share one address with it. */
export function createFailureLimit(clock: Pick<Clock, 'monotonic'>, limit: () => RateLimit | null): FailureLimit {
	const clients = new LRUCache<string, {since: number; n: number}>(atMost(mostClients));
	return ip => {
		const most = limit();
		if (most === null) {
			return null;
		}
		const now = clock.monotonic();
		const network = clientNetwork(ip);
		let client = clients.get(network);
		if (!client || now - client.since >= most.windowMs) {
			client = {since: now, n: 0};
			clients.set(network, client);
		}
		client.n++;
		return client.n <= most.requests ? null : client.since + most.windowMs - now;
	};
}
