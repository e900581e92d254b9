import type {Address} from '../mail/address.ts';
import type {Attachment, Mode} from '../mail/message.ts';
import type {Idempotency} from './idempotency.ts';

/** A send whose shape is right: what was text is read, what was left out is null. JSON is text already. */
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
};

/** A send that passed every check that needs no transaction. */
export type Draft = {
	readonly send: Send;
	readonly idempotency: Idempotency | null;
	/** The newest version of the template, which this message keeps whatever is saved later. */
	readonly versionId: string;
	/** Null: none was named, or there is none with the code. */
	readonly topicId: string | null;
	/** How many messages the workspace may send in a month; null: any number. */
	readonly quota: number | null;
};
