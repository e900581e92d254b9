import {createHmac, createPublicKey, timingSafeEqual, verify} from 'node:crypto';
import {hourMs} from '../../kit/time.ts';
import type {Incoming} from './provider.ts';

/** How far a provider's clock may be ahead of this machine's. */
const maxAheadMs = hourMs / 12;

/** Whether a post was signed at `signedAt` within the last `maxAgeMs` (milliseconds). `NaN` is never recent. */
export function isRecent(signedAt: number, now: number, maxAgeMs: number): boolean {
	return now - signedAt <= maxAgeMs && signedAt - now <= maxAheadMs;
}

/** Returns the value of a header that occurs once, or an empty string. */
export function findHeader({headers}: Incoming, name: string): string {
	const value = headers[name];
	return typeof value === 'string' ? value : '';
}

/** Compares two texts in constant time, except that different lengths return early. */
export function isEqual(a: string, b: string): boolean {
	const [left, right] = [Buffer.from(a), Buffer.from(b)];
	return left.length === right.length && timingSafeEqual(left, right);
}

/** Returns the HMAC-SHA256 of the parts in lower-case hex. */
export function hmacHex(key: string, ...parts: ReadonlyArray<string | Uint8Array>): string {
	const mac = createHmac('sha256', key);
	for (const part of parts) {
		mac.update(part);
	}
	return mac.digest('hex');
}

/**
 * Whether a post contains the secret itself: as the password (or user) of Basic authentication, as a Bearer token, or
 * in X-Mailctl-Secret. This is for providers that do not sign their posts.
 */
export function hasSecret(incoming: Incoming, secret: string): boolean {
	const authorization = findHeader(incoming, 'authorization');
	const [, scheme = '', credentials = ''] = /^(basic|bearer) +(\S+)$/i.exec(authorization) ?? [];
	const candidates =
		scheme.toLowerCase() === 'basic' ? splitOnce(Buffer.from(credentials, 'base64').toString()) : [credentials];
	return [...candidates, findHeader(incoming, 'x-mailctl-secret')].map(text => isEqual(text, secret)).includes(true);
}

function splitOnce(text: string): string[] {
	const colon = text.indexOf(':');
	return colon === -1 ? [text] : [text.slice(0, colon), text.slice(colon + 1)];
}

/** Whether an ECDSA signature (DER, base64) over the parts verifies with a public key (SPKI, base64 or PEM). */
export function isSignedBy(key: string, signature: string, ...parts: readonly Uint8Array[]): boolean {
	try {
		return verify('sha256', Buffer.concat(parts), publicKey(key), Buffer.from(signature, 'base64'));
	} catch {
		return false; // Not a key, or not a signature.
	}
}

/** Whether a text is a public key as providers show it. */
export function isSigningKey(text: string): boolean {
	try {
		return publicKey(text).asymmetricKeyType === 'ec';
	} catch {
		return false;
	}
}

/** Parses a public key as providers show it. Throws for anything else. */
function publicKey(text: string) {
	return text.includes('BEGIN')
		? createPublicKey(text)
		: createPublicKey({key: Buffer.from(text, 'base64'), format: 'der', type: 'spki'});
}
