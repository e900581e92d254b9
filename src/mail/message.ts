/**
 * The states of a recipient (one address of one message); the status of a message is the state of its `to` recipient. A
 * deferral keeps the state: `next_attempt_at` says that the recipient is still in the queue.
 */
export const nextStates = {
	accepted: ['queued', 'suppressed', 'errored', 'bounced'],
	queued: ['sent', 'delivered', 'bounced', 'suppressed', 'errored', 'complained'],
	sent: ['delivered', 'bounced', 'complained', 'suppressed', 'errored'],
	delivered: ['bounced', 'complained'], // A DSN or an ARF report may arrive days after the 250.
	bounced: ['complained'], // A complaint wins over a bounce: both events are kept.
	complained: [],
	suppressed: [],
	errored: [],
} as const satisfies Record<string, readonly string[]>;

export type RecipientState = keyof typeof nextStates;

export const recipientStates = Object.keys(nextStates) as RecipientState[];

/** Whether the state table allows this step. */
export function canMove(from: RecipientState, to: RecipientState): boolean {
	return (nextStates[from] as readonly string[]).includes(to);
}

/** The states from which `to` may be reached, for compare-and-set updates. */
export function statesBefore(to: RecipientState): RecipientState[] {
	return recipientStates.filter(from => canMove(from, to));
}

export type Role = 'to' | 'cc';

/** One address of one message, as its row in the store says; times in the store's form. */
export type Recipient = {
	readonly id: string;
	readonly workspace_id: string;
	readonly message_id: string;
	/** As the caller spelled it. */
	readonly address: string;
	/** In comparison form. */
	readonly address_key: string;
	readonly role: Role;
	/** The address's domain in A-labels. */
	readonly destination: string;
	readonly state: RecipientState;
	readonly state_at: string;
	/** Tries that have ended. */
	readonly attempts: number;
	/** When a host first took its envelope sender; null: none did. */
	readonly sent_at: string | null;
	readonly last_reply: string | null;
};

/** What the key was: mail of a test key never leaves the machine. */
export type Mode = 'live' | 'test';

/** What few sends have: one column, JSON. Times in the store's form. */
export type Extras = {
	/** No attempt begins before it. */
	readonly sendAt?: string;
	/** No attempt begins after it. */
	readonly expiresAt?: string;
	/** Of the send alone; without it the topic's or the template's holds. */
	readonly priority?: Priority;
	readonly toName?: string;
	readonly replyToName?: string;
	/** Answers come to us, and find the message. */
	readonly replyTracking?: true;
	/** Some of its variables are not kept. */
	readonly hidden?: true;
	/** Its content was removed before the message itself. */
	readonly emptied?: true;
	/** Header fields in addition to ours, in order. */
	readonly headers?: ReadonlyArray<readonly [name: string, value: string]>;
};

/** From the first to the last, where several wait for one destination. */
export const priorities = ['high', 'normal', 'low'] as const;
export type Priority = (typeof priorities)[number];

const levels = {high: 1, normal: 0, low: -1} as const satisfies Record<Priority, number>;

/** As a number, the way the queue stores it. */
export const levelOf = (priority: Priority = 'normal'): number => levels[priority];

/** Of a number: above 0 it is high, below it is low. */
export const priorityOf = (level: number): Priority => (level > 0 ? 'high' : level < 0 ? 'low' : 'normal');

/** When the time for its tries begins, milliseconds: a scheduled mail does not age before its time. */
export function startOf({
	created_at: created,
	extras,
}: {
	readonly created_at: string;
	readonly extras: string | null;
}): number {
	return Date.parse(readExtras(extras).sendAt ?? created);
}

/** Null where there is nothing in it, as for most sends. */
export function extrasJson(extras: Extras): string | null {
	const json = JSON.stringify(extras);
	return json === '{}' ? null : json;
}

export const readExtras = (json: string | null): Extras => (json === null ? {} : JSON.parse(json));

export type Attachment = {
	readonly filename: string;
	/** A plain `type/subtype`. */
	readonly contentType: string;
	readonly content: Uint8Array;
	/** The html names it by this (`cid:`); absent or null: it does not. */
	readonly contentId?: string | null;
};

/**
 * The type of the attachment that is the whole mail, as it was submitted by SMTP; callers of the API cannot name it.
 */
export const submittedType = 'message/rfc822';

/** The mail that was submitted; null: the message has a template. */
export function submittedSource([first]: readonly Attachment[]): Uint8Array | null {
	return first?.contentType === submittedType ? first.content : null;
}

/** A mail as it is kept: under the Message-ID that it came with. */
export function submittedFile(messageId: string | null, content: Uint8Array): Attachment {
	return {filename: messageId ?? 'submitted.eml', contentType: submittedType, content};
}

/** The Message-ID of the submitted mail; null: it had no Message-ID, or the message has a template. */
export function submittedId([first]: ReadonlyArray<Pick<Attachment, 'filename' | 'contentType'>>): string | null {
	return first?.contentType === submittedType && isMessageId(first.filename) ? first.filename : null;
}

/** Whether it is what a Message-ID field has (RFC 5322 §3.6.4), without comments and blanks. */
export function isMessageId(text: string): boolean {
	return /^<[^\s<>@]+@[^\s<>@]+>$/.test(text);
}

/** What of a mail is tracked. */
export type Tracking = {readonly opens: boolean; readonly clicks: boolean};

/** What the workspace tracks, less what the send switched off (JSON text `{opens?, clicks?}`). */
export function trackingOf({
	track_opens_at: opensAt,
	track_clicks_at: clicksAt,
	tracking,
}: {
	readonly track_opens_at: string | null;
	readonly track_clicks_at: string | null;
	readonly tracking: string | null;
}): Tracking {
	const {opens, clicks} = tracking === null ? {} : (JSON.parse(tracking) as Partial<Tracking>);
	return {opens: opensAt !== null && opens !== false, clicks: clicksAt !== null && clicks !== false};
}

const code = /^[\w-]{1,64}$/;

/**
 * Whether the text can be a topic's code (docs/reference/interface.md, Subscription topic). Codes are compared as they
 * are written.
 */
export function isTopicCode(text: string): boolean {
	return code.test(text);
}

/** Stands where the value of a sensitive variable stood. */
export const hiddenValue = '•••';

const variableName = /^[A-Za-z_][\w-]{0,63}(?:\.[A-Za-z_][\w-]{0,63}){0,7}$/;

/** Whether it can name a variable of a template, or one within another: `code`, `order.code`. */
export function isVariableName(text: string): boolean {
	return variableName.test(text);
}

/** Stands where the address of an erased person stood; mail for `.invalid` goes nowhere (RFC 2606 §2). */
export const erasedAddress = 'erased@erased.invalid';

/** Timeline event types (docs/reference/interface.md, Message event). */
export const eventTypes = [
	'accepted',
	'queued',
	'sent',
	'delivered',
	'opened',
	'clicked',
	'bounced',
	'complained',
	'suppressed',
	'unsubscribed',
	'errored',
] as const;
export type EventType = (typeof eventTypes)[number];

/** The event types of the timeline that webhooks carry (docs/reference/interface.md, Webhook events). */
export const defaultWebhookEvents = ['delivered', 'bounced', 'complained', 'opened', 'clicked'] as const;

/** What an endpoint may subscribe to: those, and what no timeline has. */
export const webhookEventTypes = [
	...defaultWebhookEvents,
	'deferred',
	'gave_up',
	'recipient_suppressed',
	'recipient_unsubscribed',
	'domain_changed',
	'endpoint_disabled',
	'received',
] as const;
export type WebhookEventType = (typeof webhookEventTypes)[number];
