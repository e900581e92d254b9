import {hash, randomBytes} from 'node:crypto';
import {crc32} from 'node:zlib';
import type {Mode} from './message.ts';

const alphabet = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
const randomLength = 32;
const checksumLength = 6;
const form = /^key_(live|test)_[0-9A-Za-z]{38}$/;

/**
 * Makes an API key: `key_live_` or `key_test_`, 32 random characters of base62, and a checksum by which secret scanners
 * (and we, before any query) recognize a key.
 */
export function createApiKey(mode: Mode, random: (size: number) => Uint8Array = randomBytes): string {
	let body = '';
	while (body.length < randomLength) {
		for (const byte of random(randomLength)) {
			// 248 is the largest multiple of 62 in a byte: above it some characters would be likelier than others.
			if (byte < 248 && body.length < randomLength) {
				body += alphabet[byte % 62];
			}
		}
	}
	const start = `key_${mode}_${body}`;
	return start + checksum(start);
}

/**
 * The mode of a key of the right form and checksum; null for any other text. Says nothing of whether there is such a
 * key.
 */
export function apiKeyMode(key: string): Mode | null {
	const mode = form.exec(key)?.[1];
	return mode !== undefined && key.endsWith(checksum(key.slice(0, -checksumLength))) ? (mode as Mode) : null;
}

/** What the store keeps of a key: SHA-256, hexadecimal (190 random bits need no slow hash). */
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

/** What a key may be allowed. */
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

/** Given only to keys that name it: it lets a mail client submit by SMTP. */
const named: Scope = 'messages:submit';
const all = scopes.filter(scope => scope !== named);

/** What a key may do that names no scope. A test key may send and read; it manages only what it is made to manage. */
export function defaultScopes(mode: Mode): readonly Scope[] {
	return mode === 'live' ? all : all.filter(scope => scope === 'messages:send' || scope.endsWith(':read'));
}

/** A fixed window. */
export type RateLimit = {readonly requests: number; readonly windowMs: number};

const maxRequests = 1_000_000_000;
const maxWindow = 86_400;

/** `6000/60` is requests per window in seconds. Null: `0`, no limit; undefined: the text is neither. */
export function readRateLimit(text: string): RateLimit | null | undefined {
	if (text === '0') {
		return null;
	}
	const [, requests, seconds] = /^(\d{1,10})\/(\d{1,5})$/.exec(text)?.map(Number) ?? [];
	const isGood = isFrom1(requests, maxRequests) && isFrom1(seconds, maxWindow);
	return isGood ? {requests, windowMs: seconds * 1000} : undefined;
}

/** Whether a limit lets no more pass than another one does, neither at once nor over time. Null: no limit. */
export function isWithin(limit: RateLimit | null, most: RateLimit | null): boolean {
	return (
		most === null ||
		(limit !== null &&
			limit.requests <= most.requests &&
			limit.requests * most.windowMs <= most.requests * limit.windowMs)
	);
}

function isFrom1(number: number | undefined, most: number): number is number {
	return number !== undefined && number >= 1 && number <= most;
}
