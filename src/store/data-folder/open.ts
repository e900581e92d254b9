import {existsSync} from 'node:fs';
import {hostname} from 'node:os';
import path from 'node:path';
import process from 'node:process';
import {setTimeout as wait} from 'node:timers/promises';
import type {Knex} from 'knex';
import {ConfigError} from '../../config/config-error.ts';
import {addSecret, freeId, loadSecrets, readSecretKeys, secretsFile} from '../../config/secrets-file.ts';
import type {Settings} from '../../config/settings.ts';
import {systemClock} from '../../kit/clock.ts';
import {identifyFiles, type OpenFile} from '../../kit/open-files.ts';
import {storeTime} from '../../kit/time.ts';
import {bumpGeneration} from '../changes.ts';
import {isCorrupt, lockSchema} from '../engine/dialect.ts';
import {migrate, schemaState, tooOldHint} from '../engine/migrate.ts';
import {lockFolder} from '../engine/sqlite.ts';
import {runningNodes} from '../nodes.ts';
import {
	type ConfiguredKey,
	createVault,
	expectsKeys,
	type FreshKey,
	type KeyProblem,
	keyIds,
	type MasterKeys,
	matchKeys,
	resealRows,
	type SealedColumn,
	sealedColumns,
	storeKeys,
	type Vault,
} from '../sealed.ts';
import {openStore, type Store} from '../store.ts';
import {liveDaemon, readDaemonFile} from './daemon-file.ts';
import {explainDiskError, finishRestore, noteMissing, openDataDir, refuseLostStore} from './data-dir.ts';

type Opened = {readonly store: Store; readonly secrets: MasterKeys};

/** The open data folder of a daemon. */
export type Held = Opened & {readonly vault: Vault; readonly release: () => Promise<void>};

/**
 * Opens the data folder: creates or checks it, takes its lock, opens the store and migrates its schema. This folder
 * owns the files of the data folder, except the content of the store. It relies on src/store for the database and on
 * src/config for settings and secrets. It never starts delivery, and opens the store of a daemon only under the lock.
 *
 * Throws ConfigError if the daemon cannot start; then nothing is left open and the store is unchanged.
 */
export async function openData(settings: Settings, {asRoot}: {readonly asRoot: boolean}): Promise<Held> {
	const {dataDir, databaseUrl} = settings;
	const removeCreated = noteMissing(dataDir);
	openDataDir({dataDir, asRoot});
	try {
		if (databaseUrl === null) {
			refuseLostStore(dataDir);
		}
		await waitForUnlocked(dataDir);
		return await openLocked(settings, await lockData(dataDir), removeCreated);
	} catch (error) {
		throw explainDiskError(error, dataDir);
	}
}

/** Opens the store while holding the folder's lock. On an error the lock is released and the folder is as before. */
async function openLocked(settings: Settings, unlock: () => Promise<void>, removeCreated: () => void): Promise<Held> {
	let store: Store | null = null;
	async function release(): Promise<void> {
		await store?.close();
		await unlock();
	}
	try {
		finishRestore(settings.dataDir);
		const opened = await openCurrentStore(settings);
		store = opened.store;
		return {...opened, vault: vaultOf(settings, opened.secrets), release};
	} catch (error) {
		await store?.close();
		removeCreated();
		await unlock();
		throw error;
	}
}

/** Returns the vault of these keys. Keys in a file may be rotated while it is in use; keys in a setting cannot. */
export function vaultOf({dataDir, databaseUrl}: Settings, keys: MasterKeys): Vault {
	return createVault(keys, databaseUrl === null ? {reread: () => loadSecrets({dataDir, isExpected: true})} : {});
}

/** Longer than a daemon takes to notice that its lock was removed and to stop, in milliseconds. */
const unlockedMs = 2500;

/**
 * Waits if a daemon may still be running without its lock. It notices the removed lock within a second and stops; a
 * second daemon that did not wait would send the same messages again. If `daemon.json` exists, no daemon has shut down
 * properly since.
 */
async function waitForUnlocked(dataDir: string): Promise<void> {
	const [lock = '', ...others] = lockFiles(dataDir);
	// A command that finds no daemon removes the other files when it is done.
	const canBeRunning = existsSync(lock) ? !others.every(existsSync) && liveDaemon(dataDir) : readDaemonFile(dataDir);
	if (canBeRunning) {
		await wait(unlockedMs);
	}
}

function lockFiles(dataDir: string): string[] {
	// SQLite locks the third one.
	return ['', '-wal', '-shm'].map(suffix => path.join(dataDir, `daemon.lock${suffix}`));
}

/**
 * Returns the other files that must not be replaced while a daemon runs. The folder comes first, because its
 * replacement explains all others.
 */
function filesBeside(dataDir: string): OpenFile[] {
	const open = identifyFiles([dataDir, ...lockFiles(dataDir)]);
	// Key rotation legitimately replaces this file.
	return [...open, {path: secretsFile(dataDir), identity: null}];
}

/**
 * Takes the data folder's lock, which a daemon holds as long as it runs. Returns the function that releases it. Throws
 * ConfigError if another process has it.
 */
export async function lockData(dataDir: string): Promise<() => Promise<void>> {
	const self = {pid: process.pid, host: hostname(), startedAt: storeTime(systemClock.now())};
	const lock = await lockFolder(path.join(dataDir, 'daemon.lock'), self);
	if (lock.ok) {
		return lock.release;
	}
	const {holder} = lock;
	const holderText = holder
		? ` (process ${holder.pid} on ${holder.host}, since ${holder.startedAt.slice(0, 19)}Z)`
		: '';
	throw new ConfigError(
		[`another daemon is running on the data folder ${dataDir}${holderText}: stop it first or set MAILCTL_DATA_DIR`],
		75,
	);
}

/** Throws ConfigError if the daemon of the data folder is running. Creates nothing. */
export async function refuseSecondDaemon(dataDir: string): Promise<void> {
	if (existsSync(path.join(dataDir, 'daemon.lock'))) {
		const unlock = await lockData(dataDir);
		await unlock();
	}
}

/** Returns the file of the SQLite store. */
export function storeFile(dataDir: string): string {
	return path.join(dataDir, 'mailctl.db');
}

async function openCurrentStore(settings: Settings): Promise<Opened> {
	const {dataDir, databaseUrl} = settings;
	if (databaseUrl !== null) {
		// A migration may take long, so its connections have no time limits for statements.
		const patientStore = await openStore({url: databaseUrl}, {isPatient: true});
		const {store, secrets} = await migrateStore(patientStore, settings, 'the PostgreSQL of MAILCTL_DATABASE_URL');
		await store.close();
		return {store: await openStore({url: databaseUrl}), secrets};
	}
	const file = storeFile(dataDir);
	try {
		return await migrateStore(await openStore({file}, {guardedFiles: filesBeside(dataDir)}), settings, file);
	} catch (error) {
		if (isCorrupt(error)) {
			throw new ConfigError([`${file} is damaged (${(error as Error).message}): restore it from a backup`], 74);
		}
		throw error;
	}
}

/** Throws ConfigError if other nodes are running: their older version could not use the migrated store. */
export async function refuseBesideOthers(trx: Knex.Transaction): Promise<void> {
	const running = await runningNodes(trx);
	if (running.length > 0) {
		const nodes = running.map(({host, pid}) => `process ${pid} on ${host}`).join(', ');
		throw new ConfigError(
			[`this version changes the store so that older ones cannot use it: stop ${nodes} first`],
			75,
		);
	}
}

async function migrateStore(store: Store, settings: Settings, storeName: string): Promise<Opened> {
	try {
		const state = await schemaState(store.database);
		if (state === 'tooOld') {
			throw new ConfigError([`${storeName} was created by a version that is too old: ${tooOldHint}`]);
		}
		if (state === 'newer') {
			throw new ConfigError([
				`${storeName} was created by a newer version: install that version or restore a backup`,
			]);
		}
		let secrets: MasterKeys | undefined;
		await migrate(store.database, {
			beforeBreaking: refuseBesideOthers,
			beforeCommit: async trx => {
				secrets = await ensureSecrets(trx, settings);
			},
		});
		return {store, secrets: secrets as MasterKeys};
	} catch (error) {
		await store.close();
		throw error;
	}
}

type KeySettings = Pick<Settings, 'dataDir' | 'databaseUrl' | 'secretKey' | 'secretKeyFile'>;

/**
 * Returns the secret keys once they match the store, and records new ones in it. Throws ConfigError if they do not
 * match, because nothing may be created or sent with other keys.
 */
export async function ensureSecrets(trx: Knex.Transaction, settings: KeySettings): Promise<MasterKeys> {
	await lockSchema(trx);
	const {keys, fresh} = await matchSecrets(trx, settings);
	await storeKeys(trx, fresh, storeTime(systemClock.now()));
	return keys;
}

/** Like `ensureSecrets`, but may run beside a daemon. The store is written only if it does not know a key yet. */
export async function readSecrets({reader, writer}: Store, settings: KeySettings): Promise<MasterKeys> {
	const {keys, fresh} = await matchSecrets(reader, settings);
	return fresh.length === 0 ? keys : await writer.transaction(trx => ensureSecrets(trx, settings));
}

async function matchSecrets(
	reader: Knex,
	settings: KeySettings,
): Promise<{keys: MasterKeys; fresh: readonly FreshKey[]}> {
	const matched = await matchKeys(reader, await configuredKeys(reader, settings), freeId);
	if (!matched.ok) {
		throw new ConfigError([toProblem(matched.problem, settings)]);
	}
	return matched;
}

/** Returns the configured keys. The one used for encryption comes first. */
async function configuredKeys(reader: Knex, settings: KeySettings): Promise<ConfiguredKey[]> {
	if (settings.databaseUrl !== null) {
		return readSecretKeys(settings).map(key => ({id: null, key}));
	}
	const {current, keys} = loadSecrets({dataDir: settings.dataDir, isExpected: await expectsKeys(reader)});
	const configured = Object.entries(keys).map(([id, key]) => ({id: Number(id), key}));
	return configured.sort((a, b) => Number(b.id === current) - Number(a.id === current));
}

function toProblem(problem: KeyProblem, {dataDir, databaseUrl, secretKey}: KeySettings): string {
	if (databaseUrl === null) {
		const file = secretsFile(dataDir);
		return problem.kind === 'missing'
			? `${file} lacks the key ${problem.id}, which secrets in the store are encrypted with: restore the file from a backup`
			: `${file} does not belong to this store: restore the original file from a backup`;
	}
	const name = secretKey === null ? 'MAILCTL_SECRET_KEY_FILE' : 'MAILCTL_SECRET_KEY';
	switch (problem.kind) {
		case 'missing':
			return `${name} lacks a key that secrets in the store are encrypted with: add the former key at its end, or run mailctl secrets rotate with both`;
		case 'full':
			return `the store already has the maximum of 255 secret keys and ${name} contains a new one: use a known key`;
		default:
			return `${name} is not the key that the store was used with: restore the former value, or put a new key before the former one`;
	}
}

/**
 * Puts a new key first in `secrets.json` and returns the keys of the SQLite store. The file is written before the
 * store, so a process that dies in between leaves an unused key. The transaction blocks a second rotation.
 */
export async function addKeyToFile(
	{writer}: Pick<Store, 'writer'>,
	settings: Settings,
	record: (trx: Knex.Transaction, detail: {readonly key_id: number}) => Promise<void>,
): Promise<MasterKeys> {
	return await writer.transaction(async trx => {
		await ensureSecrets(trx, settings);
		addSecret(settings.dataDir, await keyIds(trx));
		const keys = await ensureSecrets(trx, settings);
		await record(trx, {key_id: keys.current});
		return keys;
	});
}

/** The number of re-encrypted rows by table, and the ids of rows with a secret that cannot be decrypted. */
export type ResealedStore = {
	readonly rows: Readonly<Record<SealedColumn['table'], number>>;
	readonly damaged: readonly string[];
};

/** The number of rows per transaction. It is small, so that a running daemon can write in between. */
const rowsAtOnce = 200;

/**
 * Encrypts every secret of the store with the vault's first key, in many transactions. Until the last one some rows
 * need a former key, which must stay configured. `record` logs the act in each transaction that changes something, and
 * `onStep` is called with the number of rows so far.
 */
export async function resealStore(
	{writer}: Pick<Store, 'writer'>,
	vault: Vault,
	record: (trx: Knex.Transaction, detail: Readonly<Record<string, number>>) => Promise<void>,
	onStep: (rows: number) => void,
): Promise<ResealedStore> {
	const rows = {
		dkim_keys: 0,
		webhook_endpoints: 0,
		workspaces: 0,
		users: 0,
		smarthosts: 0,
		alerts: 0,
		messages: 0,
		certificates: 0,
		acme_accounts: 0,
	};
	const damaged: string[] = [];
	for (const column of sealedColumns) {
		for (let after: string | null = ''; after !== null; ) {
			const from: string = after;
			const step = await writer.transaction(async trx => {
				const result = await resealRows(trx, column, vault, {after: from, max: rowsAtOnce});
				if (result.resealed > 0) {
					const sealed = {...rows, [column.table]: rows[column.table] + result.resealed};
					await record(trx, {key_id: vault.current(), ...sealed});
					await bumpGeneration(trx);
				}
				return result;
			});
			rows[column.table] += step.resealed;
			damaged.push(...step.damaged);
			after = step.last;
			onStep(Object.values(rows).reduce((sum, n) => sum + n));
		}
	}
	return {rows, damaged};
}
