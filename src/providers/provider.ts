import {isObject, type JsonObject, objectOf, parsedJson} from '../kit/exact-json.ts';

/** A post of a provider, before anything of it is believed. */
export type Incoming = {
	/** Names in lower case. */
	readonly headers: Readonly<Record<string, string | readonly string[] | undefined>>;
	readonly body: Buffer;
};

/** What a provider says of one recipient. */
export type ProviderEvent = {
	/**
	 * `dropped`: the provider did not send it, since the address is on its own suppression list. `other`: has no
	 * effect.
	 */
	readonly what:
		| 'delivered'
		| 'bounced'
		| 'dropped'
		| 'deferred'
		| 'complained'
		| 'unsubscribed'
		| 'opened'
		| 'clicked'
		| 'other';
	/** As the provider spells it; null: it does not say. */
	readonly recipient: string | null;
	/** What the recipient's host said, or the provider of it; empty: nothing. */
	readonly text: string;
	readonly code: number | null;
	/** The enhanced code, RFC 3463. */
	readonly status: string | null;
	/** The recipient's host. */
	readonly host: string | null;
	/** How the provider judges a bounce; null: it does not. */
	readonly verdict: 'permanent' | 'transient' | null;
	/** The kind of a complaint, in lower case. */
	readonly feedbackType?: string;
	/** Values in which the provider echoes our token. */
	readonly refs: readonly string[];
	/** Message-IDs that may be ours. */
	readonly messageIds: readonly string[];
	/** What the provider answered to the mail's data. */
	readonly providerIds: readonly string[];
};

/**
 * The origin of a provider's secret. `ours`: we make it; `theirs`: the provider shows it; `none`: its posts name a
 * certificate.
 */
export type SecretOrigin = 'ours' | 'theirs' | 'none';

/**
 * One provider's form of events. The events of a post are stored one by one; a reader that has the stored text reads
 * them.
 */
export type Provider = {
	readonly secret: SecretOrigin;
	/** Whether the post is the provider's, which its secret proves. Not asked where the secret is `none`. */
	readonly proves: (incoming: Incoming, secret: string, now: number) => boolean;
	/**
	 * What makes a post unique where its signature does not cover the events: a second post with it is refused. Absent:
	 * the signature covers them.
	 */
	readonly onceBy?: (body: unknown) => string;
	/** The events of a parsed body, each as it is stored; null: not the provider's form. */
	readonly events: (body: unknown) => readonly Fields[] | null;
	readonly read: (event: Fields) => readonly ProviderEvent[];
	/** The header field by which a mail asks the provider to echo our token; null: X-Mailctl-Ref is there anyway. */
	readonly echo: ((ref: string) => readonly [name: string, value: string]) | null;
};

/** The name under which the token travels, where the provider's echo has names. */
export const refName = 'mailctl-ref';

/** A JSON object of a stranger. */
export type Fields = JsonObject;

const longest = 4096;
const maxListed = 100;

/** A text, as far as it is bounded; a number is one too. Empty: neither. */
export function textOf(value: unknown): string {
	return typeof value === 'string' ? value.slice(0, longest) : typeof value === 'number' ? String(value) : '';
}

/** The same, null for an empty one. */
export function textOrNull(value: unknown): string | null {
	return textOf(value) || null;
}

export {isObject as isFields, objectOf as fieldsOf};

/** The first elements of an array; none of anything else. */
export function listOf(value: unknown): readonly unknown[] {
	return Array.isArray(value) ? value.slice(0, maxListed) : [];
}

/** A batch, or a single event; null: neither. */
export function batchOf(body: unknown): readonly Fields[] | null {
	const events = Array.isArray(body) ? body : [body];
	return events.every(isObject) ? events : null;
}

/** The texts among values, without doubles. */
export function texts(...values: readonly unknown[]): readonly string[] {
	return [...new Set(values.map(textOf).filter(text => text !== ''))];
}

/** A Message-ID as our tokens are looked for in it: without angle brackets. */
export function bare(value: unknown): string {
	return textOf(value).trim().replace(/^<|>$/g, '');
}

/** The token in a value that is JSON text or an object of ours. */
export function refIn(value: unknown): string {
	if (typeof value !== 'string') {
		return textOf(objectOf(value)[refName]);
	}
	const parsed = parsedJson(value);
	return parsed === undefined ? value : textOf(objectOf(parsed)[refName]);
}

/** By the name of an event, or of a case of it: what happened, and how the provider judges a bounce. */
export type Kinds = Readonly<Record<string, readonly [ProviderEvent['what'], ProviderEvent['verdict']?]>>;

/** An event of a kind; one that the table does not have has no effect. */
export function said(
	kinds: Kinds,
	name: unknown,
	{
		feedbackType,
		...event
	}: Partial<Omit<ProviderEvent, 'feedbackType'>> & Pick<ProviderEvent, 'text'> & {readonly feedbackType?: unknown},
): ProviderEvent {
	const [what, verdict = null] = (Object.hasOwn(kinds, textOf(name)) && kinds[textOf(name)]) || ['other'];
	const complaint = what === 'complained' ? {feedbackType: feedbackTypeOf(feedbackType)} : {};
	return {...none, ...event, what, verdict, ...complaint};
}

/** The kind of a complaint as RFC 5965 spells it; abuse where the provider names none. */
export function feedbackTypeOf(value: unknown): string {
	return textOf(value).trim().toLowerCase().replaceAll(/[_ ]/g, '-') || 'abuse';
}

/** What an event does not say. */
export const none = {
	...{recipient: null, code: null, status: null, host: null, verdict: null},
	...{refs: [], messageIds: [], providerIds: []},
};

/** A reply code; null: none. */
export function codeOf(value: unknown): number | null {
	const code = Number(value);
	return Number.isInteger(code) && code >= 200 && code <= 599 ? code : null;
}

/** An enhanced code, RFC 3463; null: none. */
export function statusOf(value: unknown): string | null {
	return /^[245]\.\d{1,3}\.\d{1,3}$/.exec(textOf(value).trim())?.[0] ?? null;
}
