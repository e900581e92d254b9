import {mkdtempSync, rmSync} from 'node:fs';
import {availableParallelism} from 'node:os';
import {join} from 'node:path';
import {openDataDir} from '../data-folder/data-dir.ts';
import {storeTime} from '../kit/time.ts';
import type {FilledWorkspace} from '../store/filling.ts';
import {CliError} from './fault.ts';
import {count, oneOf} from './options.ts';
import type {CliCommand} from './program.ts';
import type {Session} from './session.ts';
import {grouped} from './terminal-text.ts';

type Options = {fill?: number; waiting?: true; messages: number; connections: number; only?: Measure};

const measures = ['accept', 'through', 'queue'] as const;
type Measure = (typeof measures)[number];

const titles: Readonly<Record<Measure, string>> = {
	accept: 'Accept alone',
	through: 'End to end',
	queue: 'A queue that waits',
};

export function benchCommand(command: CliCommand): void {
	command
		.sample('mailctl bench --messages 2000')
		.option('--messages <n>', 'messages of each measurement', count('--messages', 1, 10_000_000), 6000)
		.option('--connections <n>', 'HTTP connections that send at once', count('--connections', 1, 1000), 64)
		.option('--only <name>', measures.join(', '), measure)
		.option(
			'--fill <n>',
			'measure nothing: fill the store with n messages; the daemon must be stopped. Only for trials: a power loss meanwhile can damage the store',
			fillCount,
		)
		.option('--waiting', 'with --fill: the messages wait in the queue')
		.does<Options>(bench, {makesStore: () => true});
}

const fillCount = count('--fill', 1, 100_000_000);

const measure = oneOf('--only', measures);

async function bench(session: Session, options: Options): Promise<void> {
	// With PostgreSQL it may not be there yet.
	openDataDir({dataDir: session.storeSettings().dataDir, asRoot: true});
	if (options.fill !== undefined) {
		await fill(session, options.fill, options.waiting === true);
	} else {
		await measureAll(session, options);
	}
}

/** Each on a store of its own beside the one of the service, which it leaves alone: the disk is the same. */
async function measureAll(session: Session, {messages, connections, only}: Options): Promise<void> {
	const [{measureAccept, measureEndToEnd, measureQueue, relayTo, startSink}, {plain}] = await Promise.all([
		import('../bench/measures.ts'),
		import('../bench/throw-away.ts'),
	]);
	const {dataDir} = session.storeSettings();
	const figures: Record<string, unknown> = {};
	for (const name of measures.filter(one => only === undefined || one === only)) {
		session.terminal.status(`${titles[name]} …`);
		const folder = mkdtempSync(join(dataDir, 'bench-'));
		const sink = await startSink();
		const settings = name === 'accept' ? {} : relayTo(sink);
		const options = {folder, tools: session.tools, workload: plain, messages, connections, settings};
		try {
			figures[name] =
				name === 'accept'
					? await measureAccept(options)
					: await (name === 'through' ? measureEndToEnd : measureQueue)(options, sink);
		} finally {
			await sink.stop();
			rmSync(folder, {recursive: true, force: true});
			session.terminal.status(null);
		}
	}
	const machine = {node: process.version, cores: availableParallelism(), messages, connections};
	session.show({...machine, ...figures}, () => [
		`${grouped(messages)} messages, ${connections} connections, ${machine.cores} cores, Node.js ${machine.node}`,
		...measures.flatMap(name => (figures[name] ? ['', titles[name], ...linesOf(figures[name])] : [])),
	]);
}

function linesOf(figures: object): string[] {
	return Object.entries(figures).map(
		([name, value]) => `  ${name.replaceAll('_', ' ').padEnd(18)}${value === null ? '-' : grouped(value)}`,
	);
}

/** Into one workspace, where it is named, else into many. */
async function fill(session: Session, messages: number, isWaiting: boolean): Promise<void> {
	const {dataDir, retrySchedule} = session.storeSettings();
	const {tools} = session;
	const {clock} = tools;
	const [{lockData}, {fillStore, makeWorkspaces, prepareWorkspace}, {readStoreSize}, {compiled, plain}] =
		await Promise.all([
			import('../data-folder/open.ts'),
			import('../bench/fill.ts'),
			import('../store/engine/dialect.ts'),
			import('../bench/throw-away.ts'),
		]);
	const unlock = await lockData(dataDir);
	const progress = session.progress('messages');
	try {
		const chosen = await session.chosenWorkspace();
		await refuseNodes(session);
		const variant = await compiled(plain.template);
		const workspaces = await session.write(async trx => {
			const filled: FilledWorkspace[] = [];
			for (const id of chosen ? [chosen.id] : await makeWorkspaces(trx, tools)) {
				filled.push(await prepareWorkspace(trx, tools, id, variant));
			}
			return filled;
		});
		const [begun, now] = [clock.monotonic(), clock.now()];
		const longest = Math.max(...retrySchedule.waits);
		await fillStore(await session.store(), {
			...{workspaces, messages, now, random: tools.random, data: plain.data},
			onProgress: done => progress.show(done, done / messages),
			...(isWaiting && {waitsUntil: number => now + (number / messages) * longest}),
		});
		const seconds = (clock.monotonic() - begun) / 1000;
		const perSecond = Math.round(messages / seconds);
		const bytes = await readStoreSize((await session.store()).reader);
		const figures = {messages, workspaces: workspaces.length, seconds: Math.round(seconds * 10) / 10};
		session.show({...figures, messages_per_s: perSecond, store_bytes: bytes}, () => [
			`${grouped(messages)} messages for ${grouped(workspaces.length)} workspaces in ${figures.seconds} s, ${grouped(perSecond)}/s.`,
			`The store has ${grouped(bytes)} bytes now.`,
		]);
	} finally {
		progress.end();
		await unlock();
	}
}

/** With PostgreSQL a daemon may run on another machine. */
async function refuseNodes(session: Session): Promise<void> {
	const {listNodes, silentMs} = await import('../store/nodes.ts');
	const store = await session.store();
	const [node] = await listNodes(store.reader, storeTime(store.clock.now() - silentMs));
	if (node) {
		throw new CliError('temporary', `a daemon is running on ${node.host}`, 'stop it first');
	}
}
