import type {FastifyReply} from 'fastify';
import {LRUCache} from 'lru-cache';
import type {Clock} from '../kit/clock.ts';
import {atMost} from '../kit/collections.ts';
import {type RateLimit, readRateLimit} from '../mail/api-key.ts';
import {clientNetwork} from '../net/ip-address.ts';
import type {PartGrant, PartRequest} from '../store/nodes.ts';
import type {Caller} from './caller.ts';

/** Single sends and items of batches are counted separately, with the same limit. */
export type Bucket = 'send' | 'batch';

/** The remaining sends in a key's window. */
export type Allowance = {
	readonly limit: number;
	readonly remaining: number;
	/** When the window is reset, in Unix seconds. */
	readonly reset: number;
};

export type RateLimits = {
	readonly read: (caller: Caller, bucket: Bucket) => Allowance;
	/** Takes up to `n` sends and returns how many were available: a promise if the store must be queried. */
	readonly take: (caller: Caller, bucket: Bucket, n: number) => number | Promise<number>;
};

/** Assigns to this node a part of a key's window, which all nodes share. Rejects if the store cannot be queried. */
type SharePart = (part: PartRequest) => Promise<PartGrant>;

/** A node's own count of a window. */
type Window = {
	readonly end: number;
	used: number;
	/** The part that this node may use: everything if it does not share the window. */
	leased: number;
	/** The total of all nodes, as far as this node knows. */
	leasedByAll: number;
	/** The highest limit that is fully assigned to nodes. */
	spentLimit: number;
	/** The number of sends that requests are waiting for. */
	requested: number;
	pendingRequest: Promise<void> | null;
};

// The values in the headers if there is no limit.
const unlimited = 1_000_000_000;
const unlimitedMs = 60_000;
const sweepMs = 60_000;
/** A node requests this fraction of what it has used, as a divisor: a node that dies takes its unused part with it. */
const usedDivisor = 4;
/** A node requests at least this fraction of the limit, as a divisor, so that requests to the store are rare. */
const limitDivisor = 100;

/** Counts sends per key in fixed windows, aligned to the epoch. */
export class KeyRateLimits implements RateLimits {
	readonly #clock: Pick<Clock, 'now'>;
	readonly #defaultLimit: () => RateLimit | null;
	readonly #share: SharePart | null;
	readonly #windows: Readonly<Record<Bucket, Map<string, Window>>> = {send: new Map(), batch: new Map()};
	#sweepAt = 0;

	/**
	 * `defaultLimit` is the limit of keys without their own. Nodes that share a store take small parts of common
	 * windows by `share`; `null` lets this process count alone.
	 */
	constructor(clock: Pick<Clock, 'now'>, defaultLimit: () => RateLimit | null, share: SharePart | null) {
		this.#clock = clock;
		this.#defaultLimit = defaultLimit;
		this.#share = share;
	}

	read(caller: Caller, bucket: Bucket): Allowance {
		const limit = this.#limitOf(caller);
		const now = this.#clock.now();
		if (limit === null) {
			return {limit: unlimited, remaining: unlimited, reset: Math.ceil((now + unlimitedMs) / 1000)};
		}
		const {requests} = limit;
		const end = endOfWindow(limit, now);
		const window = this.#windows[bucket].get(caller.keyId);
		if (window?.end !== end) {
			return {limit: requests, remaining: requests, reset: end / 1000};
		}
		const usedByOthers = Number.isFinite(window.leased) ? Math.max(0, window.leasedByAll - window.leased) : 0;
		return {limit: requests, remaining: Math.max(0, requests - usedByOthers - window.used), reset: end / 1000};
	}

	take(caller: Caller, bucket: Bucket, n: number): number | Promise<number> {
		const limit = this.#limitOf(caller);
		if (limit === null) {
			return n;
		}
		const {keyId} = caller;
		const window = this.#windowOf(keyId, bucket, limit);
		const granted = takeLeased(window, limit, n);
		if (granted === n || window.spentLimit >= limit.requests) {
			return granted;
		}
		const part = {keyId, bucket, end: window.end, limit: limit.requests};
		return this.#takeShared(window, limit, part, n - granted).then(added => granted + added);
	}

	#limitOf({rateLimit}: Caller): RateLimit | null {
		const ownLimit = rateLimit === null ? undefined : readRateLimit(rateLimit);
		return ownLimit === undefined ? this.#defaultLimit() : ownLimit;
	}

	#windowOf(keyId: string, bucket: Bucket, limit: RateLimit): Window {
		const now = this.#clock.now();
		const end = endOfWindow(limit, now);
		const existing = this.#windows[bucket].get(keyId);
		if (existing?.end === end) {
			return existing;
		}
		if (now >= this.#sweepAt) {
			this.#sweepAt = now + sweepMs;
			this.#sweep(now);
		}
		const leased = this.#share === null ? Number.POSITIVE_INFINITY : 0;
		const window = {end, used: 0, leased, leasedByAll: 0, spentLimit: leased, requested: 0, pendingRequest: null};
		this.#windows[bucket].set(keyId, window);
		return window;
	}

	/** Removes expired windows, so that unused keys do not occupy memory forever. */
	#sweep(now: number): void {
		for (const bucket of Object.values(this.#windows)) {
			for (const [keyId, {end}] of bucket) {
				if (end <= now) {
					bucket.delete(keyId);
				}
			}
		}
	}

	/** Requests a part from the store. If the store fails, this node counts alone: it cannot accept sends anyway. */
	async #requestPart(window: Window, part: Omit<PartRequest, 'needed' | 'defaultPart'>): Promise<void> {
		const needed = window.requested;
		const defaultPart = Math.ceil(Math.max(window.used / usedDivisor, part.limit / limitDivisor));
		try {
			const {granted, given} = await (this.#share as SharePart)({...part, needed, defaultPart});
			window.leased += granted;
			window.leasedByAll = given;
			window.spentLimit = given >= part.limit ? part.limit : 0;
		} catch {
			window.leased = Number.POSITIVE_INFINITY;
			window.spentLimit = window.leased;
		}
	}

	/** Takes the missing sends as soon as other parts of the window are assigned to this node. */
	async #takeShared(window: Window, limit: RateLimit, part: Omit<PartRequest, 'needed' | 'defaultPart'>, n: number) {
		let granted = 0;
		window.requested += n;
		while (granted < n && window.spentLimit < limit.requests) {
			window.pendingRequest ??= this.#requestPart(window, part).finally(() => {
				window.pendingRequest = null;
			});
			await window.pendingRequest;
			const added = takeLeased(window, limit, n - granted);
			window.requested -= added;
			granted += added;
		}
		window.requested -= n - granted;
		return granted;
	}
}

function takeLeased(window: Window, {requests}: RateLimit, n: number): number {
	const granted = Math.max(0, Math.min(n, requests - window.used, window.leased - window.used));
	window.used += granted;
	return granted;
}

function endOfWindow({windowMs}: RateLimit, now: number): number {
	return (Math.floor(now / windowMs) + 1) * windowMs;
}

/** Sets the three headers of every response to a valid key (docs/reference/interface.md, Rate limiting). */
export function setRateLimitHeaders(reply: FastifyReply, {limit, remaining, reset}: Allowance): void {
	reply.header('ratelimit-limit', limit).header('ratelimit-remaining', remaining).header('ratelimit-reset', reset);
}

const maxClients = 10_000;

/**
 * Counts a failure of a client, or only checks if `failures` is 0. Returns the milliseconds until the client may try
 * again, or `null` if it may try now.
 */
export type FailureLimit = (ip: string, failures?: 0 | 1) => number | null;

/** Limits how fast a client can guess keys or tokens. Only failures count, because many users may share its address. */
export function createFailureLimit(clock: Pick<Clock, 'monotonic'>, limit: () => RateLimit | null): FailureLimit {
	const clients = new LRUCache<string, {since: number; n: number}>(atMost(maxClients));
	return (ip, failures = 1) => {
		const rateLimit = limit();
		if (rateLimit === null) {
			return null;
		}
		const now = clock.monotonic();
		const network = clientNetwork(ip);
		let client = clients.get(network);
		if (!client || now - client.since >= rateLimit.windowMs) {
			client = {since: now, n: 0};
			clients.set(network, client);
		}
		client.n += failures;
		return client.n <= rateLimit.requests ? null : client.since + rateLimit.windowMs - now;
	};
}
