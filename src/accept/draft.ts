import type {Address} from '../mail/address.ts';
import type {ApiErrorCode} from '../mail/api-error.ts';
import type {Attachment, Mode} from '../mail/message.ts';
import type {Operator} from '../mail/operator.ts';

/** A valid send: texts are parsed, absent fields are null. JSON is text already. */
export type Send = {
	readonly workspaceId: string;
	readonly mode: Mode;
	readonly from: Address;
	readonly to: Address;
	/** Without duplicates and without `to`. */
	readonly cc: readonly Address[];
	readonly replyTo: Address | null;
	readonly templateId: string;
	readonly data: string | null;
	readonly metadata: string | null;
	readonly tags: string | null;
	readonly topicCode: string | null;
	readonly locale: string | null;
	readonly timezone: string | null;
	readonly tracking: string | null;
	readonly attachments: readonly Attachment[];
	/** The message that this one repeats; null: it repeats none. */
	readonly resentFrom: string | null;
	/** The dashboard user who sends it, for the audit trail; absent: a program; its messages are the record. */
	readonly by?: Operator;
};

/** An Idempotency-Key, with the fingerprint of its send. */
export type Idempotency = {readonly key: string; readonly fingerprint: string};

/** A send that passed every check that needs no transaction. */
export type Draft = {
	readonly send: Send;
	readonly idempotency: Idempotency | null;
	/** The newest version of the template, which this message keeps after later saves. */
	readonly versionId: string;
	/** Null: no topic was named, or none has the code. */
	readonly topicId: string | null;
	/** How many messages the workspace may send in a month; null: any number. */
	readonly quota: number | null;
};

/** The result of a send. */
export type Accepted =
	| {
			readonly ok: true;
			readonly id: string;
			/** The body of the answer, byte for byte: what an Idempotency-Key repeats. */
			readonly body: string;
			/** The message is that of an earlier send with the same Idempotency-Key. */
			readonly replayed: boolean;
	  }
	| Refused;

export type Refused = {
	readonly ok: false;
	readonly code: ApiErrorCode;
	/** The month's quota that is used up, and when that month ends (milliseconds since the epoch). */
	readonly quota?: {readonly limit: number; readonly endsAt: number};
};

export function refused(code: ApiErrorCode): Refused {
	return {ok: false, code};
}

export function accepted(id: string): Accepted {
	return {ok: true, id, body: JSON.stringify({id, status: 'accepted'}), replayed: false};
}

/** What a further send with an Idempotency-Key is answered. */
export function replayOf({id, body}: {readonly id: string; readonly body: string}, isSame: boolean): Accepted {
	return isSame ? {ok: true, id, body, replayed: true} : refused('idempotency_key_reused');
}
