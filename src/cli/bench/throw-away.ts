import {spawn} from 'node:child_process';
import {once} from 'node:events';
import {mkdirSync, readFileSync} from 'node:fs';
import {join} from 'node:path';
import process from 'node:process';
import {setTimeout as wait} from 'node:timers/promises';
import {fileURLToPath} from 'node:url';
import {generateSigningKeys} from '../../compose/dkim.ts';
import type {VariantSource} from '../../compose/render/compile.ts';
import {compileInWorker, defaultCompileTime} from '../../compose/render/in-worker.ts';
import {processEnvironment} from '../../config/process-env.ts';
import {loadSettings} from '../../config/settings.ts';
import {allocator} from '../../kit/memory.ts';
import {packageFile} from '../../kit/program-files.ts';
import type {ActTools} from '../../mail/operator.ts';
import {addSender} from '../../resources/domains/senders-rules.ts';
import {createKey} from '../../resources/keys/rules.ts';
import {performIn} from '../../resources/operation.ts';
import type {TemplateVariant} from '../../resources/templates/store.ts';
import {saveTemplate, storedVariant} from '../../resources/templates/versions.ts';
import {createWorkspace} from '../../resources/workspaces/rules.ts';
import {readDaemonFile} from '../../store/data-folder/daemon-file.ts';
import {type Held, openData} from '../../store/data-folder/open.ts';
import type {LoadJob} from './load.ts';

export const benchSender = 'receipts@shop.example';

/** What a load generator needs to know about a temporary store. */
export type BenchStore = {
	readonly dataDir: string;
	readonly workspaceId: string;
	readonly templateId: string;
	readonly key: string;
};

/** The location of a temporary store: an empty folder, and settings that may name an empty database. */
export type BenchLocation = {readonly folder: string; readonly settings?: Readonly<Record<string, string>>};

/** Creates a store with a workspace, a key, a verified sender and the workload's template. */
export async function createBenchStore(
	location: BenchLocation,
	workload: Workload,
	tools: ActTools,
): Promise<BenchStore> {
	const dataDir = dataDirOf(location);
	const [variant, keys] = await Promise.all([compileTemplate(workload.template), generateSigningKeys()]);
	return await withStore(location, async ({store, vault}) => {
		return await store.writer.transaction(async trx => {
			const workspace = await createWorkspace(trx, tools, {name: 'bench'});
			if (!workspace) {
				throw new Error(`The store in ${location.folder} is not empty.`);
			}
			const workspaceId = workspace.id;
			const context = {face: 'cli', workspaceId, mode: 'live', tools, vault: async () => vault, trx} as const;
			const sender = {address: benchSender, verified: true, newKeys: async () => keys};
			await performIn(addSender, context, sender);
			const template = {workspaceId, name: 'receipt', variants: [variant], sample: null};
			const {id: templateId} = await saveTemplate(trx, tools, template);
			const {key} = await performIn(createKey, context, {name: 'bench', mode: 'live'});
			return {dataDir, workspaceId, templateId, key};
		});
	});
}

const dataDirOf = ({folder}: BenchLocation): string => join(folder, 'data');

/** Opens the temporary store while `work` runs. Its daemon must not be running. */
export async function withStore<Value>(location: BenchLocation, work: (held: Held) => Promise<Value>): Promise<Value> {
	const dataDir = dataDirOf(location);
	mkdirSync(dataDir, {recursive: true, mode: 0o700});
	const env = {...location.settings, MAILCTL_DATA_DIR: dataDir};
	const loaded = loadSettings({env, cwd: location.folder, hostname: 'localhost', cpus: 1});
	if (!loaded.ok) {
		throw new Error(loaded.problems.join('\n'));
	}
	const held = await openData(loaded.settings, {asRoot: true});
	try {
		return await work(held);
	} finally {
		await held.release();
	}
}

/** Compiles a template. Throws if it is invalid. */
export async function compileTemplate(source: Workload['template']): Promise<TemplateVariant> {
	const [result] = await compileInWorker([source], defaultCompileTime);
	if (!result?.ok) {
		throw new Error(`The template is invalid: ${JSON.stringify(result?.violations)}`);
	}
	return storedVariant(source, result);
}

/** A daemon in its own process, so that its resource usage can be measured. */
export type Daemon = {
	readonly pid: number;
	readonly url: string;
	/** Milliseconds from the start of the process until it was ready. */
	readonly readyMs: number;
	readonly order: (messages: number, connections: number) => LoadJob;
	readonly usage: () => Usage;
	readonly stop: () => Promise<void>;
};

/** The CPU time of all threads so far, and the peak memory; NaN if the system does not report them. */
export type Usage = {readonly cpuMs: number; readonly peakMb: number};

export type Settings = Readonly<Record<string, string>>;

const program = fileURLToPath(packageFile('bin/mailctl.js'));
const pollMs = 5;

export async function startDaemon(
	{dataDir, templateId, key}: BenchStore,
	workload: Workload,
	settings: Settings,
	nodeOptions: readonly string[] = [],
): Promise<Daemon> {
	const startedAt = performance.now();
	const child = spawn(process.execPath, [...nodeOptions, program, 'serve'], {
		// The user's settings and .env file must not affect the daemon.
		cwd: dataDir,
		env: {
			...Object.fromEntries(
				Object.entries(processEnvironment()).filter(([name]) => !name.startsWith('MAILCTL_')),
			),
			...allocator,
			MAILCTL_DATA_DIR: dataDir,
			MAILCTL_HTTP_LISTEN: '127.0.0.1:0',
			MAILCTL_RATE_LIMIT: '0',
			MAILCTL_LOG_LEVEL: 'warn',
			...settings,
		},
		stdio: ['ignore', 'ignore', 'inherit'],
	});
	const exited = once(child, 'exit');
	const pid = child.pid as number;
	let http: string | null = null;
	while (http === null) {
		if (child.exitCode !== null) {
			throw new Error(`The daemon exited with ${child.exitCode}.`);
		}
		await wait(pollMs);
		const file = readDaemonFile(dataDir);
		http = file?.pid === pid ? file.http : null;
	}
	const {hostname: host, port} = new URL(http);
	const {to, data, domains, perRequest} = workload;
	const send = JSON.stringify({from: benchSender, to, templateId, data});
	const base = {host, port: Number(port), key, send, domains, perRequest};
	return {
		pid,
		url: http,
		readyMs: performance.now() - startedAt,
		order: (messages, connections) => ({...base, messages, connections}),
		usage: () => readUsage(pid),
		async stop() {
			child.kill('SIGTERM');
			await exited;
		},
	};
}

function readUsage(pid: number): Usage {
	if (process.platform !== 'linux') {
		return {cpuMs: Number.NaN, peakMb: Number.NaN};
	}
	const stat = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]?.split(' ') ?? [];
	const peak = /VmHWM:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1];
	// A clock tick is a hundredth of a second on Linux.
	return {cpuMs: 10 * (Number(stat[11]) + Number(stat[12])), peakMb: Number(peak) / 1024};
}

/** The messages that a measurement sends. */
export type Workload = {
	readonly template: VariantSource;
	/** The recipient and variables of a send; `{n}` is replaced by the number of the message, `{d}` by its domain's. */
	readonly to: string;
	readonly data: Readonly<Record<string, unknown>>;
	readonly domains: number;
	readonly perRequest: number;
};

const style = 'padding:8px;font-family:Helvetica,Arial,sans-serif;font-size:14px;line-height:20px;color:#333333';
const row = `<tr><td style="${style};border-bottom:1px solid #eeeeee">{{ item.name }}</td><td align="right" style="${style}">{{ item.price | format_currency: "EUR" }}</td></tr>`;
/** The text that pads the receipts. */
export const paddingText =
	'<p style="font-size:12px;color:#777777;margin:0 0 8px">Thank you for your order. Returns are free within 30 days; keep this receipt for your records.</p>';

/** Sends receipts with ten lines, about 17 KB each, one per request to a single domain. */
export const plain: Workload = {
	template: {
		locale: null,
		subject: 'Your receipt {{ number }} – thank you',
		html: `<!doctype html><html><body><h1>Hello {{ name }}</h1><table>{% for item in items %}${row}{% endfor %}</table>${paddingText.repeat(30)}</body></html>`,
	},
	to: 'user{n}@example.com',
	data: {name: 'Ada', number: '{n}', items: items(10)},
	domains: 1,
	perRequest: 1,
};

function items(count: number): ReadonlyArray<{readonly name: string; readonly price: number}> {
	return Array.from({length: count}, (_, n) => ({name: `Item ${n}`, price: 9.5 + n}));
}
