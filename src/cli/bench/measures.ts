import {fork} from 'node:child_process';
import {once} from 'node:events';
import {setTimeout as wait} from 'node:timers/promises';
import {Worker} from 'node:worker_threads';
import {entryPoint} from '../../kit/program-files.ts';
import type {ActTools} from '../../mail/operator.ts';
import type {LoadJob, LoadReport} from './load.ts';
import {
	type BenchStore,
	createBenchStore,
	type Daemon,
	type Settings,
	startDaemon,
	type Usage,
	type Workload,
} from './throw-away.ts';

// src/cli/bench measures the program: it creates a temporary store (throw-away.ts), starts a daemon in its own process,
// sends to it from another process (load.ts) and receives the messages in an SMTP sink (sink-thread.ts).
// `mailctl bench` runs these measurements; `npm run bench` builds more on top of them. They use the public API and
// settings only, and never touch the store of a running service.

export type Bench = {
	/** An empty folder, in which the store is created. */
	readonly folder: string;
	readonly tools: ActTools;
	readonly workload: Workload;
	readonly messages: number;
	readonly connections: number;
	/** Additional settings of the store and the daemon. */
	readonly settings?: Settings;
	/** Options of Node.js for the daemon, such as profiling. */
	readonly nodeOptions?: readonly string[];
	/** Starts work that runs during the measurement. Returns a function that stops it. */
	readonly beside?: (daemon: Daemon, shop: BenchStore) => Promise<() => void | Promise<void>>;
};

/** The results of a measurement. Rates are messages per second; CPU time is that of the daemon with all its threads. */
export type Figures = Readonly<Record<string, number | null>>;

/**
 * The number of messages before a measurement. V8 compiles for seconds on other threads, which should not be measured.
 */
const warmUp = 3000;
const waitLimitMs = 2 * 60_000;
const pollMs = 5;

/** Measures how fast sends are accepted while nothing is delivered. */
export async function measureAccept(bench: Bench): Promise<Figures> {
	const shop = await createBenchStore(bench, bench.workload, bench.tools);
	const daemon = await serve(bench, shop, {MAILCTL_ROLES: 'api'});
	await load(daemon.order(Math.min(warmUp, bench.messages), bench.connections));
	const stopBeside = await bench.beside?.(daemon, shop);
	const before = daemon.usage();
	const report = await load(daemon.order(bench.messages, bench.connections));
	const after = daemon.usage();
	await stopBeside?.();
	await daemon.stop();
	return {
		accepted_per_s: rate(report.accepted, report.ms),
		...report.latency,
		...toUsageFigures(before, after, report.accepted),
		refused: report.refused,
	};
}

/** The result of an end-to-end run: its figures, the load generator's report, and the number of lost messages. */
export type EndToEnd = {readonly figures: Figures; readonly report: LoadReport; readonly missing: number};

/** Measures how fast messages get from the request to the sink. */
export async function measureEndToEnd(bench: Bench, sink: Pick<Sink, 'count'>): Promise<EndToEnd> {
	const shop = await createBenchStore(bench, bench.workload, bench.tools);
	const daemon = await serve(bench, shop, {});
	const order = daemon.order(Math.min(warmUp, bench.messages), bench.connections);
	const warm = await load({...order, send: order.send.replace('user{n}', 'warm{n}')});
	await waitForArrival(sink, warm.accepted);
	const stopBeside = await bench.beside?.(daemon, shop);
	const before = daemon.usage();
	const startedAt = performance.now();
	const report = await load(daemon.order(bench.messages, bench.connections));
	const missing = await waitForArrival(sink, warm.accepted + report.accepted);
	const ms = performance.now() - startedAt;
	const after = daemon.usage();
	await stopBeside?.();
	await daemon.stop();
	const figures = {
		accepted_per_s: rate(report.accepted, report.ms),
		...report.latency,
		end_to_end_per_s: rate(report.accepted, ms),
		...toUsageFigures(before, after, report.accepted),
		refused: report.refused,
		lost: missing,
	};
	return {figures, report, missing};
}

/** Returns the settings that send all messages to one sink. */
export function relayTo({port}: Pick<Sink, 'port'>): Settings {
	return {
		MAILCTL_DELIVERY: 'relay',
		MAILCTL_RELAY_URL: `smtp://127.0.0.1:${port}?tls=none`,
		MAILCTL_RELAY_ACCEPT_MEANS: 'delivered',
	};
}

/** Starts the daemon of a measurement. */
export async function serve(bench: Bench, shop: BenchStore, settings: Settings): Promise<Daemon> {
	return await startDaemon(shop, bench.workload, {...settings, ...bench.settings}, bench.nodeOptions);
}

/** Waits until the sink has counted `expected` messages, or none arrive anymore. Returns how many are missing. */
export async function waitForArrival({count}: Pick<Sink, 'count'>, expected: number): Promise<number> {
	for (let [received, deadline] = [-1, 0]; ; await wait(pollMs)) {
		if (count() > received) {
			[received, deadline] = [count(), performance.now() + waitLimitMs];
		}
		if (received >= expected || performance.now() > deadline) {
			return Math.max(0, expected - received);
		}
	}
}

export const rate = (count: number, ms: number) => Math.round((count * 1000) / ms);

export function toUsageFigures(before: Usage, after: Usage, count: number): Figures {
	const cpuUs = Math.round((1000 * (after.cpuMs - before.cpuMs)) / count);
	return {
		cpu_us: Number.isNaN(cpuUs) ? null : cpuUs,
		peak_mb: Number.isNaN(after.peakMb) ? null : Math.round(after.peakMb),
	};
}

/** Sends many messages from a separate process. Resolves when every request has a response. */
export async function load(order: LoadJob): Promise<LoadReport> {
	const child = fork(entryPoint('cli/bench/load'));
	child.send(order);
	const [report] = (await once(child, 'message')) as [LoadReport];
	child.kill();
	return report;
}

/** A server that accepts and discards messages. */
export type Sink = {
	/** The settings that send all messages to it. */
	readonly settings: Settings;
	readonly port: number;
	/** Returns the number of accepted messages and of permanently refused recipients so far. */
	readonly count: () => number;
	readonly stop: () => Promise<void>;
};

export type SinkAddress = {readonly host?: string; readonly port?: number};

/** The data that a sink's thread is started with. */
export type SinkThread = Required<SinkAddress> & {
	/** A single number, which the thread increments. */
	readonly settled: Int32Array;
};

/** Starts an SMTP server in its own thread that accepts all messages and stores none. */
export async function startSink(address: SinkAddress = {}): Promise<Sink> {
	return await startSinkThread(entryPoint('cli/bench/sink-thread'), address);
}

/** Starts a sink from the file of its thread, whose first message is the port. */
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
