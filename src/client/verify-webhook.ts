import {createHmac, timingSafeEqual} from 'node:crypto';
import {MailctlError} from './error.ts';

/** The headers of a request, from Fetch or Node. */
export type RequestHeaders = Headers | Readonly<Record<string, string | readonly string[] | undefined>>;

/** How far the time of a signature may be off, in seconds. */
const maxAgeSeconds = 300;

/**
 * Verifies the signature of a webhook and returns its event. The package exports it with the event types of the API.
 */
export function verifyWebhook<Event>(rawBody: string | Uint8Array, headers: RequestHeaders, secret: string): Event {
	const header = (name: string) => (headers instanceof Headers ? headers.get(name) : findHeader(headers, name)) ?? '';
	const timestamp = header('x-webhook-timestamp');
	const age = Math.abs(Date.now() / 1000 - Number(timestamp));
	if (!/^\d+$/.test(timestamp) || age > maxAgeSeconds) {
		throw unauthentic('X-Webhook-Timestamp is missing or more than 300 seconds off: check the clocks');
	}
	const hmac = createHmac('sha256', secret).update(`${timestamp}.`).update(rawBody);
	const expected = Buffer.from(`sha256=${hmac.digest('hex')}`);
	const isAuthentic = ['x-webhook-signature', 'x-webhook-signature-next'].some(name => {
		const provided = Buffer.from(header(name));
		return provided.length === expected.length && timingSafeEqual(provided, expected);
	});
	if (!isAuthentic) {
		throw unauthentic(
			'X-Webhook-Signature does not match: check the secret, and pass the body exactly as received',
		);
	}
	return JSON.parse(typeof rawBody === 'string' ? rawBody : Buffer.from(rawBody).toString('utf8')) as Event;
}

function findHeader(headers: Exclude<RequestHeaders, Headers>, name: string): string | undefined {
	const value = Object.entries(headers).find(([key]) => key.toLowerCase() === name)?.[1];
	return typeof value === 'string' ? value : value?.[0];
}

function unauthentic(reason: string): MailctlError {
	return new MailctlError(`the webhook is not authentic: ${reason}`, {status: 400, code: 'bad_signature'});
}
