import {readFileSync, renameSync, writeFileSync} from 'node:fs';
import {join} from 'node:path';
import process from 'node:process';

/**
 * The times of the last two backups of this data folder in milliseconds since the epoch, or `null` if there was none.
 */
type Backups = {readonly last: number | null; readonly previous: number | null};

const fileOf = (dataDir: string) => join(dataDir, 'backups.json');

/** Returns the times of the last backups. A missing or damaged file means that there were none. */
export function readBackups(dataDir: string): Backups {
	try {
		const {last, previous} = JSON.parse(readFileSync(fileOf(dataDir), 'utf8'));
		return {last: toTime(last), previous: toTime(previous)};
	} catch {
		return {last: null, previous: null};
	}
}

const toTime = (value: unknown): number | null => (typeof value === 'number' && Number.isFinite(value) ? value : null);

/** Saves the time of a verified backup. The backup is valid even if this file cannot be written. */
export function noteBackup(dataDir: string, at: number): void {
	const {last: previous} = readBackups(dataDir);
	const draft = `${fileOf(dataDir)}.${process.pid}`;
	try {
		// The daemon must be able to read the file even if root creates the backups.
		writeFileSync(draft, `${JSON.stringify({last: at, previous} satisfies Backups)}\n`, {mode: 0o644});
		renameSync(draft, fileOf(dataDir));
	} catch {}
}
