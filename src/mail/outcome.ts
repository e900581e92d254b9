import {unprintable} from '../kit/text.ts';

/** What went wrong with TLS, in the words of TLS reports (RFC 8460 §4.3). */
export type TlsFailure =
	| 'starttls-not-supported'
	| 'certificate-host-mismatch'
	| 'certificate-expired'
	| 'certificate-not-trusted'
	/** What no other word fits: a handshake that failed, a host that its policy does not name. */
	| 'validation-failure'
	| 'tlsa-invalid'
	| 'dnssec-invalid'
	| 'sts-policy-fetch-error'
	| 'sts-policy-invalid'
	| 'sts-webpki-invalid';

/** The source of the demands on a connection. */
type TlsPolicyType = 'sts' | 'tlsa' | 'no-policy-found';

/** How starting TLS ended, to be counted. */
export type TlsResult = {readonly policy: TlsPolicyType; readonly result: 'success' | TlsFailure};

const advice = /; if the root CA is installed locally, try running Node\.js with [\w-]+$/;

/**
 * What OpenSSL says of a certificate. Node.js 24 adds advice about an option of its own: the operator has
 * `MAILCTL_CA_FILE`.
 */
export function withoutAdvice(message: string): string {
	return message.replace(advice, '');
}

/** A reply of an SMTP server (RFC 5321 §4.2). */
export type SmtpReply = {
	readonly code: number;
	/** RFC 3463, at the start of the first line, or of another one if it fits the code. */
	readonly enhanced: string | null;
	/** All lines without their codes, joined by a line feed, controls removed, at most 1,024 characters. */
	readonly text: string;
};

const enhancedCode = /^[245]\.\d{1,3}\.\d{1,3}(?=\s|$)/gm;
// A reply of several lines keeps its line feeds.
const unsafe = new RegExp(`(?!\n)[${unprintable}]`, 'gu');
const maxTextLength = 1024;

/** What a host said, made safe to store and to print: unprintable characters removed, at most 1,024 characters. */
export function printable(text: string): string {
	return text.replace(unsafe, ' ').slice(0, maxTextLength).trim();
}

/** Makes a reply from its code and its lines' texts, made safe to store and to print. */
export function smtpReply(code: number, lines: readonly string[]): SmtpReply {
	const text = printable(lines.join('\n'));
	const stated = text.match(enhancedCode) ?? [];
	const fitting = stated.find(one => one[0] === String(code)[0]);
	return {code, enhanced: fitting ?? stated.find(one => text.startsWith(one)) ?? null, text};
}

/** How far an attempt came; `route` is before any connection. */
export const phases = [
	'route',
	'connect',
	'greeting',
	'ehlo',
	'starttls',
	'auth',
	'mail',
	'rcpt',
	'data',
	'dot',
] as const;

export type Phase = (typeof phases)[number];

/** One conversation with one host, kept and shown by `mailctl message show` (R1.13). */
export type Attempt = {
	/** When it began, in the store's form. */
	readonly at: string;
	readonly host: string | null;
	readonly ip: string | null;
	/**
	 * Protocol, cipher, whether the certificate was verified, and for which policy if not ours:
	 * `TLSv1.3 TLS_AES_256_GCM_SHA384 verified (MTA-STS)`; null: plain text.
	 */
	readonly tls: string | null;
	/** How starting TLS ended; absent where it was not tried: a session used again, a smarthost, no connection. */
	readonly tlsResult?: TlsResult | undefined;
	readonly phase: Phase;
	/** A smarthost refused us for the lack of a login that it accepts, in any phase. */
	readonly loginRefused?: true | undefined;
	/** It ended because the host did not answer, before it had the mail. */
	readonly isSilent?: true | undefined;
	readonly code: number | null;
	readonly enhanced: string | null;
	/** The last reply, or a sentence of ours where none came. */
	readonly reply: string;
	readonly ms: number;
	/**
	 * What was said, a line each: milliseconds since it began, `C:` we, `S:` the server, `*:` what happened. At most 4
	 * KB, without passwords and data. Null: the mail was accepted, or there was no connection.
	 */
	readonly dialogue: string | null;
};

/** What of an attempt decides in which order the next try asks the hosts; `n`: the try that it belongs to. */
export type Asked = Pick<Attempt, 'host' | 'ip' | 'phase' | 'code'> & {readonly n: number};

/**
 * Whether the mail was sent and no answer came, so that it may have arrived: a later try may make two of it (RFC 1047).
 */
export function isPossibleDuplicate({phase, code}: Pick<Attempt, 'phase' | 'code'>): boolean {
	return phase === 'dot' && code === null;
}

/** A recipient has at most this many tries that may have arrived (`isPossibleDuplicate`). */
export const maxPossibleDuplicates = 3;

/** Whether a smarthost refused our login, or offered none that keeps the password safe. */
export function isLoginRefusal({phase, code, enhanced, loginRefused}: LoginEnd): boolean {
	return loginRefused === true || (phase === 'auth' && (code ?? enhanced) !== null);
}

type LoginEnd = Pick<Attempt, 'phase' | 'code' | 'enhanced' | 'loginRefused'>;

/** Bounce categories (docs/reference/bounces.md). */
export const bounceCategories = [
	'unknown_user',
	'unknown_domain',
	/** The domain is there, and none of its mail hosts has an address. */
	'no_address',
	'moved',
	'disabled',
	'mailbox_full',
	'rate',
	'network',
	'dns_temp',
	'greylist',
	'expired',
	'block',
	'reputation',
	'auth',
	'policy',
	'spam_content',
	'virus',
	'too_big',
	'relay_denied',
	'sender',
	'protocol',
	'config',
	'system',
	'operator',
	'undetermined',
] as const;

export type BounceCategory = (typeof bounceCategories)[number];

/** Soft bounces of an address without a delivery in between (R2.1); `since` in the store's form. */
export type Escalated = {readonly messages: number; readonly since: string};

/** The result of one attempt of one recipient. It alone decides the next state; `outcome/` writes it. */
export type Outcome =
	/**
	 * The recipient's host took responsibility (250 to the data), or a capture file was written. What follows is the
	 * simulator's: it comes at once.
	 */
	| {readonly kind: 'delivered'; readonly follows?: 'complained' | 'opened' | 'clicked'}
	/** The smarthost took it: final unless a report comes (docs/reference/interface.md, Message event). */
	| {readonly kind: 'relayed'}
	/** To be tried again: by the schedule, or after `waitMs` where the host or our code states a wait. */
	| {readonly kind: 'deferred'; readonly category: BounceCategory; readonly reason: string; readonly waitMs?: number}
	/** Refused for good. Only a permanent failure of the recipient suppresses (docs/reference/bounces.md). */
	| {
			readonly kind: 'bounced';
			readonly type: 'permanent' | 'transient';
			readonly category: BounceCategory;
			readonly reason: string;
			readonly suppresses: boolean;
			/** Soft by itself; the address failed so often that it is taken for gone. */
			readonly escalated?: Escalated;
	  }
	/** Ours: render failure, sender or key gone. `reason` is a stable word such as `render_limit`. */
	| {readonly kind: 'errored'; readonly reason: string; readonly message?: string}
	/** The address was suppressed, or opted out, after acceptance. */
	| {readonly kind: 'suppressed'; readonly reason: string}
	/**
	 * Returned to the queue unchanged (a stop, a dead worker): counts no attempt. `reason`: our smarthost refused us,
	 * or a fault of ours, independent of the mail. `waitMs`: not to be tried before.
	 */
	| {readonly kind: 'released'; readonly reason?: string; readonly waitMs?: number};

export type AttemptResult = {
	readonly recipientId: string;
	readonly outcome: Outcome;
	/** Every conversation of this try, in order; the last one is the try's. */
	readonly attempts: readonly Attempt[];
	/** Conversations of a try that does not count, because a smarthost refused us: for the log and the metrics. */
	readonly uncounted?: readonly Attempt[];
	/** When a host first answered this recipient's MAIL FROM with 250 (capture, simulator: at once); null: never. */
	readonly sentAt: string | null;
	/** When the outcome was known, in the store's form. */
	readonly at: string;
};

/**
 * What smarthosts call the mail that they took, in their answer to its last dot: `250 Ok: queued as 4BF2…`,
 * `Ok 0102019a…`.
 */
const taken = [/\bqueued as <?([^\s<>]+)/i, /\bid=([^\s,;]+)/i, /^(?:2\.\d\.\d )?ok:? <?([\w.@/+-]{10,})>?$/i];
const maxProviderIdLength = 200;

/** The name that a smarthost's answer gives the mail; null: none. */
export function providerIdIn(reply: string): string | null {
	const found = taken.map(form => form.exec(reply.trim())?.[1]).find(id => id !== undefined);
	return found?.slice(0, maxProviderIdLength) ?? null;
}
