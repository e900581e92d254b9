import {fork} from 'node:child_process';
import {once} from 'node:events';
import {setTimeout as wait} from 'node:timers/promises';
import {Worker} from 'node:worker_threads';
import type {ActTools} from '../mail/operator.ts';
import type {LoadOrder, LoadReport} from './load.ts';
import {type Daemon, makeShop, type Settings, type Shop, startDaemon, type Usage, type Workload} from './throw-away.ts';

export type Bench = {
	/** Empty; the store is made in it. */
	readonly folder: string;
	readonly tools: ActTools;
	readonly workload: Workload;
	readonly messages: number;
	readonly connections: number;
	/** In addition, for the store and the daemon. */
	readonly settings?: Settings;
	/** Of Node.js, for the daemon: profiles. */
	readonly nodeOptions?: readonly string[];
	/** What else goes on while mail goes through; answers how to end it. */
	readonly beside?: (daemon: Daemon, shop: Shop) => Promise<() => void | Promise<void>>;
};

/** Rates are messages a second; CPU time is that of the daemon with all its threads. */
export type Figures = Readonly<Record<string, number | null>>;

/** V8 compiles for seconds, on threads that take CPU from the mail: what is measured is a daemon that has done so. */
const warmUp = 3000;
const waitLimitMs = 2 * 60_000;
const pollMs = 5;

/** How fast sends are accepted: nothing is delivered meanwhile. */
export async function measureAccept(bench: Bench): Promise<Figures> {
	const shop = await makeShop(bench, bench.workload, bench.tools);
	const daemon = await serve(bench, shop, {MAILCTL_ROLES: 'api'});
	await load(daemon.order(Math.min(warmUp, bench.messages), bench.connections));
	const before = daemon.usage();
	const report = await load(daemon.order(bench.messages, bench.connections));
	const after = daemon.usage();
	await daemon.stop();
	return {
		accepted_per_s: rate(report.accepted, report.ms),
		...report.latency,
		...spent(before, after, report.accepted),
		refused: report.refused,
	};
}

/** What came of an end-to-end run: its figures, the report of the load generator, and how many mails did not arrive. */
export type EndToEnd = {readonly figures: Figures; readonly report: LoadReport; readonly missing: number};

/** How fast mail goes from the request to the sink. */
export async function measureEndToEnd(bench: Bench, sink: Pick<Sink, 'count'>): Promise<EndToEnd> {
	const shop = await makeShop(bench, bench.workload, bench.tools);
	const daemon = await serve(bench, shop, {});
	const order = daemon.order(Math.min(warmUp, bench.messages), bench.connections);
	const warm = await load({...order, send: order.send.replace('user{n}', 'warm{n}')});
	await arrival(sink, warm.accepted);
	const endBeside = await bench.beside?.(daemon, shop);
	const before = daemon.usage();
	const begun = performance.now();
	const report = await load(daemon.order(bench.messages, bench.connections));
	const missing = await arrival(sink, warm.accepted + report.accepted);
	const ms = performance.now() - begun;
	const after = daemon.usage();
	await endBeside?.();
	await daemon.stop();
	const figures = {
		accepted_per_s: rate(report.accepted, report.ms),
		...report.latency,
		end_to_end_per_s: rate(report.accepted, ms),
		...spent(before, after, report.accepted),
		refused: report.refused,
		lost: missing,
	};
	return {figures, report, missing};
}

/** The settings that lead all mail to one sink. */
export function relayTo({port}: Pick<Sink, 'port'>): Settings {
	return {
		MAILCTL_DELIVERY: 'relay',
		MAILCTL_RELAY_URL: `smtp://127.0.0.1:${port}?tls=none`,
		MAILCTL_RELAY_ACCEPT_MEANS: 'delivered',
	};
}

/** Starts the daemon of a run. */
export async function serve(bench: Bench, shop: Shop, settings: Settings): Promise<Daemon> {
	return await startDaemon(shop, bench.workload, {...settings, ...bench.settings}, bench.nodeOptions);
}

/** Waits until the sink has counted so many, as long as more come; answers how many are missing. */
export async function arrival({count}: Pick<Sink, 'count'>, wanted: number): Promise<number> {
	for (let [seen, until] = [-1, 0]; ; await wait(pollMs)) {
		if (count() > seen) {
			[seen, until] = [count(), performance.now() + waitLimitMs];
		}
		if (seen >= wanted || performance.now() > until) {
			return Math.max(0, wanted - seen);
		}
	}
}

export const rate = (count: number, ms: number) => Math.round((count * 1000) / ms);

export function spent(before: Usage, after: Usage, count: number): Figures {
	const cpuUs = Math.round((1000 * (after.cpuMs - before.cpuMs)) / count);
	return {
		cpu_us: Number.isNaN(cpuUs) ? null : cpuUs,
		peak_mb: Number.isNaN(after.peakMb) ? null : Math.round(after.peakMb),
	};
}

/** Sends many messages by keep-alive connections of a process of its own; resolves when all are answered. */
export async function load(order: LoadOrder): Promise<LoadReport> {
	const child = fork(new URL('../bench/load.js', import.meta.url));
	child.send(order);
	const [report] = (await once(child, 'message')) as [LoadReport];
	child.kill();
	return report;
}

/** A place where mail ends. */
export type Sink = {
	/** What leads all mail there. */
	readonly settings: Settings;
	readonly port: number;
	/** Mails taken so far, and recipients refused for good. */
	readonly count: () => number;
	readonly stop: () => Promise<void>;
};

export type SinkAddress = {readonly host?: string; readonly port?: number};

/** What a sink's thread is started with. */
export type SinkThread = Required<SinkAddress> & {
	/** One number, which the thread counts up. */
	readonly settled: Int32Array;
};

/** An SMTP server in a thread of its own that takes all mail and keeps none. */
export async function startSink(address: SinkAddress = {}): Promise<Sink> {
	return await startSinkThread(new URL('../bench/sink-thread.js', import.meta.url), address);
}

/** Starts a sink from the file of its thread, which posts the port first. */
export async function startSinkThread(
	file: URL,
	{host = '127.0.0.1', port = 0, ...options}: SinkAddress & Readonly<Record<string, unknown>>,
): Promise<Sink & {readonly thread: Worker}> {
	const settled = new Int32Array(new SharedArrayBuffer(4));
	const thread = new Worker(file, {workerData: {settled, host, port, ...options}});
	const [bound] = (await once(thread, 'message')) as [number];
	return {
		thread,
		port: bound,
		settings: relayTo({port: bound}),
		count: () => Atomics.load(settled, 0),
		stop: async () => void (await thread.terminate()),
	};
}
