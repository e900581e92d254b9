import {Gauge, type Registry} from 'prom-client';
import type {QueueSize} from '../store/queue/queue-summary.ts';
import type {PaceFigures} from '../store/queue/sites.ts';

/** How a site is doing. */
export type SiteFigures = {
	readonly site: string;
	/** Connections that it may have now. */
	readonly connections: number;
	/** Copies claimed and not yet done. */
	readonly inFlight: number;
};

/** Asked at each scrape; the store may fail, then the gauge is left out. */
export type QueueGaugesInput = {
	readonly queueSize: () => Promise<QueueSize>;
	readonly pace: () => Promise<PaceFigures>;
	/** All sites with work; none where this process does not deliver. */
	readonly sites: () => readonly SiteFigures[];
};

/** A site's name is a label's value: only those with most under way are told, whatever their number. */
const mostSites = 10;

/** What waits in the queue, and what keeps it back. */
export function registerQueueGauges(registers: Registry[], {queueSize, pace, sites}: QueueGaugesInput): void {
	new Gauge({
		name: 'mailctl_queue_size',
		help: 'Copies in the queue: due now, waiting for a later try, being tried, held by an operator.',
		labelNames: ['state'],
		registers,
		async collect() {
			this.reset();
			const size = await queueSize().catch(() => undefined);
			if (size) {
				this.set({state: 'ready'}, size.ready);
				this.set({state: 'deferred'}, size.deferred);
				this.set({state: 'in_flight'}, size.inFlight);
				this.set({state: 'held'}, size.held);
			}
		},
	});
	const figures = sharing(() => pace().catch(() => undefined));
	new Gauge({
		name: 'mailctl_suspended',
		help: 'What nothing is sent to now: destinations by an operator, sites after failures, smarthosts that refuse us.',
		labelNames: ['by'],
		registers,
		async collect() {
			const now = await figures();
			this.reset();
			if (now) {
				this.set({by: 'operator'}, now.suspended.operator);
				this.set({by: 'failures'}, now.suspended.failures);
				this.set({by: 'route'}, now.suspended.route);
			}
		},
	});
	new Gauge({
		name: 'mailctl_queue_lanes_waiting',
		help: 'Lanes (the mail of a workspace for a destination) whose mail is kept back, by what they wait for.',
		labelNames: ['waits_for'],
		registers,
		async collect() {
			const now = await figures();
			this.reset();
			for (const {waitsFor, n} of now?.queues ?? []) {
				this.set({waits_for: waitsFor}, n);
			}
		},
	});
	new Gauge({
		name: 'mailctl_warm_up_sent_today',
		help: 'Copies sent today (UTC) from a new source address, by provider.',
		labelNames: ['source', 'provider'],
		registers,
		async collect() {
			const now = await figures();
			this.reset();
			for (const {source, provider, n} of now?.warmUp ?? []) {
				this.set({source, provider}, n);
			}
		},
	});
	const busiest = () =>
		sites()
			.filter(({inFlight}) => inFlight > 0)
			.sort((a, b) => b.inFlight - a.inFlight)
			.slice(0, mostSites);
	new Gauge({
		name: 'mailctl_site_connections',
		help: `Connections that a site may have now: the ${mostSites} sites with most under way.`,
		labelNames: ['site'],
		registers,
		collect() {
			this.reset();
			for (const {site, connections} of busiest()) {
				this.set({site}, connections);
			}
		},
	});
	new Gauge({
		name: 'mailctl_site_in_flight',
		help: `Copies under way to a site: the ${mostSites} sites with most.`,
		labelNames: ['site'],
		registers,
		collect() {
			this.reset();
			for (const {site, inFlight} of busiest()) {
				this.set({site}, inFlight);
			}
		},
	});
}

/** Whoever asks while an answer is awaited gets the same one. */
function sharing<Answer>(ask: () => Promise<Answer>): () => Promise<Answer> {
	let asked: Promise<Answer> | null = null;
	return () => {
		asked ??= ask().finally(() => {
			asked = null;
		});
		return asked;
	};
}
