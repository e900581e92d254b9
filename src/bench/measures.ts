import {fork} from 'node:child_process';
import {once} from 'node:events';
import {setTimeout as wait} from 'node:timers/promises';
import {Worker} from 'node:worker_threads';
import {readStats} from '../admin/stats.ts';
import type {ActTools} from '../mail/operator.ts';
import {accountOf, type Entry, percentiles} from './books.ts';
import {fillStore, prepareWorkspace} from './fill.ts';
import type {LoadOrder, LoadReport} from './load.ts';
import {
	compiled,
	type Daemon,
	makeShop,
	type Settings,
	type Shop,
	startDaemon,
	type Usage,
	type Workload,
	withStore,
} from './throw-away.ts';

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
const patienceMs = 2 * 60_000;
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

/** How fast mail goes from the request to the sink of `settings`, how long each took, and what became of it. */
export async function measureEndToEnd(bench: Bench, sink: Pick<Sink, 'count' | 'entries'>): Promise<Figures> {
	const shop = await makeShop(bench, bench.workload, bench.tools);
	const daemon = await serve(bench, shop, {});
	const order = daemon.order(Math.min(warmUp, bench.messages), bench.connections);
	const warm = await load({...order, send: order.send.replace('user{n}', 'warm{n}')});
	await arrival(sink, warm.accepted);
	const endBeside = await bench.beside?.(daemon, shop);
	const before = daemon.usage();
	const begun = performance.now();
	const report = await load(daemon.order(bench.messages, bench.connections));
	const lost = await arrival(sink, warm.accepted + report.accepted);
	const ms = performance.now() - begun;
	const after = daemon.usage();
	await endBeside?.();
	await daemon.stop();
	return {
		accepted_per_s: rate(report.accepted, report.ms),
		...report.latency,
		end_to_end_per_s: rate(report.accepted, ms),
		...spent(before, after, report.accepted),
		refused: report.refused,
		...(sink.entries ? await became(bench, await sink.entries(), report, lost) : {lost}),
	};
}

/** What became of the mails of a report, by the sink and by the store. */
async function became(bench: Bench, all: readonly Entry[], {accepted, sent}: LoadReport, missing: number) {
	const own = all.filter(({address}) => address.startsWith('user'));
	const waits = own.map(({address, taken, at}) =>
		taken > 0 ? at - (sent[Number.parseInt(address.slice(4), 10)] ?? 0) : 0,
	);
	const [account, seen, now] = [accountOf(accepted, own), accountOf(0, all), bench.tools.clock.now()];
	const {rows} = await withStore(bench, ({store}) => readStats(store.reader, {now, days: 2, by: null}));
	const misrecorded = (['delivered', 'bounced'] as const).map(end => Math.abs(seen[end] - (rows[0]?.[end] ?? 0)));
	return {
		...percentiles(waits.filter(Boolean), 'delivered_'),
		...account,
		lost: Math.max(account.lost, missing),
		misrecorded: Math.max(...misrecorded),
	};
}

/** How soon a daemon is ready on a store in which the messages wait, all due, and how fast they leave. */
export async function measureQueue(bench: Bench, sink: Pick<Sink, 'count'>): Promise<Figures> {
	const {tools, workload, messages} = bench;
	const shop = await makeShop(bench, workload, tools);
	const {workspaceId} = shop;
	const now = tools.clock.now();
	const variant = await compiled(workload.template);
	await withStore(bench, async ({store}) => {
		const filled = await store.writer.transaction(trx => prepareWorkspace(trx, tools, workspaceId, variant));
		const {data} = workload;
		const {random} = tools;
		await fillStore(store, {workspaces: [filled], messages, now, data, random, waitsUntil: () => now});
	});
	const daemon = await serve(bench, shop, {});
	const before = daemon.usage();
	const [already, begun] = [sink.count(), performance.now()];
	const lost = await arrival(sink, messages);
	const ms = performance.now() - begun;
	const after = daemon.usage();
	await daemon.stop();
	return {
		ready_ms: Math.round(daemon.readyMs),
		left_per_s: rate(messages - already, ms),
		...spent(before, after, messages - already),
		lost,
	};
}

/** The settings that lead all mail to one sink. */
export function relayTo({port}: Pick<Sink, 'port'>): Settings {
	return {
		MAILCTL_DELIVERY: 'relay',
		MAILCTL_RELAY_URL: `smtp://127.0.0.1:${port}?tls=none`,
		MAILCTL_RELAY_ACCEPT_MEANS: 'delivered',
	};
}

async function serve(bench: Bench, shop: Shop, settings: Settings): Promise<Daemon> {
	return await startDaemon(shop, bench.workload, {...settings, ...bench.settings}, bench.nodeOptions);
}

/** Waits for so many as long as more come; answers how many are missing. */
async function arrival({count}: Pick<Sink, 'count'>, wanted: number): Promise<number> {
	for (let [seen, until] = [-1, 0]; ; await wait(pollMs)) {
		if (count() > seen) {
			[seen, until] = [count(), performance.now() + patienceMs];
		}
		if (seen >= wanted || performance.now() > until) {
			return Math.max(0, wanted - seen);
		}
	}
}

const rate = (count: number, ms: number) => Math.round((count * 1000) / ms);

function spent(before: Usage, after: Usage, count: number): Figures {
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
	/** What it knows of each recipient. */
	readonly entries?: () => Promise<readonly Entry[]>;
	readonly stop: () => Promise<void>;
};

/** With a seed its replies are those of `replies.ts`; without one it takes all mail. */
export type SinkAt = {readonly host?: string; readonly port?: number; readonly seed?: number};

/** An SMTP server in a thread of its own that keeps no mail. */
export async function startSink({host = '127.0.0.1', port = 0, seed}: SinkAt = {}): Promise<Sink> {
	const settled = new Int32Array(new SharedArrayBuffer(4));
	const workerData = {settled, host, port, seed};
	const worker = new Worker(new URL('../bench/sink-thread.js', import.meta.url), {workerData});
	const [bound] = (await once(worker, 'message')) as [number];
	return {
		port: bound,
		settings: relayTo({port: bound}),
		count: () => Atomics.load(settled, 0),
		async entries(): Promise<readonly Entry[]> {
			worker.postMessage(null);
			return (await once(worker, 'message'))[0];
		},
		stop: async () => void (await worker.terminate()),
	};
}
