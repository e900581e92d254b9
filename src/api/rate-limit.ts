import type {FastifyReply} from 'fastify';
import {LRUCache} from 'lru-cache';
import {type RateLimit, readRateLimit} from '../mail/api-key.ts';
import {atMost} from '../mail/at-most.ts';
import type {Clock} from '../mail/clock.ts';
import {clientNetwork} from '../net/client-network.ts';
import type {Caller} from './caller.ts';

/** Single sends and the items of batches draw on buckets of their own, with the same limit. */
export type Bucket = 'send' | 'batch';

/** How much of a key's window is left. */
export type Allowance = {
	readonly limit: number;
	readonly remaining: number;
	/** When the window refills, Unix seconds. */
	readonly reset: number;
};

export type RateLimits = {
	readonly read: (caller: Caller, bucket: Bucket) => Allowance;
	/** Takes one; false: none is left. */
	readonly take: (caller: Caller, bucket: Bucket) => boolean;
};

type Window = {readonly end: number; used: number};

// What the headers say where there is no limit.
const plenty = 1_000_000_000;
const plentyMs = 60_000;
const sweepMs = 60_000;

/** Fixed windows, aligned to the epoch, for each key; counted in this process. `usual` is for keys without a limit of their own. */
export function createRateLimits(clock: Clock, usual: () => RateLimit | null): RateLimits {
	const windows: Readonly<Record<Bucket, Map<string, Window>>> = {send: new Map(), batch: new Map()};
	let sweepAt = 0;

	function limitOf({rateLimit}: Caller): RateLimit | null {
		const own = rateLimit === null ? undefined : readRateLimit(rateLimit);
		return own === undefined ? usual() : own;
	}

	function open(keyId: string, bucket: Bucket, end: number, now: number): Window {
		if (now >= sweepAt) {
			sweepAt = now + sweepMs;
			sweep(now);
		}
		const window = {end, used: 0};
		windows[bucket].set(keyId, window);
		return window;
	}

	/** Keys that are not used any more must not take room for ever. */
	function sweep(now: number): void {
		for (const bucket of Object.values(windows)) {
			for (const [keyId, {end}] of bucket) {
				if (end <= now) {
					bucket.delete(keyId);
				}
			}
		}
	}

	return {
		read(caller, bucket) {
			const limit = limitOf(caller);
			const now = clock.now();
			if (limit === null) {
				return {limit: plenty, remaining: plenty, reset: Math.ceil((now + plentyMs) / 1000)};
			}
			const end = endOfWindow(limit, now);
			const window = windows[bucket].get(caller.keyId);
			const used = window?.end === end ? window.used : 0;
			return {limit: limit.requests, remaining: Math.max(0, limit.requests - used), reset: end / 1000};
		},
		take(caller, bucket) {
			const limit = limitOf(caller);
			if (limit === null) {
				return true;
			}
			const now = clock.now();
			const end = endOfWindow(limit, now);
			const known = windows[bucket].get(caller.keyId);
			const window = known?.end === end ? known : open(caller.keyId, bucket, end, now);
			if (window.used >= limit.requests) {
				return false;
			}
			window.used++;
			return true;
		},
	};
}

function endOfWindow({windowMs}: RateLimit, now: number): number {
	return (Math.floor(now / windowMs) + 1) * windowMs;
}

/** The three headers that every answer to a valid key carries (docs/reference/interface.md, Rate limiting). */
export function showAllowance(reply: FastifyReply, {limit, remaining, reset}: Allowance): void {
	reply.header('ratelimit-limit', limit).header('ratelimit-remaining', remaining).header('ratelimit-reset', reset);
}

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
