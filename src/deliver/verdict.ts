import {type Classify, suppresses} from '../mail/bounce.ts';
import type {BounceCategory, Outcome, Phase, TlsFailure} from '../mail/outcome.ts';
import {type SmtpReply, smtpReply} from '../mail/outcome.ts';
import type {RawReply} from './dialogue.ts';
import {demandsTls} from './host.ts';
import type {Lost, ReplyOrLost} from './smtp-connection.ts';

/** Where and why a conversation ended without acceptance. `verdict` decides what follows. */
export type Stop =
	/** A reply from the server. */
	| {readonly by: 'reply'; readonly phase: Phase; readonly reply: SmtpReply}
	/** The connection could not be opened, broke, or took too long. */
	| {
			readonly by: 'loss';
			readonly phase: Phase;
			readonly text: string;
			readonly errno?: string;
			readonly cause?: Lost['cause'];
	  }
	/** The TLS handshake failed, or TLS was required and not offered. */
	| {
			readonly by: 'tls';
			readonly phase: 'starttls';
			readonly text: string;
			readonly failure: TlsFailure;
			readonly errno?: string | undefined;
	  }
	/** Not sent: the message is larger than the server's limit. */
	| {readonly by: 'size'; readonly phase: 'ehlo'; readonly text: string}
	/** Not sent: an address needs SMTPUTF8, which the server does not offer. */
	| {readonly by: 'utf8'; readonly phase: 'ehlo'; readonly text: string}
	/** Not sent: no authentication mechanism would protect the password. */
	| {readonly by: 'login'; readonly phase: 'auth'; readonly text: string};

/** Returns the stop for a reply other than the expected one. */
export function stopped(phase: Phase, reply: ReplyOrLost): Stop {
	if ('lost' in reply) {
		const {lost: text, errno, cause} = reply;
		return {
			by: 'loss',
			phase,
			text,
			...(errno === undefined ? {} : {errno}),
			...(cause === undefined ? {} : {cause}),
		};
	}
	return {by: 'reply', phase, reply: readable(reply)};
}

export function readable(reply: RawReply): SmtpReply {
	return smtpReply(reply.code, reply.lines);
}

export type HostVerdict = {
	/** The outcome if no other host is left, or at once if `next` is `none`. */
	readonly outcome: Outcome;
	/**
	 * `host`: try the next host. `plainHelo`: try the same host again, with HELO and no extensions. `none`: the outcome
	 * is final.
	 */
	readonly next: 'host' | 'plainHelo' | 'none';
};

/** Where the conversation stopped and under what conditions. */
type Circumstances = {
	readonly host: string;
	/** The host is a configured relay, so a refusal of this machine is a configuration error. */
	readonly isRelay: boolean;
	/** The session was in plain text because STARTTLS had failed. */
	readonly hasTlsFailed: boolean;
	/** HELO without extensions has already been tried. */
	readonly isHeloOnly: boolean;
	readonly classify: Classify;
};

const minute = 60_000;
/** RFC 1047: the server may have accepted the message. An immediate retry could deliver it twice. */
const ambiguousWaitMs = 5 * minute;
const minStatedWaitMs = minute;
const maxStatedWaitMs = 60 * minute;

/** The reply codes for an unknown command or parameter (RFC 5321 §4.2.3). */
export const misunderstood: ReadonlySet<number> = new Set([500, 501, 502, 503, 504, 555]);
const authenticationCodes: ReadonlySet<number> = new Set([530, 534, 535, 538]);

/** Decides what follows from a conversation (RFC 5321 §4.2.1). Only the recipient's refusals count against it. */
export function verdict(stop: Stop, circumstances: Circumstances): HostVerdict {
	const {isRelay} = circumstances;
	switch (stop.by) {
		case 'loss':
			return stop.phase === 'dot'
				? {
						next: 'none',
						outcome: {
							kind: 'deferred',
							category: 'network',
							reason: `possible duplicate, no reply to the data: ${stop.text}`,
							waitMs: ambiguousWaitMs,
						},
					}
				: nextHost('network', stop.text);
		case 'tls':
			return nextHost(
				isRelay ? 'config' : stop.failure === 'validation-failure' ? 'network' : 'policy',
				stop.text,
			);
		case 'login':
			return nextHost('config', stop.text);
		case 'size':
			return {next: 'host', outcome: refusal('too_big', `5.3.4 ${stop.text}`)};
		case 'utf8':
			return {next: 'host', outcome: refusal('protocol', `5.6.7 ${stop.text}`)};
		case 'reply':
			return replyVerdict(stop.reply, stop.phase, circumstances);
	}
}

function replyVerdict(reply: SmtpReply, phase: Phase, circumstances: Circumstances): HostVerdict {
	const {host, isRelay, hasTlsFailed, isHeloOnly, classify} = circumstances;
	const reason = toReason(reply);
	const {category} = classify({phase, ...reply, status: null, host});
	if (isRelay && isLoginProblem(reply, phase)) {
		return nextHost('config', reason);
	}
	if (phase !== 'mail' && phase !== 'rcpt' && phase !== 'data' && phase !== 'dot') {
		const isConfigError = isRelay && phase === 'greeting' && reply.code >= 500;
		return nextHost(isConfigError ? 'config' : category === 'undetermined' ? 'network' : category, reason);
	}
	if (reply.code < 400) {
		return nextHost('protocol', `unexpected reply: ${reason}`);
	}
	if (reply.code < 500 || isTooManyRecipients(reply)) {
		return deferral(category, reason, reply);
	}
	if (hasTlsFailed && demandsTls(reply)) {
		return nextHost('policy', reason); // The server requires TLS, which failed.
	}
	if (misunderstood.has(reply.code)) {
		return {next: isHeloOnly ? 'none' : 'plainHelo', outcome: refusal('protocol', reason)};
	}
	return {next: 'none', outcome: refusal(phase === 'mail' ? 'sender' : category, reason)};
}

function nextHost(category: BounceCategory, reason: string): HostVerdict {
	return {next: 'host', outcome: {kind: 'deferred', category, reason}};
}

function deferral(category: BounceCategory, reason: string, reply: SmtpReply): HostVerdict {
	const waitMs = statedWaitMs(reply.text);
	return {
		next: 'host',
		outcome: {kind: 'deferred', category, reason, ...(waitMs === null ? {} : {waitMs})},
	};
}

function refusal(category: BounceCategory, reason: string): Outcome {
	return {kind: 'bounced', type: 'permanent', category, reason, suppresses: suppresses(category)};
}

/** Whether a relay refused the message because there was no valid login. */
export function isLoginStop(stop: Stop): boolean {
	return stop.by === 'login' || (stop.by === 'reply' && isLoginProblem(stop.reply, stop.phase));
}

/** RFC 4954 §6. 454 means that the server cannot check the password at the moment. */
function isLoginProblem(reply: SmtpReply, phase: Phase): boolean {
	return (
		phase === 'auth' ||
		authenticationCodes.has(reply.code) ||
		(reply.code === 454 && (phase === 'mail' || reply.enhanced === '4.7.0')) ||
		(reply.enhanced === '5.7.0' && /\bauth|credential|log ?in/i.test(reply.text))
	);
}

/** RFC 5321 §4.5.3.1.10: "too many recipients" counts as 452, whichever first digit the server uses. */
function isTooManyRecipients(reply: SmtpReply): boolean {
	return reply.enhanced === '5.5.3' || (reply.code === 552 && /too many recipients/i.test(reply.text));
}

const statedClock = /\b(?:in|after)\s{1,3}(\d\d):(\d\d):(\d\d)\b/i;
const statedWait = /\b(?:in|for|after|wait|least)\s{1,3}(\d{1,5})\s{0,3}(s|m|h)(?:ec|in|our|\b)/i;

/** Returns the clamped wait that a server states (`try again in 300 seconds`, `in 00:05:00`), or `null`. */
export function statedWaitMs(text: string): number | null {
	const waitMs = parseWaitMs(text);
	return waitMs === null ? null : Math.min(Math.max(waitMs, minStatedWaitMs), maxStatedWaitMs);
}

function parseWaitMs(text: string): number | null {
	const clock = statedClock.exec(text);
	if (clock !== null) {
		const [hours = 0, minutes = 0, seconds = 0] = clock.slice(1).map(Number);
		return ((hours * 60 + minutes) * 60 + seconds) * 1000;
	}
	const [, amount, unit = ''] = statedWait.exec(text) ?? [];
	return amount === undefined ? null : Number(amount) * ({s: 1000, h: 60 * minute}[unit.toLowerCase()] ?? minute);
}

/** Returns the code and text as one line. */
export function toReason(reply: SmtpReply): string {
	return `${reply.code} ${reply.text}`.replaceAll('\n', ' ');
}
