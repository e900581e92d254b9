import {fillStore, prepareWorkspace} from '../../src/cli/bench/fill.ts';
import {percentiles} from '../../src/cli/bench/latency.ts';
import {
	type Bench,
	type EndToEnd,
	type Figures,
	measureEndToEnd,
	rate,
	type Sink,
	serve,
	toUsageFigures,
	waitForArrival,
} from '../../src/cli/bench/measures.ts';
import {
	compileTemplate,
	createBenchStore,
	paddingText,
	plain,
	type Workload,
	withStore,
} from '../../src/cli/bench/throw-away.ts';
import {readStats} from '../../src/resources/messages/stats.ts';
import type {AccountedSink} from './accounted-sink.ts';
import {accountOf, type Entry} from './books.ts';

// What `npm run bench` measures beyond `mailctl bench`.

/** The receipt of `mailctl bench` with more to read: 100 KB of mail, as KumoMTA publishes its figures. */
export const large: Workload = {
	...plain,
	template: {...plain.template, html: plain.template.html?.replace('</body>', paddingText.repeat(330))},
};

/** The end-to-end run, and what became of each mail by the sink and by the store. */
export async function measureAccounted(bench: Bench, sink: AccountedSink): Promise<Figures> {
	const run = await measureEndToEnd(bench, sink);
	return {...run.figures, ...(await became(bench, await sink.entries(), run))};
}

async function became(bench: Bench, all: readonly Entry[], {report: {accepted, sent}, missing}: EndToEnd) {
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
	const shop = await createBenchStore(bench, workload, tools);
	const {workspaceId} = shop;
	const now = tools.clock.now();
	const variant = await compileTemplate(workload.template);
	await withStore(bench, async ({store}) => {
		const filled = await store.writer.transaction(trx => prepareWorkspace(trx, tools, workspaceId, variant));
		const {data} = workload;
		const {random} = tools;
		await fillStore(store, {workspaces: [filled], messages, now, data, random, waitsUntil: () => now});
	});
	const daemon = await serve(bench, shop, {});
	const before = daemon.usage();
	const [already, begun] = [sink.count(), performance.now()];
	const lost = await waitForArrival(sink, messages);
	const ms = performance.now() - begun;
	const after = daemon.usage();
	await daemon.stop();
	return {
		ready_ms: Math.round(daemon.readyMs),
		left_per_s: rate(messages - already, ms),
		...toUsageFigures(before, after, messages - already),
		lost,
	};
}
