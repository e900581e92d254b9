import {apiTime} from '../kit/time.ts';
import type {WebhookEventType} from './message.ts';

/** States of a delivery of an event to an endpoint (docs/reference/interface.md, Webhook delivery). */
export const deliveryStates = ['pending', 'delivered', 'failed', 'exhausted'] as const;
export type DeliveryState = (typeof deliveryStates)[number];

/** A delivery is exhausted after this many attempts (docs/reference/interface.md, Limits). */
const maxAttempts = 5;
export const maxEndpoints = 50;

/** How long an old signing secret may go on beside a new one, and how long it does by default, milliseconds. */
export const maxOverlap = 30 * 86_400_000;
export const defaultOverlap = 86_400_000;

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

/** `full`: the body has more than the interface's five fields. */
export const webhookFormats = ['default', 'full'] as const;
export type WebhookFormat = (typeof webhookFormats)[number];

/** `long`: what the endpoint does not acknowledge is tried for days. */
export const webhookRetries = ['default', 'long'] as const;
export type WebhookRetry = (typeof webhookRetries)[number];

/** Why the program disabled an endpoint itself: it answered 410, or acknowledged nothing for days. */
export type DisabledReason = 'gone' | 'failing';

/** Of an endpoint; null: `default`, and it was not disabled by the program. */
export type EndpointForm = {
	readonly format: WebhookFormat | null;
	readonly retry: WebhookRetry | null;
	readonly disabledReason: DisabledReason | null;
};

/** What is posted: about no message, about no recipient: null. */
export type WebhookEvent = {
	readonly id: string;
	readonly type: WebhookEventType;
	readonly workspaceId: string;
	readonly messageId: string | null;
	/** As the caller of the send spelled it. */
	readonly recipient: string | null;
	readonly occurredAt: string;
	/** What the timeline has of it, or would have. */
	readonly detail: Readonly<Record<string, unknown>>;
	/** Whether the bounce suppressed its recipient. */
	readonly suppressed?: boolean | undefined;
};

/** What a body has of the message; `metadata` and `tags` are JSON text, null: none. */
export type WebhookMessage = {
	readonly metadata: string | null;
	readonly tags: string | null;
	readonly templateId: string;
	readonly subject: string | null;
};

/**
 * The body that endpoints get: exactly these five fields (docs/reference/interface.md, Webhook request), with `detail`
 * where they would say nothing: the event is about no recipient. Made once, stored, never made again.
 */
export function webhookBody(event: WebhookEvent, message: WebhookMessage | undefined, format: WebhookFormat): string {
	const {id, type, workspaceId, messageId, recipient, occurredAt} = event;
	const head = JSON.stringify({type, message_id: messageId, recipient, occurred_at: apiTime(occurredAt)});
	const usual = `${head.slice(0, -1)},"metadata":${message?.metadata ?? '{}'}`;
	const detail = `"detail":${JSON.stringify(detailOf(event))}}`;
	if (format === 'default') {
		return recipient === null ? `${usual},${detail}` : `${usual}}`;
	}
	const {subject = null, templateId = null, tags = null} = message ?? {};
	const named = JSON.stringify({event_id: id, workspace: workspaceId, subject, template_id: templateId});
	const role = JSON.stringify(event.detail.role ?? null);
	return `${usual},${named.slice(1, -1)},"tags":${tags ?? '[]'},"role":${role},${detail}`;
}

function detailOf({type, detail, suppressed = false}: WebhookEvent): Readonly<Record<string, unknown>> {
	const [host, status, machine] = [detail.host ?? null, detail.enhanced ?? null, detail.machine ?? false];
	const reply = detail.reply ?? detail.reason ?? null;
	switch (type) {
		case 'delivered':
			return {status, reply, host};
		case 'deferred':
		case 'bounced':
		case 'gave_up': {
			const {type: kind = 'transient', category = null} = detail;
			return {type: kind, category, status, reply, host, suppressed};
		}
		case 'complained':
			return {feedback_type: detail.feedback_type ?? null};
		case 'opened':
			return {machine};
		case 'clicked':
			return {url: detail.url ?? null, machine};
		default:
			return detail;
	}
}

type After = {
	readonly state: DeliveryState;
	readonly attempts: number;
	readonly nextAttemptAt: number | null;
	/** Its endpoint is disabled, and why. */
	readonly disables?: DisabledReason;
};

/** What follows where an attempt could not begin: it does not count. */
export function putOff(attempts: number, at: number, backoffMs: number): After {
	return {state: attempts === 0 ? 'pending' : 'failed', attempts, nextAttemptAt: at + backoffMs};
}

/**
 * Of the end of an attempt for an endpoint that asks for the long retry: when the first attempt began, since when the
 * endpoint acknowledges nothing (null: it did before this one), how it answered and how long it asks to be left alone.
 */
type LongRetry = {
	readonly firstAt: number;
	readonly failingSince: string | null;
	readonly status: number | null;
	readonly retryAfterMs: number;
};

/**
 * What follows from the end of an attempt: `attempts` before it, `at` its end and the backoff in milliseconds. `long`:
 * null where the usual attempts are all.
 */
export function afterAttempt(
	attempts: number,
	acknowledged: boolean,
	at: number,
	backoffMs: number,
	long: LongRetry | null = null,
): After {
	const made = attempts + 1;
	if (acknowledged) {
		return {state: 'delivered', attempts: made, nextAttemptAt: null};
	}
	if (long !== null) {
		return afterLong(made, at, backoffMs, long);
	}
	return made >= maxAttempts
		? {state: 'exhausted', attempts: made, nextAttemptAt: null}
		: {state: 'failed', attempts: made, nextAttemptAt: at + backoffMs};
}

const minuteMs = 60_000;

/**
 * After the usual attempts the waits double, up to 360 backoffs, until 4320 have passed: six hours, three days. A
 * shorter backoff shortens all of it for a test, a longer one does not lengthen it. The last attempt is made then,
 * whatever the endpoint asks for.
 */
function afterLong(attempts: number, at: number, backoffMs: number, long: LongRetry): After {
	const {firstAt, failingSince, status, retryAfterMs} = long;
	const unit = Math.min(backoffMs, minuteMs);
	const until = firstAt + 4320 * unit;
	const isGone = status === 410;
	if (isGone || (attempts >= maxAttempts && at >= until)) {
		// It may refuse this delivery alone.
		const isDead = isGone || (failingSince !== null && Date.parse(failingSince) <= firstAt + minuteMs);
		const disables = isGone ? 'gone' : 'failing';
		return {state: 'exhausted', attempts, nextAttemptAt: null, ...(isDead && {disables})};
	}
	const doubled = Math.min(backoffMs * 2 ** Math.max(0, attempts - maxAttempts + 1), 360 * unit);
	const wait = Math.max(backoffMs, doubled, retryAfterMs);
	return {state: 'failed', attempts, nextAttemptAt: Math.min(at + wait, Math.max(until, at + backoffMs))};
}
