import {join} from 'node:path';
import {setTimeout as wait} from 'node:timers/promises';
import type {Settings} from '../config/settings.ts';
import {migrate, schemaState} from '../store/migrate.ts';
import {openStore, type Store, type StoreLocation} from '../store/store.ts';
import {CliError} from './fault.ts';

/** Opens the store beside a running daemon or without one; an empty one gets its tables first. */
export async function openStoreOf(settings: Settings): Promise<Store> {
	const store = await openStore(locationOf(settings));
	try {
		if (!(await store.database.schema.hasTable('migrations'))) {
			await migrateFresh(store);
		}
		await refuseOtherSchema(store);
		return store;
	} catch (error) {
		await store.close();
		throw error;
	}
}

/** Applies what is missing; the names of it. */
export async function migrateStore(settings: Settings): Promise<string[]> {
	const store = await openStore(locationOf(settings));
	try {
		if ((await schemaState(store.database)) === 'newer') {
			throw newer();
		}
		return await migrate(store.database);
	} finally {
		await store.close();
	}
}

function locationOf({databaseUrl, dataDir}: Settings): StoreLocation {
	return databaseUrl === null ? {file: join(dataDir, 'mailctl.db')} : {url: databaseUrl};
}

// Two commands may meet an empty store at once: the one that is too late waits for the other's tables.
async function migrateFresh(store: Store): Promise<void> {
	for (let tries = 1; ; tries++) {
		try {
			await migrate(store.database);
			return;
		} catch (error) {
			if (tries === 10) {
				throw error;
			}
			await wait(100 * tries);
		}
	}
}

async function refuseOtherSchema(store: Store): Promise<void> {
	const state = await schemaState(store.database);
	if (state === 'newer') {
		throw newer();
	}
	if (state === 'older') {
		throw new CliError('config', 'the store is of an older mailctl', 'run mailctl migrate (the daemon stopped)');
	}
}

function newer(): CliError {
	return new CliError('config', 'the store is of a newer mailctl than this one', 'install that version again');
}
