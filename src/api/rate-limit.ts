import type {FastifyReply} from 'fastify';
import {LRUCache} from 'lru-cache';
import type {Clock} from '../kit/clock.ts';
import {atMost} from '../kit/collections.ts';
import {type RateLimit, readRateLimit} from '../mail/api-key.ts';
import {clientNetwork} from '../net/ip-address.ts';
import type {PartAsked, PartGiven} from '../store/nodes.ts';
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
	/**
	 * Takes up to `n` and answers how many there were; a promise where the nodes that share the store have to be asked.
	 */
	readonly take: (caller: Caller, bucket: Bucket, n: number) => number | Promise<number>;
};

/** Gives this node a part of a key's window, which all nodes share. Rejects if the store cannot be asked. */
type SharePart = (ask: PartAsked) => Promise<PartGiven>;

/** A node's own count of a window. */
type Window = {
	readonly end: number;
	used: number;
	/** What this node may use; all of it where it is alone. */
	sharedOut: number;
	/** What is given out to all nodes, as far as is known here. */
	given: number;
	/** By limits up to this one nothing is left for any node. */
	spentAt: number;
	/** What requests wait for. */
	wanted: number;
	asking: Promise<void> | null;
};

// What the headers say where there is no limit.
const plenty = 1_000_000_000;
const plentyMs = 60_000;
const sweepMs = 60_000;
/** A node asks for this part of what it used: what it holds unused when it goes silent is lost to the others. */
const ahead = 4;
/** It asks for no less than this part of the limit, so that it seldom asks. */
const minPart = 100;

/**
 * Fixed windows, aligned to the epoch, for each key. `usual` is for keys without a limit of their own. Where nodes
 * share a store they share the windows too: each takes small parts of them by `lease`; null: this process counts alone.
 */
export function createRateLimits(
	clock: Pick<Clock, 'now'>,
	usual: () => RateLimit | null,
	share: SharePart | null,
): RateLimits {
	const windows: Readonly<Record<Bucket, Map<string, Window>>> = {send: new Map(), batch: new Map()};
	let sweepAt = 0;

	function limitOf({rateLimit}: Caller): RateLimit | null {
		const own = rateLimit === null ? undefined : readRateLimit(rateLimit);
		return own === undefined ? usual() : own;
	}

	function windowOf(keyId: string, bucket: Bucket, limit: RateLimit, now: number): Window {
		const end = endOfWindow(limit, now);
		const known = windows[bucket].get(keyId);
		if (known?.end === end) {
			return known;
		}
		if (now >= sweepAt) {
			sweepAt = now + sweepMs;
			sweep(now);
		}
		const sharedOut = share === null ? Number.POSITIVE_INFINITY : 0;
		const window = {
			end,
			used: 0,
			sharedOut,
			given: 0,
			spentAt: share === null ? sharedOut : 0,
			wanted: 0,
			asking: null,
		};
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

	function takeLeased(window: Window, {requests}: RateLimit, n: number): number {
		const taken = Math.max(0, Math.min(n, requests - window.used, window.sharedOut - window.used));
		window.used += taken;
		return taken;
	}

	/** Without the store this node counts alone: what is sent meanwhile cannot be stored either. */
	async function ask(window: Window, part: Omit<PartAsked, 'wants' | 'usual'>): Promise<void> {
		const wants = window.wanted;
		const defaultPart = Math.ceil(Math.max(window.used / ahead, part.limit / minPart));
		try {
			const {granted, given} = await (share as SharePart)({...part, wants, usual: defaultPart});
			window.sharedOut += granted;
			window.given = given;
			window.spentAt = given >= part.limit ? part.limit : 0;
		} catch {
			window.sharedOut = Number.POSITIVE_INFINITY;
			window.spentAt = window.sharedOut;
		}
	}

	/** Waits for as much of the window as is missing. */
	async function takeShared(window: Window, limit: RateLimit, part: Omit<PartAsked, 'wants' | 'usual'>, n: number) {
		let taken = 0;
		window.wanted += n;
		while (taken < n && window.spentAt < limit.requests) {
			window.asking ??= ask(window, part).finally(() => {
				window.asking = null;
			});
			await window.asking;
			const more = takeLeased(window, limit, n - taken);
			window.wanted -= more;
			taken += more;
		}
		window.wanted -= n - taken;
		return taken;
	}

	return {
		read(caller, bucket) {
			const limit = limitOf(caller);
			const now = clock.now();
			if (limit === null) {
				return {limit: plenty, remaining: plenty, reset: Math.ceil((now + plentyMs) / 1000)};
			}
			const {requests} = limit;
			const end = endOfWindow(limit, now);
			const window = windows[bucket].get(caller.keyId);
			if (window?.end !== end) {
				return {limit: requests, remaining: requests, reset: end / 1000};
			}
			const others = Number.isFinite(window.sharedOut) ? Math.max(0, window.given - window.sharedOut) : 0;
			return {limit: requests, remaining: Math.max(0, requests - others - window.used), reset: end / 1000};
		},
		take(caller, bucket, n) {
			const limit = limitOf(caller);
			if (limit === null) {
				return n;
			}
			const {keyId} = caller;
			const window = windowOf(keyId, bucket, limit, clock.now());
			const taken = takeLeased(window, limit, n);
			if (taken === n || window.spentAt >= limit.requests) {
				return taken;
			}
			const part = {keyId, bucket, end: window.end, limit: limit.requests};
			return takeShared(window, limit, part, n - taken).then(more => taken + more);
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

const maxClients = 10_000;

/**
 * Counts a failure of a client, or only checks if `failures` is 0. Returns the milliseconds until the client may try
 * again, or `null` if it may try now.
 */
export type FailureLimit = (ip: string, failures?: 0 | 1) => number | null;

/** Slows down a client that tries keys or tokens. Only failures count: many people may share one address with it. */
export function createFailureLimit(clock: Pick<Clock, 'monotonic'>, limit: () => RateLimit | null): FailureLimit {
	const clients = new LRUCache<string, {since: number; n: number}>(atMost(maxClients));
	return (ip, failures = 1) => {
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
		client.n += failures;
		return client.n <= most.requests ? null : client.since + most.windowMs - now;
	};
}
