import {join} from 'node:path';
import {type Daemons, daemonsOfNodes} from '../admin/why-context.ts';
import type {Settings} from '../config/settings.ts';
import {readDaemonFile} from '../data-folder/daemon-file.ts';
import {ensureSecrets} from '../data-folder/ensure-secrets.ts';
import {lockData, refuseBesideOthers, storeFile} from '../data-folder/open.ts';
import {finishRestore, isRestored} from '../data-folder/restored.ts';
import {storeTime} from '../kit/time.ts';
import {migrate, type SchemaState, schemaState, tooOldFix} from '../store/engine/migrate.ts';
import {isFolderLocked} from '../store/engine/sqlite.ts';
import {silentMs} from '../store/nodes.ts';
import {openStore, type Store} from '../store/store.ts';
import {CliError} from './fault.ts';
import {noStore, type Session} from './session.ts';

/**
 * Opens the store beside a running daemon or without one; an empty one gets its tables if `makesStore`. `anyAge`: one of an older
 * version too, which is only to be copied.
 */
export async function openStoreOf(settings: Settings, {makesStore = false, anyAge = false} = {}): Promise<Store> {
	const store = await openAt(settings);
	try {
		const state = await schemaState(store.database);
		refuseForeign(state);
		if (state === 'empty') {
			if (!makesStore) {
				throw noStore(settings);
			}
			await migrate(store.database);
		} else if (state === 'older' && !anyAge) {
			throw new CliError(
				'config',
				'the store was made by an older mailctl',
				'run mailctl migrate (the daemon stopped)',
			);
		}
		return store;
	} catch (error) {
		await store.close();
		throw error;
	}
}

/** Applies what is missing; the names of it. */
export async function migrateStore(settings: Settings): Promise<string[]> {
	const store = await openAt(settings);
	try {
		refuseForeign(await schemaState(store.database));
		return await migrate(store.database, {
			beforeBreaking: refuseBesideOthers,
			within: async trx => void (await ensureSecrets(trx, settings)),
		});
	} finally {
		await store.close();
	}
}

async function openAt({databaseUrl, dataDir}: Settings): Promise<Store> {
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

/** Throws CliError for a store that this version can neither use nor bring up to date. */
function refuseForeign(state: SchemaState): void {
	if (state === 'tooOld') {
		throw new CliError('config', 'the store was made by a mailctl too old for this one', tooOldFix);
	}
	if (state === 'newer') {
		throw new CliError('config', 'the store was made by a newer mailctl', 'install that version again');
	}
}

/** SQLite has one daemon, which holds the lock of the folder; on PostgreSQL every node says when it was there. */
export async function readDaemons(session: Session): Promise<Daemons> {
	const {dataDir, databaseUrl} = session.storeSettings();
	const silentSince = storeTime(session.tools.clock.now() - silentMs);
	if (databaseUrl === null) {
		const running = await isFolderLocked(join(dataDir, 'daemon.lock'));
		const roles = readDaemonFile(dataDir)?.roles ?? [];
		const delivering = running && (roles.length === 0 || roles.includes('deliver'));
		return {running, delivering, lives: () => running, silentSince: running ? null : silentSince};
	}
	return await daemonsOfNodes(await session.reader(), silentSince);
}
