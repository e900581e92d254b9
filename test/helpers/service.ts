import {randomBytes} from 'node:crypto';
import {mkdir, writeFile} from 'node:fs/promises';
import {join} from 'node:path';
import process from 'node:process';
import type {TestFn} from 'ava';
import {type Api, createApi} from './api-client.ts';
import {startCliShell} from './cli-shell.ts';
import {type Daemon, type Program, prepareProgram, type Scope, type Settings} from './daemon.ts';
import {makeDataFolder, newLocation} from './databases.ts';
import {type ApiDocument, createAnswerCheck} from './described.ts';
import {oncePerFile} from './once-per-file.ts';

/** A workspace that can send: what an operator's commands gave. */
export type Workspace = {
	readonly id: string;
	readonly name: string;
	readonly from: string;
	/** Template ids by name. */
	readonly templates: Readonly<Record<string, string>>;
	/** The API with a key that has all scopes. */
	readonly live: Api;
	readonly test: Api;
};

export type Service = {
	readonly program: Pick<Program, 'folder' | 'log' | 'cli' | 'cliBytes'>;
	/** For a test that breaks it. */
	readonly store: {readonly file: string} | {readonly url: string};
	readonly daemon: Daemon;
	readonly url: string;
	/** The workspaces that were asked for, by name. */
	readonly workspaces: Readonly<Record<string, Workspace>>;
	readonly api: (key: string) => Api;
};

/** Templates by name: the files of each one's folder. */
export type Templates = Readonly<Record<string, Readonly<Record<string, string>>>>;

export type ServiceOptions = {
	/** Options of `workspace create` by name. */
	readonly workspaces: Readonly<Record<string, readonly string[]>>;
	readonly settings?: (scope: Scope) => Promise<Settings>;
	readonly templates?: Templates;
};

type Made = {readonly workspace: {id: string}; readonly live: string; readonly test: string} & Pick<
	Workspace,
	'from' | 'templates'
>;

/** The real daemon for all tests of a file, set up with the CLI: started before the first, killed after the last. */
export function serviceOf(test: TestFn, options: ServiceOptions): () => Service {
	return oncePerFile(test, scope => startService(scope, options));
}

async function startService(scope: Scope, options: ServiceOptions): Promise<Service> {
	const settings = await options.settings?.(scope);
	const postgres = await postgresFor(scope);
	const prepared = await prepareProgram(scope, {
		MAILCTL_LOG_LEVEL: 'warn',
		...(postgres && {MAILCTL_DATABASE_URL: postgres.url, MAILCTL_SECRET_KEY: randomBytes(32).toString('base64')}),
		...settings,
	});
	const shell = startCliShell(prepared.environment);
	const program = {folder: prepared.folder, log: prepared.log, cli: shell.json, cliBytes: shell.bytes};
	const folder = join(program.folder, 'templates');
	await writeTemplates(folder, {plain: plainTemplate, ...options.templates});
	await (postgres ? program.cliBytes('migrate') : makeDataFolder(join(program.folder, 'data')));
	const made = new Map<string, Made>();
	for (const [name, more] of Object.entries(options.workspaces)) {
		made.set(name, await makeWorkspace(program, name, more, folder));
	}

	const daemon = await prepared.serve();
	const check = createAnswerCheck((await (await fetch(`${daemon.url}/openapi.json`)).json()) as ApiDocument);
	const api = (key: string) => createApi(daemon.url, key, check);
	return {
		program,
		store: postgres ?? {file: join(program.folder, 'data/mailctl.db')},
		daemon,
		url: daemon.url,
		api,
		workspaces: Object.fromEntries(
			[...made].map(([name, {workspace, from, templates, live, test}]) => [
				name,
				{id: workspace.id, name, from, templates, live: api(live), test: api(test)},
			]),
		),
	};
}

/** A PostgreSQL database of the run with `TEST_ENGINE=postgres node dist/test/run.js 'dist/test/conformance/**'`. */
async function postgresFor(scope: Scope): Promise<{url: string} | null> {
	const location = process.env.TEST_ENGINE === 'postgres' ? await newLocation(scope, 'postgres') : null;
	return location !== null && 'url' in location ? location : null;
}

async function makeWorkspace(
	program: Service['program'],
	name: string,
	options: readonly string[],
	folder: string,
): Promise<Made> {
	const workspace = await program.cli<{id: string}>('workspace', 'create', '--name', name, ...options);
	const from = `shop@${name}.example`;
	const inside = ['--workspace', workspace.id];
	const key = (mode: string) =>
		program.cli<{key: string}>('key', 'create', '--name', mode, '--mode', mode, ...inside).then(made => made.key);
	const [live, test, templates] = await Promise.all([
		key('live'),
		key('test'),
		program.cli<Array<{id: string; name: string}>>('template', 'push', folder, ...inside),
		program.cli('sender', 'add', from, '--name', 'Shop', '--verified', ...inside),
	]);
	return {workspace, from, live, test, templates: Object.fromEntries(templates.map(each => [each.name, each.id]))};
}

const plainTemplate = {
	'template.json': '{"subject":"Hello {{ name }}"}',
	'body.html': '<p>Hello {{ name }}, <a href="https://shop.example/orders">your orders</a></p>',
};

async function writeTemplates(folder: string, templates: Templates): Promise<void> {
	for (const [name, files] of Object.entries(templates)) {
		await mkdir(join(folder, name), {recursive: true});
		for (const [file, text] of Object.entries(files)) {
			await writeFile(join(folder, name, file), text);
		}
	}
}
