import {type Classify, suppresses} from '../mail/bounce.ts';
import type {BounceCategory, Outcome, Phase, TlsFailure} from '../mail/outcome.ts';
import {type SmtpReply, smtpReply} from '../mail/outcome.ts';
import type {RawReply} from './dialogue.ts';
import {asksForTls} from './host.ts';
import type {Answer, Lost} from './smtp-connection.ts';

/** Where a conversation ended short of acceptance, and by what. `verdict` says what follows. */
export type Stop =
	/** By a reply of the server. */
	| {readonly by: 'reply'; readonly phase: Phase; readonly reply: SmtpReply}
	/** By a connection that could not be made, broke, or took too long. */
	| {
			readonly by: 'loss';
			readonly phase: Phase;
			readonly text: string;
			readonly errno?: string;
			readonly cause?: Lost['cause'];
	  }
	/** By a TLS handshake that failed, or TLS that was demanded and not offered. */
	| {
			readonly by: 'tls';
			readonly phase: 'starttls';
			readonly text: string;
			readonly failure: TlsFailure;
			readonly errno?: string | undefined;
	  }
	/** By us: the message is larger than the host says it takes. */
	| {readonly by: 'size'; readonly phase: 'ehlo'; readonly text: string}
	/** By us: an address needs SMTPUTF8, the host does not offer it. */
	| {readonly by: 'utf8'; readonly phase: 'ehlo'; readonly text: string}
	/** By us: no authentication mechanism keeps the password safe. */
	| {readonly by: 'login'; readonly phase: 'auth'; readonly text: string};

/** The stop that an unwelcome answer makes. */
export function stopped(phase: Phase, answer: Answer): Stop {
	if ('lost' in answer) {
		const {lost: text, errno, cause} = answer;
		return {
			by: 'loss',
			phase,
			text,
			...(errno === undefined ? {} : {errno}),
			...(cause === undefined ? {} : {cause}),
		};
	}
	return {by: 'reply', phase, reply: readable(answer)};
}

export function readable(reply: RawReply): SmtpReply {
	return smtpReply(reply.code, reply.lines);
}

export type HostVerdict = {
	/** What stands when no other host is left, or at once. */
	readonly outcome: Outcome;
	/**
	 * `host`: the next one may take it. `plainHelo`: the same one, once more, with HELO and no extensions. `none`:
	 * final.
	 */
	readonly next: 'host' | 'plainHelo' | 'none';
};

/** Where the stop happened and what was used. */
type Circumstances = {
	readonly host: string;
	/** The host is a smarthost of ours, its refusals of us are our configuration's fault. */
	readonly relay: boolean;
	/** The session was in plain text because STARTTLS had failed. */
	readonly tlsFailed: boolean;
	/** HELO without extensions was tried already. */
	readonly plainHelo: boolean;
	readonly classify: Classify;
};

const minute = 60_000;
/** RFC 1047: the host may have taken the mail. A retry at once would make two of it. */
const ambiguousWaitMs = 5 * minute;
const minStatedWaitMs = minute;
const maxStatedWaitMs = 60 * minute;

/** The server does not know a command or a parameter (RFC 5321 §4.2.3). */
export const misunderstood: ReadonlySet<number> = new Set([500, 501, 502, 503, 504, 555]);
const notLoggedIn: ReadonlySet<number> = new Set([530, 534, 535, 538]);

/** What follows from where a conversation ended (RFC 5321 §4.2.1; a host's refusal of us is never the recipient's). */
export function verdict(stop: Stop, circumstances: Circumstances): HostVerdict {
	const {relay} = circumstances;
	switch (stop.by) {
		case 'loss':
			return stop.phase === 'dot'
				? {
						next: 'none',
						outcome: {
							kind: 'deferred',
							category: 'network',
							reason: `possible duplicate, no answer to the data: ${stop.text}`,
							waitMs: ambiguousWaitMs,
						},
					}
				: nextHost('network', stop.text);
		case 'tls':
			return nextHost(relay ? 'config' : stop.failure === 'validation-failure' ? 'network' : 'policy', stop.text);
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
	const {host, relay, tlsFailed, plainHelo, classify} = circumstances;
	const reason = reasonOf(reply);
	const {category} = classify({phase, ...reply, status: null, host});
	if (relay && isLoginFault(reply, phase)) {
		return nextHost('config', reason);
	}
	if (phase !== 'mail' && phase !== 'rcpt' && phase !== 'data' && phase !== 'dot') {
		const ours = relay && phase === 'greeting' && reply.code >= 500;
		return nextHost(ours ? 'config' : category === 'undetermined' ? 'network' : category, reason);
	}
	if (reply.code < 400) {
		return nextHost('protocol', `an answer out of place: ${reason}`);
	}
	if (reply.code < 500 || isTooManyRecipients(reply)) {
		return deferral(category, reason, reply);
	}
	if (tlsFailed && asksForTls(reply)) {
		return nextHost('policy', reason); // It insists on the TLS that could not be had.
	}
	if (misunderstood.has(reply.code)) {
		return {next: plainHelo ? 'none' : 'plainHelo', outcome: refusal('protocol', reason)};
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

/** Whether a smarthost refused us for the lack of a login that it accepts. */
export function isLoginStop(stop: Stop): boolean {
	return stop.by === 'login' || (stop.by === 'reply' && isLoginFault(stop.reply, stop.phase));
}

/** RFC 4954 §6; 454 is a server that cannot check the password now. */
function isLoginFault(reply: SmtpReply, phase: Phase): boolean {
	return (
		phase === 'auth' ||
		notLoggedIn.has(reply.code) ||
		(reply.code === 454 && (phase === 'mail' || reply.enhanced === '4.7.0')) ||
		(reply.enhanced === '5.7.0' && /\bauth|credential|log ?in/i.test(reply.text))
	);
}

/** RFC 5321 §4.5.3.1.10: to be read as 452, for either first digit. */
function isTooManyRecipients(reply: SmtpReply): boolean {
	return reply.enhanced === '5.5.3' || (reply.code === 552 && /too many recipients/i.test(reply.text));
}

const statedClock = /\b(?:in|after)\s{1,3}(\d\d):(\d\d):(\d\d)\b/i;
const statedWait = /\b(?:in|for|after|wait|least)\s{1,3}(\d{1,5})\s{0,3}(s|m|h)(?:ec|in|our|\b)/i;

/** The wait that a greylisting server names (`try again in 300 seconds`, `in 00:05:00`), within bounds, or null. */
export function statedWaitMs(text: string): number | null {
	const stated = namedWaitMs(text);
	return stated === null ? null : Math.min(Math.max(stated, minStatedWaitMs), maxStatedWaitMs);
}

function namedWaitMs(text: string): number | null {
	const clock = statedClock.exec(text);
	if (clock !== null) {
		const [hours = 0, minutes = 0, seconds = 0] = clock.slice(1).map(Number);
		return ((hours * 60 + minutes) * 60 + seconds) * 1000;
	}
	const [, amount, unit = ''] = statedWait.exec(text) ?? [];
	return amount === undefined ? null : Number(amount) * ({s: 1000, h: 60 * minute}[unit.toLowerCase()] ?? minute);
}

/** One line for people: code and text. */
export function reasonOf(reply: SmtpReply): string {
	return `${reply.code} ${reply.text}`.replaceAll('\n', ' ');
}
