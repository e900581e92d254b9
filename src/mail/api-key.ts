import {hash, randomBytes} from 'node:crypto';
import {crc32} from 'node:zlib';
import type {Mode} from './message.ts';

const alphabet = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
const randomLength = 32;
const checksumLength = 6;
const keyPattern = /^key_(live|test)_[0-9A-Za-z]{38}$/;

/**
 * Creates an API key: `key_live_` or `key_test_`, 32 random base62 characters, and a checksum by which secret scanners
 * recognize a key, as does mailctl before any query.
 */
export function createApiKey(mode: Mode, random: (size: number) => Uint8Array = randomBytes): string {
	let body = '';
	while (body.length < randomLength) {
		for (const byte of random(randomLength)) {
			// 248 is the largest multiple of 62 in a byte. Larger values would make some characters more likely than
			// others.
			if (byte < 248 && body.length < randomLength) {
				body += alphabet[byte % 62];
			}
		}
	}
	const start = `key_${mode}_${body}`;
	return start + checksum(start);
}

/** Returns the mode of a well-formed key with a valid checksum, or `null`. Whether the key exists is not checked. */
export function apiKeyMode(key: string): Mode | null {
	const mode = keyPattern.exec(key)?.[1];
	return mode !== undefined && key.endsWith(checksum(key.slice(0, -checksumLength))) ? (mode as Mode) : null;
}

/** Returns the stored form of a key: SHA-256 in hexadecimal. With 190 random bits, no slow hash is needed. */
export function apiKeyHash(key: string): string {
	return hash('sha256', key);
}

function checksum(text: string): string {
	let value = crc32(text);
	let digits = '';
	while (digits.length < checksumLength) {
		digits = `${alphabet[value % 62]}${digits}`;
		value = Math.floor(value / 62);
	}
	return digits;
}

/** The permissions that a key may have. */
export const scopes = [
	'messages:send',
	'messages:read',
	'messages:submit',
	'suppressions:manage',
	'suppressions:read',
	'unsubscribe_groups:manage',
	'unsubscribe_groups:read',
	'webhooks:manage',
	'webhooks:read',
	'templates:manage',
	'templates:read',
	'senders:manage',
	'senders:read',
	'domains:manage',
	'domains:read',
	'contacts:manage',
	'contacts:read',
	'usage:read',
	'stats:read',
	'events:read',
	'smarthosts:manage',
	'alerts:manage',
	'received:manage',
	'received:read',
] as const;
export type Scope = (typeof scopes)[number];

/** Granted only to keys that name it, because it lets a mail client submit over SMTP. */
const explicitScope: Scope = 'messages:submit';
const defaults = scopes.filter(scope => scope !== explicitScope);

/** Returns the scopes of a key that names none. A test key can send and read, but manages only what it is granted. */
export function defaultScopes(mode: Mode): readonly Scope[] {
	return mode === 'live' ? defaults : defaults.filter(scope => scope === 'messages:send' || scope.endsWith(':read'));
}

/** A fixed-window limit. */
export type RateLimit = {readonly requests: number; readonly windowMs: number};

const maxRequests = 1_000_000_000;
const maxWindow = 86_400;

/** Parses `6000/60`, requests per window in seconds. Returns `null` for `0` (no limit), and `undefined` if invalid. */
export function readRateLimit(text: string): RateLimit | null | undefined {
	if (text === '0') {
		return null;
	}
	const [, requests, seconds] = /^(\d{1,10})\/(\d{1,5})$/.exec(text)?.map(Number) ?? [];
	const isValid = isInRange(requests, maxRequests) && isInRange(seconds, maxWindow);
	return isValid ? {requests, windowMs: seconds * 1000} : undefined;
}

/** Whether a limit never allows more than another, neither at once nor over time. `null` is no limit. */
export function isWithin(limit: RateLimit | null, max: RateLimit | null): boolean {
	return (
		max === null ||
		(limit !== null &&
			limit.requests <= max.requests &&
			limit.requests * max.windowMs <= max.requests * limit.windowMs)
	);
}

function isInRange(number: number | undefined, max: number): number is number {
	return number !== undefined && number >= 1 && number <= max;
}
