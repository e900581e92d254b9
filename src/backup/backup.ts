import {statSync} from 'node:fs';
import {mkdtemp, rename, rm} from 'node:fs/promises';
import {dirname, join} from 'node:path';
import {syncFolder} from '../config/secrets-file.ts';
import {RefusedFileError} from '../kit/regular-file.ts';
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
