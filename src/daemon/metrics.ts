import {Counter, collectDefaultMetrics, Gauge, Histogram, Registry} from 'prom-client';
import {type Attempt, type AttemptResult, isLoginRefusal} from '../mail/outcome.ts';
import {figureNames, spans} from '../mail/reputation.ts';
import type {Refusals} from '../reputation/alarm.ts';
import type {Blocklisting} from '../store/blocklists.ts';
import type {Certificate} from '../store/certificates.ts';
import type {QueueSize} from '../store/queue/queue-summary.ts';
import type {PaceFigures} from '../store/queue/sites.ts';
import type {ReputationStatus} from '../store/reputation.ts';

/** How the polling of the mailbox went since the start. */
export type MailboxFigures = {
	/** Whether the mailbox could be read the last time; null: it was not tried yet. */
	readonly up: boolean | null;
	readonly taken: number;
	readonly known: number;
	/** Messages that could not be read. */
	readonly skipped: number;
	readonly failures: number;
};

/**
 * Where the figures come from that are asked for at each scrape. A gauge is absent where its source fails or answers
 * null.
 */
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
	readonly blocklistings: () => Promise<readonly Blocklisting[]>;
	readonly certificates: () => Promise<readonly Certificate[]>;
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

/** What a figure is when it is asked for: null if it is not known, or a row of label values for each value. */
type Asked = number | null | ReadonlyArray<readonly [...labels: string[], value: number]>;

/** Counters of the daemon, served at /metrics in Prometheus' text form. */
export class Metrics {
	readonly #registry = new Registry();
	readonly #registers = [this.#registry];

	readonly accepted = this.#counter(
		'mailctl_messages_accepted_total',
		'Messages accepted, by mode of the key.',
		'mode',
	);
	/** `source`: where mails come from. `kind`: what they are, `unread` or `dropped` (they went round in circles). */
	readonly inboundMails = this.#counter(
		'mailctl_inbound_mails_total',
		'Inbound mails that were read.',
		'source',
		'kind',
	);
	readonly providerPosts = this.#counter(
		'mailctl_provider_posts_total',
		'Posts of providers with events, by their end (taken, unknown, forged, unreadable, failed).',
		'provider',
		'end',
	);
	readonly inboundRefusals = this.#counter(
		'mailctl_inbound_refused_total',
		'Addresses, mails and sessions that the listener for reports refused.',
		'reason',
	);
	readonly reports = this.#counter(
		'mailctl_reports_total',
		'What inbound mails say of recipients, by the event that it led to (none: it is a report only).',
		'kind',
		'action',
		'event',
	);
	readonly kept = this.#counter('mailctl_inbound_kept_total', 'Inbound mails that are kept for a person.', 'kept');
	readonly submittedMails = this.#counter('mailctl_submission_mails_total', 'Mails that programs submitted.');
	readonly submittedMessages = this.#counter(
		'mailctl_submission_messages_total',
		'Messages that submitted mails became, one for each recipient.',
	);
	readonly submissionRefusals = this.#counter(
		'mailctl_submission_refused_total',
		'Log-ins, recipients, mails and sessions that the listener for submission refused.',
		'reason',
	);
	/** `state`: of the delivery after the attempt. */
	readonly webhookSeconds = this.#histogram(
		'mailctl_webhook_attempt_duration_seconds',
		'Attempts to post an event to an endpoint.',
		webhookSeconds,
		'state',
	);
	/** `route` is the pattern, never the path: a label's values must be few. */
	readonly httpSeconds = this.#histogram(
		'mailctl_http_request_duration_seconds',
		'HTTP requests answered.',
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
	/** `phase`: how far the conversation came. `reply`: the class of the last reply, or `none`. */
	readonly #conversations = this.#counter(
		'mailctl_send_attempts_total',
		'Conversations with hosts.',
		'phase',
		'reply',
	);
	readonly #logIns = this.#counter('mailctl_log_in_refusals_total', 'Log-ins that a smarthost refused.');
	readonly #waits = this.#histogram(
		'mailctl_queue_wait_seconds',
		'From acceptance until the first attempt began.',
		waitSeconds,
	);
	readonly #deliveries = this.#histogram(
		'mailctl_delivery_duration_seconds',
		'From acceptance until a host took the mail.',
		deliverySeconds,
	);

	constructor(sources: MetricsSources) {
		// Event-loop lag, memory, CPU, garbage collection, open files.
		collectDefaultMetrics({register: this.#registry, prefix: 'mailctl_'});
		this.#askProcess(sources);
		this.#askInbound(sources);
		this.#askQueue(sources);
		this.#askReputation(sources);
	}

	/** The figures in Prometheus' text format. */
	text(): Promise<string> {
		return this.#registry.metrics();
	}

	/** An ended attempt. `waitMs`: from acceptance to the begin of the first attempt; null for later attempts. */
	attempted({outcome, attempts, uncounted = []}: AttemptResult, delayMs: number, waitMs: number | null): void {
		this.#outcomes.inc({kind: outcome.kind});
		if (outcome.kind === 'deferred' || outcome.kind === 'bounced') {
			this.#refusals.inc({kind: outcome.kind, category: outcome.category});
		}
		if (waitMs !== null) {
			this.#waits.observe(waitMs / 1000);
		}
		const conversations = [...attempts, ...uncounted];
		this.#logIns.inc(conversations.filter(isLoginRefusal).length);
		for (const conversation of conversations) {
			this.#conversations.inc({phase: conversation.phase, reply: replyClass(conversation)});
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

	/** A figure that is asked for at each scrape; absent if its source fails or does not know it. */
	#ask(name: string, help: string, labelNames: readonly string[], read: () => Asked | Promise<Asked>): void {
		const isCount = name.endsWith('_total');
		const config = {
			name,
			help,
			labelNames,
			registers: this.#registers,
			async collect(this: Gauge | Counter): Promise<void> {
				const asked = await (async () => read())().catch(() => null);
				const rows = typeof asked === 'number' ? [[asked] as const] : (asked ?? []);
				this.reset();
				if (rows.length === 0 && labelNames.length === 0) {
					this.remove();
				}
				for (const row of rows) {
					this.labels(...(row.slice(0, -1) as string[])).inc(row.at(-1) as number);
				}
			},
		};
		isCount ? new Counter(config) : new Gauge(config);
	}

	#askProcess(sources: MetricsSources): void {
		const {version} = sources;
		this.#ask('mailctl_build_info', 'Always 1; the labels say what runs.', ['version', 'node'], () => [
			[version, process.version, 1],
		]);
		this.#ask(
			'mailctl_clock_skew_seconds',
			'How far the clock of this machine is ahead of the clock of the database; 0 with SQLite.',
			[],
			() => sources.skew() / 1000,
		);
		this.#ask('mailctl_log_lines_dropped_total', 'Log lines that nobody took.', [], sources.logDropped);
		this.#ask('mailctl_free_disk_bytes', 'Free space for the data folder.', [], sources.freeDisk);
		this.#ask('mailctl_store_wal_bytes', "Size of SQLite's write-ahead log.", [], sources.walBytes);
		this.#ask('mailctl_webhook_pending', 'Webhook deliveries that are not done.', [], sources.webhooksPending);
		this.#ask('mailctl_domains', 'Sender domains by the state of their DNS records.', ['state'], async () =>
			Object.entries(await sources.domainStates()),
		);
		const rank = ({state}: Blocklisting) => ['clear', 'listed'].indexOf(state);
		this.#ask('mailctl_blocklisted', 'Whether a blocklist names a source of mail.', ['source', 'zone'], async () =>
			(await sources.blocklistings())
				.filter(row => rank(row) >= 0)
				.toSorted((a, b) => rank(b) - rank(a))
				.slice(0, maxListings)
				.map(row => [row.source, row.zone, rank(row)]),
		);
		this.#ask(
			'mailctl_certificate_expires_seconds',
			'When the certificate of a name ends, seconds since 1970.',
			['name'],
			async () =>
				(await sources.certificates())
					.filter(row => row.not_after !== null && row.unused === null)
					.slice(0, maxListings)
					.map(row => [row.name, Date.parse(row.not_after ?? '') / 1000]),
		);
	}

	#askInbound(sources: MetricsSources): void {
		this.#ask('mailctl_inbound_unread', 'Inbound mails that wait to be read.', [], sources.unread);
		this.#ask('mailctl_inbound_sessions', 'SMTP sessions that bring reports.', [], sources.inboundSessions);
		this.#ask('mailctl_submission_sessions', 'SMTP sessions that submit mail.', [], sources.submissionSessions);
		this.#ask('mailctl_mailbox_up', 'Whether the bounce mailbox could be read the last time.', [], () => {
			const up = sources.mailbox()?.up ?? null;
			return up === null ? null : Number(up);
		});
		this.#ask('mailctl_mailbox_mails_total', 'Mails read from the bounce mailbox.', ['result'], () => {
			const mailbox = sources.mailbox();
			return (
				mailbox && [
					['new', mailbox.taken] as const,
					['known', mailbox.known] as const,
					['skipped', mailbox.skipped] as const,
				]
			);
		});
		this.#ask(
			'mailctl_mailbox_failures_total',
			'Times that the bounce mailbox could not be read.',
			[],
			() => sources.mailbox()?.failures ?? 0,
		);
	}

	/** What waits in the queue, and why. */
	#askQueue({queueSize, pace, sites}: MetricsSources): void {
		const figures = shared(pace);
		const size = shared(queueSize);
		const busiest = () =>
			sites()
				.filter(({inFlight}) => inFlight > 0)
				.sort((a, b) => b.inFlight - a.inFlight)
				.slice(0, maxSites);
		this.#ask('mailctl_queue_size', 'Recipients in the queue.', ['state'], async () => {
			const {ready, deferred, inFlight, held} = await size();
			return Object.entries({ready, deferred, in_flight: inFlight, held});
		});
		this.#ask('mailctl_queue_ready', 'Recipients that are due and wait for their turn.', ['priority'], async () =>
			Object.entries((await size()).byPriority),
		);
		this.#ask(
			'mailctl_suspended',
			'What nothing is sent to now: destinations by an operator, sites after failures, smarthosts that refuse us.',
			['by'],
			async () => Object.entries((await figures()).suspended),
		);
		this.#ask('mailctl_queue_lanes_waiting', 'Destination queues that wait.', ['waits_for'], async () =>
			(await figures()).queues.map(({waitsFor, n}) => [waitsFor, n]),
		);
		this.#ask(
			'mailctl_warm_up_sent_today',
			'Recipients sent to today (UTC) from a new source address, by provider.',
			['source', 'provider'],
			async () => (await figures()).warmUp.map(({source, provider, n}) => [source, provider, n]),
		);
		this.#ask(
			'mailctl_site_connections',
			`Connections that the ${maxSites} busiest sites may have.`,
			['site'],
			() => busiest().map(({site, connections}) => [site, connections]),
		);
		this.#ask('mailctl_site_in_flight', `Recipients under way to the ${maxSites} busiest sites.`, ['site'], () =>
			busiest().map(({site, inFlight}) => [site, inFlight]),
		);
	}

	/** What the reputation guard judges by, and its judgements. */
	#askReputation({statuses, refusals}: MetricsSources): void {
		const worst = shared(async () => worstFirst(await statuses()));
		this.#ask(
			'mailctl_reputation_copies',
			`Recipients by which the ${maxWorkspaces} workspaces in trouble, or with most mail, are judged.`,
			['workspace', 'window', 'what'],
			async () =>
				(await worst()).flatMap(({id, windows}) =>
					spans.flatMap(span => figureNames.map(name => [id, span, name, windows[span][name]] as const)),
				),
		);
		this.#ask(
			'mailctl_workspace_trouble',
			'Always 1: the workspace is paused, by its figures or by hand, or its figures are too high (warned).',
			['workspace', 'state'],
			async () =>
				(await worst())
					.filter(({pausedAt, warnedAt}) => pausedAt !== null || warnedAt !== null)
					.map(({id, pausedAt}) => [id, pausedAt === null ? 'warned' : 'paused', 1]),
		);
		this.#ask(
			'mailctl_infrastructure_refused_ratio',
			'Share of the attempts of the last hour that a provider refused because of us, if above 0.05.',
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

/** A site's name is a label's value: only the sites with most under way are shown. */
const maxSites = 10;
/**
 * A workspace's id is a label's value: only the workspaces that are paused or warned and those with most mail are
 * shown.
 */
const maxWorkspaces = 100;
const maxProviders = 20;
const maxListings = 500;

function worstFirst(statuses: readonly ReputationStatus[]): readonly ReputationStatus[] {
	const rank = ({pausedAt, warnedAt}: ReputationStatus) => (pausedAt === null ? 0 : 2) + (warnedAt === null ? 0 : 1);
	return statuses
		.toSorted((a, b) => rank(b) - rank(a) || b.windows.week.attempted - a.windows.week.attempted)
		.slice(0, maxWorkspaces);
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
