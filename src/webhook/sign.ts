import {createHmac} from 'node:crypto';

/**
 * What proves to a receiver who sent the body, and when: HMAC-SHA256 over `<timestamp>.<raw body>`, keyed by the whole
 * `whsec_…` text as UTF-8 (interface.md, Webhook request).
 */
export function signature(
	secret: string,
	milliseconds: number,
	body: Uint8Array,
): {readonly 'x-webhook-timestamp': string; readonly 'x-webhook-signature': string} {
	const timestamp = String(Math.floor(milliseconds / 1000));
	const mac = createHmac('sha256', secret).update(`${timestamp}.`).update(body).digest('hex');
	return {'x-webhook-timestamp': timestamp, 'x-webhook-signature': `sha256=${mac}`};
}
