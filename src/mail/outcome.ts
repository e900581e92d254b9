import {unprintable} from '../kit/text.ts';

/** A TLS failure, by its name in TLS reports (RFC 8460 §4.3). */
export type TlsFailure =
	| 'starttls-not-supported'
	| 'certificate-host-mismatch'
	| 'certificate-expired'
	| 'certificate-not-trusted'
	/** Any other failure: a failed handshake, or a server that its policy does not list. */
	| 'validation-failure'
	| 'tlsa-invalid'
	| 'dnssec-invalid'
	| 'sts-policy-fetch-error'
	| 'sts-policy-invalid'
	| 'sts-webpki-invalid';

/** The source of the TLS requirements for a connection. */
type TlsPolicyType = 'sts' | 'tlsa' | 'no-policy-found';

/** The result of starting TLS, for the TLS statistics. */
export type TlsResult = {readonly policy: TlsPolicyType; readonly result: 'success' | TlsFailure};

const advice = /; if the root CA is installed locally, try running Node\.js with [\w-]+$/;

/**
 * Removes Node.js 24's advice from an OpenSSL error about a certificate. It recommends an option of Node.js, but
 * operators of mailctl have `MAILCTL_CA_FILE`.
 */
export function withoutAdvice(message: string): string {
	return message.replace(advice, '');
}

/** A reply of an SMTP server (RFC 5321 §4.2). */
export type SmtpReply = {
	readonly code: number;
	/** The enhanced code (RFC 3463) at the start of the first line, or of another line if it fits the code. */
	readonly enhanced: string | null;
	/** All lines without their codes, joined by line feeds, without controls, at most 1,024 characters. */
	readonly text: string;
};

const enhancedCode = /^[245]\.\d{1,3}\.\d{1,3}(?=\s|$)/gm;
// A multi-line reply keeps its line feeds.
const unsafe = new RegExp(`(?!\n)[${unprintable}]`, 'gu');
const maxTextLength = 1024;

/** Makes remote text safe to store and print: without unprintable characters, at most 1,024 characters. */
export function printable(text: string): string {
	return text.replace(unsafe, ' ').slice(0, maxTextLength).trim();
}

/** Creates a reply from its code and the text of its lines, safe to store and print. */
export function smtpReply(code: number, lines: readonly string[]): SmtpReply {
	const text = printable(lines.join('\n'));
	const codes = text.match(enhancedCode) ?? [];
	const matching = codes.find(candidate => candidate[0] === String(code)[0]);
	return {code, enhanced: matching ?? codes.find(candidate => text.startsWith(candidate)) ?? null, text};
}

/** How far an attempt got. `route` is before any connection. */
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

/** One conversation with one mail server, stored and shown by `mailctl message show` (R1.13). */
export type Attempt = {
	/** The start, in the store's form. */
	readonly at: string;
	readonly host: string | null;
	readonly ip: string | null;
	/**
	 * The protocol, the cipher, whether the certificate was verified, and the policy that required it, if any:
	 * `TLSv1.3 TLS_AES_256_GCM_SHA384 verified (MTA-STS)`. `null` for plain text.
	 */
	readonly tls: string | null;
	/** The result of starting TLS. Absent if not attempted: for a reused session, a relay, or no connection. */
	readonly tlsResult?: TlsResult | undefined;
	readonly phase: Phase;
	/** Whether a relay refused because it received no valid login, in any phase. */
	readonly loginRefused?: true | undefined;
	/** Whether the attempt ended because the server did not reply, before it had the message. */
	readonly isSilent?: true | undefined;
	readonly code: number | null;
	readonly enhanced: string | null;
	/** The last reply, or mailctl's own description if there was none. */
	readonly reply: string;
	readonly ms: number;
	/**
	 * The dialogue, one line per entry: milliseconds since the start, `C:` for mailctl, `S:` for the server, `*:` for
	 * other events. At most 4 KB, without passwords and message data. `null` if the message was accepted or there was
	 * no connection.
	 */
	readonly dialogue: string | null;
};

/** The facts of an attempt that determine the order of hosts in the next one. `n` is the attempt's number. */
export type PreviousAttempt = Pick<Attempt, 'host' | 'ip' | 'phase' | 'code'> & {readonly n: number};

/**
 * Whether the message was sent but no reply came. It may have arrived, so another attempt may duplicate it (RFC 1047).
 */
export function isPossibleDuplicate({phase, code}: Pick<Attempt, 'phase' | 'code'>): boolean {
	return phase === 'dot' && code === null;
}

/** The maximum number of attempts per recipient that may have arrived (`isPossibleDuplicate`). */
export const maxPossibleDuplicates = 3;

/** Whether a relay refused the login, or offered no mechanism that protects the password. */
export function isLoginRefusal({phase, code, enhanced, loginRefused}: LoginReply): boolean {
	return loginRefused === true || (phase === 'auth' && (code ?? enhanced) !== null);
}

type LoginReply = Pick<Attempt, 'phase' | 'code' | 'enhanced' | 'loginRefused'>;

/** Bounce categories (docs/reference/bounces.md). */
export const bounceCategories = [
	'unknown_user',
	'unknown_domain',
	/** The domain exists, but none of its mail servers has an address. */
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

/** The consecutive soft bounces of an address without a delivery in between (R2.1). `since` is in the store's form. */
export type Escalated = {readonly messages: number; readonly since: string};

/** The result of one attempt for one recipient. It alone determines the next state, which `outcome/` writes. */
export type Outcome =
	/**
	 * The mail server accepted responsibility (250 to the data), or a capture file was written. `follows` is set by the
	 * simulator, whose event follows immediately.
	 */
	| {readonly kind: 'delivered'; readonly follows?: 'complained' | 'opened' | 'clicked'}
	/** The relay accepted it: final unless a report arrives (docs/reference/interface.md, Message event). */
	| {readonly kind: 'relayed'}
	/** Another attempt follows: according to the schedule, or after `waitMs` if the server or the code set a wait. */
	| {readonly kind: 'deferred'; readonly category: BounceCategory; readonly reason: string; readonly waitMs?: number}
	/** Permanently refused. Only a permanent failure of the recipient suppresses it (docs/reference/bounces.md). */
	| {
			readonly kind: 'bounced';
			readonly type: 'permanent' | 'transient';
			readonly category: BounceCategory;
			readonly reason: string;
			readonly suppresses: boolean;
			/** Soft by itself, but the address has failed so often that it counts as dead. */
			readonly escalated?: Escalated;
	  }
	/** An internal failure: a render error, a deleted sender or key. `reason` is a fixed word like `render_limit`. */
	| {readonly kind: 'errored'; readonly reason: string; readonly message?: string}
	/** The address was suppressed or opted out after the message was accepted. */
	| {readonly kind: 'suppressed'; readonly reason: string}
	/**
	 * Returned to the queue unchanged, for example at a shutdown, without counting an attempt. `reason`: the
	 * relay refuses mail from this machine, or an internal error unrelated to the message. `waitMs`: the minimum wait.
	 */
	| {readonly kind: 'released'; readonly reason?: string; readonly waitMs?: number};

export type AttemptResult = {
	readonly recipientId: string;
	readonly outcome: Outcome;
	/** Every conversation of this attempt, in order. The last one determines the outcome. */
	readonly attempts: readonly Attempt[];
	/** The conversations of an attempt that does not count because a relay refused it. For logs and metrics. */
	readonly uncounted?: readonly Attempt[];
	/** When a server first replied 250 to MAIL FROM (capture, simulator: at once), or `null`. */
	readonly sentAt: string | null;
	/** When the outcome was known, in the store's form. */
	readonly at: string;
};

/** Patterns for the id in a relay's reply to the final dot: `250 Ok: queued as 4BF2…`, `Ok 0102019a…`. */
const providerIdPatterns = [
	/\bqueued as <?([^\s<>]+)/i,
	/\bid=([^\s,;]+)/i,
	/^(?:2\.\d\.\d )?ok:? <?([\w.@/+-]{10,})>?$/i,
];
const maxProviderIdLength = 200;

/** Returns the id that a relay's reply gives the message, or `null`. */
export function providerIdIn(reply: string): string | null {
	const providerId = providerIdPatterns.map(pattern => pattern.exec(reply.trim())?.[1]).find(id => id !== undefined);
	return providerId?.slice(0, maxProviderIdLength) ?? null;
}
