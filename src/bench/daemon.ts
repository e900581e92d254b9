import {spawn} from 'node:child_process';
import {once} from 'node:events';
import {readFileSync} from 'node:fs';
import process from 'node:process';
import {setTimeout as wait} from 'node:timers/promises';
import {fileURLToPath} from 'node:url';
import {processEnvironment} from '../config/process-env.ts';
import {readDaemonFile} from '../data-folder/daemon-file.ts';
import type {LoadOrder} from './load.ts';
import {benchSender, type Shop} from './throw-away.ts';
import type {Workload} from './workload.ts';

/** A daemon in a process of its own, so that what it uses is its own. */
export type Daemon = {
	readonly pid: number;
	readonly url: string;
	/** From the start of the process until it was ready, milliseconds. */
	readonly readyMs: number;
	readonly order: (messages: number, connections: number) => LoadOrder;
	readonly usage: () => Usage;
	readonly stop: () => Promise<void>;
};

/** CPU time of all threads so far, and the most memory; NaN where the system has no figures. */
export type Usage = {readonly cpuMs: number; readonly peakMb: number};

export type Settings = Readonly<Record<string, string>>;

const program = fileURLToPath(new URL('../../../bin/mailctl.js', import.meta.url));
const pollMs = 5;

export async function startDaemon(
	{dataDir, templateId, key}: Shop,
	workload: Workload,
	settings: Settings,
	nodeOptions: readonly string[] = [],
): Promise<Daemon> {
	const begun = performance.now();
	const child = spawn(process.execPath, [...nodeOptions, program, 'serve'], {
		// The settings and the .env of the user do not get in.
		cwd: dataDir,
		env: {
			...Object.fromEntries(Object.entries(processEnvironment()).filter(([name]) => !name.startsWith('MAILCTL_'))),
			MAILCTL_DATA_DIR: dataDir,
			MAILCTL_HTTP_LISTEN: '127.0.0.1:0',
			MAILCTL_RATE_LIMIT: '0',
			MAILCTL_LOG_LEVEL: 'warn',
			...settings,
		},
		stdio: ['ignore', 'ignore', 'inherit'],
	});
	const ended = once(child, 'exit');
	const pid = child.pid as number;
	let http: string | null = null;
	while (http === null) {
		if (child.exitCode !== null) {
			throw new Error(`The daemon ended with ${child.exitCode}.`);
		}
		await wait(pollMs);
		const file = readDaemonFile(dataDir);
		http = file?.pid === pid ? file.http : null;
	}
	const {hostname: host, port} = new URL(http);
	const {to, data, domains, perRequest} = workload;
	const send = JSON.stringify({from: benchSender, to, templateId, data});
	return {
		pid,
		url: http,
		readyMs: performance.now() - begun,
		order: (messages, connections) => ({
			...{host, port: Number(port), key, send, domains, perRequest, messages, connections},
		}),
		usage: () => usageOf(pid),
		async stop() {
			child.kill('SIGTERM');
			await ended;
		},
	};
}

function usageOf(pid: number): Usage {
	if (process.platform !== 'linux') {
		return {cpuMs: Number.NaN, peakMb: Number.NaN};
	}
	const stat = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]?.split(' ') ?? [];
	const peak = /VmHWM:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1];
	// Clock ticks are hundredths of a second on Linux.
	return {cpuMs: 10 * (Number(stat[11]) + Number(stat[12])), peakMb: Number(peak) / 1024};
}
