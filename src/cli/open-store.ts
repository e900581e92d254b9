import {mkdirSync} from 'node:fs';
import {join} from 'node:path';
import {setTimeout as wait} from 'node:timers/promises';
import type {Settings} from '../config/settings.ts';
import type {Store} from '../store/store.ts';
import {CliError} from './fault.ts';

/** Opens the store beside a running daemon or without one; an empty one gets its tables first. */
export async function openStoreOf(settings: Settings): Promise<Store> {
	const [{openStore}, {migrate, schemaState}] = await Promise.all([
		import('../store/store.ts'),
		import('../store/migrate.ts'),
	]);
	mkdirSync(settings.dataDir, {recursive: true, mode: 0o700});
	const store = await openStore(
		settings.databaseUrl === null ? {file: join(settings.dataDir, 'mailctl.db')} : {url: settings.databaseUrl},
	);
	try {
		if (!(await store.database.schema.hasTable('migrations'))) {
			await migrateFresh(() => migrate(store.database));
		}
		await refuseOtherSchema(() => schemaState(store.database));
		return store;
	} catch (error) {
		await store.close();
		throw error;
	}
}

// Two commands may meet an empty store at once: the one that is too late waits for the other's tables.
async function migrateFresh(migrate: () => Promise<unknown>): Promise<void> {
	for (let tries = 1; ; tries++) {
		try {
			await migrate();
			return;
		} catch (error) {
			if (tries === 10) {
				throw error;
			}
			await wait(100 * tries);
		}
	}
}

async function refuseOtherSchema(schemaState: () => Promise<'current' | 'older' | 'newer'>): Promise<void> {
	const state = await schemaState();
	if (state === 'newer') {
		throw new CliError('config', 'the store is of a newer mailctl than this one', 'install that version again');
	}
	if (state === 'older') {
		throw new CliError('config', 'the store is of an older mailctl', 'run mailctl migrate (the daemon stopped)');
	}
}
