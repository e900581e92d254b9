import {createHmac} from 'node:crypto';
import type {EndpointSecrets} from '../store/webhooks.ts';

/** The secrets that sign now; `next`: during the overlap of a rotation, the new one. */
export type Signing = {readonly secret: string; readonly next: string | null};

type Signed = {
	readonly 'x-webhook-timestamp': string;
	readonly 'x-webhook-signature': string;
	readonly 'x-webhook-signature-next'?: string;
};

/** What signs at a time in the store's form. Until the overlap ends a receiver that knows only the old secret is served. */
export function signingAt({secret, previousSecret, previousUntil}: EndpointSecrets, now: string): Signing {
	return previousSecret !== null && previousUntil !== null && previousUntil > now
		? {secret: previousSecret, next: secret}
		: {secret, next: null};
}

/** The headers of a post. */
export function postHeaders(
	{id, signing, body}: {readonly id: string; readonly signing: Signing; readonly body: Uint8Array},
	userAgent: string,
	now: number,
) {
	return {
		'content-type': 'application/json',
		'user-agent': userAgent,
		'x-webhook-id': id,
		...signature(signing, now, body),
	};
}

/**
 * What proves to a receiver who sent the body, and when: HMAC-SHA256 over `<timestamp>.<raw body>`, keyed by the whole
 * `whsec_…` text as UTF-8.
 */
export function signature({secret, next}: Signing, milliseconds: number, body: Uint8Array): Signed {
	const timestamp = String(Math.floor(milliseconds / 1000));
	const mac = (key: string) => `sha256=${createHmac('sha256', key).update(`${timestamp}.`).update(body).digest('hex')}`;
	return {
		'x-webhook-timestamp': timestamp,
		'x-webhook-signature': mac(secret),
		...(next !== null && {'x-webhook-signature-next': mac(next)}),
	};
}
