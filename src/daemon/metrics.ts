import {Counter, collectDefaultMetrics, Gauge, Histogram, Registry} from 'prom-client';
import type {RefusalReason as InboundRefusal} from '../inbound/inbound-listener.ts';
import type {EventType, Mode} from '../mail/message.ts';
import {type Attempt, type AttemptResult, isLogInRefusal} from '../mail/outcome.ts';
import type {InboundSource, Kept, ReportAction, ReportKind} from '../mail/report.ts';
import {figureNames, spans} from '../mail/reputation.ts';
import type {DeliveryState} from '../mail/webhook.ts';
import type {Refusals} from '../reputation/alarm.ts';
import type {QueueSize} from '../store/queue/queue-summary.ts';
import type {PaceFigures} from '../store/queue/sites.ts';
import type {ReputationStatus} from '../store/reputation.ts';
import type {RefusalReason as SubmissionRefusal} from '../submission/submit.ts';

/** How the polling of the mailbox went since the start. */
export type MailboxFigures = {
	/** Whether the mailbox could be read the last time; null: it was not tried yet. */
	readonly up: boolean | null;
	readonly taken: number;
	readonly known: number;
	readonly failures: number;
};

/** Where the figures come from that are asked for at each scrape. A gauge is absent where its source fails or answers null. */
type MetricsSources = {
	readonly version: string;
	/** Milliseconds that this machine's clock is ahead of the store's. */
	readonly skew: () => number;
	readonly queueSize: () => Promise<QueueSize>;
	readonly pace: () => Promise<PaceFigures>;
	/** All sites with work; empty where this process does not deliver. */
	readonly sites: () => readonly SiteFigures[];
	readonly statuses: () => Promise<readonly ReputationStatus[]>;
	/** Providers that refuse too much because of us. */
	readonly refusals: () => readonly Refusals[];
	readonly webhooksPending: () => Promise<number>;
	/** Sender domains by state. */
	readonly domainStates: () => Promise<Readonly<Record<string, number>>>;
	/** Inbound mails that wait to be read. */
	readonly unread: () => Promise<number>;
	/** Open sessions of a listener; null where it is off. */
	readonly inboundSessions: () => number | null;
	readonly submissionSessions: () => number | null;
	/** State of the bounce mailbox; null without one. */
	readonly mailbox: () => MailboxFigures | null;
	/** Log lines lost since the start. */
	readonly logDropped: () => number;
	/** Bytes; null: unknown. */
	readonly freeDisk: () => number | null;
	/** Bytes; null with PostgreSQL. */
	readonly walBytes: () => number | null;
};

/** How a site is doing. */
type SiteFigures = {
	readonly site: string;
	/** Connections that it may have now. */
	readonly connections: number;
	/** Recipients claimed and not yet done. */
	readonly inFlight: number;
};

const deliverySeconds = [0.1, 0.5, 1, 5, 15, 60, 300, 1800, 7200, 43_200, 345_600];
const waitSeconds = [0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 15, 60, 300, 1800, 7200, 43_200];
const webhookSeconds = [0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 15];
const httpSeconds = [0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 2.5, 10];

/** Counters of the daemon, served at /metrics in Prometheus' text form. */
export function createMetrics(sources: MetricsSources) {
	const registry = new Registry();
	const registers = [registry];
	// Event-loop lag, memory, CPU, garbage collection, open files.
	collectDefaultMetrics({register: registry, prefix: 'mailctl_'});
	registerGauges(registers, sources);
	registerQueueGauges(registers, sources);
	registerReputationGauges(registers, sources);

	const counter = <Label extends string>(name: string, help: string, ...labelNames: Label[]) =>
		new Counter({name, help, labelNames, registers});
	const accepted = counter('mailctl_messages_accepted_total', 'Messages accepted, by mode of the key.', 'mode');
	const outcomes = counter('mailctl_outcomes_total', 'Attempts that ended, by outcome.', 'kind');
	const refusals = counter(
		'mailctl_refusals_total',
		'Attempts that ended deferred or bounced, by category.',
		'kind',
		'category',
	);
	const attempts = counter(
		'mailctl_send_attempts_total',
		'Conversations with a host, by how far they came and the class of the last reply (none: no reply).',
		'phase',
		'reply',
	);
	const logInRefusals = counter('mailctl_log_in_refusals_total', 'Log-ins that a smarthost refused.');
	const inboundMails = counter(
		'mailctl_inbound_mails_total',
		'Mails that came in and were read, by where they came from and what they are.',
		'source',
		'kind',
	);
	const inboundRefusals = counter(
		'mailctl_inbound_refused_total',
		'Addresses, mails and sessions that the listener for reports refused.',
		'reason',
	);
	const reports = counter(
		'mailctl_reports_total',
		'What mails that came in say of copies, once each, by the event that it led to (none: it is a report only).',
		'kind',
		'action',
		'event',
	);
	const kept = counter(
		'mailctl_inbound_kept_total',
		'Mails that came in and are kept for a person: about no copy (unmatched), not readable, for the operator.',
		'kept',
	);
	const submitted = counter('mailctl_submission_mails_total', 'Mails that programs submitted and that were taken.');
	const submittedMessages = counter(
		'mailctl_submission_messages_total',
		'Messages that they became, one for each recipient.',
	);
	const submissionRefusals = counter(
		'mailctl_submission_refused_total',
		'Log-ins, recipients, mails and sessions that the listener for submission refused.',
		'reason',
	);
	const waits = new Histogram({
		name: 'mailctl_queue_wait_seconds',
		help: 'From acceptance until the first try of a copy began.',
		buckets: waitSeconds,
		registers,
	});
	const delivery = new Histogram({
		name: 'mailctl_delivery_duration_seconds',
		help: 'From acceptance until a host took the copy.',
		buckets: deliverySeconds,
		registers,
	});
	const webhooks = new Histogram({
		name: 'mailctl_webhook_attempt_duration_seconds',
		help: 'Attempts to post an event to an endpoint, by what the delivery is after it.',
		labelNames: ['state'],
		buckets: webhookSeconds,
		registers,
	});
	const requests = new Histogram({
		name: 'mailctl_http_request_duration_seconds',
		help: 'HTTP requests answered.',
		labelNames: ['method', 'route', 'status'],
		buckets: httpSeconds,
		registers,
	});
	return {
		/** The figures in Prometheus' text format. */
		text: (): Promise<string> => registry.metrics(),

		accepted(mode: Mode, messages: number): void {
			accepted.inc({mode}, messages);
		},

		/** An ended attempt. `waitMs`: from acceptance to the begin of the first attempt; null for later attempts. */
		attempted({outcome, attempts: conversations}: AttemptResult, delayMs: number, waitMs: number | null): void {
			outcomes.inc({kind: outcome.kind});
			if (outcome.kind === 'deferred' || outcome.kind === 'bounced') {
				refusals.inc({kind: outcome.kind, category: outcome.category});
			}
			if (waitMs !== null) {
				waits.observe(waitMs / 1000);
			}
			logInRefusals.inc(conversations.filter(isLogInRefusal).length);
			for (const conversation of conversations) {
				attempts.inc({phase: conversation.phase, reply: replyClass(conversation)});
			}
			if (outcome.kind === 'delivered' || outcome.kind === 'relayed') {
				delivery.observe(delayMs / 1000);
			}
		},

		/** An attempt to post an event, by the state of its delivery afterwards. */
		webhookAttempted(state: DeliveryState, milliseconds: number): void {
			webhooks.observe({state}, milliseconds / 1000);
		},

		/** `route` is the pattern, never the path: a label's values must be few. */
		httpRequest(method: string, route: string, status: number, milliseconds: number): void {
			requests.observe({method, route, status}, milliseconds / 1000);
		},

		/** `unread`: the mail could not be read. `dropped`: it went round in circles. */
		inboundMail(source: InboundSource, kind: ReportKind | 'unread' | 'dropped'): void {
			inboundMails.inc({source, kind});
		},
		inboundRefused(reason: InboundRefusal): void {
			inboundRefusals.inc({reason});
		},
		/** A report about a recipient; `event` null: it is no event. */
		reported(kind: ReportKind, action: ReportAction, event: EventType | null): void {
			reports.inc({kind, action, event: event ?? 'none'});
		},
		inboundKept(why: Kept): void {
			kept.inc({kept: why});
		},

		/** A mail was answered with 250. */
		submitted(messages: number): void {
			submitted.inc();
			submittedMessages.inc(messages);
		},
		submissionRefused(reason: SubmissionRefusal): void {
			submissionRefusals.inc({reason});
		},
	};
}

export type Metrics = ReturnType<typeof createMetrics>;

function replyClass({code}: Attempt): string {
	return code === null ? 'none' : `${Math.floor(code / 100)}xx`;
}

/** A gauge that is asked for at each scrape, and absent without an answer. */
function registerAsked(
	registers: Registry[],
	name: string,
	help: string,
	ask: () => number | null | Promise<number | null>,
): void {
	new Gauge({
		name,
		help,
		registers,
		async collect() {
			this.remove();
			const value = await Promise.resolve(ask()).catch(() => null);
			if (value !== null) {
				this.set(value);
			}
		},
	});
}

/** A count that is kept elsewhere. */
function registerCount(registers: Registry[], name: string, help: string, read: () => number): void {
	new Counter({
		name,
		help,
		registers,
		collect() {
			this.reset();
			this.inc(read());
		},
	});
}

/** A figure with labels that is asked for at each scrape. */
function registerRows<Label extends string>(
	registers: Registry[],
	name: string,
	help: string,
	labelNames: readonly Label[],
	ask: () => RowsOf<Label> | Promise<RowsOf<Label>>,
): void {
	new Gauge({
		name,
		help,
		labelNames,
		registers,
		async collect() {
			const rows = await ask();
			this.reset();
			for (const [labels, value] of rows) {
				this.set(labels as Record<Label, string>, value);
			}
		},
	});
}

type RowsOf<Label extends string> = ReadonlyArray<readonly [Readonly<Record<Label, string>>, number]>;

function registerGauges(registers: Registry[], sources: MetricsSources): void {
	new Gauge({
		name: 'mailctl_build_info',
		help: 'Always 1; the labels say what runs.',
		labelNames: ['version', 'node'],
		registers,
	}).set({version: sources.version, node: process.version}, 1);
	registerAsked(
		registers,
		'mailctl_clock_skew_seconds',
		'How far the clock of this machine is ahead of the clock of the database; 0 with SQLite.',
		() => sources.skew() / 1000,
	);
	registerAsked(
		registers,
		'mailctl_webhook_pending',
		'Deliveries of events to endpoints that wait for an attempt or are being tried.',
		sources.webhooksPending,
	);
	registerRows(
		registers,
		'mailctl_domains',
		'Domains of senders by the state of their DNS records.',
		['state'],
		async () =>
			Object.entries((await sources.domainStates().catch(() => undefined)) ?? {}).map(([state, n]) => [{state}, n]),
	);
	registerCount(
		registers,
		'mailctl_log_lines_dropped_total',
		'Log lines lost because their reader was gone, or took nothing until 16 MiB waited.',
		sources.logDropped,
	);
	registerAsked(
		registers,
		'mailctl_free_disk_bytes',
		'Free space of the file system of the data folder.',
		sources.freeDisk,
	);
	registerAsked(
		registers,
		'mailctl_store_wal_bytes',
		"What the write-ahead log of SQLite's store takes on the disk.",
		sources.walBytes,
	);
	registerAsked(registers, 'mailctl_inbound_unread', 'Mails that came in and wait to be read.', sources.unread);
	registerAsked(
		registers,
		'mailctl_inbound_sessions',
		'SMTP sessions that the listener for reports has now.',
		sources.inboundSessions,
	);
	registerAsked(
		registers,
		'mailctl_submission_sessions',
		'SMTP sessions that the listener for submission has now.',
		sources.submissionSessions,
	);
	registerAsked(registers, 'mailctl_mailbox_up', 'Whether the bounce mailbox could be read the last time.', () => {
		const up = sources.mailbox()?.up ?? null;
		return up === null ? null : Number(up);
	});
	new Counter({
		name: 'mailctl_mailbox_mails_total',
		help: 'Mails read from the bounce mailbox: new ones, and ones that had come before.',
		labelNames: ['result'],
		registers,
		collect() {
			this.reset();
			const mailbox = sources.mailbox();
			if (mailbox) {
				this.inc({result: 'new'}, mailbox.taken);
				this.inc({result: 'known'}, mailbox.known);
			}
		},
	});
	registerCount(
		registers,
		'mailctl_mailbox_failures_total',
		'Times that the bounce mailbox could not be read.',
		() => sources.mailbox()?.failures ?? 0,
	);
}

/** A site's name is a label's value: only the sites with most under way are shown. */
const mostSites = 10;

/** What waits in the queue, and why. */
function registerQueueGauges(registers: Registry[], {queueSize, pace, sites}: MetricsSources): void {
	registerRows(
		registers,
		'mailctl_queue_size',
		'Copies in the queue: due now, waiting for a later try, being tried, held by an operator.',
		['state'],
		async () => {
			const size = await queueSize().catch(() => null);
			return size === null
				? []
				: [
						[{state: 'ready'}, size.ready],
						[{state: 'deferred'}, size.deferred],
						[{state: 'in_flight'}, size.inFlight],
						[{state: 'held'}, size.held],
					];
		},
	);
	const figures = shared(() => pace().catch(() => null));
	registerRows(
		registers,
		'mailctl_suspended',
		'What nothing is sent to now: destinations by an operator, sites after failures, smarthosts that refuse us.',
		['by'],
		async () => Object.entries((await figures())?.suspended ?? {}).map(([by, n]) => [{by}, n]),
	);
	registerRows(
		registers,
		'mailctl_queue_lanes_waiting',
		'Lanes (the mail of a workspace for a destination) whose mail is kept back, by what they wait for.',
		['waits_for'],
		async () => (await figures())?.queues.map(({waitsFor, n}) => [{waits_for: waitsFor}, n] as const) ?? [],
	);
	registerRows(
		registers,
		'mailctl_warm_up_sent_today',
		'Copies sent today (UTC) from a new source address, by provider.',
		['source', 'provider'],
		async () => (await figures())?.warmUp.map(({source, provider, n}) => [{source, provider}, n] as const) ?? [],
	);
	const busiest = () =>
		sites()
			.filter(({inFlight}) => inFlight > 0)
			.sort((a, b) => b.inFlight - a.inFlight)
			.slice(0, mostSites);
	registerRows(
		registers,
		'mailctl_site_connections',
		`Connections that a site may have now: the ${mostSites} sites with most under way.`,
		['site'],
		() => busiest().map(({site, connections}) => [{site}, connections]),
	);
	registerRows(
		registers,
		'mailctl_site_in_flight',
		`Copies under way to a site: the ${mostSites} sites with most.`,
		['site'],
		() => busiest().map(({site, inFlight}) => [{site}, inFlight]),
	);
}

/** A workspace's id is a label's value: only the workspaces that are paused or warned and those with most mail are shown. */
const mostWorkspaces = 100;
const mostProviders = 20;

/** What the reputation guard judges by, and its judgements. */
function registerReputationGauges(registers: Registry[], {statuses, refusals}: MetricsSources): void {
	const worst = shared(() => statuses().then(worstFirst, () => []));
	registerRows(
		registers,
		'mailctl_reputation_copies',
		`Copies by which a workspace is judged, of the last 24 hours (day) and 7 days (week): the ${mostWorkspaces} workspaces with most, those warned of or paused first.`,
		['workspace', 'window', 'what'],
		async () =>
			(await worst()).flatMap(({id, windows}) =>
				spans.flatMap(span =>
					figureNames.map(name => [{workspace: id, window: span, what: name}, windows[span][name]] as const),
				),
			),
	);
	registerRows(
		registers,
		'mailctl_workspace_trouble',
		'Always 1: the workspace is paused, by its figures or by hand, or its figures are too high (warned).',
		['workspace', 'state'],
		async () =>
			(await worst())
				.filter(({pausedAt, warnedAt}) => pausedAt !== null || warnedAt !== null)
				.map(({id, pausedAt}) => [{workspace: id, state: pausedAt === null ? 'warned' : 'paused'}, 1]),
	);
	registerRows(
		registers,
		'mailctl_infrastructure_refused_ratio',
		'Share of the attempts of the last hour that a provider refused because of us, if above 0.05.',
		['provider'],
		() =>
			[...refusals()]
				.sort((a, b) => b.refused - a.refused)
				.slice(0, mostProviders)
				.map(({provider, attempts, refused}) => [{provider}, refused / attempts]),
	);
}

function worstFirst(statuses: readonly ReputationStatus[]): readonly ReputationStatus[] {
	const rank = ({pausedAt, warnedAt}: ReputationStatus) => (pausedAt === null ? 0 : 2) + (warnedAt === null ? 0 : 1);
	return statuses
		.toSorted((a, b) => rank(b) - rank(a) || b.windows.week.attempted - a.windows.week.attempted)
		.slice(0, mostWorkspaces);
}

/** Concurrent calls share one answer. */
function shared<Answer>(ask: () => Promise<Answer>): () => Promise<Answer> {
	let asked: Promise<Answer> | null = null;
	return () => {
		asked ??= ask().finally(() => {
			asked = null;
		});
		return asked;
	};
}
