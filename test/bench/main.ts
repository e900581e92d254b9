import {type ChildProcess, execFileSync, spawn} from 'node:child_process';
import {once} from 'node:events';
import {mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync} from 'node:fs';
import {tmpdir} from 'node:os';
import path from 'node:path';
import process from 'node:process';
import {setTimeout as wait} from 'node:timers/promises';
import {fileURLToPath} from 'node:url';
import {parseArgs} from 'node:util';
import {load} from '../helpers/load.ts';
import type {LoadOrder} from './load.ts';
import {startSink} from './sink.ts';

// Speed of the real program: `npm run bench -- [--messages N] [--connections N] [--peer SCRIPT] [--cpu-prof FOLDER]`.
// A peer is a script that prints one JSON line with `peer`, `inject_per_s` and `end_to_end_per_s` for --json --messages N.

const {values: options} = parseArgs({
	options: {
		messages: {type: 'string', default: '6000'},
		connections: {type: 'string', default: '64'},
		peer: {type: 'string', multiple: true, default: []},
		'cpu-prof': {type: 'string'},
		only: {type: 'string'},
	},
});
const messages = Number(options.messages);
const connections = Number(options.connections);
const program = path.resolve('bin/mailctl.js');
const limitMs = 120_000;

type Environment = Record<string, string>;
type Running = {readonly child: ChildProcess; readonly port: number; readonly order: (messages: number) => LoadOrder};
type Usage = {readonly cpuMs: number; readonly peakMb: number};

function cli<T>(env: Environment, ...args: string[]): T {
	return JSON.parse(
		execFileSync(process.execPath, [program, ...args, '--json'], {env: {...process.env, ...env}}).toString(),
	);
}

async function start(settings: Environment): Promise<{running: Running; end: () => Promise<void>}> {
	const folder = mkdtempSync(path.join(tmpdir(), 'mailctl-bench-'));
	const env: Environment = {
		MAILCTL_DATA_DIR: path.join(folder, 'data'),
		MAILCTL_HTTP_LISTEN: '127.0.0.1:0',
		MAILCTL_RATE_LIMIT: '0',
		MAILCTL_LOG_LEVEL: 'warn',
		...settings,
	};
	cli(env, 'workspace', 'create', '--name', 'bench');
	const {key} = cli<{key: string}>(env, 'key', 'create', '--name', 'bench');
	cli(env, 'sender', 'add', 'receipts@shop.example', '--verified');
	const [template] = cli<Array<{id: string}>>(env, 'template', 'push', receiptFolder(folder));
	const profile = options['cpu-prof'] ? ['--cpu-prof', `--cpu-prof-dir=${options['cpu-prof']}`] : [];
	const child = spawn(process.execPath, [...profile, program, 'serve'], {
		env: {...process.env, ...env},
		stdio: ['ignore', 'ignore', 'inherit'],
	});
	const port = await readyPort(path.join(folder, 'data/daemon.json'), child);
	const body = JSON.stringify({
		from: 'receipts@shop.example',
		to: 'user{n}@example.com',
		templateId: template?.id,
		data: {
			name: 'Ada',
			number: '{n}',
			items: Array.from({length: 10}, (_, n) => ({name: `Item ${n}`, price: 9.5 + n})),
		},
	});
	return {
		running: {
			child,
			port,
			order: count => ({host: '127.0.0.1', port, key, body, messages: count, connections}),
		},
		async end() {
			child.kill('SIGTERM');
			await once(child, 'exit');
			rmSync(folder, {recursive: true});
		},
	};
}

/** A receipt that becomes about 17 KB of mail, the size that the peers are given. */
function receiptFolder(folder: string): string {
	const receipt = path.join(folder, 'templates/receipt');
	mkdirSync(receipt, {recursive: true});
	const row =
		'<tr><td style="padding:8px;font-family:Helvetica,Arial,sans-serif;font-size:14px;line-height:20px;color:#333333;border-bottom:1px solid #eeeeee">{{ item.name }}</td><td align="right" style="padding:8px;font-family:Helvetica,Arial,sans-serif;font-size:14px;line-height:20px;color:#333333">{{ item.price | format_currency: "EUR" }}</td></tr>';
	const legal =
		'<p style="font-size:12px;color:#777777;margin:0 0 8px">Thank you for your order. Returns are free within 30 days; keep this receipt for your records.</p>'.repeat(
			30,
		);
	writeFileSync(
		path.join(receipt, 'template.json'),
		JSON.stringify({subject: 'Your receipt {{ number }} – thank you'}),
	);
	writeFileSync(
		path.join(receipt, 'body.html'),
		`<!doctype html><html><body><h1>Hello {{ name }}</h1><table>{% for item in items %}${row}{% endfor %}</table>${legal}</body></html>`,
	);
	return path.dirname(receipt);
}

async function readyPort(file: string, child: ChildProcess): Promise<number> {
	for (let tries = 0; tries < 600; tries++) {
		if (child.exitCode !== null) {
			throw new Error(`The daemon ended with ${child.exitCode}.`);
		}
		try {
			return Number(new URL(JSON.parse(readFileSync(file, 'utf8')).http).port);
		} catch {
			await wait(50);
		}
	}
	throw new Error('The daemon did not get ready.');
}

function usageOf({child}: Running): Usage {
	const stat = readFileSync(`/proc/${child.pid}/stat`, 'utf8').split(') ')[1]?.split(' ') ?? [];
	const peak = /VmHWM:\s+(\d+)/.exec(readFileSync(`/proc/${child.pid}/status`, 'utf8'))?.[1];
	// Clock ticks are hundredths of a second on Linux.
	return {cpuMs: 10 * (Number(stat[11]) + Number(stat[12])), peakMb: Number(peak) / 1024};
}

async function measureAccept(): Promise<void> {
	const {running, end} = await start({MAILCTL_ROLES: 'api'});
	await load(running.order(Math.min(500, messages)));
	const before = usageOf(running);
	const report = await load(running.order(messages));
	const after = usageOf(running);
	print('accept only', {
		'messages/s': rate(report.accepted, report.ms),
		'p50 ms': report.p50.toFixed(1),
		'p99 ms': report.p99.toFixed(1),
		'µs CPU/message': cpu(before, after, report.accepted),
		'peak MB': after.peakMb.toFixed(0),
		refused: String(report.refused),
	});
	await end();
}

async function measureThrough(name: string, settings: Environment): Promise<void> {
	const sink = await startSink();
	const {running, end} = await start({
		MAILCTL_DELIVERY: 'relay',
		MAILCTL_RELAY_URL: `smtp://127.0.0.1:${sink.port}?tls=none`,
		MAILCTL_RELAY_ACCEPT_MEANS: 'delivered',
		...settings,
	});
	const warm = Math.min(500, messages);
	await load(running.order(warm));
	await arrival(sink.count, warm);
	const before = usageOf(running);
	const begun = performance.now();
	const report = await load(running.order(messages));
	await arrival(sink.count, warm + report.accepted);
	const ms = performance.now() - begun;
	const after = usageOf(running);
	print(name, {
		'accepted/s': rate(report.accepted, report.ms),
		'p99 ms': report.p99.toFixed(1),
		'end to end/s': rate(report.accepted, ms),
		'µs CPU/message': cpu(before, after, report.accepted),
		'peak MB': after.peakMb.toFixed(0),
		sink: sink.name,
	});
	await end();
	sink.stop();
}

async function arrival(count: () => Promise<number>, wanted: number): Promise<void> {
	const end = performance.now() + limitMs;
	while ((await count()) < wanted) {
		if (performance.now() > end) {
			throw new Error(`Only ${await count()} of ${wanted} messages arrived.`);
		}
		await wait(10);
	}
}

const rate = (count: number, ms: number) => ((count * 1000) / ms).toFixed(0);
const cpu = (before: Usage, after: Usage, count: number) => ((1000 * (after.cpuMs - before.cpuMs)) / count).toFixed(0);

function print(name: string, figures: Record<string, string>): void {
	console.log(
		`${name.padEnd(28)}${Object.entries(figures)
			.map(([label, figure]) => `${figure} ${label}`)
			.join(', ')}`,
	);
}

console.log(`${messages} messages, ${connections} connections, node ${process.version}`);
const scenarios: Record<string, () => Promise<void>> = {
	accept: measureAccept,
	through: () => measureThrough('end to end, signed', {}),
	reports: async () => {
		const profile = options['cpu-prof'] ? ['--cpu-prof', options['cpu-prof']] : [];
		const script = fileURLToPath(new URL('./reports.js', import.meta.url));
		execFileSync(process.execPath, [script, '--reports', String(messages), ...profile], {stdio: 'inherit'});
	},
	'one-maker': () => measureThrough('… one maker', {MAILCTL_MAKERS: '1'}),
};
for (const [name, measure] of Object.entries(scenarios)) {
	if (options.only === undefined || options.only === name) {
		await measure();
	}
}
for (const peer of options.peer) {
	const line = execFileSync(peer, ['--json', '--messages', String(messages)], {stdio: ['ignore', 'pipe', 'inherit']});
	const {peer: name, inject_per_s, end_to_end_per_s} = JSON.parse(line.toString());
	print(name, {'accepted/s': String(inject_per_s), 'end to end/s': String(end_to_end_per_s)});
}
