import type {Knex} from 'knex';
import type {Accepted, Send} from '../accept/draft.ts';
import type {Accept} from '../accept/send.ts';
import type {Caller} from '../api/caller.ts';
import {isLooping} from '../inbound/receive-mail.ts';
import {type Address, parseAddress} from '../mail/address.ts';
import type {ApiErrorCode} from '../mail/api-error.ts';
import {submittedFile} from '../mail/message.ts';
import {suppresses} from '../mail/suppression.ts';
import {readAddressees} from '../store/contacts.ts';
import {readSubmitted} from './header.ts';

/** What a client is told: a code, and a text that begins with the enhanced code. */
export type Reply = {readonly code: number; readonly text: string};

/** A mail as it came. */
export type Submission = {
	readonly caller: Caller;
	readonly recipients: readonly Address[];
	readonly raw: Buffer;
	/** Our Received field. */
	readonly trace: string;
};

export type Submitted = Reply & {
	/** The messages that it became, in the order of its recipients. */
	readonly ids: readonly string[];
	/** Recipients that it was not accepted for, though it was for others. */
	readonly left: ReadonlyArray<{readonly recipient: string; readonly reason: string}>;
};

export type SubmitOptions = {
	readonly accept: Accept;
	readonly reader: Knex;
	/** The id of the workspace's template `submission`, made if it is missing. */
	readonly templateOf: (workspaceId: string) => Promise<string>;
	/** Takes one send of the key's rate limit; false: none is left. */
	readonly takeRate: (caller: Caller) => boolean;
	/** False while outcomes cannot be stored, or the daemon stops. */
	readonly mayAccept: () => boolean;
};

/** One mail for many recipients is stored for each of them: together no more than a batch of sends. */
const mostStored = 32 * 1024 * 1024;
const longestReply = 480;

const notNow: Reply = {code: 451, text: '4.3.0 The mail cannot be stored now, try again later'};
const paused: Reply = {code: 451, text: '4.7.1 Sending is paused for this workspace'};
const suppressed = ({wire}: Address): Reply => ({code: 550, text: `5.7.1 ${wire} is on the suppression list`});

/** Takes mail in that programs submit: each recipient's copy is a message of its own, by the same checks as a send. */
export function createSubmit({accept, reader, templateOf, takeRate, mayAccept}: SubmitOptions) {
	return {
		/** Why the caller may submit nothing now; null: it may. */
		async refuse({workspaceId}: Caller): Promise<Reply | null> {
			if (!mayAccept()) {
				return notNow;
			}
			return (await accept.isPaused(workspaceId)) ? paused : null;
		},

		/** Reads a recipient and looks whether it may be mailed. */
		async judge(
			caller: Caller,
			text: string,
		): Promise<{readonly ok: true; readonly address: Address} | ({readonly ok: false} & Reply)> {
			const parsed = parseAddress(text, {utf8Local: false});
			if (!parsed.ok) {
				return {ok: false, code: 553, text: `5.1.3 The address ${parsed.fault}`};
			}
			if (!takeRate(caller)) {
				return {ok: false, code: 451, text: '4.7.1 Too many sends with this key, try again later'};
			}
			const {address} = parsed;
			const [entry] = (await readAddressees(reader, [[caller.workspaceId, address.key]])).values();
			return suppresses(entry?.suppressed ?? undefined, caller.mode)
				? {ok: false, ...suppressed(address)}
				: {ok: true, address};
		},

		/** Resolves when the messages are on stable storage, or nothing is. */
		async submit({caller, recipients, raw, trace}: Submission): Promise<Submitted> {
			if (isLooping(raw, [])) {
				return none({code: 554, text: '5.4.6 The mail goes round in circles'});
			}
			const read = readSubmitted(raw, trace);
			if (!read.ok) {
				return none({code: 550, text: `5.6.0 The mail is refused: ${read.fault}`});
			}
			const {mail} = read;
			if (mail.source.length * recipients.length > mostStored) {
				return none({code: 552, text: '5.3.4 The mail is too large for so many recipients: send it to fewer at once'});
			}
			const templateId = await templateOf(caller.workspaceId);
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
			return submittedAs(sends, await accept.batch(sends));
		},
	};
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
	return {code: 250, text: `2.0.0 Ok ${ids[0]}${more}${but}`.slice(0, longestReply), ids, left};
}

function refusal(code: ApiErrorCode, {from, to, topicCode}: Send): Reply {
	switch (code) {
		case 'sending_paused':
			return paused;
		case 'sender_not_available':
			return {code: 550, text: `5.7.1 ${from.wire} is not an active, verified sender of the key's workspace`};
		case 'recipient_suppressed':
			return suppressed(to);
		case 'recipient_unsubscribed':
			return {code: 550, text: `5.7.1 ${to.wire} has unsubscribed from the topic ${topicCode}`};
		case 'unknown_unsubscribe_group':
			return {code: 550, text: '5.7.1 X-Mailctl-Topic names no topic of the workspace'};
		case 'quota_exceeded':
			return {code: 452, text: '4.7.1 The monthly quota of the workspace is used up'};
		default:
			return notNow;
	}
}

const none = (reply: Reply): Submitted => ({...reply, ids: [], left: []});
