import {join} from 'node:path';
import type {Settings} from '../config/settings.ts';
import {migrate, schemaState} from '../store/migrate.ts';
import {prepareSchema} from '../store/prepare-schema.ts';
import {openStore, type Store, type StoreLocation} from '../store/store.ts';
import {CliError} from './fault.ts';

/** Opens the store beside a running daemon or without one; an empty one gets its tables first. */
export async function openStoreOf(settings: Settings): Promise<Store> {
	const store = await openStore(locationOf(settings));
	try {
		refuseOther(await prepareSchema(store.database));
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

function refuseOther(state: Awaited<ReturnType<typeof prepareSchema>>): void {
	switch (state) {
		case 'current':
			return;
		case 'newer':
			throw newer();
		case 'older':
			throw new CliError('config', 'the store is of an older mailctl', 'run mailctl migrate (the daemon stopped)');
		case 'migrating':
			throw new CliError('temporary', 'the store is being migrated by another process', 'try again');
	}
}

function newer(): CliError {
	return new CliError('config', 'the store is of a newer mailctl than this one', 'install that version again');
}
