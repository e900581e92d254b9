import {LRUCache} from 'lru-cache';
import type {Logger} from 'pino';
import type {DomainCheck} from '../domains/verify-domain.ts';
import type {ReceivedMail, RefusalReason} from '../inbound/inbound-listener.ts';
import {shortKey} from '../inbound/take-in.ts';
import type {Clock} from '../kit/clock.ts';
import type {MailLog} from '../log/maillog.ts';
import {isLogInRefusal} from '../mail/outcome.ts';
import type {CameIn, Reading} from '../mail/report.ts';
import type {QueueKey} from '../mail/route.ts';
import type {PolicyFailure} from '../mta-sts/sts-policies.ts';
import type {ReportEffect} from '../outcome/reports.ts';
import type {JudgedTry, TriedRecipient} from '../outcome/settle.ts';
import type {SiteChange} from '../pace/site-state.ts';
import type {MakeJob} from '../queue/renderers.ts';
import type {Site} from '../queue/site.ts';
import type {InfrastructureAlarm} from '../reputation/alarm.ts';
import {findingsText} from '../reputation/findings.ts';
import type {Judged} from '../reputation/guard.ts';
import type {SubmissionRefusal, SubmittedMail} from '../submission/submission-listener.ts';
import type {Attempted} from '../webhook/turn.ts';
import type {Metrics} from './metrics.ts';

/** How often the same refusal of the same client is logged. */
const clientRefusalEveryMs = 60_000;
/** How often a smarthost's refusal of our log-in is logged. */
const logInRefusalEveryMs = 10 * 60_000;
/** How often a provider is logged that refuses too much because of us. */
const providerEveryMs = 60 * 60_000;
/** How often a workspace is logged while its mail has no usable route, template or key. */
const faultEveryMs = 60_000;

/** Every event of the daemon passes here, to the metrics and the log. Mail is on stable storage by then. */
export function createObserver({
	metrics,
	mailLog,
	logger,
	infrastructure,
	storeFailed,
	clock,
}: {
	readonly metrics: Metrics;
	readonly mailLog: MailLog;
	readonly logger: Logger;
	/** Watches what providers say of this machine. */
	readonly infrastructure: Pick<InfrastructureAlarm, 'tried'>;
	/** A read or write of the store failed. */
	readonly storeFailed: (error: unknown) => void;
	readonly clock: Pick<Clock, 'monotonic'>;
}) {
	const mayLogClientRefusal = createThrottle(clientRefusalEveryMs, clock);
	const mayLogLogInRefusal = createThrottle(logInRefusalEveryMs, clock);
	const mayLogProvider = createThrottle(providerEveryMs, clock);
	const mayLogFault = createThrottle(faultEveryMs, clock);
	return {
		metrics,
		mailLog,
		logger,
		storeFailed,

		recorded({recipient, result, verdict}: JudgedTry): void {
			const delayMs = Date.parse(result.at) - Date.parse(recipient.created_at);
			const judged = {...result, outcome: verdict.outcome};
			const begun = result.attempts[0]?.at ?? result.sentAt;
			const waitMs =
				recipient.attempts === 0 && begun !== null ? Date.parse(begun) - Date.parse(recipient.created_at) : null;
			metrics.attempted(judged, delayMs, waitMs);
			mailLog.attempted(loggedRecipient(recipient), judged, {delayMs, attempt: verdict.attempts});
			// The next smarthost may have taken the mail: otherwise the refusal would not be logged.
			for (const {host, reply} of result.attempts.filter(isLogInRefusal)) {
				if (mayLogLogInRefusal(host ?? '')) {
					mailLog.logInRefused({host, reply});
				}
			}
			const alarm = infrastructure.tried(result);
			if (alarm !== null && mayLogProvider(alarm.provider)) {
				mailLog.infrastructureAlarm(alarm);
			}
		},

		/** An outcome could not be judged. */
		faulted(error: unknown, recipient: TriedRecipient): void {
			mailLog.recipientFault(loggedRecipient(recipient), error);
		},

		/** The store works, but the route of a queue cannot be used; it is tried again. */
		routeNotFound(error: unknown, {destination, workspaceId}: QueueKey): void {
			if (mayLogFault(`route ${workspaceId}`)) {
				const message = error instanceof Error ? error.message : String(error);
				mailLog.routeNotFound({workspace: workspaceId, destination, message});
			}
		},

		/** A template or a signing key cannot be used until an operator repairs it; its mail waits. */
		resourceFault({workspaceId, from}: MakeJob, message: string): void {
			if (mayLogFault(`${workspaceId} ${message}`)) {
				mailLog.resourceFault({workspace: workspaceId, from, message});
			}
		},

		/** The pace of a site changed. Smarthosts are the operator's: their refusals are errors. */
		siteChanged({name, state}: Site, changes: readonly SiteChange[]): void {
			const reason = state.backoff?.reason;
			if (changes.includes('route_stopped')) {
				const text =
					'A smarthost refuses us: its mail waits, none is lost. Check its address and password (mailctl doctor).';
				logger.error({event: 'route_stopped', site: name, reply: reason}, text);
			} else if (changes.includes('route_resumed')) {
				logger.error({event: 'route_resumed', site: name}, 'The smarthost takes mail again.');
			} else if (changes.includes('backed_off')) {
				logger.info({event: 'site_suspended', site: name, reply: reason});
			} else if (changes.includes('resumed')) {
				logger.info({event: 'site_resumed', site: name});
			}
		},

		/** A recipient's domain announces an MTA-STS policy that cannot be read. */
		policyFailed({domain, failure, kept, reason}: PolicyFailure): void {
			logger.warn({event: 'mta_sts_failed', domain, failure, kept}, reason);
		},

		/** A worker thread ended by itself and is replaced. */
		workerEnded(reason: string): void {
			logger.error({event: 'worker_ended', reason});
		},

		/** The reputation guard paused, warned or cleared a workspace. */
		judged({kind, workspaceId, name, findings}: Judged): void {
			mailLog.reputation({workspace: workspaceId, name, kind, figures: findingsText(findings)});
		},

		domainChecked({before, domain, records, activated}: DomainCheck): void {
			const about = {domain: domain.name, workspace: domain.workspace_id};
			if (domain.state !== before.state) {
				const lacking = records.filter(({ok, required}) => required && !ok).map(({name}) => name);
				mailLog.domainState({...about, from: before.state, to: domain.state, lacking});
			}
			for (const selector of activated) {
				mailLog.domainKey({...about, selector});
			}
			if ((domain.return_path_at === null) !== (before.return_path_at === null)) {
				mailLog.domainReturnPath({...about, used: domain.return_path_at !== null});
			}
		},

		/** An attempt to post an event to an endpoint ended. */
		posted({delivery, end, after}: Attempted): void {
			if (end === null) {
				return;
			}
			metrics.webhookSeconds.observe({state: after.state}, end.ms / 1000);
			mailLog.webhookAttempted({
				messageId: delivery.messageId,
				workspace: delivery.workspaceId,
				endpoint: delivery.endpointId,
				delivery: delivery.id,
				type: delivery.eventType,
				host: URL.canParse(delivery.url) ? new URL(delivery.url).host : '',
				status: end.status,
				error: end.error,
				detail: end.detail,
				state: after.state,
				attempt: after.attempts,
				ms: end.ms,
			});
		},

		/** A fault of ours ended an attempt to post. */
		webhookFault(error: unknown): void {
			logger.error({event: 'webhook_fault', err: error});
		},

		/** The secret of an endpoint cannot be opened; its deliveries wait. */
		webhookSecretFault(error: unknown, endpoint: string): void {
			if (mayLogFault(endpoint)) {
				mailLog.webhookSecretFault({endpoint, error});
			}
		},

		/** The listener for reports answered a mail with 250. */
		inboundTaken({client, roles, size, tls, taken}: ReceivedMail): void {
			if (taken === null) {
				metrics.inboundMails.inc({source: 'smtp', kind: 'dropped'});
			}
			const inbound = taken && shortKey(taken.id);
			mailLog.inboundTaken({inbound, client, roles, size, tls, repeated: taken?.isNew === false});
		},

		inboundRefused(reason: RefusalReason, client: string): void {
			metrics.inboundRefusals.inc({reason});
			// A refused client usually tries again at once.
			if (mayLogClientRefusal(`${reason} ${client}`)) {
				mailLog.inboundRefused({reason, client});
			}
		},

		inboundRead({id, source}: CameIn, {kind, reports, fault}: Reading, {about, kept}: ReportEffect): void {
			const inbound = shortKey(id);
			metrics.inboundMails.inc({source, kind});
			mailLog.inboundRead({inbound, source, kind, reports: reports.length, fault, kept});
			if (kept !== null) {
				metrics.kept.inc({kept});
			}
			for (const {messageId, recipient, workspaceId: workspace, action, report, event} of about.filter(
				one => one.isNew,
			)) {
				metrics.reports.inc({kind, action, event: event ?? 'none'});
				const {host: mx = null, code = null, status: enhanced = null, reason: reply = null} = report ?? {};
				const said = {mx, code, enhanced, reply, category: report?.category ?? null};
				mailLog.reported({messageId: messageId, recipient, workspace}, {...said, event, inbound, action});
			}
		},

		inboundUnreadable({id, source}: CameIn, error: unknown): void {
			metrics.inboundMails.inc({source, kind: 'unread'});
			metrics.kept.inc({kept: 'unread'});
			mailLog.inboundUnreadable({inbound: shortKey(id), source}, error);
		},

		/** The listener for submission answered a mail with 250. */
		submitted({leftFor, ...mail}: SubmittedMail): void {
			metrics.submittedMails.inc();
			metrics.submittedMessages.inc(mail.ids.length);
			for (const reason of leftFor) {
				metrics.submissionRefusals.inc({reason});
			}
			mailLog.submitted(mail);
		},

		submissionRefused(refusal: SubmissionRefusal): void {
			metrics.submissionRefusals.inc({reason: refusal.reason});
			if (mayLogClientRefusal(`${refusal.client} ${refusal.text}`)) {
				mailLog.submissionRefused(refusal);
			}
		},
	};
}

export type Observer = ReturnType<typeof createObserver>;

function loggedRecipient({message_id, address, workspace_id}: TriedRecipient) {
	return {messageId: message_id, recipient: address, workspace: workspace_id};
}

const mostRemembered = 1000;

/** Answers true at most once per key in that time. */
export function createThrottle(everyMs: number, clock: Pick<Clock, 'monotonic'>): (key: string) => boolean {
	const last = new LRUCache<string, number>({max: mostRemembered});
	return key => {
		const now = clock.monotonic();
		const before = last.peek(key);
		if (before !== undefined && now - before < everyMs) {
			return false;
		}
		last.set(key, now);
		return true;
	};
}
