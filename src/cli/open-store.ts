import {join} from 'node:path';
import type {Settings} from '../config/settings.ts';
import {settleSecrets} from '../data-folder/settle-secrets.ts';
import {migrate, schemaState} from '../store/engine/migrate.ts';
import {openStore, type Store, type StoreLocation} from '../store/store.ts';
import {CliError} from './fault.ts';

/** Opens the store beside a running daemon or without one; an empty one gets its tables first. */
export async function openStoreOf(settings: Settings): Promise<Store> {
	const store = await openStore(locationOf(settings), {isPatient: true});
	try {
		const state = await schemaState(store.database);
		if (state === 'empty') {
			await migrate(store.database);
		} else if (state === 'older') {
			throw new CliError('config', 'the store is of an older mailctl', 'run mailctl migrate (the daemon stopped)');
		} else if (state === 'newer') {
			throw newer();
		}
		return store;
	} catch (error) {
		await store.close();
		throw error;
	}
}

/** Applies what is missing; the names of it. */
export async function migrateStore(settings: Settings): Promise<string[]> {
	const store = await openStore(locationOf(settings), {isPatient: true});
	try {
		if ((await schemaState(store.database)) === 'newer') {
			throw newer();
		}
		return await migrate(store.database, async trx => void (await settleSecrets(trx, settings)));
	} finally {
		await store.close();
	}
}

function locationOf({databaseUrl, dataDir}: Settings): StoreLocation {
	return databaseUrl === null ? {file: join(dataDir, 'mailctl.db')} : {url: databaseUrl};
}

function newer(): CliError {
	return new CliError('config', 'the store is of a newer mailctl than this one', 'install that version again');
}
