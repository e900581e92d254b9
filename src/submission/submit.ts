import type {Knex} from 'knex';
import type {Accepted, Send} from '../accept/draft.ts';
import type {Accept} from '../accept/send.ts';
import type {Caller} from '../api/caller.ts';
import {inSlice} from '../api/turns.ts';
import {isLooping} from '../inbound/receive-mail.ts';
import {type Address, parseAddress} from '../mail/address.ts';
import type {ApiErrorCode} from '../mail/api-error.ts';
import {submittedFile} from '../mail/message.ts';
import {suppresses} from '../mail/suppression.ts';
import {readAddressees} from '../store/topics.ts';
import {readSubmitted} from './submitted-mail.ts';

/** An answer to a client: a code, and a text that begins with the enhanced code. */
type Reply = {readonly code: number; readonly text: string};

/** Why something is refused: a word for metrics and the log. */
export type RefusalReason =
	| ('key' | 'key_scope' | 'too_many_failures')
	| ('too_many_sessions' | 'session_over')
	| ('paused' | 'rate_limit' | 'quota')
	| ('address' | 'suppressed' | 'unsubscribed')
	| ('sender' | 'topic' | 'malformed' | 'looping' | 'too_large')
	| ('no_room' | 'no_disk' | 'store');

export type Refusal = Reply & {readonly reason: RefusalReason};

/** A mail as it came. */
type Incoming = {
	readonly caller: Caller;
	readonly recipients: readonly Address[];
	readonly raw: Buffer;
	/** Our Received field. */
	readonly trace: string;
};

export type Submitted = Reply & {
	/** Null: it was accepted, for some recipients at least. */
	readonly reason: RefusalReason | null;
	/** The messages that it became, in the order of its recipients. */
	readonly ids: readonly string[];
	/** Recipients that it was not accepted for, though it was for others. */
	readonly left: ReadonlyArray<{readonly recipient: string; readonly reason: string}>;
	/** Why, of each of those. */
	readonly leftFor: readonly RefusalReason[];
};

type SubmissionOptions = {
	/** The caller that a key belongs to; null if the key is not valid. */
	readonly identify: (key: string) => Promise<Caller | null>;
	/** Counts a wrong key of a client; null if it may go on trying. */
	readonly countFailure: (client: string) => number | null;
	readonly accept: Accept;
	readonly reader: Knex;
	/** The id of the workspace's template `submission`, made if it is missing. */
	readonly templateOf: (workspaceId: string) => Promise<string>;
	/** Takes one send of the key's rate limit; false if none is left. */
	readonly takeRate: (caller: Caller) => Promise<boolean>;
	/** False while outcomes cannot be stored, or the daemon stops. */
	readonly mayAccept: () => boolean;
};

type LoggedIn = {readonly ok: true; readonly caller: Caller} | ({readonly ok: false} & Refusal);

/** One mail for many recipients is stored for each of them: together no more than a batch of sends. */
const mostStored = 32 * 1024 * 1024;
const longestReply = 480;
/** Octets of a mail that takes long to read: other work gets its turn between two of them. */
const large = 32 * 1024;

const notNow: Refusal = {code: 451, text: '4.3.0 The mail cannot be stored now, try again later', reason: 'store'};
const wrongKey: Refusal = {code: 535, text: '5.7.8 The password must be an API key', reason: 'key'};
const tooManyFailures: Refusal = {
	code: 454,
	text: '4.7.0 Too many wrong keys came from this address, try again later',
	reason: 'too_many_failures',
};
const noScope: Refusal = {
	code: 535,
	text: '5.7.1 The key lacks the scope messages:submit: mailctl key create --name NAME --scope messages:submit',
	reason: 'key_scope',
};
const paused: Refusal = {code: 451, text: '4.7.1 Sending is paused for this workspace', reason: 'paused'};
const suppressed = ({wire}: Address): Refusal =>
	refusing('suppressed', 550, `5.7.1 ${wire} is on the suppression list`);

function refusing(reason: RefusalReason, code: number, text: string): Refusal {
	return {code, text, reason};
}

/** Accepts mail that programs submit: each recipient gets a message of its own, by the same checks as a send. */
export class Submission {
	readonly #options: SubmissionOptions;

	constructor(options: SubmissionOptions) {
		this.#options = options;
	}

	/** The password is the key; any user name does. */
	async logIn(password: string, client: string): Promise<LoggedIn> {
		const caller = await this.#options.identify(password);
		if (caller === null) {
			return {ok: false, ...(this.#options.countFailure(client) === null ? wrongKey : tooManyFailures)};
		}
		return caller.scopes.includes('messages:submit') ? {ok: true, caller} : {ok: false, ...noScope};
	}

	/** Why the caller may submit nothing now; null: it may. */
	async refuse({workspaceId}: Caller): Promise<Refusal | null> {
		if (!this.#options.mayAccept()) {
			return notNow;
		}
		return (await this.#options.accept.isPaused(workspaceId)) ? paused : null;
	}

	/** Reads a recipient and looks whether it may be mailed. */
	async judge(
		caller: Caller,
		text: string,
	): Promise<{readonly ok: true; readonly address: Address} | ({readonly ok: false} & Refusal)> {
		const parsed = parseAddress(text, {utf8Local: false});
		if (!parsed.ok) {
			return {ok: false, ...refusing('address', 553, `5.1.3 The address ${parsed.fault}`)};
		}
		if (!(await this.#options.takeRate(caller))) {
			return {ok: false, ...refusing('rate_limit', 451, '4.7.1 Too many sends with this key, try again later')};
		}
		const {address} = parsed;
		const [entry] = (await readAddressees(this.#options.reader, [[caller.workspaceId, address.key]])).values();
		return suppresses(entry?.suppressed ?? undefined, caller.mode)
			? {ok: false, ...suppressed(address)}
			: {ok: true, address};
	}

	/** Resolves when the messages are on stable storage, or nothing is. */
	async submit({caller, recipients, raw, trace}: Incoming): Promise<Submitted> {
		if (isLooping(raw, [])) {
			return none(refusing('looping', 554, '5.4.6 The mail goes round in circles'));
		}
		const read = raw.length > large ? await inSlice(() => readSubmitted(raw, trace)) : readSubmitted(raw, trace);
		if (!read.ok) {
			return none(refusing('malformed', 550, `5.6.0 The mail is refused: ${read.fault}`));
		}
		const {mail} = read;
		if (mail.source.length * recipients.length > mostStored) {
			const text = '5.3.4 The mail is too large for so many recipients: send it to fewer at once';
			return none(refusing('too_large', 552, text));
		}
		const templateId = await this.#options.templateOf(caller.workspaceId);
		const attachments = [submittedFile(mail.messageId, mail.source)];
		const {workspaceId, mode} = caller;
		const {from, replyTo, topicCode} = mail;
		const common = {workspaceId, mode, from, replyTo, templateId, topicCode, attachments};
		const sends = recipients.map(
			(to): Send => ({
				...common,
				to,
				cc: [],
				data: null,
				metadata: jsonOrNull(mail.metadata),
				tags: jsonOrNull(mail.tags),
				locale: null,
				timezone: null,
				tracking: null,
				resentFrom: null,
			}),
		);
		return submittedAs(sends, await this.#options.accept.batch(sends));
	}
}

const jsonOrNull = (value: object): string | null => (Object.keys(value).length === 0 ? null : JSON.stringify(value));

/** All that was refused, or what was accepted and who was left out: SMTP has one reply for both. */
function submittedAs(sends: readonly Send[], results: readonly Accepted[]): Submitted {
	const ids = results.flatMap(result => (result.ok ? [result.id] : []));
	const refused = sends.flatMap((send, index) => {
		const result = results[index] as Accepted;
		return result.ok ? [] : [{recipient: send.to.wire, reply: refusal(result.code, send)}];
	});
	const [first] = refused;
	if (ids.length === 0 && first) {
		return none(first.reply);
	}
	const left = refused.map(({recipient, reply}) => ({recipient, reason: reply.text}));
	const more = ids.length > 1 ? ` and ${ids.length - 1} more` : '';
	const but = first ? `; not sent to ${refused.length}: ${first.reply.text}` : '';
	const text = `2.0.0 Ok ${ids[0]}${more}${but}`.slice(0, longestReply);
	return {code: 250, text, reason: null, ids, left, leftFor: refused.map(({reply}) => reply.reason)};
}

function refusal(code: ApiErrorCode, {from, to, topicCode}: Send): Refusal {
	switch (code) {
		case 'sending_paused':
			return paused;
		case 'sender_not_available':
			return refusing('sender', 550, `5.7.1 ${from.wire} is not an active, verified sender of the key's workspace`);
		case 'recipient_suppressed':
			return suppressed(to);
		case 'recipient_unsubscribed':
			return refusing('unsubscribed', 550, `5.7.1 ${to.wire} has unsubscribed from the topic ${topicCode}`);
		case 'unknown_unsubscribe_group':
			return refusing('topic', 550, '5.7.1 X-Mailctl-Topic names no topic of the workspace');
		case 'quota_exceeded':
			return refusing('quota', 452, '4.7.1 The monthly quota of the workspace is used up');
		default:
			return notNow;
	}
}

const none = (refusal: Refusal): Submitted => ({...refusal, ids: [], left: [], leftFor: []});
