import {Counter, collectDefaultMetrics, Gauge, Histogram, Registry} from 'prom-client';
import type {Mode} from '../mail/message.ts';
import {type Attempt, type AttemptResult, isLogInRefusal} from '../mail/outcome.ts';
import type {DeliveryState} from '../mail/webhook.ts';
import {registerAsked} from './asked-gauge.ts';
import {type InboundFigures, type InboundInput, registerInbound} from './inbound-figures.ts';
import {type QueueGaugesInput, registerQueueGauges} from './queue-gauges.ts';
import {type ReputationGaugesInput, registerReputationGauges} from './reputation-gauges.ts';
import {registerSubmission, type SubmissionFigures} from './submission-figures.ts';

/** Counters of the daemon, served at /metrics in Prometheus' text form. */
export type Metrics = {
	readonly inbound: InboundFigures;
	readonly submission: SubmissionFigures;
	readonly text: () => Promise<string>;
	readonly accepted: (mode: Mode, messages: number) => void;
	/**
	 * A try's end: its outcome, each of its conversations, the time since acceptance if it was the last, and how long the copy
	 * had waited for it if it was the first (null: it was not).
	 */
	readonly attempted: (result: AttemptResult, delayMs: number, waitMs: number | null) => void;
	/** An attempt to post an event to an endpoint: what its delivery is now, and how long it took. */
	readonly webhookAttempted: (state: DeliveryState, milliseconds: number) => void;
	/** `route` is the pattern, never the path: a label's values must be few. */
	readonly httpRequest: (method: string, route: string, status: number, milliseconds: number) => void;
};

export type MetricsInput = QueueGaugesInput &
	ReputationGaugesInput & {
		readonly version: string;
		/** Milliseconds that this machine's clock is ahead of the store's. */
		readonly skew: () => number;
		/** Deliveries of webhooks that wait; asked at each scrape, and left out where the store fails. */
		readonly webhooksPending: () => Promise<number>;
		/** Sender domains by state; asked and left out likewise. */
		readonly domainStates: () => Promise<Readonly<Record<string, number>>>;
		readonly inbound: InboundInput;
		/** Open sessions of the listener for submission; null: there is none. */
		readonly submissionSessions: () => number | null;
		/** Log lines that nobody took, since the start. */
		readonly logDropped: () => number;
		/** Bytes; null: not known. */
		readonly freeDisk: () => number | null;
		/** Octets; null: with PostgreSQL. */
		readonly walBytes: () => number | null;
	};

const deliverySeconds = [0.1, 0.5, 1, 5, 15, 60, 300, 1800, 7200, 43_200, 345_600];
const waitSeconds = [0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 15, 60, 300, 1800, 7200, 43_200];
const webhookSeconds = [0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 15];
const httpSeconds = [0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 2.5, 10];

export function createMetrics({
	version,
	skew,
	webhooksPending,
	domainStates,
	inbound,
	submissionSessions,
	logDropped,
	freeDisk,
	walBytes,
	...figures
}: MetricsInput): Metrics {
	const registry = new Registry();
	const registers = [registry];
	// Event-loop lag, memory, CPU, garbage collection, open files.
	collectDefaultMetrics({register: registry, prefix: 'mailctl_'});
	new Gauge({
		name: 'mailctl_build_info',
		help: 'Always 1; the labels say what runs.',
		labelNames: ['version', 'node'],
		registers,
	}).set({version, node: process.version}, 1);
	new Gauge({
		name: 'mailctl_clock_skew_seconds',
		help: 'How far the clock of this machine is ahead of the clock of the database; 0 with SQLite.',
		registers,
		collect() {
			this.set(skew() / 1000);
		},
	});
	registerQueueGauges(registers, figures);
	registerReputationGauges(registers, figures);
	registerAsked(registers, {
		name: 'mailctl_webhook_pending',
		help: 'Deliveries of events to endpoints that wait for an attempt or are being tried.',
		ask: webhooksPending,
	});
	new Gauge({
		name: 'mailctl_domains',
		help: 'Domains of senders by the state of their DNS records.',
		labelNames: ['state'],
		registers,
		async collect() {
			this.reset();
			for (const [state, count] of Object.entries((await domainStates().catch(() => undefined)) ?? {})) {
				this.set({state}, count);
			}
		},
	});
	new Counter({
		name: 'mailctl_log_lines_dropped_total',
		help: 'Log lines lost because their reader was gone, or took nothing until 16 MiB waited.',
		registers,
		collect() {
			this.reset();
			this.inc(logDropped());
		},
	});
	registerAsked(registers, {
		name: 'mailctl_free_disk_bytes',
		help: 'Free space of the file system of the data folder.',
		ask: freeDisk,
	});
	registerAsked(registers, {
		name: 'mailctl_store_wal_bytes',
		help: "What the write-ahead log of SQLite's store takes on the disk.",
		ask: walBytes,
	});
	const webhooks = new Histogram({
		name: 'mailctl_webhook_attempt_duration_seconds',
		help: 'Attempts to post an event to an endpoint, by what the delivery is after it.',
		labelNames: ['state'],
		buckets: webhookSeconds,
		registers,
	});
	const accepted = new Counter({
		name: 'mailctl_messages_accepted_total',
		help: 'Messages accepted, by mode of the key.',
		labelNames: ['mode'],
		registers,
	});
	const outcomes = new Counter({
		name: 'mailctl_outcomes_total',
		help: 'Attempts that ended, by outcome.',
		labelNames: ['kind'],
		registers,
	});
	const refusals = new Counter({
		name: 'mailctl_refusals_total',
		help: 'Attempts that ended deferred or bounced, by category.',
		labelNames: ['kind', 'category'],
		registers,
	});
	const waits = new Histogram({
		name: 'mailctl_queue_wait_seconds',
		help: 'From acceptance until the first try of a copy began.',
		buckets: waitSeconds,
		registers,
	});
	const attempts = new Counter({
		name: 'mailctl_send_attempts_total',
		help: 'Conversations with a host, by how far they came and the class of the last reply (none: no reply).',
		labelNames: ['phase', 'reply'],
		registers,
	});
	const logInRefusals = new Counter({
		name: 'mailctl_log_in_refusals_total',
		help: 'Log-ins that a smarthost refused.',
		registers,
	});
	const delivery = new Histogram({
		name: 'mailctl_delivery_duration_seconds',
		help: 'From acceptance until a host took the copy.',
		buckets: deliverySeconds,
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
		inbound: registerInbound(registers, inbound),
		submission: registerSubmission(registers, submissionSessions),
		text: () => registry.metrics(),
		accepted(mode, messages) {
			accepted.inc({mode}, messages);
		},
		attempted({outcome, attempts: conversations}, delayMs, waitMs) {
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
		webhookAttempted(state, milliseconds) {
			webhooks.observe({state}, milliseconds / 1000);
		},
		httpRequest(method, route, status, milliseconds) {
			requests.observe({method, route, status}, milliseconds / 1000);
		},
	};
}

function replyClass({code}: Attempt): string {
	return code === null ? 'none' : `${Math.floor(code / 100)}xx`;
}
