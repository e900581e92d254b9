import {mkdtempSync, rmSync} from 'node:fs';
import {availableParallelism, loadavg} from 'node:os';
import {join} from 'node:path';
import {storeTime} from '../kit/time.ts';
import {openDataDir} from '../store/data-folder/data-dir.ts';
import type {FilledWorkspace} from '../store/filling.ts';
import type {Bench} from './bench/measures.ts';
import {CliError} from './fault.ts';
import {count} from './options.ts';
import type {CliCommand} from './program.ts';
import type {Session} from './session.ts';
import {grouped} from './terminal-text.ts';

type Options = {messages: number; connections: number; fill?: number; waiting?: true};

const titles = {accept: 'Accept only', through: 'End to end'};

const explanation = `
p50 to max are the times from a request to its 202 response. Lost messages were
accepted but not delivered. In a checkout, npm run bench has more workloads and
compares other mail servers.`;

export function benchCommand(command: CliCommand): void {
	command
		.sample('mailctl bench --messages 2000')
		.addHelpText('after', explanation)
		.option('--messages <n>', 'messages per measurement', count('--messages', 1, 10_000_000), 6000)
		.option('--connections <n>', 'concurrent HTTP connections', count('--connections', 1, 1000), 64)
		.option(
			'--fill <n>',
			'fill the store with n messages instead of measuring; the daemon must be stopped. Only for trials: a power loss can damage the store',
			count('--fill', 1, 100_000_000),
		)
		.option('--waiting', 'with --fill, leave the messages waiting in the queue')
		.does<Options>(bench, {makesStore: () => true});
}

async function bench(session: Session, options: Options): Promise<void> {
	// With PostgreSQL, the data folder may not exist yet.
	openDataDir({dataDir: session.storeSettings().dataDir, asRoot: true});
	if (options.fill !== undefined) {
		await fill(session, options.fill, options.waiting === true);
	} else {
		await measureAll(session, options);
	}
}

/** Runs each measurement on a new store in the data folder, so that the disk that the service uses is measured. */
async function measureAll(session: Session, {messages, connections}: Options): Promise<void> {
	const [{measureAccept, measureEndToEnd, startSink}, {plain}] = await Promise.all([
		import('./bench/measures.ts'),
		import('./bench/throw-away.ts'),
	]);
	const {tools, terminal} = session;
	const {dataDir} = session.storeSettings();
	const machine = {node: process.version, cores: availableParallelism(), load: loadavg()[0] ?? 0};

	async function inFolder<Result>(title: string, measure: (bench: Bench) => Promise<Result>): Promise<Result> {
		terminal.status(`${title} …`);
		const folder = mkdtempSync(join(dataDir, 'bench-'));
		try {
			return await measure({folder, tools, workload: plain, messages, connections});
		} finally {
			rmSync(folder, {recursive: true, force: true});
			terminal.status(null);
		}
	}

	const accept = await inFolder(titles.accept, measureAccept);
	const sink = await startSink();
	const {settings} = sink;
	const {figures: through, missing} = await inFolder(titles.through, bench =>
		measureEndToEnd({...bench, settings}, sink),
	).finally(sink.stop);
	session.show({...machine, messages, connections, accept, through}, () => [
		`${grouped(messages)} messages of 17 KB, ${connections} connections`,
		`${machine.cores} cores, load ${machine.load.toFixed(1)}, Node.js ${machine.node}`,
		'',
		titles.accept,
		...toLines(accept),
		'',
		titles.through,
		...toLines(through),
	]);
	if (missing > 0) {
		throw new CliError('other', 'mail was lost', 'report it with these figures');
	}
}

function toLines(figures: object): string[] {
	return Object.entries(figures).map(
		([name, value]) => `  ${name.replaceAll('_', ' ').padEnd(18)}${value === null ? '-' : grouped(value)}`,
	);
}

/** Fills the workspace of `--workspace`, or many new workspaces. */
async function fill(session: Session, messages: number, isWaiting: boolean): Promise<void> {
	const {dataDir, retrySchedule} = session.storeSettings();
	const {tools} = session;
	const {clock} = tools;
	const [{lockData}, {fillStore, makeWorkspaces, prepareWorkspace}, {readStoreSize}, {compileTemplate, plain}] =
		await Promise.all([
			import('../store/data-folder/open.ts'),
			import('./bench/fill.ts'),
			import('../store/engine/dialect.ts'),
			import('./bench/throw-away.ts'),
		]);
	const unlock = await lockData(dataDir);
	const progress = session.progress('messages');
	try {
		const chosen = await session.chosenWorkspace();
		await requireNoDaemon(session);
		const variant = await compileTemplate(plain.template);
		const workspaces = await session.write(async trx => {
			const filled: FilledWorkspace[] = [];
			for (const id of chosen ? [chosen.id] : await makeWorkspaces(trx, tools)) {
				filled.push(await prepareWorkspace(trx, tools, id, variant));
			}
			return filled;
		});
		const [startedAt, now] = [clock.monotonic(), clock.now()];
		const maxWait = Math.max(...retrySchedule.waits);
		await fillStore(await session.store(), {
			workspaces,
			messages,
			now,
			random: tools.random,
			data: plain.data,
			onProgress: done => progress.show(done, done / messages),
			...(isWaiting && {waitsUntil: number => now + (number / messages) * maxWait}),
		});
		const seconds = (clock.monotonic() - startedAt) / 1000;
		const perSecond = Math.round(messages / seconds);
		const bytes = await readStoreSize((await session.store()).reader);
		const figures = {messages, workspaces: workspaces.length, seconds: Math.round(seconds * 10) / 10};
		session.show({...figures, messages_per_s: perSecond, store_bytes: bytes}, () => [
			`${grouped(messages)} messages for ${grouped(workspaces.length)} workspaces in ${figures.seconds} s, ${grouped(perSecond)}/s.`,
			`The store now has ${grouped(bytes)} bytes.`,
		]);
	} finally {
		progress.end();
		await unlock();
	}
}

/** Throws if a daemon is running: with PostgreSQL, it may be on another machine, where no lock reveals it. */
async function requireNoDaemon(session: Session): Promise<void> {
	const {listNodes, silentMs} = await import('../store/nodes.ts');
	const store = await session.store();
	const [node] = await listNodes(store.reader, storeTime(store.clock.now() - silentMs));
	if (node) {
		throw new CliError('temporary', `a daemon is running on ${node.host}`, 'stop it first');
	}
}
