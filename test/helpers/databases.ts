import {randomBytes} from 'node:crypto';
import {mkdir, mkdtemp, readFile, rm, writeFile} from 'node:fs/promises';
import {tmpdir} from 'node:os';
import path from 'node:path';
import process from 'node:process';
import type {ExecutionContext, TestFn} from 'ava';
import pg from 'pg';
import {migrate} from '../../src/store/engine/migrate.ts';
import {openStore, type Store, type StoreLocation} from '../../src/store/store.ts';
import {makeMigratedFile, migratedFileVariable, templateVariable} from '../migrated-template.ts';
import {Slots} from './slots.ts';

export type Engine = 'sqlite' | 'postgres';

type Scope = Pick<ExecutionContext, 'teardown'>;

const adminUrl = process.env.TEST_DATABASE_URL;

/** Both engines in `npm test` (test/run.ts starts a PostgreSQL); only SQLite where ava is run by hand without it. */
export const engines: readonly Engine[] = adminUrl ? ['sqlite', 'postgres'] : ['sqlite'];

/** A folder that is gone after the test. */
export async function temporaryFolder(t: Scope): Promise<string> {
	const folder = await mkdtemp(path.join(tmpdir(), 'mailctl-test-'));
	t.teardown(() => rm(folder, {recursive: true, force: true}));
	return folder;
}

/** A place for a store of its own: a new file, or a new database of the run's PostgreSQL. */
export async function newLocation(t: Scope, engine: Engine): Promise<StoreLocation> {
	return await emptyLocation(t, engine, '');
}

async function emptyLocation(t: Scope, engine: Engine, template: string): Promise<StoreLocation> {
	if (engine === 'sqlite') {
		return {file: path.join(await temporaryFolder(t), 'mailctl.db')};
	}
	const name = `test_${randomBytes(8).toString('hex')}`;
	// Copied file by file: the default, by way of the log, takes three times as long.
	await administer(`create database ${name} ${template} strategy file_copy`);
	t.teardown(() => administer(`drop database ${name} with (force)`));
	const url = new URL(adminUrl as string);
	url.pathname = `/${name}`;
	return {url: url.href};
}

/** One connection for all tests of a process: to make and drop databases. It keeps no process from its end. */
const admin = new pg.Pool({connectionString: adminUrl, max: 1, idleTimeoutMillis: 0, allowExitOnIdle: true});

async function administer(sql: string): Promise<void> {
	await admin.query(sql);
}

/**
 * A migrated SQLite file: to write its bytes is cheaper than to migrate. The run made one for all; ava by hand makes
 * its own.
 */
const migratedFile = createOnce(async () => {
	const made = process.env[migratedFileVariable];
	if (made) {
		return await readFile(made);
	}
	const folder = await mkdtemp(path.join(tmpdir(), 'mailctl-test-'));
	try {
		return await readFile(await makeMigratedFile(folder));
	} finally {
		await rm(folder, {recursive: true, force: true});
	}
});

/** Makes the data folder of a program, with an empty, migrated store in it. */
export async function makeDataFolder(folder: string): Promise<void> {
	await mkdir(folder, {mode: 0o700});
	await writeFile(path.join(folder, 'mailctl.db'), await migratedFile(), {mode: 0o600});
}

function createOnce<Value>(make: () => Promise<Value>): () => Promise<Value> {
	let value: Promise<Value> | undefined;
	return () => {
		value ??= make();
		return value;
	};
}

/** A place with an empty, migrated store: a copy of one that was migrated, where there is one. */
export async function migratedLocation(t: Scope, engine: Engine): Promise<StoreLocation> {
	const template = process.env[templateVariable];
	const location = await emptyLocation(t, engine, template ? `template ${template}` : '');
	if ('file' in location) {
		await writeFile(location.file, await migratedFile());
	} else if (!template) {
		const store = await openStore(location);
		await migrate(store.database);
		await store.close();
	}
	return location;
}

/** An empty, migrated store, closed after the test. */
export async function newStore(t: ExecutionContext, engine: Engine): Promise<Store> {
	const store = await openStore(await migratedLocation(t, engine));
	t.teardown(() => store.close());
	return store;
}

/** For the tests of a process: more at once would take each other's time until they fail for want of it. */
const slots = new Slots(4);

async function inTurn(work: () => Promise<void>): Promise<void> {
	await slots.take();
	try {
		await work();
	} finally {
		slots.release();
	}
}

type StoreTest = (t: ExecutionContext, store: Store, engine: Engine) => Promise<void>;

/** The same test on every engine: `storeTest(test, 'title', async (t, store) => …)`. A few at a time. */
export function storeTest(test: TestFn | TestFn['serial'], title: string, implementation: StoreTest): void {
	declareOn(engines, test, title, implementation);
}

/**
 * A test of what uses the store as all do, in whose statements the engines do not differ: on SQLite, where a store is
 * several times quicker to make. TEST_EVERY_ENGINE (`npm run test:engines`) repeats it on the others.
 */
export function sqliteTest(test: TestFn | TestFn['serial'], title: string, implementation: StoreTest): void {
	declareOn(process.env.TEST_EVERY_ENGINE ? engines : ['sqlite'], test, title, implementation);
}

function declareOn(
	some: readonly Engine[],
	test: TestFn | TestFn['serial'],
	title: string,
	implementation: StoreTest,
): void {
	for (const engine of some) {
		test(`${title} (${engine})`, t =>
			inTurn(async () => await implementation(t, await newStore(t, engine), engine)));
	}
}

/** Listens to knex's events of the connections that write. */
export function onWriting(
	{writing}: Store,
	event: 'query' | 'start',
	listen: (told: {readonly sql: string}) => void,
): void {
	for (const connection of writing) {
		connection.on(event, listen);
	}
}
