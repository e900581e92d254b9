import {existsSync} from 'node:fs';
import {relative, resolve} from 'node:path';
import {systemFile} from '../config/process-env.ts';
import type {Settings} from '../config/settings.ts';
import {finishRestore, isRestored} from '../store/data-folder/data-dir.ts';
import {ensureSecrets, lockData, refuseBesideOthers, storeFile} from '../store/data-folder/open.ts';
import {migrate, type SchemaState, schemaState, tooOldHint} from '../store/engine/migrate.ts';
import {openStore, type Store} from '../store/store.ts';
import {CliError} from './fault.ts';

/**
 * Opens the store, beside a running daemon or without one. With `createIfEmpty`, an empty store gets its tables; with
 * `allowOld`, a store of an older version is accepted, because it will only be copied.
 */
export async function openStoreFor(settings: Settings, {createIfEmpty = false, allowOld = false} = {}): Promise<Store> {
	const store = await openUnchecked(settings);
	try {
		const state = await schemaState(store.database);
		refuseUnusable(state);
		if (state === 'empty') {
			if (!createIfEmpty) {
				throw missingStore(settings);
			}
			await migrate(store.database);
		} else if (state === 'older' && !allowOld) {
			const problem = 'the store was created by an older version';
			throw new CliError('config', problem, 'stop the daemon and run mailctl migrate');
		}
		return store;
	} catch (error) {
		await store.close();
		throw error;
	}
}

/** Applies the missing migrations and returns their names. */
export async function migrateStore(settings: Settings): Promise<string[]> {
	const store = await openUnchecked(settings);
	try {
		refuseUnusable(await schemaState(store.database));
		return await migrate(store.database, {
			beforeBreaking: refuseBesideOthers,
			beforeCommit: async trx => void (await ensureSecrets(trx, settings)),
		});
	} finally {
		await store.close();
	}
}

async function openUnchecked({databaseUrl, dataDir}: Settings): Promise<Store> {
	if (databaseUrl !== null) {
		return await openStore({url: databaseUrl}, {isPatient: true});
	}
	if (isRestored(dataDir)) {
		const unlock = await lockData(dataDir);
		finishRestore(dataDir);
		await unlock();
	}
	return await openStore({file: storeFile(dataDir)});
}

/** Throws CliError for a store that this version can neither use nor migrate. */
function refuseUnusable(state: SchemaState): void {
	if (state === 'tooOld') {
		throw new CliError('config', 'the store was created by a version that is too old', tooOldHint);
	}
	if (state === 'newer') {
		throw new CliError('config', 'the store was created by a newer version', 'install that version again');
	}
}

/** Returns the error for a missing store, which only a few commands create: else the folder is probably wrong. */
export function missingStore({databaseUrl, dataDir}: Settings): CliError {
	if (databaseUrl !== null) {
		const problem = 'no store in the PostgreSQL database of MAILCTL_DATABASE_URL';
		return new CliError('unavailable', problem, 'fix the URL, or create a store with mailctl init');
	}
	const path = relative('', dataDir);
	const problem = `no store at ${path.startsWith('..') ? dataDir : `./${path}`}`;
	const fix =
		dataDir === resolve('data') && existsSync(systemFile)
			? `set MAILCTL_DATA_DIR or run as the user of the daemon, who can read ${systemFile} (sudo)`
			: 'set MAILCTL_DATA_DIR or run in the folder of the daemon (mailctl init creates a store)';
	return new CliError('unavailable', problem, fix);
}
