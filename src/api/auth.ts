import {isIP} from 'node:net';
import type {FastifyReply, FastifyRequest} from 'fastify';
import type {Clock} from '../kit/clock.ts';
import {storeTime} from '../kit/time.ts';
import {apiError, retryAfter} from '../mail/api-error.ts';
import {apiKeyHash, apiKeyMode, type Scope} from '../mail/api-key.ts';
import {toLimits} from '../mail/attachment-limits.ts';
import type {Operator} from '../mail/operator.ts';
import type {KeyRow} from '../resources/keys/store.ts';
import {createRowCache} from '../store/changes.ts';
import type {Caller} from './caller.ts';
import {type Bucket, type FailureLimit, type RateLimits, setRateLimitHeaders} from './rate-limit.ts';

type Hook = (request: FastifyRequest, reply: FastifyReply, done: (error?: Error) => void) => void;

export type Auth = {
	/**
	 * Creates an `onRequest` hook that responds with 401 without a valid key and with 403 without the scope, before the
	 * body is read. All responses to valid keys show the remaining rate limit.
	 */
	readonly needs: (scope: Scope, bucket?: Bucket) => Hook & {readonly scope: Scope};
	/** Whether the key of a request is still valid and has the scope. Used by streams that stay open for hours. */
	readonly isAuthorized: (request: FastifyRequest, scope: Scope) => Promise<boolean>;
	/** Returns the owner of a key that was received by means other than HTTP, or `null` if the key is not valid. */
	readonly identify: (key: string) => Promise<Caller | null>;
	/** Must be called when the store's change generation has increased. */
	readonly clear: () => void;
};

type AuthOptions = {
	/** Finds a key by its hash, in the store. */
	readonly findKey: (hash: string) => Promise<KeyRow | undefined>;
	readonly clock: Clock;
	readonly limits: RateLimits;
	/** Counts an invalid key against the client. */
	readonly countFailure: FailureLimit;
	/** Called for the first use of a key in each minute (in the store's time format), to be saved later. */
	readonly onUse?: (keyId: string, minute: string) => void;
};

/**
 * Authenticates API keys, which are looked up by their hash and cached until something changes. All invalid keys get
 * the same response.
 */
export function createAuth({findKey, clock, limits, countFailure, onUse}: AuthOptions): Auth {
	const keys = createRowCache<KeyRow>();
	const lastUsedMinutes = new WeakMap<KeyRow, number>();
	const refuse = createRefuse(countFailure);

	function recordUse(key: KeyRow): void {
		const minute = Math.floor(clock.now() / 60_000);
		if (onUse && lastUsedMinutes.get(key) !== minute) {
			lastUsedMinutes.set(key, minute);
			onUse(key.id, storeTime(minute * 60_000));
		}
	}

	function lookUp(key: string | undefined): KeyRow | undefined | Promise<KeyRow | undefined> {
		if (key === undefined || apiKeyMode(key) === null) {
			return undefined;
		}
		const hash = apiKeyHash(key);
		return keys.get(hash, () => findKey(hash));
	}

	return {
		needs(scope, bucket = 'send') {
			const hook: Hook = (request, reply, done) => {
				const authorize = (key: KeyRow | undefined) => {
					if (!isValid(key, clock)) {
						refuse(request, reply, done);
						return;
					}
					recordUse(key);
					const caller = toCaller(key);
					request.caller = caller;
					setRateLimitHeaders(reply, limits.read(caller, bucket));
					done(key.scopes.includes(scope) ? undefined : apiError('insufficient_scope'));
				};
				const key = lookUp(parseBearer(request));
				if (key instanceof Promise) {
					key.then(authorize, done);
				} else {
					authorize(key);
				}
			};
			return Object.assign(hook, {scope});
		},
		async isAuthorized(request, scope) {
			const key = await lookUp(parseBearer(request));
			return isValid(key, clock) && key.scopes.includes(scope);
		},
		async identify(key) {
			const row = await lookUp(key);
			if (!isValid(row, clock)) {
				return null;
			}
			recordUse(row);
			return toCaller(row);
		},
		clear: keys.clear,
	};
}

/** Whether the key exists and is neither revoked nor expired. */
function isValid(key: KeyRow | undefined, clock: Clock): key is KeyRow {
	return key?.revoked_at === null && (key.expires_at === null || key.expires_at > storeTime(clock.now()));
}

function parseBearer({headers}: FastifyRequest): string | undefined {
	return /^Bearer +(\S+) *$/i.exec(headers.authorization ?? '')?.[1];
}

function toCaller({max_attachments: max = null, max_attachment_bytes: bytes = null, ...key}: KeyRow): Caller {
	const {id, workspace_id: workspaceId, mode, scopes, rate_limit: rateLimit} = key;
	const attachments = toLimits({max_attachments: max, max_attachment_bytes: bytes});
	return {keyId: id, workspaceId, mode, scopes, rateLimit, ...(attachments && {attachments})};
}

/** Returns the caller of a route that requires a scope. */
export function requireCaller({caller}: FastifyRequest): Caller {
	if (caller === null) {
		throw new Error('The route requires no scope, so it has no caller.');
	}
	return caller;
}

/** Returns tools that record the caller of the request with each change. */
export function withOperator<Tools>(tools: Tools, request: FastifyRequest): Tools & {readonly operator: Operator} {
	return {...tools, operator: {actor: requireCaller(request).keyId, from: toOrigin(request)}};
}

// A proxy may forward any text as the client's address. If it is not an IP address, the address of the proxy is used.
function toOrigin({ip, socket}: FastifyRequest): string {
	return isIP(ip) === 0 ? (socket.remoteAddress ?? '') : ip;
}

/** Responds to a request without a valid key or token. */
export type Refuse = (request: FastifyRequest, reply: FastifyReply, done: (error?: Error) => void) => void;

/**
 * Responds with 401, or with 429 after too many failures of the client. A request without the header is not counted: it
 * is not an attempt to guess a key, and a client that forgot its key should learn what is missing.
 */
export function createRefuse(countFailure: FailureLimit): Refuse {
	return ({headers, ip}, reply, done) => {
		const wait = headers.authorization === undefined ? null : countFailure(ip);
		if (wait === null) {
			reply.code(401).header('www-authenticate', 'Bearer').send({error: 'Unauthorized'});
			return;
		}
		const message = 'Too many requests with an invalid key came from this address.';
		done(apiError('rate_limited', {message, headers: retryAfter(wait)}));
	};
}
