import {mkdirSync, rmSync} from 'node:fs';
import type {Settings} from '../config/settings.ts';
import {openData} from '../data-folder/open.ts';
import {commitRestore, finishRestore, stagingFolder} from '../data-folder/restored.ts';
import {storeTime} from '../kit/time.ts';
import type {Acting} from '../mail/operator.ts';
import {recordAct} from '../store/audit.ts';
import {recipientClaims, releaseOthers} from '../store/held-claims.ts';
import {holdAll} from '../store/queue/open-recipients.ts';
import {type QueueSize, readQueueSize} from '../store/queue/queue-summary.ts';
import type {Store} from '../store/store.ts';
import {type OnBytes, readArchive} from './archive.ts';
import type {Manifest} from './manifest.ts';

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
