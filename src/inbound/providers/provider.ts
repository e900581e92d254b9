import {isObject, type JsonObject, objectOf, parsedJson} from '../../kit/exact-json.ts';

/** A post from a provider, not verified yet. */
export type Incoming = {
	/** The names are in lower case. */
	readonly headers: Readonly<Record<string, string | readonly string[] | undefined>>;
	readonly body: Buffer;
};

/** What a provider reports about one recipient. */
export type ProviderEvent = {
	/** `dropped`: not sent, because the address is on the provider's own suppression list. `other`: no effect. */
	readonly kind:
		| 'delivered'
		| 'bounced'
		| 'dropped'
		| 'deferred'
		| 'complained'
		| 'unsubscribed'
		| 'opened'
		| 'clicked'
		| 'other';
	/** As the provider spells it, or `null` if it names none. */
	readonly recipient: string | null;
	/** The reply of the recipient's mail server, or else the provider's own text. May be empty. */
	readonly text: string;
	readonly code: number | null;
	/** The enhanced code (RFC 3463). */
	readonly status: string | null;
	/** The recipient's mail server. */
	readonly host: string | null;
	/** The provider's judgment of a bounce, or `null`. */
	readonly verdict: 'permanent' | 'transient' | null;
	/** The kind of a complaint, in lower case. */
	readonly feedbackType?: string;
	/** Values in which the provider echoes our token. */
	readonly refs: readonly string[];
	/** Message-IDs that may be ours. */
	readonly messageIds: readonly string[];
	/** The ids with which the provider accepted the message. */
	readonly providerIds: readonly string[];
};

/** Whether we or the provider create its secret. `none` means that its posts name a certificate. */
export type SecretOrigin = 'ours' | 'theirs' | 'none';

/**
 * The format of one provider's events. The events of a post are verified, stored one by one, and read later from the
 * stored text. This folder relies on the secret shared with the provider, or on its certificate. It only verifies and
 * reads: it never makes requests and never touches the store.
 */
export type Provider = {
	readonly secret: SecretOrigin;
	/** Whether the secret proves that the post is from the provider. Not called if the secret is `none`. */
	readonly isFromProvider: (incoming: Incoming, secret: string, now: number) => boolean;
	/**
	 * Returns what makes a post unique if its signature does not cover the events, so that a repeated one is refused.
	 * Absent if the signature covers them.
	 */
	readonly uniqueBy?: (body: unknown) => string;
	/** Returns the events of a parsed body as they are stored, or `null` if it is not in the provider's format. */
	readonly events: (body: unknown) => readonly Fields[] | null;
	readonly read: (event: Fields) => readonly ProviderEvent[];
	/** Returns the header field that makes the provider echo our token. `null` if X-Mailctl-Ref is enough. */
	readonly echo: ((ref: string) => readonly [name: string, value: string]) | null;
};

/** The name of our token where a provider's echo has names. */
export const refName = 'mailctl-ref';

/** A JSON object from an untrusted source. */
export type Fields = JsonObject;

const maxTextLength = 4096;
const maxListed = 100;

/** Returns a text up to a limit, or a number as text. Empty for anything else. */
export function textOf(value: unknown): string {
	return typeof value === 'string' ? value.slice(0, maxTextLength) : typeof value === 'number' ? String(value) : '';
}

/** Like `textOf`, but returns `null` instead of an empty text. */
export function textOrNull(value: unknown): string | null {
	return textOf(value) || null;
}

export {isObject as isFields, objectOf as fieldsOf};

/** Returns the first elements of an array. Empty for anything else. */
export function listOf(value: unknown): readonly unknown[] {
	return Array.isArray(value) ? value.slice(0, maxListed) : [];
}

/** Returns a batch, or a single event as a batch. `null` if it is neither. */
export function parseBatch(body: unknown): readonly Fields[] | null {
	const events = Array.isArray(body) ? body : [body];
	return events.every(isObject) ? events : null;
}

/** Returns the texts among values, without duplicates. */
export function texts(...values: readonly unknown[]): readonly string[] {
	return [...new Set(values.map(textOf).filter(text => text !== ''))];
}

/** Returns a Message-ID without angle brackets, in the form that is searched for our tokens. */
export function bare(value: unknown): string {
	return textOf(value).trim().replace(/^<|>$/g, '');
}

/** Returns the token in a value that is JSON text or an object. */
export function refIn(value: unknown): string {
	if (typeof value !== 'string') {
		return textOf(objectOf(value)[refName]);
	}
	const parsed = parsedJson(value);
	return parsed === undefined ? value : textOf(objectOf(parsed)[refName]);
}

/** Maps the name of an event, or of a variant, to what happened and the provider's judgment of a bounce. */
export type Kinds = Readonly<Record<string, readonly [ProviderEvent['kind'], ProviderEvent['verdict']?]>>;

/** Creates an event of a kind. A kind that is not in the table has no effect. */
export function toProviderEvent(
	kinds: Kinds,
	name: unknown,
	{
		feedbackType,
		...event
	}: Partial<Omit<ProviderEvent, 'feedbackType'>> & Pick<ProviderEvent, 'text'> & {readonly feedbackType?: unknown},
): ProviderEvent {
	const [kind, verdict = null] = (Object.hasOwn(kinds, textOf(name)) && kinds[textOf(name)]) || ['other'];
	const complaint = kind === 'complained' ? {feedbackType: parseFeedbackType(feedbackType)} : {};
	return {...emptyEvent, ...event, kind, verdict, ...complaint};
}

/** Returns the kind of a complaint as RFC 5965 spells it, or `abuse` if the provider names none. */
export function parseFeedbackType(value: unknown): string {
	return textOf(value).trim().toLowerCase().replaceAll(/[_ ]/g, '-') || 'abuse';
}

/** The defaults of an event's optional values. */
export const emptyEvent = {
	recipient: null,
	code: null,
	status: null,
	host: null,
	verdict: null,
	refs: [],
	messageIds: [],
	providerIds: [],
};

/** Parses a reply code, or returns `null`. */
export function codeOf(value: unknown): number | null {
	const code = Number(value);
	return Number.isInteger(code) && code >= 200 && code <= 599 ? code : null;
}

/** Parses an enhanced code (RFC 3463), or returns `null`. */
export function parseStatus(value: unknown): string | null {
	return /^[245]\.\d{1,3}\.\d{1,3}$/.exec(textOf(value).trim())?.[0] ?? null;
}
