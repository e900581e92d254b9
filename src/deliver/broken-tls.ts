import {LRUCache} from 'lru-cache';
import {atMost} from '../mail/at-most.ts';
import type {Clock} from '../mail/clock.ts';
import type {Conversation} from './conversation.ts';
import type {Hello} from './hello.ts';
import type {Plan, Route} from './route.ts';

/** Addresses whose TLS does not work, and what works in its place. */
export type BrokenTls = {
	/** How to begin TLS with a host now. */
	readonly helloFor: (route: Route) => Hello;
	/** What a conversation has shown of the way that was taken. */
	readonly learn: (plan: Plan, conversation: Conversation) => void;
};

const keptMs = 3 * 86_400_000;
const mostAddresses = 10_000;

/**
 * Remembers for 3 days which addresses took mail only with a smaller hello or in plain text, so that the next mail does
 * not fail first. Only where TLS is not demanded; one that now insists on TLS is forgotten.
 */
export function createBrokenTls(clock: Pick<Clock, 'monotonic'>): BrokenTls {
	const known = new LRUCache<string, {readonly hello: Hello; readonly until: number}>(atMost(mostAddresses));
	/** Where a handshake has failed, and what works instead is not known yet. */
	const failed = new LRUCache<string, true>(atMost(mostAddresses));
	const keyOf = ({address, port}: Route) => `${address} ${port}`;
	const concerns = ({tls, implicitTls}: Route) => tls === 'opportunistic' && !implicitTls;

	return {
		helloFor(route) {
			const key = keyOf(route);
			const found = concerns(route) ? known.get(key) : undefined;
			if (found === undefined || found.until > clock.monotonic()) {
				return found?.hello ?? 'usual';
			}

			known.delete(key);
			return 'usual';
		},
		learn({route, hello, session}, {end, used}) {
			if (session !== null || !concerns(route)) {
				return;
			}

			const key = keyOf(route);
			if (end.by === 'tls') {
				known.delete(key);
				failed.set(key, true);
			} else if (end.by === 'reply' && (end.reply.code === 530 || /\.7\.29$/.test(end.reply.enhanced ?? ''))) {
				known.delete(key); // It insists on TLS, which may work now.
			} else if (used !== null && failed.delete(key) && hello !== 'usual') {
				known.set(key, {hello, until: clock.monotonic() + keptMs});
			}
		},
	};
}
