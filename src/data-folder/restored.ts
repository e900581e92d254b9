import {
	closeSync,
	existsSync,
	fsyncSync,
	lchownSync,
	openSync,
	readdirSync,
	renameSync,
	rmSync,
	statSync,
} from 'node:fs';
import {join} from 'node:path';
import {syncFolder} from '../config/secrets-file.ts';

/** Where a restore puts a store together. */
export function stagingFolder(dataDir: string): string {
	return join(dataDir, 'restore.partial');
}

/** The same folder once it is complete: from then on its store is that of the data folder, even if the process dies. */
function completeFolder(dataDir: string): string {
	return join(dataDir, 'restore.ready');
}

/** Whether a restore died over its last step. */
export function isRestored(dataDir: string): boolean {
	return existsSync(completeFolder(dataDir));
}

/** Lets the staged store take the place of the one before. Needs the folder's lock. */
export function commitRestore(dataDir: string): void {
	const [staging, {uid, gid}] = [stagingFolder(dataDir), statSync(dataDir)];
	// Root may restore what a daemon of another user runs on, which then wants the lock too. That user can have put links
	// into the folder: their targets keep their owner.
	for (const name of readdirSync(dataDir).filter(name => name.startsWith('daemon.lock'))) {
		lchownSync(join(dataDir, name), uid, gid);
	}
	for (const file of [...readdirSync(staging).map(name => join(staging, name)), staging]) {
		lchownSync(file, uid, gid);
		const handle = openSync(file, 'r');
		fsyncSync(handle);
		closeSync(handle);
	}
	renameSync(staging, completeFolder(dataDir));
	syncFolder(dataDir);
	finishRestore(dataDir);
}

/** Finishes a committed restore from where it stopped; does nothing without one. Needs the folder's lock. */
export function finishRestore(dataDir: string): void {
	const complete = completeFolder(dataDir);
	if (!existsSync(complete)) {
		return;
	}
	const store = 'mailctl.db';
	if (existsSync(join(complete, store))) {
		// SQLite would take the log of the former store for that of the new one.
		rmSync(join(dataDir, `${store}-wal`), {force: true});
		rmSync(join(dataDir, `${store}-shm`), {force: true});
	}
	for (const name of [store, 'secrets.json'].filter(name => existsSync(join(complete, name)))) {
		renameSync(join(complete, name), join(dataDir, name));
	}
	syncFolder(dataDir);
	rmSync(complete, {recursive: true, force: true});
}
