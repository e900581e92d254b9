import type {AttemptResult} from '../mail/outcome.ts';

/** The copy that an event is about. */
export type LoggedRecipient = {
	readonly messageId: string;
	readonly recipient: string;
	readonly workspace: string;
};

/** How a try went. */
export type LoggedTry = {
	readonly mx?: string | null;
	readonly code?: number | null;
	readonly enhanced?: string | null;
	/** The server's last reply, or a word or sentence of ours where none came. */
	readonly reply?: string | null;
	/** Since acceptance. */
	readonly delayMs?: number | null;
	/** 1 for the first try. */
	readonly attempt?: number | null;
	readonly tls?: string | null;
};

/** An attempt to post an event to an endpoint. The path of its URL may hold a secret: only its host is named. */
type LoggedWebhook = {
	readonly messageId: string | null;
	readonly workspace: string;
	readonly endpoint: string;
	readonly delivery: string;
	readonly type: string;
	readonly host: string;
	readonly status: number | null;
	readonly error: string | null;
	/** More of the failure than the endpoint's owner sees. */
	readonly detail: string | null;
	/** What the delivery is now. */
	readonly state: string;
	/** 1 for the first. */
	readonly attempt: number;
	readonly ms: number;
};

/** A mail that came in, by its key. Its events name the recipients; its own addresses hold tokens. */
type LoggedInbound = {readonly inbound: string; readonly source: string};

/** The bounce mailbox, by its URL without the password. */
type LoggedMailbox = {readonly mailbox: string};

type LoggedDomain = {readonly domain: string; readonly workspace: string};

type Listening = {
	readonly http: string | null;
	readonly admin: string | null;
	readonly inbound: string | null;
	readonly submission: string | null;
	readonly version: string;
};

/** One method per event, so that no line can carry more than is meant: no key, token, variable or body ever gets here. */
export type MailLog = {
	/** The daemon's first line. */
	readonly listening: (where: Listening) => void;
	readonly accepted: (recipient: LoggedRecipient) => void;
	readonly sent: (recipient: LoggedRecipient, how?: LoggedTry) => void;
	readonly delivered: (recipient: LoggedRecipient, how?: LoggedTry) => void;
	readonly deferred: (recipient: LoggedRecipient, how?: LoggedTry) => void;
	readonly bounced: (recipient: LoggedRecipient, how?: LoggedTry) => void;
	readonly errored: (recipient: LoggedRecipient, how?: LoggedTry) => void;
	readonly suppressed: (recipient: LoggedRecipient, how?: LoggedTry) => void;
	/** Whichever of the above an attempt came to; a release is no event. */
	readonly attempted: (
		recipient: LoggedRecipient,
		result: AttemptResult,
		when: Pick<LoggedTry, 'delayMs' | 'attempt'>,
	) => void;
	/** The outcome could not be judged; the recipient is tried once more. */
	readonly recipientFault: (recipient: LoggedRecipient, error: unknown) => void;
	/** A smarthost refuses our log-in, whether or not the mail went by another. */
	readonly logInRefused: (refusal: {readonly host: string | null; readonly reply: string}) => void;
	/** Where mail of the workspace goes could not be found out: it waits. */
	readonly routeNotFound: (way: {
		readonly workspace: string;
		readonly destination: string;
		readonly message: string;
	}) => void;
	/** Signing keys or a template in the store cannot be used: their mail waits. */
	readonly resourceFault: (fault: {
		readonly workspace: string;
		readonly from: string;
		readonly message: string;
	}) => void;
	/** The secret of an endpoint cannot be opened: what is due to it waits. */
	readonly webhookSecretFault: (fault: {readonly endpoint: string; readonly error: unknown}) => void;
	/** A workspace was paused by its figures, warned of, or is fine again. */
	readonly reputation: (judged: {
		readonly workspace: string;
		readonly name: string;
		readonly kind: 'paused' | 'warned' | 'calm';
		/** What is too high; empty: nothing. */
		readonly figures: string;
	}) => void;
	/** A provider refuses too much of what this machine sends, over all workspaces. */
	readonly infrastructureAlarm: (alarm: {
		readonly provider: string;
		readonly attempts: number;
		readonly refused: number;
		readonly host: string;
		readonly reply: string;
	}) => void;
	readonly webhookAttempted: (webhook: LoggedWebhook) => void;
	/** A mail that a program submitted was answered with 250; `left`: recipients that it was not accepted for. */
	readonly submitted: (mail: {
		readonly client: string;
		readonly key: string;
		readonly ids: readonly string[];
		readonly left: ReadonlyArray<{readonly recipient: string; readonly reason: string}>;
		readonly size: number;
		readonly tls: string | null;
	}) => void;
	readonly submissionRefused: (refusal: {
		readonly client: string;
		readonly code: number;
		readonly text: string;
		readonly reason: string;
	}) => void;
	/** A mail was answered with 250; `inbound` null: it was dropped, as it went round in circles. */
	readonly inboundTaken: (mail: {
		readonly inbound: string | null;
		readonly client: string;
		readonly roles: readonly string[];
		readonly size: number;
		readonly tls: string | null;
		readonly repeated: boolean;
	}) => void;
	readonly inboundRefused: (refusal: {readonly reason: string; readonly client: string}) => void;
	readonly inboundRead: (
		mail: LoggedInbound & {readonly kind: string; readonly reports: number; readonly fault: string | null} & {
			/** Why the mail itself is kept; null: it is not. */
			readonly kept: string | null;
		},
	) => void;
	/** A mail that came in is about this recipient; `event` null: it has no entry in the timeline. */
	readonly reported: (
		recipient: LoggedRecipient,
		report: Pick<LoggedTry, 'mx' | 'code' | 'enhanced' | 'reply'> & {
			readonly event: string | null;
			readonly inbound: string;
			readonly action: string;
			readonly category: string | null;
		},
	) => void;
	/** It is kept for a person to look at. */
	readonly inboundUnreadable: (mail: LoggedInbound, error: unknown) => void;
	/** The bounce mailbox can be read, for the first time. */
	readonly mailboxOpened: (mailbox: LoggedMailbox) => void;
	/** The bounce mailbox brought mail; `cut`: too large to be taken whole. */
	readonly mailboxRead: (
		round: LoggedMailbox & {readonly taken: number; readonly known: number; readonly cut: number},
	) => void;
	/** It cannot be read, and is tried again. */
	readonly mailboxFailed: (
		fault: LoggedMailbox & {readonly reason: string; readonly fix: string; readonly retryMs: number},
	) => void;
	readonly mailboxRecovered: (mailbox: LoggedMailbox) => void;
	/** The system cannot watch its folder: what comes is seen at the next interval. */
	readonly mailboxUnwatched: (mailbox: LoggedMailbox, error: unknown) => void;
	/** A mail in it cannot be read; it stays where it is. */
	readonly mailUnreadable: (mail: LoggedMailbox & {readonly path: string}, error: unknown) => void;
	/** `lacking` names the required records that DNS does not show. */
	readonly domainState: (
		change: LoggedDomain & {readonly from: string; readonly to: string; readonly lacking: readonly string[]},
	) => void;
	/** A key that was rotated in signs from now on. */
	readonly domainKey: (key: LoggedDomain & {readonly selector: string}) => void;
	/** Whether the domain's mail has a return path of its own from now on. */
	readonly domainReturnPath: (change: LoggedDomain & {readonly used: boolean}) => void;
};
