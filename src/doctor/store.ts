import {existsSync} from 'node:fs';
import {join} from 'node:path';
import {ConfigError} from '../config/config-error.ts';
import type {Settings} from '../config/settings.ts';
import {openDataDir} from '../data-folder/data-dir.ts';
import {schemaState, tooOldFix} from '../store/engine/migrate.ts';
import {usualWal, type WriteAheadLog} from '../store/engine/sqlite.ts';
import {openStore, type Store} from '../store/store.ts';
import {type Check, type Found, fail, ok, warn} from './finding.ts';

/** The store, if it is there and of this version; nothing is made that is not there. */
export type OpenedStore = {readonly store: Store | null; readonly found: readonly Found[]};

const megabyte = 1024 * 1024;

const why = 'The store holds every accepted mail; the daemon does not start on one that it cannot trust.';

export function storeCheck({found}: OpenedStore): Check {
	return {name: 'store', why, look: async () => [...found]};
}

/** SQLite's write-ahead log: whether something keeps it from being emptied. */
export function walCheck(wal: WriteAheadLog): Check {
	return {
		name: 'store-log',
		why: 'While somebody reads the store as it was, its write-ahead log only grows: it fills the disk and slows reads down.',
		async look() {
			const bytes = wal.bytes();
			const detail = `${wal.file} has ${Math.ceil(bytes / megabyte).toLocaleString('en')} MB`;
			const fix = `end what reads the store (fuser -v ${wal.file} lists processes); the daemon then empties the log within seconds`;
			return [bytes > usualWal ? warn(`${detail}: a long read probably keeps it from being emptied`, fix) : ok(detail)];
		},
	};
}

/** Looks at the data folder and the store in it, or at PostgreSQL. */
export async function openForDoctor(settings: Settings): Promise<OpenedStore> {
	const {dataDir, databaseUrl} = settings;
	const file = join(dataDir, 'mailctl.db');
	if (databaseUrl === null) {
		if (!existsSync(dataDir)) {
			return {store: null, found: [ok(`${dataDir} is not there yet, the first start makes it`)]};
		}
		try {
			openDataDir({dataDir});
		} catch (error) {
			return {store: null, found: problems(error)};
		}
		if (!existsSync(file)) {
			return {store: null, found: [ok(`${file} is not there yet, the first start makes it`)]};
		}
	}
	const where = databaseUrl === null ? file : 'the PostgreSQL of MAILCTL_DATABASE_URL';
	try {
		return await judged(await openStore(databaseUrl === null ? {file} : {url: databaseUrl}, {isPatient: true}), where);
	} catch (error) {
		const mend = databaseUrl === null ? 'restore it from a backup' : 'start it, or correct the URL';
		return {store: null, found: [fail(`${where} cannot be read: ${(error as Error).message}`, mend)]};
	}
}

async function judged(store: Store, where: string): Promise<OpenedStore> {
	const state = await schemaState(store.database);
	if (state === 'current') {
		return {store, found: [ok(`${where} is up to date`)]};
	}
	await store.close();
	switch (state) {
		case 'empty':
			return {store: null, found: [ok(`${where} is empty, the first start makes its tables`)]};
		case 'older':
			return {
				store: null,
				found: [warn(`${where} was made by an older mailctl`, 'restart the daemon, or run mailctl migrate')],
			};
		case 'tooOld':
			return {store: null, found: [fail(`${where} was made by a mailctl too old for this one`, tooOldFix)]};
		case 'newer':
			return {store: null, found: [fail(`${where} was made by a newer mailctl`, 'install that version again')]};
	}
}

/** `what is wrong: how to fix it`, as a ConfigError words each problem. */
function problems(error: unknown): Found[] {
	if (!(error instanceof ConfigError)) {
		throw error;
	}
	return error.problems.map(problem => {
		const at = problem.lastIndexOf(': ');
		return fail(problem.slice(0, at), problem.slice(at + 2));
	});
}
