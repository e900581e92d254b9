import {execFileSync, spawn} from 'node:child_process';
import {once} from 'node:events';
import {existsSync, mkdtempSync, readFileSync, rmSync} from 'node:fs';
import {tmpdir} from 'node:os';
import path from 'node:path';
import process from 'node:process';
import {setTimeout as wait} from 'node:timers/promises';
import {parseArgs} from 'node:util';
import {openStore} from '../../src/store/store.ts';
import {loadReports} from '../helpers/report-load.ts';
import {inboundPort, insertDeliveredIn} from '../helpers/sent-recipients.ts';

// Bounces that come back to the real program by SMTP, all for different copies:
// node dist/test/bench/reports.js [--reports N] [--connections N] [--per-second N] [--cpu-prof FOLDER]

const {values: options} = parseArgs({
	options: {
		reports: {type: 'string', default: '10000'},
		connections: {type: 'string', default: '10'},
		'per-second': {type: 'string'},
		'cpu-prof': {type: 'string'},
	},
});
const reports = Number(options.reports);
const domain = 'bounces.bench.example';
const folder = mkdtempSync(path.join(tmpdir(), 'mailctl-bench-'));
const dataDir = path.join(folder, 'data');
const env = {
	...process.env,
	MAILCTL_DATA_DIR: dataDir,
	MAILCTL_HTTP_LISTEN: '127.0.0.1:0',
	MAILCTL_INBOUND_LISTEN: '127.0.0.1:0',
	MAILCTL_RETURN_PATH_DOMAIN: domain,
	MAILCTL_LOG_LEVEL: 'warn',
};
const program = path.resolve('bin/mailctl.js');
execFileSync(process.execPath, [program, 'init'], {env, stdio: 'ignore'});
const addresses = Array.from({length: reports}, (_, n) => `user${n}@example.net`);
const recipients = await insertDeliveredIn(dataDir, addresses, domain);

const profile = options['cpu-prof'] ? ['--cpu-prof', `--cpu-prof-dir=${options['cpu-prof']}`] : [];
const child = spawn(process.execPath, [...profile, program, 'serve'], {env, stdio: ['ignore', 'ignore', 'inherit']});
while (!existsSync(path.join(dataDir, 'daemon.json'))) {
	await wait(50);
}
const cpuMs = () => {
	const stat = readFileSync(`/proc/${child.pid}/stat`, 'utf8').split(') ')[1]?.split(' ') ?? [];
	return 10 * (Number(stat[11]) + Number(stat[12]));
};
const status = (name: string) =>
	Number(new RegExp(`${name}:\\s+(\\d+)`).exec(readFileSync(`/proc/${child.pid}/status`, 'utf8'))?.[1]) / 1024;
const store = await openStore({file: path.join(dataDir, 'mailctl.db')});
const count = async (unread: boolean) => {
	const rows = store.reader('inbound').count('* as n');
	return Number((await (unread ? rows.whereNull('read_at') : rows))[0]?.n);
};

const [rssBefore, cpuBefore, begun] = [status('VmRSS'), cpuMs(), performance.now()];
const perSecond = options['per-second'] === undefined ? null : Number(options['per-second']);
const end = await loadReports({
	port: inboundPort(dataDir),
	connections: Number(options.connections),
	recipients,
	perSecond,
});
const unread = await count(true);
while ((await count(true)) > 0) {
	await wait(10);
}
const ms = performance.now() - begun;
console.log(
	`${reports} reports, ${options.connections} connections: ${Math.round((1000 * end.taken) / end.ms)} taken/s, p50 ${end.p50.toFixed(1)} ms, p99 ${end.p99.toFixed(1)} ms, ` +
		`${Math.round((1000 * reports) / ms)} read/s, ${unread} unread at the last 250, ${((1000 * (cpuMs() - cpuBefore)) / reports).toFixed(0)} µs CPU/report, ` +
		`RSS ${rssBefore.toFixed(0)} → ${status('VmRSS').toFixed(0)}, peak ${status('VmHWM').toFixed(0)} MB, ${await count(false)} rows`,
);
for (const surprise of end.surprises) {
	console.log(`surprise: ${surprise}`);
}
await store.close();
child.kill('SIGTERM');
await once(child, 'exit');
rmSync(folder, {recursive: true});
