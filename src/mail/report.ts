import {dayMs} from '../kit/time.ts';
import type {DnsAnswers} from '../net/dns.ts';
import type {AggregateReport} from './aggregate.ts';
import type {BounceCategory} from './outcome.ts';
import type {ParsedMessage, Verdicts} from './received.ts';

/**
 * The kind of a report: what sort of message it is, or an event that a provider posted. `dmarc` and `tls` are aggregate
 * reports. `other` contains nothing to process.
 */
export type ReportKind = 'dsn' | 'text' | 'arf' | 'auto_reply' | 'provider' | 'dmarc' | 'tls' | 'other';

/** What a report states: an action of RFC 3464, a request in a feedback report, or a provider's tracking event. */
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

/** What a report says about one recipient. */
export type Report = {
	/** The address it names (Final-Recipient, Original-Rcpt-To, or in the text), or `null` if it is hidden. */
	readonly recipient: string | null;
	/** The address that the message was sent to, if the report states one other than `recipient`. */
	readonly originalRecipient: string | null;
	readonly action: ReportAction;
	/** The RFC 3463 status from the most specific source, or `null`. */
	readonly status: string | null;
	/** The reply code of the mail server that refused. */
	readonly code: number | null;
	/** The mail server that refused. */
	readonly host: string | null;
	readonly type: 'permanent' | 'transient' | 'none';
	/** `null` if nothing was refused. */
	readonly category: BounceCategory | null;
	readonly suppresses: boolean;
	/** The rule that decided, and the text or code that it matched. */
	readonly rule: string | null;
	readonly matched: string | null;
	/**
	 * The text of the server or reporter, safe to store and print, at most 1,024 characters. For a click, the whole
	 * URL.
	 */
	readonly reason: string;
	/** ARF's Feedback-Type in lower case. */
	readonly feedbackType: string | null;
};

/** The classification of a report that is not about a refusal. */
export const notRefused = {type: 'none', category: null, suppresses: false, rule: null, matched: null} as const;

/** Tokens and ids that may identify the message of a report. They prove nothing until their MAC is checked. */
export type Clues = {
	/** The addresses that received the report, from its trace and `To` fields. */
	readonly addressees: readonly string[];
	/** Original-Envelope-Id in DSNs. */
	readonly envelopeIds: readonly string[];
	/** X-Mailctl-Ref of the returned message. */
	readonly refs: readonly string[];
	/** Message-IDs without angle brackets: of the returned message, in In-Reply-To, in References. */
	readonly messageIds: readonly string[];
	/** Return paths in the report: Original-Mail-From, and Return-Path of the returned message. */
	readonly returnPaths: readonly string[];
	/** Addresses in the returned message's List-Unsubscribe. */
	readonly unsubscribeAddresses: readonly string[];
	/** Ids from the provider's reply to the message data. Only the provider's own events contain them. */
	readonly providerIds?: readonly string[];
};

/** The clues of a message that has none. */
export const noClues: Clues = {
	addressees: [],
	envelopeIds: [],
	refs: [],
	messageIds: [],
	returnPaths: [],
	unsubscribeAddresses: [],
};

/** The envelope of an incoming message, on which SPF is evaluated. */
export type Envelope = Pick<StoredInbound, 'client' | 'helo' | 'mailFrom'>;

/** An incoming message, as passed to a reader. */
export type InboundMail = {
	readonly raw: Uint8Array;
	/** The envelope, if the message may be for people and is also read as a letter; else `null`. */
	readonly envelope: Envelope | null;
	/** DNS answers about the names in it; `null` if nothing was looked up, as no result depends on the sender. */
	readonly answers: DnsAnswers | null;
};

/** An incoming message after reading. */
export type Reading = {
	readonly kind: ReportKind;
	readonly reports: readonly Report[];
	readonly clues: Clues;
	/** Why the message could not be read completely, such as `too many parts`, or `null`. */
	readonly fault: string | null;
	/** A person attached it to a message of their own, so that message's addressees are unrelated to the report. */
	readonly forwarded?: true;
	/** For `dmarc` and `tls`, if the report could be read. */
	readonly aggregate?: AggregateReport;
	/** The content for people, if the message may be for some. */
	readonly message?: ParsedMessage;
	/** The authentication results, if there is a letter. */
	readonly verdicts?: Verdicts;
	/** The domains with a valid signature, for kinds of reports where the signer matters. */
	readonly signers?: readonly string[];
	/** For a provider's event: it may only concern messages of this workspace. Any workspace if `null` or absent. */
	readonly workspace?: string | null;
};

/** How a message came in. */
export type InboundSource = 'smtp' | 'imap' | 'maildir' | 'mbox' | 'file' | 'stdin' | 'provider';

/**
 * The order in which incoming messages are read: first those with a valid token for a recipient, then replies to
 * messages and mailboxes that mailctl polls itself, then whatever anyone may send.
 */
export const precedence = {proven: 0, expected: 1, unproven: 2} as const;

/** When a message is read. Lower precedence goes first; within the same precedence, each `turn` gets an equal share. */
export type ReadingTurn = {
	readonly precedence: (typeof precedence)[keyof typeof precedence];
	/** The workspace that it is for, or the part of the installation. Not empty. */
	readonly turn: string;
};

/** Why an incoming message is retained: it matches no recipient, could not be read, or is for the operator. */
export type RetentionReason = 'unmatched' | 'unread' | 'operator';

/** An incoming message that was stored, without its content. */
export type StoredInbound = {
	/** The key of its row. */
	readonly id: string;
	/** The SHA-256 of the content, in hex. The same report may arrive several times. */
	readonly digest: string;
	readonly source: InboundSource;
	readonly mailFrom: string | null;
	/** The envelope recipients. Empty for messages from a mailbox or a file. */
	readonly rcptTo: readonly string[];
	/** The SMTP client's address and the name it gave. Absent or `null` for messages that arrived otherwise. */
	readonly client?: string | null;
	readonly helo?: string | null;
	/** In the store's form. */
	readonly receivedAt: string;
};

/** The maximum number and total octets of unusable messages retained for review. The oldest are deleted first. */
export const retentionCaps = {messages: 10_000, bytes: 1024 ** 3} as const;

/** How many octets of such a message are retained. The beginning suffices to tell what it is. */
export const keptLength = 256 * 1024;

/**
 * The ways to match an incoming message to a sent one, by priority (R3.14, R3.19): the first with a valid token wins.
 */
const vias = [
	/** It was sent to a recipient's unsubscribe address, and requests nothing else. */
	'unsubscribe_mail',
	/** It was sent to a recipient's return path. */
	'return_path',
	/** It came from a mailbox, and names a return path as its addressee. */
	'addressee',
	/** It names a return path as the envelope sender of the sent message. */
	'mail_from',
	/** It contains the Original-Envelope-Id. */
	'envelope_id',
	/** It contains the X-Mailctl-Ref of the returned message. */
	'ref',
	/** It contains a Message-ID of mailctl, which identifies a message but not a recipient. */
	'message_id',
	/** The provider's own event contains the id from its reply to the message. */
	'provider_id',
	/** It contains a recipient's unsubscribe address, or was sent there and requests something else. */
	'unsubscribe_address',
	/** Without a token: the address alone matches, from a trusted reporter with a valid signature. */
	'reporter',
] as const;
export type Via = (typeof vias)[number];

/** A message or recipient that an incoming message may be about. */
export type Candidate = {
	readonly via: Via;
	/** `rcp_…` for a recipient, `msg_…` for a message. */
	readonly id: string;
	/** Whether mailctl created the token for this id and address. The address must come from the id's row. */
	readonly verify: (address: string) => boolean;
};

/** The token lifetime if messages are stored forever. */
const maxDays = 400;

/**
 * Returns how long recipients' tokens are valid for reports, in milliseconds: as long as messages are retained
 * (MAILCTL_RETENTION_DAYS; 0 means forever).
 */
export function reportTokenMs(retentionDays: number): number {
	return (retentionDays || maxDays) * dayMs;
}
