import {apiTime} from '../kit/time.ts';
import type {WebhookEventType} from './message.ts';

/** States of a delivery of an event to an endpoint (docs/reference/interface.md, Webhook delivery). */
export const deliveryStates = ['pending', 'delivered', 'failed', 'exhausted'] as const;
export type DeliveryState = (typeof deliveryStates)[number];

/** A delivery is exhausted after this many attempts (docs/reference/interface.md, Limits). */
const mostAttempts = 5;
export const mostEndpoints = 50;

/** How long an old signing secret may go on beside a new one, and how long it does by default, milliseconds. */
export const longestOverlap = 30 * 86_400_000;
export const usualOverlap = 86_400_000;

/**
 * The URL of the endpoint of `mailctl webhook listen`, which takes its deliveries itself: the guard refuses to register
 * such a URL.
 */
export function listenerUrl(forwardTo: string): string {
	return `listen+${forwardTo}`;
}

export function isListener(url: string): boolean {
	return url.startsWith('listen+');
}

type WebhookEvent = {
	readonly type: WebhookEventType;
	readonly messageId: string;
	/** As the caller of the send spelled it. */
	readonly recipient: string;
	/** In the store's form. */
	readonly occurredAt: string;
	/** JSON text of what was given at the send; null: nothing. */
	readonly metadata: string | null;
};

/** The body that endpoints get: exactly these five fields (docs/reference/interface.md, Webhook request). Made once, stored, never made again. */
export function webhookBody({type, messageId, recipient, occurredAt, metadata}: WebhookEvent): string {
	const head = JSON.stringify({type, message_id: messageId, recipient, occurred_at: apiTime(occurredAt)});
	return `${head.slice(0, -1)},"metadata":${metadata ?? '{}'}}`;
}

type After = {readonly state: DeliveryState; readonly attempts: number; readonly nextAttemptAt: number | null};

/** What follows where an attempt could not begin: it does not count. */
export function putOff(attempts: number, at: number, backoffMs: number): After {
	return {state: attempts === 0 ? 'pending' : 'failed', attempts, nextAttemptAt: at + backoffMs};
}

/** What follows from the end of an attempt: `attempts` before it, `at` its end and the backoff in milliseconds. */
export function afterAttempt(attempts: number, acknowledged: boolean, at: number, backoffMs: number): After {
	const made = attempts + 1;
	if (acknowledged) {
		return {state: 'delivered', attempts: made, nextAttemptAt: null};
	}
	return made >= mostAttempts
		? {state: 'exhausted', attempts: made, nextAttemptAt: null}
		: {state: 'failed', attempts: made, nextAttemptAt: at + backoffMs};
}
