import {dayMs} from '../kit/time.ts';
import type {BounceCategory} from './outcome.ts';

/** What a mail that came back is. `other`: nothing that is read. */
export type ReportKind = 'dsn' | 'text' | 'arf' | 'auto_reply' | 'other';

/** What a report says happened: RFC 3464's actions, and what feedback reports ask for. */
export type ReportAction =
	| 'failed'
	| 'delayed'
	| 'delivered'
	| 'relayed'
	| 'expanded'
	| 'complaint'
	| 'unsubscribe'
	| 'none';

/** What a mail says of one recipient. */
export type Report = {
	/** The address it names (Final-Recipient, Original-Rcpt-To, or from the text), null where it is hidden. */
	readonly recipient: string | null;
	/** The address that the mail was sent to, where the report tells another than `recipient`. */
	readonly originalRecipient: string | null;
	readonly action: ReportAction;
	/** RFC 3463, by whom it was said best; null: nobody did. */
	readonly status: string | null;
	/** The reply code of the host that refused. */
	readonly code: number | null;
	/** The host that refused. */
	readonly host: string | null;
	readonly type: 'permanent' | 'transient' | 'none';
	/** Null where nothing was refused. */
	readonly category: BounceCategory | null;
	readonly suppresses: boolean;
	/** The rule that decided, and the text or code that it matched on. */
	readonly rule: string | null;
	readonly matched: string | null;
	/** What the host or the reporter said, made safe to store and to print, at most 1,024 characters. */
	readonly reason: string;
	/** ARF's Feedback-Type, in lower case. */
	readonly feedbackType: string | null;
};

/** Tokens and ids that may lead to the mail that a report is about. They prove nothing before their MAC does. */
export type Clues = {
	/** Addresses to which the report came, of its trace and `To` fields. */
	readonly addressees: readonly string[];
	/** Original-Envelope-Id of DSNs. */
	readonly envelopeIds: readonly string[];
	/** X-Mailctl-Ref of the returned mail. */
	readonly refs: readonly string[];
	/** Message-IDs without angle brackets: of the returned mail, of In-Reply-To, of References. */
	readonly messageIds: readonly string[];
	/** Return paths that stand in it: Original-Mail-From, the returned mail's Return-Path. */
	readonly returnPaths: readonly string[];
	/** Addresses of the returned mail's List-Unsubscribe. */
	readonly unsubscribeAddresses: readonly string[];
};

/** A mail that came back, as it was read. */
export type Reading = {
	readonly kind: ReportKind;
	readonly reports: readonly Report[];
	readonly clues: Clues;
	/** Why a mail could not be read whole, for the review list: `too many parts`. Null: it was. */
	readonly fault: string | null;
	/** Somebody attached it to a mail of his own: to whom that mail came says nothing of the report. */
	readonly forwarded?: true;
};

/** Where a mail came in. */
export type InboundSource = 'smtp' | 'imap' | 'maildir' | 'mbox' | 'file' | 'stdin';

/** Why a mail that came in is kept: it proves to be about no copy of ours, could not be read whole, is for the operator. */
export type Kept = 'unmatched' | 'unread' | 'operator';

/** A mail that came in and was stored, without its bytes. */
export type CameIn = {
	/** Its row's key. */
	readonly id: string;
	/** SHA-256 of its bytes, in hex: the same report may come by several ways. */
	readonly digest: string;
	readonly source: InboundSource;
	readonly mailFrom: string | null;
	/** The addresses that it was for in its envelope; none where it lay in a mailbox or a file. */
	readonly rcptTo: readonly string[];
	/** In the store's form. */
	readonly receivedAt: string;
};

/** How many mails that came in and could not be used are kept for review, and how many octets of them; the oldest go first. */
export const keptCaps = {mails: 10_000, bytes: 1024 ** 3} as const;

/** Octets of such a mail that are kept: its beginning says what it is. */
export const keptLength = 256 * 1024;

/**
 * How a mail that came in leads to one of ours, in the order in which ways count (R3.14, R3.19): the first whose
 * token proves itself wins.
 */
const vias = [
	/** It came to the unsubscribe address of a copy, and asks for nothing else than that. */
	'unsubscribe_mail',
	/** It came to the return path of a copy. */
	'return_path',
	/** It lay in a mailbox, and names a return path as whom it was for. */
	'addressee',
	/** A return path stands in it: as what the report says our envelope's sender was. */
	'mail_from',
	/** Original-Envelope-Id. */
	'envelope_id',
	/** X-Mailctl-Ref of the returned mail. */
	'ref',
	/** A Message-ID of ours: it leads to a message, not to a copy. */
	'message_id',
	/** The unsubscribe address of a copy stands in it, or it came there and asks for something else. */
	'unsubscribe_address',
	/** Without a token: the address, from a reporter that the operator trusts and whose signature is right. */
	'reporter',
] as const;
export type Via = (typeof vias)[number];

/** Whose mail it may be that came in. */
export type Candidate = {
	readonly via: Via;
	/** `rcp_…`: a copy; `msg_…`: a message. */
	readonly id: string;
	/** Whether we made the token for this id and address. The address comes from the id's row, never from outside. */
	readonly verify: (address: string) => boolean;
};

/** Where messages are kept for ever. */
const longestDays = 400;

/** How long the tokens of copies count for reports, milliseconds: as long as messages are kept (MAILCTL_RETENTION_DAYS, 0: for ever). */
export function reportTokenMs(retentionDays: number): number {
	return (retentionDays || longestDays) * dayMs;
}
