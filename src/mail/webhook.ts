import {apiTime} from '../kit/time.ts';
import type {WebhookEventType} from './message.ts';

/** The states of a webhook delivery (docs/reference/interface.md, Webhook delivery). */
export const deliveryStates = ['pending', 'delivered', 'failed', 'exhausted'] as const;
export type DeliveryState = (typeof deliveryStates)[number];

/** After this many attempts a delivery is exhausted (docs/reference/interface.md, Limits). */
const maxAttempts = 5;
export const maxEndpoints = 50;

/** How long an old signing secret may stay valid beside a new one, in milliseconds. */
export const maxOverlap = 30 * 86_400_000;

/**
 * Returns the URL of a `mailctl webhook listen` endpoint, which fetches its deliveries itself. Such a URL cannot be
 * registered otherwise, because the address guard rejects it.
 */
export function listenerUrl(forwardTo: string): string {
	return `listen+${forwardTo}`;
}

export function isListener(url: string): boolean {
	return url.startsWith('listen+');
}

/** `full` adds fields to the interface's five. */
export const webhookFormats = ['default', 'full'] as const;
type WebhookFormat = (typeof webhookFormats)[number];

/** `long` repeats unacknowledged deliveries for days. */
export const webhookRetries = ['default', 'long'] as const;
export type WebhookRetry = (typeof webhookRetries)[number];

/** Why mailctl disabled an endpoint: it returned 410, or acknowledged nothing for days. */
export type DisabledReason = 'gone' | 'failing';

/** The options of an endpoint. `null` stands for `default`, and for not disabled by mailctl. */
export type EndpointForm = {
	readonly format: WebhookFormat | null;
	readonly retry: WebhookRetry | null;
	readonly disabledReason: DisabledReason | null;
};

/** An event to post. `messageId` and `recipient` are `null` if it is not about one. */
export type WebhookEvent = {
	readonly id: string;
	readonly type: WebhookEventType;
	readonly workspaceId: string;
	readonly messageId: string | null;
	/** As spelled by the caller of the send. */
	readonly recipient: string | null;
	readonly occurredAt: string;
	/** The details in the timeline, or those it would have. */
	readonly detail: Readonly<Record<string, unknown>>;
	/** Whether the bounce suppressed its recipient. */
	readonly suppressed?: boolean | undefined;
};

/** The message's part of a body. `metadata` and `tags` are JSON text, or `null`. */
export type WebhookMessage = {
	readonly metadata: string | null;
	readonly tags: string | null;
	readonly templateId: string;
	readonly subject: string | null;
};

/**
 * Returns the body for endpoints: exactly these five fields (docs/reference/interface.md, Webhook request), plus
 * `detail` for events without a recipient, which would otherwise say nothing. It is created once and stored.
 */
export function webhookBody(event: WebhookEvent, message: WebhookMessage | undefined, format: WebhookFormat): string {
	const {id, type, workspaceId, messageId, recipient, occurredAt} = event;
	const head = JSON.stringify({type, message_id: messageId, recipient, occurred_at: apiTime(occurredAt)});
	const fields = `${head.slice(0, -1)},"metadata":${message?.metadata ?? '{}'}`;
	const detail = `"detail":${JSON.stringify(toDetail(event))}}`;
	if (format === 'default') {
		return recipient === null ? `${fields},${detail}` : `${fields}}`;
	}
	const {subject = null, templateId = null, tags = null} = message ?? {};
	const extraFields = JSON.stringify({event_id: id, workspace: workspaceId, subject, template_id: templateId});
	const role = JSON.stringify(event.detail.role ?? null);
	return `${fields},${extraFields.slice(1, -1)},"tags":${tags ?? '[]'},"role":${role},${detail}`;
}

function toDetail({type, detail, suppressed = false}: WebhookEvent): Readonly<Record<string, unknown>> {
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

type NextState = {
	readonly state: DeliveryState;
	readonly attempts: number;
	readonly nextAttemptAt: number | null;
	/** Set if the endpoint gets disabled, with the reason. */
	readonly disables?: DisabledReason;
};

/** Returns the state after an attempt that could not start. It does not count. */
export function putOff(attempts: number, now: number, backoffMs: number): NextState {
	return {state: attempts === 0 ? 'pending' : 'failed', attempts, nextAttemptAt: now + backoffMs};
}

/**
 * The facts for the long retry: when the first attempt started, since when the endpoint has acknowledged nothing
 * (`null` if it had before this attempt), its response, and how long it asked to wait.
 */
type LongRetry = {
	readonly firstAt: number;
	readonly failingSince: string | null;
	readonly status: number | null;
	readonly retryAfterMs: number;
};

/**
 * Returns the state after an attempt. `attempts` is the number before it, `endedAt` its end in milliseconds. `long` is
 * `null` if only the standard attempts are made.
 */
export function afterAttempt(
	attempts: number,
	isAcknowledged: boolean,
	endedAt: number,
	backoffMs: number,
	long: LongRetry | null = null,
): NextState {
	const attemptCount = attempts + 1;
	if (isAcknowledged) {
		return {state: 'delivered', attempts: attemptCount, nextAttemptAt: null};
	}
	if (long !== null) {
		return afterLong(attemptCount, endedAt, backoffMs, long);
	}
	return attemptCount >= maxAttempts
		? {state: 'exhausted', attempts: attemptCount, nextAttemptAt: null}
		: {state: 'failed', attempts: attemptCount, nextAttemptAt: endedAt + backoffMs};
}

const minuteMs = 60_000;

/**
 * After the standard attempts, the waits double up to 360 backoffs, until 4320 have passed: six hours and three days by
 * default. A shorter backoff shortens everything for a test; a longer one does not lengthen it. The last attempt is
 * made at that time, whatever the endpoint asks for.
 */
function afterLong(attempts: number, endedAt: number, backoffMs: number, long: LongRetry): NextState {
	const {firstAt, failingSince, status, retryAfterMs} = long;
	const unit = Math.min(backoffMs, minuteMs);
	const until = firstAt + 4320 * unit;
	const isGone = status === 410;
	if (isGone || (attempts >= maxAttempts && endedAt >= until)) {
		// The endpoint may refuse only this delivery.
		const isDead = isGone || (failingSince !== null && Date.parse(failingSince) <= firstAt + minuteMs);
		const disables = isGone ? 'gone' : 'failing';
		return {state: 'exhausted', attempts, nextAttemptAt: null, ...(isDead && {disables})};
	}
	const doubled = Math.min(backoffMs * 2 ** Math.max(0, attempts - maxAttempts + 1), 360 * unit);
	const wait = Math.max(backoffMs, doubled, retryAfterMs);
	return {state: 'failed', attempts, nextAttemptAt: Math.min(endedAt + wait, Math.max(until, endedAt + backoffMs))};
}
