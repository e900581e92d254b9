import {mkdtempSync, rmSync} from 'node:fs';
import {availableParallelism, loadavg} from 'node:os';
import {join} from 'node:path';
import type {Figures} from '../bench/measures.ts';
import {realistic} from '../bench/replies.ts';
import {openDataDir} from '../data-folder/data-dir.ts';
import {storeTime} from '../kit/time.ts';
import type {FilledWorkspace} from '../store/filling.ts';
import {CliError} from './fault.ts';
import {count, oneOf} from './options.ts';
import type {CliCommand} from './program.ts';
import type {Session} from './session.ts';
import {grouped, wrapped} from './terminal-text.ts';

type Options = Asked & {messages: number; connections: number; workload: string; replies: string; seed: number};
type Asked = {fill?: number; waiting?: true; only?: Measure};

const measures = ['accept', 'through', 'queue'] as const;
type Measure = (typeof measures)[number];

const titles: Readonly<Record<Measure, string>> = {
	accept: 'Accept alone',
	through: 'End to end',
	queue: 'A queue that waits',
};

const names = realistic.map(one => `${one.share * 100} % ${one.name} (${one.reply?.slice(0, 9) ?? 'no reply'})`);
const shares = wrapped(`Realistic replies: ${names.join(', ')}; seed and address decide.`, 80);

const words = `
p50 to max ms: from a request to its 202; delivered p50 to max ms: from there to
the host's 250. Delivered later: not by the first try. Lost: neither delivered
nor bounced; twice: delivered again; misrecorded: the store says otherwise.
${shares.join('\n')}`;

export function benchCommand(command: CliCommand): void {
	command
		.sample('mailctl bench --messages 2000')
		.addHelpText('after', words)
		.option('--messages <n>', 'messages of each measurement', count('--messages', 1, 10_000_000), 6000)
		.option('--connections <n>', 'HTTP connections that send at once', count('--connections', 1, 1000), 64)
		.option('--only <name>', measures.join(', '), oneOf('--only', measures))
		.option('--workload <name>', 'signed: plain (17 KB) or 100k', oneOf('--workload', ['plain', '100k']), 'plain')
		.option('--replies <kind>', 'of hosts: accept, realistic', oneOf('--replies', ['accept', 'realistic']), 'accept')
		.option('--seed <n>', 'decides who meets which realistic reply', count('--seed', 0, 1_000_000), 1)
		.option(
			'--fill <n>',
			'measure nothing: fill the store with n messages; the daemon must be stopped. Only for trials: a power loss meanwhile can damage the store',
			count('--fill', 1, 100_000_000),
		)
		.option('--waiting', 'with --fill: the messages wait in the queue')
		.does<Options>(bench, {makesStore: () => true});
}

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
async function measureAll(session: Session, {only, messages, connections, ...how}: Options): Promise<void> {
	const isRealistic = how.replies === 'realistic';
	const [{measureAccept, measureEndToEnd, measureQueue, startSink}, {manyDomains, startHosts}, {large, plain}] =
		await Promise.all([import('../bench/measures.ts'), import('../bench/hosts.ts'), import('../bench/throw-away.ts')]);
	const run = {accept: measureAccept, through: measureEndToEnd, queue: measureQueue};
	const workload = {...(how.workload === 'plain' ? plain : large), ...(isRealistic && manyDomains)};
	const {dataDir} = session.storeSettings();
	const machine = {node: process.version, cores: availableParallelism(), load: loadavg()[0] ?? 0};
	const figures: Partial<Record<Measure, Figures>> = {};
	for (const name of measures.filter(one => only === undefined || one === only)) {
		session.terminal.status(`${titles[name]} …`);
		const folder = mkdtempSync(join(dataDir, 'bench-'));
		const sink = await (isRealistic ? startHosts(how.seed) : startSink());
		const {settings} = sink;
		try {
			figures[name] = await run[name]({folder, tools: session.tools, workload, messages, connections, settings}, sink);
		} finally {
			await sink.stop();
			rmSync(folder, {recursive: true, force: true});
			session.terminal.status(null);
		}
	}
	const of = isRealistic && {shares: Object.fromEntries(realistic.map(({name, share}) => [name, share]))};
	session.show({...machine, messages, connections, ...how, ...of, ...figures}, () => [
		`${grouped(messages)} messages (${how.workload}), ${connections} connections, replies ${how.replies}, seed ${how.seed}`,
		`${machine.cores} cores, load ${machine.load.toFixed(1)}, Node.js ${machine.node}`,
		...(isRealistic ? shares : []),
		...measures.flatMap(name => (figures[name] ? ['', titles[name], ...linesOf(figures[name])] : [])),
	]);
	if (Object.values(figures).some(({lost, twice, misrecorded}) => lost || twice || misrecorded)) {
		throw new CliError('other', 'mail was lost, came twice or is misrecorded', 'report it with these figures');
	}
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
