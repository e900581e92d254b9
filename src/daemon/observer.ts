import {LRUCache} from 'lru-cache';
import type {Logger} from 'pino';
import type {PolicyFailure} from '../deliver/sts-policies.ts';
import {shortKey} from '../inbound/accept-inbound.ts';
import type {ReceivedMail, RefusalReason} from '../inbound/inbound-listener.ts';
import type {Clock} from '../kit/clock.ts';
import {type AttemptResult, isLoginRefusal, type Outcome} from '../mail/outcome.ts';
import {isProviderName, type ProviderPostEnd} from '../mail/provider.ts';
import {relayAdvice} from '../mail/relay-advice.ts';
import type {Reading, StoredInbound} from '../mail/report.ts';
import type {QueueKey} from '../mail/route.ts';
import {ProviderHostError} from '../net/provider-client.ts';
import type {InfrastructureAlarm} from '../outcome/infrastructure-alarm.ts';
import type {ReportEffect} from '../outcome/reports.ts';
import {findingsText} from '../outcome/reputation-findings.ts';
import type {Judged} from '../outcome/reputation-guard.ts';
import type {JudgedAttempt} from '../outcome/settle.ts';
import type {SiteChange} from '../queue/pace/site-state.ts';
import type {MakeJob} from '../queue/renderers.ts';
import type {Site} from '../queue/site.ts';
import type {DomainCheck} from '../resources/domains/verify-domain.ts';
import type {FinishedAttempt} from '../resources/webhooks/turn.ts';
import type {SubmissionRefusal, SubmittedMail} from '../send/submission/submission-listener.ts';
import type {Metrics} from './metrics.ts';

/** How often the same rejection of the same client is logged. */
const clientRefusalEveryMs = 60_000;
/** How often a relay's rejection of our login is logged. */
const logInRefusalEveryMs = 10 * 60_000;
/** How often a provider that rejects too much because of us is logged. */
const providerEveryMs = 60 * 60_000;
/** How often an unusable route, template or key of a workspace is logged. */
const problemEveryMs = 60_000;

/** In UTF-16 units. */
const maxReplyLength = 1024;

const outcomeEvents = {
	delivered: 'delivered',
	relayed: 'sent',
	deferred: 'deferred',
	bounced: 'bounced',
	errored: 'errored',
	suppressed: 'suppressed',
	released: null,
} as const satisfies Record<Outcome['kind'], string | null>;

const judgements = {
	paused: {
		event: 'workspace_paused',
		level: 'error',
		text: 'paused because of its bounces or complaints. Find the cause, then run mailctl workspace resume.',
	},
	warned: {
		event: 'workspace_warned',
		level: 'warn',
		text: 'its bounce or complaint rate is high; more will pause it.',
	},
	calm: {event: 'workspace_calm', level: 'info', text: 'its bounce and complaint rates are low again.'},
} as const;

/** A domain that was never verified stops no mail. */
const domainLevels = {pending: 'info', verified: 'info', degraded: 'warn', failed: 'error'} as const;

type ObserverParts = {
	readonly metrics: Metrics;
	readonly logger: Logger;
	/** Watches the replies of providers about this machine. */
	readonly infrastructure: Pick<InfrastructureAlarm, 'countAttempt'>;
	/** A read or write of the store failed. */
	readonly storeFailed: (error: unknown) => void;
	readonly clock: Pick<Clock, 'monotonic'>;
};

/**
 * Creates the observer, which passes every event of the daemon to the metrics and the log. Events about mail arrive
 * here only once that mail is on stable storage.
 *
 * The log has one line per mail event, always with the same fields, `null` if there is nothing to report. It never has
 * a key, token, variable or body. What stops mail is a warning or an error; its end and mail events are `info`; the
 * steps in between are `debug` (docs/reference/logs.md).
 */
export function createObserver(parts: ObserverParts) {
	const {metrics, logger, storeFailed, clock} = parts;
	const mayLogClientRefusal = createThrottle(clientRefusalEveryMs, clock);
	const mayLogProblem = createThrottle(problemEveryMs, clock);
	return {
		metrics,
		logger,
		storeFailed,
		...observeAttempts(parts),
		...observeQueue(logger, mayLogProblem),
		...observeDomains(logger),
		...observeWebhooks(parts, mayLogProblem),
		...observeInbound(parts, mayLogClientRefusal),
		...observeSubmission(parts, mayLogClientRefusal),
	};
}

export type Observer = ReturnType<typeof createObserver>;

type Throttle = (key: string) => boolean;

/** Attempts to deliver a message. */
function observeAttempts({metrics, logger, infrastructure, clock}: ObserverParts) {
	const mayLogLogInRefusal = createThrottle(logInRefusalEveryMs, clock);
	const mayLogProvider = createThrottle(providerEveryMs, clock);
	return {
		recorded({recipient, result, verdict}: JudgedAttempt): void {
			const delayMs = Date.parse(result.at) - Date.parse(recipient.created_at);
			const settled = {...result, outcome: verdict.outcome};
			const startedAt = result.attempts[0]?.at ?? result.sentAt;
			const waitMs =
				recipient.attempts === 0 && startedAt !== null
					? Date.parse(startedAt) - Date.parse(recipient.created_at)
					: null;
			metrics.attempted(settled, delayMs, waitMs);
			logAttempt(logger, recipient, settled, {delay_ms: delayMs, attempt: verdict.attempts});
			// The next relay may have accepted the message, and an attempt that does not count leaves no other trace.
			const sessions = [...result.attempts, ...(result.uncounted ?? [])];
			for (const {host, code, reply} of sessions.filter(isLoginRefusal)) {
				if (mayLogLogInRefusal(host ?? '')) {
					const text = refusalText(code === null ? reply : `${code} ${reply}`, `smarthost ${host}`);
					logger.error({event: 'log_in_refused', host, code, reply: reply.slice(0, maxReplyLength)}, text);
				}
			}
			const alarm = infrastructure.countAttempt(result);
			if (alarm !== null && mayLogProvider(alarm.provider)) {
				const {provider, refused, attempts} = alarm;
				const text =
					`${provider} rejected ${refused} of ${attempts} messages in the last hour ` +
					'because of this machine: see its reply and mailctl doctor. No workspace is blamed.';
				const reply = alarm.reply.slice(0, maxReplyLength);
				logger.error({event: 'infrastructure_alarm', ...alarm, reply}, text);
			}
		},

		/** An outcome could not be evaluated. The recipient is attempted once more. */
		faulted(error: unknown, recipient: JudgedAttempt['recipient']): void {
			logger.error({event: 'recipient_failed', ...loggedRecipient(recipient), err: error});
		},
	};
}

/** Reasons why the mail of a queue waits. */
function observeQueue(logger: Logger, mayLogProblem: Throttle) {
	return {
		/** The store works, but the route of a queue is unusable. It will be looked up again. */
		routeNotFound(error: unknown, {destination, workspaceId}: QueueKey): void {
			if (mayLogProblem(`route ${workspaceId}`)) {
				const message = error instanceof Error ? error.message : String(error);
				const text =
					'Its mail is waiting. Add the missing secret key, or set the route again (mailctl workspace update).';
				logger.error({event: 'route_not_found', workspace: workspaceId, destination, message}, text);
			}
		},

		/** A template or signing key is unusable until an operator repairs it. Its mail is waiting. */
		resourceProblem({recipient: {workspace_id: workspaceId, from_address: from}}: MakeJob, message: string): void {
			if (mayLogProblem(`${workspaceId} ${message}`)) {
				const text =
					'Its mail is waiting. Add the missing secret key, or rotate the keys (mailctl domain rotate-key).';
				logger.error({event: 'resource_fault', workspace: workspaceId, from, message}, text);
			}
		},

		/** The limits of a provider changed. Relays are the operator's own, so their rejections are errors. */
		siteChanged({name, state}: Site, changes: readonly SiteChange[]): void {
			const {reason, advice} = state.backoff ?? {};
			if (changes.includes('route_stopped')) {
				const text = `${refusalText(reason ?? 'It rejects our mail', name)} Its mail is waiting; none is lost.`;
				logger.error({event: 'route_stopped', site: name, reply: reason}, text);
			} else if (changes.includes('route_resumed')) {
				logger.info({event: 'route_resumed', site: name}, 'The relay accepts mail again.');
			} else if (changes.includes('backed_off')) {
				const text = advice
					? `The mail server blocks our address, so its mail is waiting. To do: ${advice}.`
					: undefined;
				logger.warn({event: 'site_suspended', site: name, reply: reason}, text);
			} else if (changes.includes('slowed')) {
				const {reason: reply, perMinute} = state.slow ?? {};
				logger.warn({event: 'site_slowed', site: name, per_minute: perMinute, reply});
			} else if (changes.includes('resumed')) {
				logger.info({event: 'site_resumed', site: name});
			}
		},

		/** A recipient's domain publishes an MTA-STS policy that cannot be read. */
		policyFailed({domain, failure, hasValidPolicy, reason}: PolicyFailure): void {
			logger.warn({event: 'mta_sts_failed', domain, failure, kept: hasValidPolicy}, reason);
		},

		/** A worker thread ended unexpectedly and is being replaced. */
		workerEnded(reason: string): void {
			logger.error({event: 'worker_ended', reason});
		},
	};
}

/** The standing of workspaces and their domains. */
function observeDomains(logger: Logger) {
	return {
		/** The reputation guard paused, warned or cleared a workspace. */
		judged({kind, workspaceId, name, findings}: Judged): void {
			const {event, level, text} = judgements[kind];
			logger[level]({event, workspace: workspaceId, figures: findingsText(findings)}, `${name}: ${text}`);
		},

		domainChecked({before, domain, records, activated}: DomainCheck): void {
			const about = {domain: domain.name, workspace: domain.workspace_id};
			if (domain.state !== before.state) {
				const lacking = records.filter(({ok, required}) => required && !ok).map(({name}) => name);
				const level = domainLevels[domain.first_verified_at === null ? 'pending' : domain.state];
				logger[level]({event: 'domain_state', ...about, from: before.state, to: domain.state, lacking});
			}
			for (const selector of activated) {
				// The key was added by a rotation and signs from now on.
				logger.info({event: 'domain_key', ...about, selector});
			}
			if ((domain.return_path_at === null) !== (before.return_path_at === null)) {
				logger.info({event: 'domain_return_path', ...about, used: domain.return_path_at !== null});
			}
		},
	};
}

/** Attempts to post events to endpoints. */
function observeWebhooks({metrics, logger}: ObserverParts, mayLogProblem: Throttle) {
	const endpointLog = createEndpointLog(logger);
	return {
		/** An attempt to post an event ended. Only the host of the URL is logged: its path may contain a secret. */
		posted({delivery, end, after}: FinishedAttempt): void {
			if (end === null) {
				return;
			}
			metrics.webhookSeconds.observe({state: after.state}, end.ms / 1000);
			const about = {
				[delivery.eventType === 'received' ? 'received' : 'message_id']: delivery.messageId,
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
				ms: Math.round(end.ms),
			};
			logger.debug({event: 'webhook_attempted', ...about});
			endpointLog.attempted({endpoint: delivery.endpointId, error: end.error, after}, about);
		},

		/** An internal error ended an attempt to post. */
		webhookProblem(error: unknown): void {
			logger.error({event: 'webhook_fault', err: error});
		},

		/** The secret of an endpoint cannot be decrypted. Its deliveries are waiting. */
		webhookSecretProblem(error: unknown, endpoint: string): void {
			if (mayLogProblem(endpoint)) {
				const text = 'Its deliveries are waiting. Add the missing secret key, or register the endpoint again.';
				logger.error({event: 'webhook_secret_fault', endpoint, err: error}, text);
			}
		},
	};
}

/** Messages and events that arrive, and what they report. */
function observeInbound({metrics, logger, storeFailed}: ObserverParts, mayLogClientRefusal: Throttle) {
	return {
		/** The listener for reports accepted a message with 250. */
		inboundTaken({client, roles, size, tls, accepted}: ReceivedMail): void {
			if (accepted === null) {
				metrics.inboundMails.inc({source: 'smtp', kind: 'dropped'});
			}
			const inbound = accepted && shortKey(accepted.id);
			const repeated = accepted?.isNew === false;
			logger.debug({event: 'inbound_taken', inbound, client, roles, size, tls, repeated});
		},

		/** A provider posted events, or something else posted to its URL. */
		providerPosted(provider: string, end: ProviderPostEnd): void {
			metrics.providerPosts.inc({provider: isProviderName(provider) ? provider : 'other', end});
		},

		/** The store or a host of the provider did not respond. The post gets a 503 and will be repeated. */
		providerPostFailed(provider: string, error: unknown): void {
			metrics.providerPosts.inc({provider: isProviderName(provider) ? provider : 'other', end: 'failed'});
			if (error instanceof ProviderHostError) {
				logger.warn({event: 'provider_post_failed', provider, err: error});
			} else {
				storeFailed(error);
			}
		},

		inboundRefused(reason: RefusalReason, client: string): void {
			metrics.inboundRefusals.inc({reason});
			// A rejected client usually retries at once.
			if (mayLogClientRefusal(`${reason} ${client}`)) {
				logger.info({event: 'inbound_refused', reason, client});
			}
		},

		inboundRead({id, source}: StoredInbound, {kind, reports, fault}: Reading, {about, kept}: ReportEffect): void {
			const inbound = shortKey(id);
			metrics.inboundMails.inc({source, kind});
			logger.info({event: 'inbound_read', inbound, source, kind, reports: reports.length, fault, kept});
			if (kept !== null) {
				metrics.inboundRetained.inc({kept});
			}
			for (const match of about.filter(({isNew}) => isNew)) {
				metrics.reports.inc({kind, action: match.action, event: match.event ?? 'none'});
				logReport(logger, match, inbound);
			}
		},

		inboundUnreadable({id, source}: StoredInbound, error: unknown): void {
			metrics.inboundMails.inc({source, kind: 'unread'});
			metrics.inboundRetained.inc({kept: 'unread'});
			logger.warn({event: 'inbound_unreadable', inbound: shortKey(id), source, err: error});
		},

		inboundUnrecorded({id, source}: StoredInbound, error: unknown): void {
			logger.error({event: 'inbound_unrecorded', inbound: shortKey(id), source, err: error});
		},
	};
}

function logReport(
	logger: Logger,
	{messageId, recipient, workspaceId: workspace, action, report, event}: ReportEffect['about'][number],
	inbound: string,
): void {
	const {host: mx = null, code = null, status: enhanced = null, reason = null, category = null} = report ?? {};
	logger.info({
		event: event ?? 'reported',
		message_id: messageId,
		recipient,
		workspace,
		mx,
		code,
		enhanced,
		reply: reason?.slice(0, maxReplyLength) ?? null,
		action,
		category,
		inbound,
	});
}

/** Messages that programs submit over SMTP. */
function observeSubmission({metrics, logger}: ObserverParts, mayLogClientRefusal: Throttle) {
	return {
		/** The listener for submission accepted a message with 250. */
		submitted({leftFor, ids, left, client, key, size, tls}: SubmittedMail): void {
			metrics.submittedMails.inc();
			metrics.submittedMessages.inc(ids.length);
			for (const reason of leftFor) {
				metrics.submissionRefusals.inc({reason});
			}
			const level = left.length > 0 ? 'warn' : 'debug';
			logger[level]({event: 'submitted', message_ids: ids, left, client, key, size, tls});
		},

		submissionRefused({text, ...refusal}: SubmissionRefusal): void {
			metrics.submissionRefusals.inc({reason: refusal.reason});
			if (mayLogClientRefusal(`${refusal.client} ${text}`)) {
				logger.info({event: 'submission_refused', ...refusal, reply: text.slice(0, maxReplyLength)});
			}
		},
	};
}

/** Logs once that an endpoint no longer gets events, and once that it acknowledges them again. */
function createEndpointLog(logger: Logger) {
	const exhausted = new LRUCache<string, true>({max: maxRemembered});
	const disabled = new LRUCache<string, true>({max: maxRemembered});
	return {
		attempted(
			{
				endpoint,
				error,
				after,
			}: Pick<FinishedAttempt, 'after'> & Readonly<{endpoint: string; error: string | null}>,
			about: object,
		): void {
			if (after.disables !== undefined) {
				// Several posts may have been in progress.
				if (disabled.has(endpoint)) {
					return;
				}
				disabled.set(endpoint, true);
				const text = 'The endpoint was disabled. It gets no events until you run mailctl webhook enable.';
				logger.error({event: 'webhook_disabled', ...about, reason: after.disables}, text);
			} else if (error === null) {
				disabled.delete(endpoint);
				if (exhausted.delete(endpoint)) {
					logger.info({event: 'webhook_recovered', ...about}, 'The endpoint acknowledges events again.');
				}
			} else if (after.state === 'exhausted' && !exhausted.has(endpoint)) {
				exhausted.set(endpoint, true);
				const text = 'An event was abandoned. Repair the endpoint, then run mailctl webhook replay.';
				logger.warn({event: 'webhook_exhausted', ...about}, text);
			}
		},
	};
}

/** Returns the text about a relay that rejects us: its reply, its name and what to do. */
function refusalText(reply: string, smarthost: string): string {
	const advice = relayAdvice(reply);
	const quote = reply.replaceAll('\n', ' ').replace(/\.$/, '').slice(0, maxReplyLength);
	return `${quote} (${smarthost}). ${advice.charAt(0).toUpperCase()}${advice.slice(1)}.`;
}

function logAttempt(
	logger: Logger,
	recipient: JudgedAttempt['recipient'],
	{outcome, attempts}: AttemptResult,
	timing: {readonly delay_ms: number; readonly attempt: number},
): void {
	const event = outcomeEvents[outcome.kind];
	if (event === null) {
		return; // A release is not an event.
	}
	const {host: mx = null, code = null, enhanced = null, reply: lastReply = null, tls = null} = attempts.at(-1) ?? {};
	const reason = 'reason' in outcome ? outcome.reason : null;
	const reply = (outcome.kind === 'errored' ? reason : (lastReply ?? reason))?.slice(0, maxReplyLength) ?? null;
	logger.info({event, ...loggedRecipient(recipient), mx, code, enhanced, reply, ...timing, tls});
}

function loggedRecipient({message_id, address, workspace_id}: JudgedAttempt['recipient']) {
	return {message_id, recipient: address, workspace: workspace_id};
}

const maxRemembered = 1000;

/** Creates a function that returns `true` at most once per key in this time. */
export function createThrottle(everyMs: number, clock: Pick<Clock, 'monotonic'>): Throttle {
	const grants = new LRUCache<string, number>({max: maxRemembered});
	return key => {
		const now = clock.monotonic();
		const previous = grants.peek(key);
		if (previous !== undefined && now - previous < everyMs) {
			return false;
		}
		grants.set(key, now);
		return true;
	};
}
