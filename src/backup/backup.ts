import {mkdirSync, rmSync, statSync} from 'node:fs';
import {mkdtemp, rename, rm} from 'node:fs/promises';
import {dirname, join} from 'node:path';
import {syncFolder} from '../config/secrets-file.ts';
import type {Settings} from '../config/settings.ts';
import {openData} from '../data-folder/open.ts';
import {commitRestore, finishRestore, stagingFolder} from '../data-folder/restored.ts';
import {RefusedFileError} from '../kit/regular-file.ts';
import {storeTime} from '../kit/time.ts';
import type {Acting} from '../mail/operator.ts';
import {recordAct} from '../store/audit.ts';
import {recipientClaims, releaseOthers} from '../store/held-claims.ts';
import {holdAll} from '../store/queue/open-recipients.ts';
import {type QueueSize, readQueueSize} from '../store/queue/queue-summary.ts';
import type {Store} from '../store/store.ts';
import {type OnBytes, packArchive, readArchive, readManifest} from './archive.ts';
import type {Manifest} from './manifest.ts';

export type BackupInput = {
	/** Where the backup is put. An older one is replaced once the new one was read again; anything else there is refused. */
	readonly file: string;
	readonly facts: Pick<Manifest, 'version' | 'engine' | 'time'>;
	/** Puts the files into a folder of the owner's alone, beside the backup; answers the schema. */
	readonly gather: (folder: string) => Promise<string>;
	readonly onBytes: OnBytes;
};

/** Makes a backup; its bytes and what it says of itself. Throws what the system says of files. */
export async function makeBackup({file, facts, gather, onBytes}: BackupInput): Promise<Manifest & {bytes: number}> {
	if ((statSync(file, {throwIfNoEntry: false})?.size ?? 0) > 0) {
		await readManifest(file);
	}
	const folder = await mkdtemp(`${file}.partial-`);
	try {
		const schema = await gather(folder);
		const draft = join(folder, 'backup.tar');
		const {version, engine, time} = facts;
		const manifest = await packArchive(draft, folder, {format: 1, version, schema, engine, time}, onBytes);
		await readAgain(draft, onBytes);
		const bytes = statSync(draft).size;
		await rename(draft, file);
		syncFolder(dirname(file));
		return {...manifest, bytes};
	} finally {
		await rm(folder, {recursive: true, force: true});
	}
}

async function readAgain(draft: string, onBytes: OnBytes): Promise<void> {
	try {
		await readArchive(draft, null, onBytes);
	} catch (error) {
		throw error instanceof RefusedFileError ? Object.assign(new Error(error.message), {code: 'EIO'}) : error;
	}
}

export type RestoreInput = {
	readonly file: string;
	readonly settings: Settings;
	readonly acting: Acting;
	/** Holds all mail that waits. */
	readonly hold: boolean;
	readonly onBytes: OnBytes;
};

/**
 * Replaces the store of the data folder by that of a backup; its queue. Needs the folder's lock. Whenever it dies, the folder
 * has the former store or the new one. Throws as `readArchive` and `openData`; then the former one stays.
 */
export async function restoreBackup({file, settings, acting, hold, onBytes}: RestoreInput): Promise<QueueSize> {
	const {dataDir} = settings;
	const staging = stagingFolder(dataDir);
	finishRestore(dataDir);
	rmSync(staging, {recursive: true, force: true});
	mkdirSync(staging, {mode: 0o700});
	try {
		const manifest = await readArchive(file, staging, onBytes);
		// As a daemon does at its start: a newer schema and foreign keys are found out, an older schema is brought up to date.
		const {store, release} = await openData({...settings, dataDir: staging}, {asRoot: true});
		const queue = await prepare(store, manifest, {acting, hold}).finally(release);
		commitRestore(dataDir);
		return queue;
	} finally {
		rmSync(staging, {recursive: true, force: true});
	}
}

async function prepare(
	{writer, reader}: Store,
	{time, version}: Manifest,
	{acting, hold}: Pick<RestoreInput, 'acting' | 'hold'>,
): Promise<QueueSize> {
	const now = storeTime(acting.clock.now());
	await writer.transaction(async trx => {
		// No daemon has them here.
		await releaseOthers(trx, recipientClaims, '', now);
		const act = {at: now, workspaceId: null, target: null};
		await recordAct(trx, acting, {...act, action: 'store.restored', detail: {backup: time, version, hold}});
		for (const {workspaceId, recipients} of hold ? await holdAll(trx, now) : []) {
			const detail = {reason: `restored from a backup of ${time}`, copies: recipients};
			await recordAct(trx, acting, {...act, action: 'queue.held', workspaceId, detail});
		}
	});
	return await readQueueSize(reader, now);
}
