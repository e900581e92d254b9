import {randomBytes} from 'node:crypto';
import {mkdirSync} from 'node:fs';
import {join} from 'node:path';
import {Worker} from 'node:worker_threads';
import {fillStore, prepareWorkspace} from '../../src/cli/bench/fill.ts';
import {type BenchStore, compileTemplate, createBenchStore, withStore} from '../../src/cli/bench/throw-away.ts';
import {systemClock} from '../../src/kit/clock.ts';
import {allocator} from '../../src/kit/memory.ts';
import {createIdSource, idFloor} from '../../src/mail/ids.ts';
import {createWorkspace} from '../../src/resources/workspaces/rules.ts';
import {startLab, toManyDomains} from '../bench/many-domains.ts';
import {type Program, prepareProgram, type Scope} from '../helpers/daemon.ts';
import {freePort} from '../helpers/free-port.ts';
import {mountDisk} from './disk.ts';
import type {LoadData, LoadOrder} from './load.ts';
import type {SinkData, SinkOrder} from './sink.ts';
import {type Again, countOf, createTally, type News, type Tally} from './tally.ts';

const hosts = 40;
const dayMs = 86_400_000;
/** A backup of eight gigabytes took over three minutes. */
const commandLimitMs = 3_600_000;

const tools = {
	clock: systemClock,
	newId: createIdSource(systemClock),
	random: randomBytes,
	operator: {actor: 'soak', from: 'localhost'},
};

export type Lab = {
	readonly program: Program;
	readonly dataDir: string;
	/** Where the API is, in all lives of the daemon. */
	readonly url: string;
	readonly shop: BenchStore;
	readonly tally: Tally;
	/** Mails that came again. */
	readonly again: readonly Again[];
	/** Latencies since the last call, milliseconds. */
	readonly answerMs: () => readonly number[];
	readonly arriveMs: () => readonly number[];
	readonly send: (order: LoadOrder) => void;
	/** One of the forty hosts goes, or comes back. */
	readonly setDead: (isDead: boolean) => void;
};

export type LabOptions = {
	readonly seconds: number;
	/** Of the file system that holds the data folder. */
	readonly diskGib: number;
	/** Mails that the tally has room for. */
	readonly mails: number;
};

/** The program on a disk of its own, a shop with a template, hosts for its mail, and who sends it. */
export async function openLab(t: Scope, {seconds, diskGib, mails}: LabOptions): Promise<Lab> {
	const tally = createTally(mails);
	const again: Again[] = [];
	const sink = {taken: [] as number[]};
	const load = {taken: [] as number[]};
	const listen = (worker: Worker, into: {taken: number[]}) =>
		worker
			.on('message', (news: News) => {
				into.taken.push(...news.latencies);
				again.push(...news.again);
			})
			.on('error', error => {
				throw error;
			});
	let [sinkWorker, lastHost]: [Worker?, string?] = [];
	const lab = await startLab({
		hosts,
		async openSinks(addresses, port) {
			const workerData: SinkData = {tally, hosts: addresses, port};
			const worker = new Worker(new URL('./sink.js', import.meta.url), {workerData});
			[sinkWorker, lastHost] = [listen(worker, sink), addresses.at(-1)];
			return {
				count: () => tally.counts[countOf.arrived] as number,
				stop: async () => void (await worker.terminate()),
			};
		},
	});
	t.teardown(lab.stop);

	const port = await freePort();
	const retryS = Math.max(1, seconds / 240);
	const program = await prepareProgram(
		t,
		{
			...lab.settings,
			MAILCTL_HTTP_LISTEN: `127.0.0.1:${port}`,
			MAILCTL_RATE_LIMIT: '0',
			MAILCTL_LOG_LEVEL: 'warn',
			// A day in an hour.
			MAILCTL_SWEEP_INTERVAL: '3s',
			MAILCTL_RETRY_SCHEDULE: [1, 2, 4]
				.map(times => `${Math.round(1000 * times * retryS)}ms`)
				.join(',')
				.concat('*'),
			...allocator,
		},
		undefined,
		commandLimitMs,
	);
	const dataDir = join(program.folder, 'data');
	mkdirSync(dataDir, {mode: 0o700});
	mountDisk(t, join(program.folder, 'disk.img'), dataDir, diskGib);
	const shop = await createBenchStore(program, toManyDomains, tools);

	const url = `http://127.0.0.1:${port}`;
	const {template: _, to, data, domains} = toManyDomains;
	const {templateId, key} = shop;
	const send = JSON.stringify({from: 'receipts@shop.example', to, templateId, data});
	const workerData: LoadData = {tally, url: `${url}/v1/messages`, key, send, domains};
	const loadWorker = listen(new Worker(new URL('./load.js', import.meta.url), {workerData}), load);
	t.teardown(async () => void (await loadWorker.terminate()));

	const take = (from: {taken: number[]}) => {
		const {taken} = from;
		from.taken = [];
		return taken;
	};
	return {
		program,
		dataDir,
		url,
		shop,
		tally,
		again,
		answerMs: () => take(load),
		arriveMs: () => take(sink),
		send: order => loadWorker.postMessage(order),
		setDead: isDead => sinkWorker?.postMessage({host: lastHost as string, isDead} satisfies SinkOrder),
	};
}

/** Messages of eighty days that have all come to their end, in a workspace of their own. No daemon runs. */
export async function fillPast({program}: Lab, messages: number): Promise<void> {
	const variant = await compileTemplate(toManyDomains.template);
	await withStore(program, async ({store}) => {
		const filled = await store.writer.transaction(async trx => {
			const workspace = await createWorkspace(trx, tools, {name: 'past'});
			return await prepareWorkspace(trx, tools, workspace?.id as string, variant);
		});
		const {random, clock} = tools;
		await fillStore(store, {workspaces: [filled], messages, now: clock.now(), data: {number: '{n}'}, random});
	});
}

/** Messages from before that many days ago. No daemon runs. */
export async function countOlder({program}: Lab, days: number): Promise<number> {
	return await withStore(program, async ({store}) => {
		const before = idFloor('msg', systemClock.now() - days * dayMs);
		const [row] = await store.reader('messages').where('id', '<', before).count({count: '*'});
		return Number(row?.count);
	});
}
