/**
 * The states of a recipient (one address of one message) and the allowed transitions. The status of a message is the
 * state of its `to` recipient. A deferral keeps the state; `next_attempt_at` shows that the recipient is still in the
 * queue.
 *
 * The folder holds the vocabulary of the whole program: messages, addresses, ids, routes, outcomes and reports, and the
 * pure rules about them. It relies on `kit` and `net` only. It never reads the store, the network or the settings, and
 * it gets the time as an argument.
 */
export const nextStates = {
	accepted: ['queued', 'suppressed', 'errored', 'bounced'],
	queued: ['sent', 'delivered', 'bounced', 'suppressed', 'errored', 'complained'],
	sent: ['delivered', 'bounced', 'complained', 'suppressed', 'errored'],
	delivered: ['bounced', 'complained'], // A DSN or an ARF report may arrive days after the 250.
	bounced: ['complained'], // A complaint takes precedence over a bounce. Both events are stored.
	complained: [],
	suppressed: [],
	errored: [],
} as const satisfies Record<string, readonly string[]>;

export type RecipientState = keyof typeof nextStates;

export const recipientStates = Object.keys(nextStates) as RecipientState[];

/** Whether the state table allows this transition. */
export function canMove(from: RecipientState, to: RecipientState): boolean {
	return (nextStates[from] as readonly string[]).includes(to);
}

/** Returns the states from which `to` can be reached, for compare-and-set updates. */
export function statesBefore(to: RecipientState): RecipientState[] {
	return recipientStates.filter(from => canMove(from, to));
}

export type Role = 'to' | 'cc';

/** One address of one message, as stored. Times are in the store's form. */
export type Recipient = {
	readonly id: string;
	readonly workspace_id: string;
	readonly message_id: string;
	/** As the caller spelled it. */
	readonly address: string;
	/** The address in comparison form. */
	readonly address_key: string;
	readonly role: Role;
	/** The address's domain in A-labels. */
	readonly destination: string;
	readonly state: RecipientState;
	readonly state_at: string;
	/** The number of finished attempts. */
	readonly attempts: number;
	/** When a mail server first accepted the envelope sender, or `null` if none has. */
	readonly sent_at: string | null;
	readonly last_reply: string | null;
};

/** The mode of the key. Messages of a test key never leave the machine. */
export type Mode = 'live' | 'test';

/** Optional properties that few sends have, stored as one JSON column. Times are in the store's form. */
export type Extras = {
	/** No attempt starts before this time. */
	readonly sendAt?: string;
	/** No attempt starts after this time. */
	readonly expiresAt?: string;
	/** Set only by the send. Without it, the priority of the topic or template applies. */
	readonly priority?: Priority;
	readonly toName?: string;
	readonly replyToName?: string;
	/** Replies come back to mailctl, which assigns them to the message. */
	readonly replyTracking?: true;
	/** Some of the variables are not stored. */
	readonly hidden?: true;
	/** The content was removed before the message itself. */
	readonly emptied?: true;
	/** Additional header fields, in order. */
	readonly headers?: ReadonlyArray<readonly [name: string, value: string]>;
};

/** The extras that a message stores as the send has them. Responses show them in this order. */
export const extraFields = ['priority', 'toName', 'replyToName', 'replyTracking'] as const satisfies ReadonlyArray<
	keyof Extras
>;
export type ExtraFields = Pick<Extras, (typeof extraFields)[number]>;

/** The order in which messages wait for one destination. */
export const priorities = ['high', 'normal', 'low'] as const;
export type Priority = (typeof priorities)[number];

const levels = {high: 1, normal: 0, low: -1} as const satisfies Record<Priority, number>;

/** Returns the number that the queue stores for a priority. */
export const levelOf = (priority: Priority = 'normal'): number => levels[priority];

/** Returns the priority for a number: above 0 is high, below is low. */
export const priorityOf = (level: number): Priority => (level > 0 ? 'high' : level < 0 ? 'low' : 'normal');

/** Returns when a message's attempts may start, in milliseconds. A scheduled message does not age before that time. */
export function startOf({
	created_at: created,
	extras,
}: {
	readonly created_at: string;
	readonly extras: string | null;
}): number {
	return Date.parse(readExtras(extras).sendAt ?? created);
}

/** Returns `null` if there are no extras, as in most sends. */
export function extrasJson(extras: Extras): string | null {
	const json = JSON.stringify(extras);
	return json === '{}' ? null : json;
}

const noExtras: Extras = Object.freeze({});

export const readExtras = (json: string | null): Extras => (json === null ? noExtras : JSON.parse(json));

export type Attachment = {
	readonly filename: string;
	/** A plain `type/subtype`. */
	readonly contentType: string;
	readonly content: Uint8Array;
	/** The id by which the HTML references it (`cid:`); absent or `null` if it does not. */
	readonly contentId?: string | null;
};

/** The type of the attachment that holds a whole message submitted over SMTP. API callers cannot use this type. */
export const submittedType = 'message/rfc822';

/** Returns the submitted message, or `null` if the message has a template. */
export function submittedSource([first]: readonly Attachment[]): Uint8Array | null {
	return first?.contentType === submittedType ? first.content : null;
}

/** Returns a submitted message as it is stored, with its Message-ID as the file name. */
export function submittedFile(messageId: string | null, content: Uint8Array): Attachment {
	return {filename: messageId ?? 'submitted.eml', contentType: submittedType, content};
}

/** Returns a submitted message's Message-ID, or `null` if it had none or the message has a template. */
export function submittedId([first]: ReadonlyArray<Pick<Attachment, 'filename' | 'contentType'>>): string | null {
	return first?.contentType === submittedType && isMessageId(first.filename) ? first.filename : null;
}

/** Whether the text is a valid Message-ID (RFC 5322 §3.6.4) without comments and white space. */
export function isMessageId(text: string): boolean {
	return /^<[^\s<>@]+@[^\s<>@]+>$/.test(text);
}

/** What is tracked in a message. */
export type Tracking = {readonly opens: boolean; readonly clicks: boolean};

/** Returns what the workspace tracks, minus what the send switched off (`tracking` is JSON, `{opens?, clicks?}`). */
export function toTracking({
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

const topicCode = /^[\w-]{1,64}$/;

/**
 * Whether the text can be a topic's code (docs/reference/interface.md, Subscription topic). Codes are case-sensitive.
 */
export function isTopicCode(text: string): boolean {
	return topicCode.test(text);
}

/** Replaces the value of a sensitive variable. */
export const hiddenValue = '•••';

const variableName = /^[A-Za-z_][\w-]{0,63}(?:\.[A-Za-z_][\w-]{0,63}){0,7}$/;

/** Whether the text can name a variable of a template, such as `code` or the nested `order.code`. */
export function isVariableName(text: string): boolean {
	return variableName.test(text);
}

/** Replaces the address of an erased person. Mail to `.invalid` goes nowhere (RFC 2606 §2). */
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

/** What an endpoint may subscribe to: the events above, and some that are on no timeline. */
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
