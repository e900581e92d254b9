import type {Logger} from 'pino';
import type {AttemptResult, Outcome} from '../mail/outcome.ts';

const longestReply = 1024;
const events = {
	delivered: 'delivered',
	relayed: 'sent',
	deferred: 'deferred',
	bounced: 'bounced',
	errored: 'errored',
	suppressed: 'suppressed',
	released: null,
} as const satisfies Record<Outcome['kind'], string | null>;

const statuses = {
	paused: {
		event: 'workspace_paused',
		level: 'error',
		text: 'paused for its bounces or complaints. Find the cause, then mailctl workspace resume.',
	},
	warned: {event: 'workspace_warned', level: 'warn', text: 'its bounces or complaints are high, more will pause it.'},
	calm: {event: 'workspace_calm', level: 'info', text: 'its bounces and complaints are low again.'},
} as const;

/** The mail log: one JSON line per mail event, always the same fields, null where there is nothing to say. */
export function createMailLog(logger: Logger): MailLog {
	function write(event: string, recipient: LoggedMail, how: LoggedTry = {}): void {
		logger.info({
			event,
			message_id: recipient.messageId,
			recipient: recipient.recipient,
			workspace: recipient.workspace,
			mx: how.mx ?? null,
			code: how.code ?? null,
			enhanced: how.enhanced ?? null,
			reply: how.reply?.slice(0, longestReply) ?? null,
			delay_ms: how.delayMs ?? null,
			attempt: how.attempt ?? null,
			tls: how.tls ?? null,
		});
	}

	const named = (event: string) => (recipient: LoggedMail, how?: LoggedTry) => write(event, recipient, how);
	return {
		listening({http, admin, inbound, submission, version}) {
			logger.info({event: 'listening', http, admin, inbound, submission, version});
		},
		accepted: recipient => write('accepted', recipient),
		sent: named('sent'),
		delivered: named('delivered'),
		deferred: named('deferred'),
		bounced: named('bounced'),
		errored: named('errored'),
		suppressed: named('suppressed'),
		attempted(recipient, {outcome, attempts}, when) {
			const event = events[outcome.kind];
			if (event === null) {
				return;
			}

			const last = attempts.at(-1);
			const reason = 'reason' in outcome ? outcome.reason : null;
			write(event, recipient, {
				mx: last?.host ?? null,
				code: last?.code ?? null,
				enhanced: last?.enhanced ?? null,
				reply: outcome.kind === 'errored' ? reason : (last?.reply ?? reason),
				tls: last?.tls ?? null,
				...when,
			});
		},
		recipientFault({messageId, recipient, workspace}, error) {
			logger.error({event: 'copy_fault', message_id: messageId, recipient, workspace, err: error});
		},
		logInRefused({host, reply}) {
			const text = 'A smarthost refuses our log-in. Check its user and password (mailctl doctor).';
			logger.error({event: 'log_in_refused', host, reply: reply.slice(0, longestReply)}, text);
		},
		routeNotFound({workspace, destination, message}) {
			const text =
				'The mail waits. Add the secret key that is missing, or set the route again (mailctl workspace update).';
			logger.error({event: 'way_not_found', workspace, destination, message}, text);
		},
		resourceFault(fault) {
			const text =
				'Its mail waits. Add the secret key that is missing, or rotate the keys (mailctl domain rotate-key).';
			logger.error({event: 'resource_fault', ...fault}, text);
		},
		webhookSecretFault({endpoint, error}) {
			const text = 'Its deliveries wait. Add the secret key that is missing, or register the endpoint again.';
			logger.error({event: 'webhook_secret_fault', endpoint, err: error}, text);
		},
		reputation({kind, name, ...judged}) {
			const {event, level, text} = statuses[kind];
			logger[level]({event, ...judged}, `${name}: ${text}`);
		},
		infrastructureAlarm({reply, ...alarm}) {
			const text = `${alarm.provider} refuses ${alarm.refused} of ${alarm.attempts} mails of the last hour because of this machine: see its reply and mailctl doctor. No workspace is blamed.`;
			logger.error({event: 'infrastructure_alarm', ...alarm, reply: reply.slice(0, longestReply)}, text);
		},
		webhookAttempted({messageId, ms, ...webhook}) {
			logger.info({event: 'webhook_attempted', message_id: messageId, ...webhook, ms: Math.round(ms)});
		},
		submitted({ids, left, ...mail}) {
			logger[left.length > 0 ? 'warn' : 'info']({event: 'submitted', message_ids: ids, left, ...mail});
		},
		submissionRefused: ({text, ...refusal}) =>
			logger.info({event: 'submission_refused', ...refusal, reply: text.slice(0, longestReply)}),
		inboundTaken: mail => logger.info({event: 'inbound_taken', ...mail}),
		inboundRefused: refusal => logger.info({event: 'inbound_refused', ...refusal}),
		reported({messageId, recipient, workspace}, {event, inbound, action, category, ...how}) {
			const {mx = null, code = null, enhanced = null, reply = null} = how;
			logger.info({
				...{event: event ?? 'reported', message_id: messageId, recipient, workspace, mx, code, enhanced},
				...{reply: reply?.slice(0, longestReply) ?? null, action, category, inbound},
			});
		},
		inboundRead: mail => logger.info({event: 'inbound_read', ...mail}),
		inboundUnreadable: (mail, error) => logger.warn({event: 'inbound_unreadable', ...mail, err: error}),
		mailboxOpened: mailbox => logger.info({event: 'mailbox_opened', ...mailbox}),
		mailboxRead: round => logger.info({event: 'mailbox_read', ...round}),
		mailboxFailed({mailbox, reason, fix, retryMs}) {
			const text = `Bounces in the mailbox wait: ${fix} (mailctl doctor).`;
			logger.error({event: 'mailbox_failed', mailbox, reason, retry_ms: retryMs}, text);
		},
		mailboxRecovered: mailbox => logger.info({event: 'mailbox_recovered', ...mailbox}),
		mailboxUnwatched(mailbox, error) {
			const text =
				'New bounces wait for MAILCTL_BOUNCE_MAILBOX_INTERVAL: raise fs.inotify.max_user_instances and max_user_watches.';
			logger.warn({event: 'mailbox_unwatched', ...mailbox, err: error}, text);
		},
		mailUnreadable: (mail, error) => logger.warn({event: 'mail_unreadable', ...mail, err: error}),
		domainState({domain, workspace, from, to, lacking}) {
			logger.info({event: 'domain_state', domain, workspace, from, to, lacking});
		},
		domainKey({domain, workspace, selector}) {
			logger.info({event: 'domain_key', domain, workspace, selector});
		},
		domainReturnPath({domain, workspace, used}) {
			logger.info({event: 'domain_return_path', domain, workspace, used});
		},
	};
}

/** The recipient that an event is about. */
type LoggedMail = {
	readonly messageId: string;
	readonly recipient: string;
	readonly workspace: string;
};

/** How a try went. */
type LoggedTry = {
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
	readonly accepted: (recipient: LoggedMail) => void;
	readonly sent: (recipient: LoggedMail, how?: LoggedTry) => void;
	readonly delivered: (recipient: LoggedMail, how?: LoggedTry) => void;
	readonly deferred: (recipient: LoggedMail, how?: LoggedTry) => void;
	readonly bounced: (recipient: LoggedMail, how?: LoggedTry) => void;
	readonly errored: (recipient: LoggedMail, how?: LoggedTry) => void;
	readonly suppressed: (recipient: LoggedMail, how?: LoggedTry) => void;
	/** Whichever of the above an attempt came to; a release is no event. */
	readonly attempted: (
		recipient: LoggedMail,
		result: AttemptResult,
		when: Pick<LoggedTry, 'delayMs' | 'attempt'>,
	) => void;
	/** The outcome could not be judged; the recipient is tried once more. */
	readonly recipientFault: (recipient: LoggedMail, error: unknown) => void;
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
		recipient: LoggedMail,
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
