import {hostname} from 'node:os';
import path from 'node:path';
import process from 'node:process';
import type {Knex} from 'knex';
import {ConfigError} from '../config/config-error.ts';
import {loadSecrets} from '../config/secrets-file.ts';
import type {Settings} from '../config/settings.ts';
import {systemClock} from '../kit/clock.ts';
import {storeTime} from '../kit/time.ts';
import {sqliteDialect} from '../store/engine/dialect.ts';
import {migrate, schemaState, tooOldFix} from '../store/engine/migrate.ts';
import {lockFolder} from '../store/engine/sqlite.ts';
import {runningNodes} from '../store/nodes.ts';
import {createVault, type MasterKeys, type Vault} from '../store/sealed.ts';
import {openStore, type Store} from '../store/store.ts';
import {finishRestore, openDataDir} from './data-dir.ts';
import {ensureSecrets} from './ensure-secrets.ts';

type Opened = {readonly store: Store; readonly secrets: MasterKeys};

/** What a daemon holds of its data folder. */
export type Held = Opened & {readonly vault: Vault; readonly release: () => Promise<void>};

/**
 * Makes or checks the data folder, takes its lock, opens the store and brings its schema up to date. Throws ConfigError
 * with what keeps the daemon from starting; then nothing is left open, and the store is as it was.
 */
export async function openData(settings: Settings, {asRoot}: {readonly asRoot: boolean}): Promise<Held> {
	const {dataDir} = settings;
	openDataDir({dataDir, asRoot});
	const unlock = await lockData(dataDir);
	let store: Store | null = null;
	async function release(): Promise<void> {
		await store?.close();
		await unlock();
	}
	try {
		finishRestore(dataDir);
		const opened = await openCurrentStore(settings);
		store = opened.store;
		return {...opened, vault: vaultOf(settings, opened.secrets), release};
	} catch (error) {
		await release();
		throw error;
	}
}

/** The vault of these keys. Those of a file may be rotated while it is in use, those of a setting stay. */
export function vaultOf({dataDir, databaseUrl}: Settings, keys: MasterKeys): Vault {
	return createVault(keys, databaseUrl === null ? {reread: () => loadSecrets({dataDir, expected: true})} : {});
}

/** Takes the data folder's lock, which a daemon holds for life; answers how to let go of it. Throws ConfigError where another one has it. */
export async function lockData(dataDir: string): Promise<() => Promise<void>> {
	const self = {pid: process.pid, host: hostname(), startedAt: storeTime(systemClock.now())};
	const taken = await lockFolder(path.join(dataDir, 'daemon.lock'), self);
	if (taken.ok) {
		return taken.release;
	}
	const {holder} = taken;
	const who = holder ? ` (process ${holder.pid} on ${holder.host}, since ${holder.startedAt.slice(0, 19)}Z)` : '';
	throw new ConfigError(
		[`another daemon is running on the data folder ${dataDir}${who}: stop it first or set MAILCTL_DATA_DIR`],
		75,
	);
}

/** Where SQLite's store is. */
export function storeFile(dataDir: string): string {
	return path.join(dataDir, 'mailctl.db');
}

async function openCurrentStore(settings: Settings): Promise<Opened> {
	const {dataDir, databaseUrl} = settings;
	if (databaseUrl !== null) {
		// A migration may take long: it has connections without the limits of the daemon's.
		const patient = await openStore({url: databaseUrl}, {isPatient: true});
		const {store, secrets} = await migrated(patient, settings, 'the PostgreSQL of MAILCTL_DATABASE_URL');
		await store.close();
		return {store: await openStore({url: databaseUrl}), secrets};
	}
	const file = storeFile(dataDir);
	try {
		return await migrated(await openStore({file}), settings, file);
	} catch (error) {
		if (sqliteDialect.isDamage(error)) {
			throw new ConfigError([`${file} is damaged (${(error as Error).message}): restore it from a backup`], 74);
		}
		throw error;
	}
}

/** Nodes of the version before would fail at what the migration changes. Throws ConfigError if some run. */
export async function refuseBesideOthers(trx: Knex.Transaction): Promise<void> {
	const running = await runningNodes(trx);
	if (running.length > 0) {
		const who = running.map(({host, pid}) => `process ${pid} on ${host}`).join(', ');
		throw new ConfigError([`this version changes the store so that older ones cannot use it: stop ${who} first`], 75);
	}
}

async function migrated(store: Store, settings: Settings, where: string): Promise<Opened> {
	try {
		const state = await schemaState(store.database);
		if (state === 'tooOld') {
			throw new ConfigError([`${where} was made by a mailctl too old for this one: ${tooOldFix}`]);
		}
		if (state === 'newer') {
			throw new ConfigError([`${where} was made by a newer mailctl: install that version or restore a backup`]);
		}
		let secrets: MasterKeys | undefined;
		await migrate(store.database, {
			beforeBreaking: refuseBesideOthers,
			within: async trx => {
				secrets = await ensureSecrets(trx, settings);
			},
		});
		return {store, secrets: secrets as MasterKeys};
	} catch (error) {
		await store.close();
		throw error;
	}
}
