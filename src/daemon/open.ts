import {hostname} from 'node:os';
import path from 'node:path';
import process from 'node:process';
import {ConfigError} from '../config/config-error.ts';
import {loadSecrets, type Secrets} from '../config/secrets.ts';
import type {Settings} from '../config/settings.ts';
import {systemClock} from '../mail/clock.ts';
import {storeTime} from '../mail/time.ts';
import {sqliteDialect} from '../store/dialect.ts';
import {lockFolder} from '../store/lock.ts';
import {migrate, schemaState} from '../store/migrate.ts';
import {hasSealedRows} from '../store/sealed-rows.ts';
import {openStore, type Store} from '../store/store.ts';
import {openDataDir} from './data-dir.ts';

/** What a daemon holds of its data folder. */
export type Held = {readonly store: Store; readonly secrets: Secrets; readonly release: () => Promise<void>};

/**
 * Makes or checks the data folder, takes its lock, opens the store and brings its schema up to date. Throws ConfigError
 * with what keeps the daemon from starting; then nothing is left open.
 */
export async function openData(settings: Settings, {asRoot}: {asRoot: boolean}): Promise<Held> {
	const {dataDir, databaseUrl} = settings;
	openDataDir({dataDir, asRoot});
	const unlock = databaseUrl === null ? await lock(dataDir) : async () => undefined;
	let store: Store | null = null;
	async function release(): Promise<void> {
		await store?.close();
		await unlock();
	}
	try {
		store = await openCurrentStore(settings);
		const sealed = await hasSealedRows(store.reader);
		return {store, secrets: loadSecrets({dataDir, settings, sealed}), release};
	} catch (error) {
		await release();
		throw error;
	}
}

async function lock(dataDir: string): Promise<() => Promise<void>> {
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

async function openCurrentStore({dataDir, databaseUrl}: Settings): Promise<Store> {
	if (databaseUrl !== null) {
		return await migrated(await openStore({url: databaseUrl}), 'the PostgreSQL of MAILCTL_DATABASE_URL');
	}
	const file = path.join(dataDir, 'mailctl.db');
	try {
		return await migrated(await openStore({file}), file);
	} catch (error) {
		if (sqliteDialect.isDamage(error)) {
			throw new ConfigError([`${file} is damaged (${(error as Error).message}): restore it from a backup`], 74);
		}
		throw error;
	}
}

async function migrated(store: Store, where: string): Promise<Store> {
	try {
		if ((await schemaState(store.database)) === 'newer') {
			throw new ConfigError([`${where} was made by a newer mailctl: install that version or restore a backup`]);
		}
		await migrate(store.database);
		return store;
	} catch (error) {
		await store.close();
		throw error;
	}
}
