import {execFileSync} from 'node:child_process';
import {randomBytes} from 'node:crypto';
import {mkdtempSync, rmSync} from 'node:fs';
import {loadavg, tmpdir} from 'node:os';
import path from 'node:path';
import process from 'node:process';
import {fileURLToPath} from 'node:url';
import {parseArgs} from 'node:util';
import {type Bench, type Figures, measureAccept, measureEndToEnd, type Sink} from '../../src/cli/bench/measures.ts';
import {plain} from '../../src/cli/bench/throw-away.ts';
import {wrapped} from '../../src/cli/terminal-text.ts';
import {systemClock} from '../../src/kit/clock.ts';
import {createIdSource} from '../../src/mail/ids.ts';
import {startAccountedSink} from './accounted-sink.ts';
import {openDashboards} from './dashboards.ts';
import {startDatabase, watchDatabase} from './database.ts';
import {findRegressions, measureCosts, readCosts, recordCosts} from './guard.ts';
import {manyDomains, startHosts} from './hosts.ts';
import {startLab, toManyDomains} from './many-domains.ts';
import {large, measureAccounted, measureQueue} from './measures.ts';
import {runPeers} from './peers.ts';
import {startSinkOf} from './sink.ts';
import {namedFunctions, whereTimeGoes} from './where.ts';

// What `mailctl bench` measures, with more workloads and beside peers: npm run bench -- [--messages N] [--connections
// N] [--workload plain|receipt|100k] [--replies accept|realistic] [--seed N] [--only NAME] [--peer SCRIPT]...
// [--no-peers] [--postgres] [--dashboards N] [--cpu-prof FOLDER] [--where] A quoted workload (100k, or realistic
// replies) is measured end to end, with one kind of sink for all, which says what became of each mail. --guard
// compares the CPU time of a message with what the tree records, and --record records it.

const {values: options} = parseArgs({
	allowNegative: true,
	options: {
		messages: {type: 'string', default: '6000'},
		connections: {type: 'string', default: '64'},
		workload: {type: 'string', default: 'plain'},
		replies: {type: 'string', default: 'accept'},
		seed: {type: 'string', default: '1'},
		peers: {type: 'boolean', default: true},
		peer: {type: 'string', multiple: true, default: []},
		'cpu-prof': {type: 'string'},
		only: {type: 'string'},
		where: {type: 'boolean', default: false},
		postgres: {type: 'boolean', default: false},
		dashboards: {type: 'string', default: '0'},
		guard: {type: 'boolean', default: false},
		record: {type: 'boolean', default: false},
	},
});
const messages = Number(options.messages);
const dashboards = Number(options.dashboards);
const isReceipt = options.workload === 'receipt';
const isRealistic = options.replies === 'realistic';
const isQuoted = isRealistic || options.workload === '100k';
const workload = {
	...(isReceipt ? toManyDomains : options.workload === '100k' ? large : plain),
	...(isRealistic && manyDomains),
};
const only = options.only ?? (isQuoted ? 'through' : undefined);
// A batch is many sends already.
const connections = Math.min(Number(options.connections), isReceipt ? 8 : 1000);
const nodeOptions = [
	...(options['cpu-prof'] ? ['--cpu-prof', `--cpu-prof-dir=${options['cpu-prof']}`] : []),
	...(options.where ? namedFunctions : []),
];

async function inFolder(measure: (bench: Bench) => Promise<Figures>): Promise<Figures> {
	const database = options.postgres ? await startDatabase() : null;
	const folder = mkdtempSync(path.join(tmpdir(), 'mailctl-bench-'));
	const tools = {
		clock: systemClock,
		newId: createIdSource(systemClock),
		random: randomBytes,
		operator: {actor: 'bench', from: 'localhost'},
	};
	try {
		const settings = database?.settings ?? {};
		const url = database?.settings.MAILCTL_DATABASE_URL;
		const beside = options.where
			? whereTimeGoes(messages, folder)
			: url !== undefined
				? watchDatabase(url, messages)
				: dashboards > 0
					? openDashboards(dashboards, tools)
					: undefined;
		return await measure({
			folder,
			tools,
			workload,
			messages,
			connections,
			nodeOptions,
			settings,
			...(beside && {beside}),
		});
	} finally {
		await database?.stop();
		rmSync(folder, {recursive: true});
	}
}

const startQuotedSink = () => (isRealistic ? startHosts(Number(options.seed)) : startAccountedSink());

type Measurement = (bench: Bench, sink: Pick<Sink, 'count'>) => Promise<Figures>;

/** With somewhere for the mail to go. */
async function delivering(
	measure: Measurement,
	settings: Readonly<Record<string, string>> = {},
	sink: Omit<Sink, 'port'> | null = null,
): Promise<Figures> {
	const end = sink ?? (await (isReceipt ? startLab() : startSinkOf()));
	const figures = await inFolder(bench =>
		measure({...bench, settings: {...bench.settings, ...end.settings, ...settings}}, end),
	);
	await end.stop();
	return figures;
}

const endToEnd: Measurement = async (bench, sink) => (await measureEndToEnd(bench, sink)).figures;

/** End to end; a quoted workload with an account of each mail. */
async function measureThrough(): Promise<Figures> {
	if (!isQuoted) {
		return await delivering(endToEnd);
	}
	const sink = await startQuotedSink();
	return await delivering(bench => measureAccounted(bench, sink), {}, sink);
}

function measureReports(): void {
	const profile = options['cpu-prof'] ? ['--cpu-prof', options['cpu-prof']] : [];
	const script = fileURLToPath(new URL('./reports.js', import.meta.url));
	execFileSync(process.execPath, [script, '--reports', String(messages), ...profile], {stdio: 'inherit'});
}

function print(name: string, figures: Figures): void {
	const text = Object.entries(figures).map(([label, figure]) => `${label.replaceAll('_', ' ')} ${figure ?? '-'}`);
	const [first = '', ...others] = wrapped(text.join(', '), 100, ' '.repeat(20));
	console.log([name.padEnd(20) + first.trimStart(), ...others].join('\n'));
	if (figures.lost || figures.twice || figures.misrecorded) {
		process.exitCode = 1;
	}
}

async function guard(): Promise<void> {
	const costs = await measureCosts({
		accept: () => inFolder(measureAccept),
		receipt: () => delivering(endToEnd),
	});
	console.log(`accept ${costs.accept}, receipt ${costs.receipt} units of CPU time`);
	if (options.record) {
		recordCosts(costs);
		return;
	}
	for (const regression of findRegressions(costs, readCosts())) {
		console.error(regression);
		process.exitCode = 1;
	}
}

async function measureAll(): Promise<void> {
	console.log(
		`${options.workload}, replies ${options.replies}${isRealistic ? ` by seed ${options.seed}` : ''}${options.postgres ? ' on PostgreSQL' : ''}: ${messages} messages, ${connections} connections, load ${loadavg()[0]?.toFixed(1)}, node ${process.version}`,
	);
	const scenarios: Record<string, () => Promise<Figures>> = {
		accept: () => inFolder(measureAccept),
		through: measureThrough,
		queue: () => delivering(measureQueue),
		'one-maker': () => delivering(endToEnd, {MAILCTL_MAKERS: '1'}),
	};
	let throughPerS = 0;
	for (const [name, measure] of Object.entries(scenarios)) {
		if (only === undefined || only === name) {
			const figures = await measure();
			print(name, figures);
			throughPerS = name === 'through' ? (figures.end_to_end_per_s ?? 0) : throughPerS;
		}
	}
	if (only === 'reports' || only === undefined) {
		measureReports();
	}
	const peers = runPeers(options.peer, {
		messages,
		workload: options.workload,
		...(isQuoted && {startSink: startQuotedSink}),
	});
	for await (const {peer, ...figures} of options.peers ? peers : []) {
		const ratio =
			throughPerS > 0 ? {ours_to_theirs: Math.round((100 * throughPerS) / figures.end_to_end_per_s) / 100} : {};
		print(peer, {...figures, ...ratio});
	}
}

await (options.guard || options.record ? guard() : measureAll());
