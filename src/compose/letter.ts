import type {Pieces} from '../kit/text.ts';
import type {Attachment} from '../mail/message.ts';

/** The rendered mail of one recipient. Addresses are validated, bare addr-specs. */
export type Letter = {
	/** Without the angle brackets. The same for every recipient and every try. */
	readonly messageIdHeader: string;
	/** Milliseconds since the epoch. The same at every try. */
	readonly date: number;
	readonly from: {readonly address: string; readonly name: string | null};
	readonly to: string;
	readonly cc: readonly string[];
	readonly replyTo: string | null;
	readonly subject: string;
	readonly html: string | Pieces;
	readonly text: string | Pieces | null;
	readonly attachments: readonly Attachment[];
	/** `url` acts on a POST (RFC 8058); `mailto` is the address that unsubscribes by mail, without the scheme. */
	readonly listUnsubscribe: {readonly url: string; readonly mailto: string | null};
	/** This recipient's token: the value of X-Mailctl-Ref, and the source of the boundaries. */
	readonly ref: string;
	/** The whole value of Feedback-ID (R3.20). */
	readonly feedbackId: string | null;
	/** Where a receiver may send complaints of this mail; null: nowhere. Its domain fits the signatures (RFC 9477 §3.1). */
	readonly cfblAddress: string | null;
};
