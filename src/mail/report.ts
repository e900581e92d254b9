import {dayMs} from '../kit/time.ts';
import type {Answers} from '../net/dns.ts';
import type {AggregateReport} from './aggregate.ts';
import type {BounceCategory} from './outcome.ts';
import type {ReadLetter, Verdicts} from './received.ts';

/**
 * What came back: a kind of mail, or an event that a provider posted. `dmarc`, `tls`: aggregate reports. `other`:
 * nothing that is read.
 */
export type ReportKind = 'dsn' | 'text' | 'arf' | 'auto_reply' | 'provider' | 'dmarc' | 'tls' | 'other';

/** What a report says happened: RFC 3464's actions, what feedback reports ask for, and what providers track. */
export type ReportAction =
	| 'failed'
	| 'delayed'
	| 'delivered'
	| 'relayed'
	| 'expanded'
	| 'complaint'
	| 'unsubscribe'
	| 'opened'
	| 'clicked'
	| 'none';

/** What a mail says of one recipient. */
export type Report = {
	/** The address it names (Final-Recipient, Original-Rcpt-To, or from the text), null where it is hidden. */
	readonly recipient: string | null;
	/** The address that the mail was sent to, if the report has another one than `recipient`. */
	readonly originalRecipient: string | null;
	readonly action: ReportAction;
	/** RFC 3463, from the most specific source; null if absent. */
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
	/**
	 * What the host or the reporter said, made safe to store and to print, at most 1,024 characters; of a click its
	 * whole URL.
	 */
	readonly reason: string;
	/** ARF's Feedback-Type, in lower case. */
	readonly feedbackType: string | null;
};

/** The judgement of a report that refuses nothing. */
export const notRefused = {type: 'none', category: null, suppresses: false, rule: null, matched: null} as const;

/** Tokens and ids that may identify the mail that a report is about. They prove nothing until their MAC is checked. */
export type Clues = {
	/** Addresses to which the report came, of its trace and `To` fields. */
	readonly addressees: readonly string[];
	/** Original-Envelope-Id of DSNs. */
	readonly envelopeIds: readonly string[];
	/** X-Mailctl-Ref of the returned mail. */
	readonly refs: readonly string[];
	/** Message-IDs without angle brackets: of the returned mail, of In-Reply-To, of References. */
	readonly messageIds: readonly string[];
	/** Return paths in the report: Original-Mail-From, the returned mail's Return-Path. */
	readonly returnPaths: readonly string[];
	/** Addresses of the returned mail's List-Unsubscribe. */
	readonly unsubscribeAddresses: readonly string[];
	/** What a provider answered to the mail's data; only its own events have them. */
	readonly providerIds?: readonly string[];
};

/** Who brought a mail: what SPF judges. */
export type Envelope = Pick<CameIn, 'client' | 'helo' | 'mailFrom'>;

/** A mail that came in, as it is given to who reads it. */
export type InboundMail = {
	readonly raw: Uint8Array;
	/** Who brought a mail that may be for people, which is read as a letter too; null: it is for us alone. */
	readonly envelope: Envelope | null;
	/** What DNS said of those it names; null: nothing was asked, as nothing of it depends on who sent it. */
	readonly answers: Answers | null;
};

/** A mail that came back, as it was read. */
export type Reading = {
	readonly kind: ReportKind;
	readonly reports: readonly Report[];
	readonly clues: Clues;
	/** Why a mail could not be read whole, for the review list: `too many parts`. Null: it was. */
	readonly fault: string | null;
	/** A person attached it to a mail of their own: the addressees of that mail are unrelated to the report. */
	readonly forwarded?: true;
	/** Of `dmarc` and `tls`, if it could be read. */
	readonly aggregate?: AggregateReport;
	/** What it says to people; only of a mail that may be for some. */
	readonly letter?: ReadLetter;
	/** Who it is from, as far as that can be known; where there is a letter. */
	readonly verdicts?: Verdicts;
	/** Domains whose signature of it is valid, of a kind of report that counts by who signed it. */
	readonly signers?: readonly string[];
	/** Of a provider's event: it is only about mail of this workspace; null or absent: of any. */
	readonly workspace?: string | null;
};

/** Where a mail came in. */
export type InboundSource = 'smtp' | 'imap' | 'maildir' | 'mbox' | 'file' | 'stdin' | 'provider';

/**
 * Which mails are read first: those whose recipients a token of ours proves, then what answers a message of ours or
 * comes from where we look ourselves, then what anybody may send.
 */
export const precedence = {proven: 0, expected: 1, unproven: 2} as const;

/** When a mail is read: after those of lower precedence; within one, each turn gets as much as any other. */
export type ReadingTurn = {
	readonly precedence: (typeof precedence)[keyof typeof precedence];
	/** The workspace that it is for, or what of ours. Not empty. */
	readonly turn: string;
};

/** Why a received mail is kept: it is about no recipient of ours, could not be read whole, or is for the operator. */
export type Kept = 'unmatched' | 'unread' | 'operator';

/** A mail that came in and was stored, without its bytes. */
export type CameIn = {
	/** Its row's key. */
	readonly id: string;
	/** SHA-256 of its bytes, in hex: the same report may be received several times. */
	readonly digest: string;
	readonly source: InboundSource;
	readonly mailFrom: string | null;
	/** The addresses that it was for in its envelope; none where it lay in a mailbox or a file. */
	readonly rcptTo: readonly string[];
	/** The address that brought it by SMTP, and what it called itself; absent or null: it came otherwise. */
	readonly client?: string | null;
	readonly helo?: string | null;
	/** In the store's form. */
	readonly receivedAt: string;
};

/**
 * How many mails that came in and could not be used are kept for review, and how many octets of them; the oldest go
 * first.
 */
export const keptCaps = {mails: 10_000, bytes: 1024 ** 3} as const;

/** Octets of such a mail that are kept: its beginning says what it is. */
export const keptLength = 256 * 1024;

/**
 * How a received mail identifies one of ours, in order of priority (R3.14, R3.19): the first with a valid token wins.
 */
const vias = [
	/** It was sent to a recipient's unsubscribe address, and asks for nothing else. */
	'unsubscribe_mail',
	/** It was sent to a recipient's return path. */
	'return_path',
	/** It lay in a mailbox, and names a return path as whom it was for. */
	'addressee',
	/** It names a return path as the sender of our envelope. */
	'mail_from',
	/** Original-Envelope-Id. */
	'envelope_id',
	/** X-Mailctl-Ref of the returned mail. */
	'ref',
	/** A Message-ID of ours: it identifies a message, not a recipient. */
	'message_id',
	/** A provider's own event names what it answered to our mail. */
	'provider_id',
	/** It contains a recipient's unsubscribe address, or was sent there and asks for something else. */
	'unsubscribe_address',
	/** Without a token: the address, from a reporter that the operator trusts, with a valid signature. */
	'reporter',
] as const;
export type Via = (typeof vias)[number];

/** What a received mail may be about. */
export type Candidate = {
	readonly via: Via;
	/** `rcp_…`: a recipient; `msg_…`: a message. */
	readonly id: string;
	/** Whether we made the token for this id and address. The address comes from the id's row, never from outside. */
	readonly verify: (address: string) => boolean;
};

/** Where messages are kept for ever. */
const maxDays = 400;

/**
 * How long recipients' tokens are valid for reports, milliseconds: as long as messages are kept
 * (MAILCTL_RETENTION_DAYS, 0: without end).
 */
export function reportTokenMs(retentionDays: number): number {
	return (retentionDays || maxDays) * dayMs;
}
