import {isIP} from 'node:net';
import type {FastifyReply, FastifyRequest} from 'fastify';
import type {Clock} from '../kit/clock.ts';
import {storeTime} from '../kit/time.ts';
import {apiKeyHash, apiKeyMode, type Scope} from '../mail/api-key.ts';
import {limitsOf} from '../mail/attachment-limits.ts';
import type {Operator} from '../mail/operator.ts';
import type {KeyRow} from '../store/api-keys.ts';
import {createRowCache} from '../store/changes.ts';
import type {Caller} from './caller.ts';
import {apiError, retryAfter} from './errors.ts';
import {type Bucket, type FailureLimit, type RateLimits, showAllowance} from './rate-limit.ts';

type Hook = (request: FastifyRequest, reply: FastifyReply, done: (error?: Error) => void) => void;

export type Auth = {
	/**
	 * An `onRequest` hook: 401 without a valid key, 403 without the scope, before the body is read. The 403 names the
	 * scope. Every answer to a valid key says how much of the bucket is left.
	 */
	readonly needs: (scope: Scope, bucket?: Bucket) => Hook & {readonly scope: Scope};
	/** Whether the key of a request is still valid and has the scope: for answers that go on for hours. */
	readonly holds: (request: FastifyRequest, scope: Scope) => Promise<boolean>;
	/** The owner of a key that came by another way; null: revoked. */
	readonly identify: (key: string) => Promise<Caller | null>;
	/** To be called when the store's change generation grew. */
	readonly clear: () => void;
};

type AuthOptions = {
	/** `findKey` of the store. */
	readonly findKey: (hash: string) => Promise<KeyRow | undefined>;
	readonly clock: Clock;
	readonly limits: RateLimits;
	/** Counts a wrong key of a client. */
	readonly countFailure: FailureLimit;
	/** Gets a key's first use in each minute (in the store's form), to be noted some time later. */
	readonly onUse?: (keyId: string, minute: string) => void;
};

/**
 * Keys are found by their hash and remembered until something changes; a wrong one is wrong in one way for all to see.
 */
export function createAuth({findKey, clock, limits, countFailure, onUse}: AuthOptions): Auth {
	const keys = createRowCache<KeyRow>();
	const usedIn = new WeakMap<KeyRow, number>();
	const refuse = createRefuse(countFailure);

	function noteUse(key: KeyRow): void {
		const minute = Math.floor(clock.now() / 60_000);
		if (onUse && usedIn.get(key) !== minute) {
			usedIn.set(key, minute);
			onUse(key.id, storeTime(minute * 60_000));
		}
	}

	function keyOf(key: string | undefined): KeyRow | undefined | Promise<KeyRow | undefined> {
		if (key === undefined || apiKeyMode(key) === null) {
			return undefined;
		}
		const hash = apiKeyHash(key);
		return keys.get(hash, () => findKey(hash));
	}

	function isValid(key: KeyRow | undefined): key is KeyRow {
		return (
			key !== undefined &&
			key.revoked_at === null &&
			(key.expires_at === null || key.expires_at > storeTime(clock.now()))
		);
	}

	return {
		needs(scope, bucket = 'send') {
			const hook: Hook = (request, reply, done) => {
				const judge = (key: KeyRow | undefined) => {
					if (!isValid(key)) {
						refuse(request, reply, done);
						return;
					}
					noteUse(key);
					const caller = callerFrom(key);
					request.caller = caller;
					showAllowance(reply, limits.read(caller, bucket));
					done(key.scopes.includes(scope) ? undefined : apiError('insufficient_scope'));
				};
				const key = keyOf(bearerOf(request));
				if (key instanceof Promise) {
					key.then(judge, done);
				} else {
					judge(key);
				}
			};
			return Object.assign(hook, {scope});
		},
		async holds(request, scope) {
			const key = await keyOf(bearerOf(request));
			return isValid(key) && key.scopes.includes(scope);
		},
		async identify(key) {
			const row = await keyOf(key);
			if (!isValid(row)) {
				return null;
			}
			noteUse(row);
			return callerFrom(row);
		},
		clear: keys.clear,
	};
}

function bearerOf({headers}: FastifyRequest): string | undefined {
	return /^Bearer +(\S+) *$/i.exec(headers.authorization ?? '')?.[1];
}

function callerFrom({max_attachments: most = null, max_attachment_bytes: bytes = null, ...key}: KeyRow): Caller {
	const {id, workspace_id: workspaceId, mode, scopes, rate_limit: rateLimit} = key;
	const attachments = limitsOf({max_attachments: most, max_attachment_bytes: bytes});
	return {keyId: id, workspaceId, mode, scopes, rateLimit, ...(attachments && {attachments})};
}

/** The caller of a route that needs a scope. */
export function callerOf({caller}: FastifyRequest): Caller {
	if (caller === null) {
		throw new Error('The route asks for no scope, so that it has no caller.');
	}
	return caller;
}

/** Tools for what the caller of a request changes, who is recorded with the change. */
export function actAs<Tools>(tools: Tools, request: FastifyRequest): Tools & {readonly operator: Operator} {
	return {...tools, operator: {actor: callerOf(request).keyId, from: originOf(request)}};
}

// A proxy may pass on any text of the client as an address: if it is not an address, the proxy's own is used.
function originOf({ip, socket}: FastifyRequest): string {
	return isIP(ip) === 0 ? (socket.remoteAddress ?? '') : ip;
}

/** Answers a request that has no valid key or token. */
export type Refuse = (request: FastifyRequest, reply: FastifyReply, done: (error?: Error) => void) => void;

/**
 * 401, and after too many failures of the client 429. A request without the header tries nothing: it is not counted, so
 * that a prober without a key learns what it lacks.
 */
export function createRefuse(countFailure: FailureLimit): Refuse {
	return ({headers, ip}, reply, done) => {
		const wait = headers.authorization === undefined ? null : countFailure(ip);
		if (wait === null) {
			reply.code(401).header('www-authenticate', 'Bearer').send({error: 'Unauthorized'});
			return;
		}
		const message = 'Too many requests with a wrong key came from this address.';
		done(apiError('rate_limited', {message, headers: retryAfter(wait)}));
	};
}
