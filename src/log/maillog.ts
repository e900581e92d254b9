import type {Logger} from 'pino';
import type {Outcome} from '../mail/outcome.ts';
import type {LoggedRecipient, LoggedTry, MailLog} from './mail-events.ts';

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
	function write(event: string, recipient: LoggedRecipient, how: LoggedTry = {}): void {
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

	const named = (event: string) => (recipient: LoggedRecipient, how?: LoggedTry) => write(event, recipient, how);
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
