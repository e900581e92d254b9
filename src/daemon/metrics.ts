import {Counter, collectDefaultMetrics, Gauge, Histogram, Registry} from 'prom-client';
import {type Attempt, type AttemptResult, isLoginRefusal} from '../mail/outcome.ts';
import {figureNames, spans} from '../mail/reputation.ts';
import type {Refusals} from '../outcome/infrastructure-alarm.ts';
import type {Certificate} from '../resources/certificates/store.ts';
import type {Blocklisting} from '../store/blocklists.ts';
import type {QueueSize} from '../store/queue/queue-summary.ts';
import type {PaceFigures} from '../store/queue/sites.ts';
import type {ReputationStatus} from '../store/reputation.ts';

/** The results of polling the mailbox since the start. */
export type MailboxFigures = {
	/** Whether the last attempt to read the mailbox succeeded; `null` before the first one. */
	readonly up: boolean | null;
	readonly taken: number;
	readonly known: number;
	/** Messages that could not be read. */
	readonly skipped: number;
	readonly failures: number;
};

/** The sources of figures that are read at each scrape. A gauge is absent if its source fails or returns `null`. */
type MetricsSources = {
	readonly version: string;
	/** How many milliseconds this machine's clock is ahead of the store's. */
	readonly skew: () => number;
	readonly queueSize: () => Promise<QueueSize>;
	readonly pace: () => Promise<PaceFigures>;
	/** All providers with work; empty if this process does not deliver. */
	readonly sites: () => readonly SiteFigures[];
	readonly statuses: () => Promise<readonly ReputationStatus[]>;
	/** Providers that reject too much because of us. */
	readonly refusals: () => readonly Refusals[];
	readonly webhooksPending: () => Promise<number>;
	/** Sender domains by state. */
	readonly domainStates: () => Promise<Readonly<Record<string, number>>>;
	readonly blocklistings: () => Promise<readonly Blocklisting[]>;
	readonly certificates: () => Promise<readonly Certificate[]>;
	/** The number of inbound messages waiting to be read. */
	readonly unread: () => Promise<number>;
	/** Open sessions of a listener, or `null` if it is off. */
	readonly inboundSessions: () => number | null;
	readonly submissionSessions: () => number | null;
	/** The state of the bounce mailbox, or `null` without one. */
	readonly mailbox: () => MailboxFigures | null;
	/** Log lines lost since the start. */
	readonly logDropped: () => number;
	/** In bytes; `null` if unknown. */
	readonly freeDisk: () => number | null;
	/** In bytes; `null` with PostgreSQL. */
	readonly walBytes: () => number | null;
};

/** The state of a provider. */
type SiteFigures = {
	readonly site: string;
	/** The number of connections that it may have now. */
	readonly connections: number;
	readonly inFlight: number;
};

const deliverySeconds = [0.1, 0.5, 1, 5, 15, 60, 300, 1800, 7200, 43_200, 345_600];
const waitSeconds = [0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 15, 60, 300, 1800, 7200, 43_200];
const webhookSeconds = [0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 15];
const httpSeconds = [0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 2.5, 10];

/** A figure at the time of a scrape: a number, a row of label values for each value, or `null` if unknown. */
type Figure = number | null | ReadonlyArray<readonly [...labels: string[], value: number]>;

/** The daemon's metrics, served at /metrics in Prometheus' text format. */
export class Metrics {
	readonly #registry = new Registry();
	readonly #registers = [this.#registry];

	readonly accepted = this.#counter(
		'mailctl_messages_accepted_total',
		'Messages accepted, by mode of the key.',
		'mode',
	);
	/** `source` is where messages come from. `kind` is what they are, including `unread` and `dropped` (mail loops). */
	readonly inboundMails = this.#counter('mailctl_inbound_mails_total', 'Inbound messages read.', 'source', 'kind');
	readonly providerPosts = this.#counter(
		'mailctl_provider_posts_total',
		'Event posts from providers, by result (taken, unknown, forged, unreadable, failed).',
		'provider',
		'end',
	);
	readonly inboundRefusals = this.#counter(
		'mailctl_inbound_refused_total',
		'Addresses, messages and sessions rejected by the inbound listener.',
		'reason',
	);
	readonly reports = this.#counter(
		'mailctl_reports_total',
		'Reports about recipients, by the resulting event (none: report only).',
		'kind',
		'action',
		'event',
	);
	readonly inboundRetained = this.#counter(
		'mailctl_inbound_kept_total',
		'Inbound messages stored for review.',
		'kept',
	);
	readonly submittedMails = this.#counter('mailctl_submission_mails_total', 'Submissions accepted over SMTP.');
	readonly submittedMessages = this.#counter(
		'mailctl_submission_messages_total',
		'Messages created from SMTP submissions, one for each recipient.',
	);
	readonly submissionRefusals = this.#counter(
		'mailctl_submission_refused_total',
		'Logins, recipients, messages and sessions rejected by the submission listener.',
		'reason',
	);
	readonly webhookSeconds = this.#histogram(
		'mailctl_webhook_attempt_duration_seconds',
		'Duration of attempts to post an event to an endpoint.',
		webhookSeconds,
		'state',
	);
	/** `route` is the pattern, never the path: a label must have few values. */
	readonly httpSeconds = this.#histogram(
		'mailctl_http_request_duration_seconds',
		'Duration of HTTP requests.',
		httpSeconds,
		'method',
		'route',
		'status',
	);
	readonly #outcomes = this.#counter('mailctl_outcomes_total', 'Attempts that ended, by outcome.', 'kind');
	readonly #refusals = this.#counter(
		'mailctl_refusals_total',
		'Attempts that ended deferred or bounced, by category.',
		'kind',
		'category',
	);
	/** `phase` is how far the session got. `reply` is the class of the last reply, or `none`. */
	readonly #sessions = this.#counter(
		'mailctl_send_attempts_total',
		'SMTP sessions with mail servers.',
		'phase',
		'reply',
	);
	readonly #logIns = this.#counter('mailctl_log_in_refusals_total', 'Logins rejected by relays.');
	readonly #waits = this.#histogram(
		'mailctl_queue_wait_seconds',
		'Time from acceptance to the start of the first attempt.',
		waitSeconds,
	);
	readonly #deliveries = this.#histogram(
		'mailctl_delivery_duration_seconds',
		'Time from acceptance until a mail server accepted the message.',
		deliverySeconds,
	);

	constructor(sources: MetricsSources) {
		// Event loop lag, memory, CPU, garbage collection and open files.
		collectDefaultMetrics({register: this.#registry, prefix: 'mailctl_'});
		this.#registerProcess(sources);
		this.#registerInbound(sources);
		this.#registerQueue(sources);
		this.#registerReputation(sources);
	}

	/** Returns the metrics in Prometheus' text format. */
	text(): Promise<string> {
		return this.#registry.metrics();
	}

	/** Counts an attempt. `waitMs` is the time from acceptance to the first attempt; `null` for later attempts. */
	attempted({outcome, attempts, uncounted = []}: AttemptResult, delayMs: number, waitMs: number | null): void {
		this.#outcomes.inc({kind: outcome.kind});
		if (outcome.kind === 'deferred' || outcome.kind === 'bounced') {
			this.#refusals.inc({kind: outcome.kind, category: outcome.category});
		}
		if (waitMs !== null) {
			this.#waits.observe(waitMs / 1000);
		}
		const sessions = [...attempts, ...uncounted];
		this.#logIns.inc(sessions.filter(isLoginRefusal).length);
		for (const session of sessions) {
			this.#sessions.inc({phase: session.phase, reply: replyClass(session)});
		}
		if (outcome.kind === 'delivered' || outcome.kind === 'relayed') {
			this.#deliveries.observe(delayMs / 1000);
		}
	}

	#counter<Label extends string>(name: string, help: string, ...labelNames: Label[]): Counter<Label> {
		return new Counter({name, help, labelNames, registers: this.#registers});
	}

	#histogram<Label extends string>(
		name: string,
		help: string,
		buckets: number[],
		...labelNames: Label[]
	): Histogram<Label> {
		return new Histogram({name, help, buckets, labelNames, registers: this.#registers});
	}

	/** Registers a figure that is read at each scrape. A name that ends in `_total` makes it a counter. */
	#add(name: string, help: string, labelNames: readonly string[], read: () => Figure | Promise<Figure>): void {
		const isCounter = name.endsWith('_total');
		const config = {
			name,
			help,
			labelNames,
			registers: this.#registers,
			async collect(this: Gauge | Counter): Promise<void> {
				const figure = await (async () => read())().catch(() => null);
				const rows = typeof figure === 'number' ? [[figure] as const] : (figure ?? []);
				this.reset();
				if (rows.length === 0 && labelNames.length === 0) {
					this.remove();
				}
				for (const row of rows) {
					this.labels(...(row.slice(0, -1) as string[])).inc(row.at(-1) as number);
				}
			},
		};
		isCounter ? new Counter(config) : new Gauge(config);
	}

	#registerProcess(sources: MetricsSources): void {
		const {version} = sources;
		this.#add('mailctl_build_info', 'Always 1; the labels are the running versions.', ['version', 'node'], () => [
			[version, process.version, 1],
		]);
		this.#add(
			'mailctl_clock_skew_seconds',
			'How far the clock of this machine is ahead of the clock of the database; 0 with SQLite.',
			[],
			() => sources.skew() / 1000,
		);
		this.#add(
			'mailctl_log_lines_dropped_total',
			'Log lines dropped because nothing read them.',
			[],
			sources.logDropped,
		);
		this.#add('mailctl_free_disk_bytes', 'Free space for the data folder.', [], sources.freeDisk);
		this.#add('mailctl_store_wal_bytes', "Size of SQLite's write-ahead log.", [], sources.walBytes);
		this.#add('mailctl_webhook_pending', 'Pending webhook deliveries.', [], sources.webhooksPending);
		this.#add('mailctl_domains', 'Sender domains by the state of their DNS records.', ['state'], async () =>
			Object.entries(await sources.domainStates()),
		);
		const rank = ({state}: Blocklisting) => ['clear', 'listed'].indexOf(state);
		this.#add(
			'mailctl_blocklisted',
			'Whether a source address or domain is on a blocklist.',
			['source', 'zone'],
			async () =>
				(await sources.blocklistings())
					.filter(row => rank(row) >= 0)
					.toSorted((a, b) => rank(b) - rank(a))
					.slice(0, maxListings)
					.map(row => [row.source, row.zone, rank(row)]),
		);
		this.#add(
			'mailctl_certificate_expires_seconds',
			'When the certificate for a name expires, in seconds since 1970.',
			['name'],
			async () =>
				(await sources.certificates())
					.filter(row => row.not_after !== null && row.unused === null)
					.slice(0, maxListings)
					.map(row => [row.name, Date.parse(row.not_after ?? '') / 1000]),
		);
	}

	#registerInbound(sources: MetricsSources): void {
		this.#add('mailctl_inbound_unread', 'Inbound messages waiting to be read.', [], sources.unread);
		this.#add(
			'mailctl_inbound_sessions',
			'Open SMTP sessions on the inbound listener.',
			[],
			sources.inboundSessions,
		);
		this.#add(
			'mailctl_submission_sessions',
			'Open SMTP sessions on the submission listener.',
			[],
			sources.submissionSessions,
		);
		this.#add('mailctl_mailbox_up', 'Whether the last attempt to read the bounce mailbox succeeded.', [], () => {
			const up = sources.mailbox()?.up ?? null;
			return up === null ? null : Number(up);
		});
		this.#add('mailctl_mailbox_mails_total', 'Messages read from the bounce mailbox.', ['result'], () => {
			const mailbox = sources.mailbox();
			return (
				mailbox && [
					['new', mailbox.taken] as const,
					['known', mailbox.known] as const,
					['skipped', mailbox.skipped] as const,
				]
			);
		});
		this.#add(
			'mailctl_mailbox_failures_total',
			'Failed attempts to read the bounce mailbox.',
			[],
			() => sources.mailbox()?.failures ?? 0,
		);
	}

	/** Registers what is waiting in the queue, and why. */
	#registerQueue({queueSize, pace, sites}: MetricsSources): void {
		const figures = shared(pace);
		const size = shared(queueSize);
		const busiest = () =>
			sites()
				.filter(({inFlight}) => inFlight > 0)
				.sort((a, b) => b.inFlight - a.inFlight)
				.slice(0, maxSites);
		this.#add('mailctl_queue_size', 'Recipients in the queue.', ['state'], async () => {
			const {ready, deferred, inFlight, held} = await size();
			return Object.entries({ready, deferred, in_flight: inFlight, held});
		});
		this.#add(
			'mailctl_queue_ready',
			'Recipients that are due and waiting for their turn.',
			['priority'],
			async () => Object.entries((await size()).byPriority),
		);
		this.#add(
			'mailctl_suspended',
			'Current suspensions: destinations by an operator, providers after failures, relays that reject us.',
			['by'],
			async () => Object.entries((await figures()).suspended),
		);
		this.#add('mailctl_queue_lanes_waiting', 'Waiting destination queues, by reason.', ['waits_for'], async () =>
			(await figures()).queues.map(({waitsFor, n}) => [waitsFor, n]),
		);
		this.#add(
			'mailctl_warm_up_sent_today',
			'Recipients sent to today (UTC) from a new source address, by provider.',
			['source', 'provider'],
			async () => (await figures()).warmUp.map(({source, provider, n}) => [source, provider, n]),
		);
		this.#add(
			'mailctl_site_connections',
			`Connections allowed to the ${maxSites} busiest providers.`,
			['site'],
			() => busiest().map(({site, connections}) => [site, connections]),
		);
		this.#add(
			'mailctl_site_in_flight',
			`Recipients under way to the ${maxSites} busiest providers.`,
			['site'],
			() => busiest().map(({site, inFlight}) => [site, inFlight]),
		);
	}

	/** Registers the figures and decisions of the reputation guard. */
	#registerReputation({statuses, refusals}: MetricsSources): void {
		const worst = shared(async () => worstFirst(await statuses()));
		this.#add(
			'mailctl_reputation_copies',
			`Recipients counted for reputation, for the ${maxWorkspaces} workspaces in trouble or with most mail.`,
			['workspace', 'window', 'what'],
			async () =>
				(await worst()).flatMap(({id, windows}) =>
					spans.flatMap(span => figureNames.map(name => [id, span, name, windows[span][name]] as const)),
				),
		);
		this.#add(
			'mailctl_workspace_trouble',
			'Always 1: the workspace is paused, automatically or by an operator, or warned because its rates are too high.',
			['workspace', 'state'],
			async () =>
				(await worst())
					.filter(({pausedAt, warnedAt}) => pausedAt !== null || warnedAt !== null)
					.map(({id, pausedAt}) => [id, pausedAt === null ? 'warned' : 'paused', 1]),
		);
		this.#add(
			'mailctl_infrastructure_refused_ratio',
			"Share of the last hour's attempts that a provider rejected because of us, if above 0.05.",
			['provider'],
			() =>
				refusals()
					.toSorted((a, b) => b.refused - a.refused)
					.slice(0, maxProviders)
					.map(({provider, attempts, refused}) => [provider, refused / attempts]),
		);
	}
}

function replyClass({code}: Attempt): string {
	return code === null ? 'none' : `${Math.floor(code / 100)}xx`;
}

/** A provider's name is a label value, so only those with the most recipients under way are exported. */
const maxSites = 10;
/** A workspace's id is a label value, so only those paused, warned or with the most mail are exported. */
const maxWorkspaces = 100;
const maxProviders = 20;
const maxListings = 500;

function worstFirst(statuses: readonly ReputationStatus[]): readonly ReputationStatus[] {
	const rank = ({pausedAt, warnedAt}: ReputationStatus) => (pausedAt === null ? 0 : 2) + (warnedAt === null ? 0 : 1);
	return statuses
		.toSorted((a, b) => rank(b) - rank(a) || b.windows.week.attempted - a.windows.week.attempted)
		.slice(0, maxWorkspaces);
}

/** Returns a function whose concurrent calls share one result. */
function shared<Result>(read: () => Promise<Result>): () => Promise<Result> {
	let pending: Promise<Result> | null = null;
	return () => {
		pending ??= read().finally(() => {
			pending = null;
		});
		return pending;
	};
}
