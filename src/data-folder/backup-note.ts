import {readFileSync, renameSync, writeFileSync} from 'node:fs';
import {join} from 'node:path';
import process from 'node:process';

/** When the last two backups of this data folder were made, milliseconds since the epoch; null: none was. */
type Backups = {readonly last: number | null; readonly previous: number | null};

const fileOf = (dataDir: string) => join(dataDir, 'backups.json');

/** A file that is missing or damaged counts as none. */
export function readBackups(dataDir: string): Backups {
	try {
		const {last, previous} = JSON.parse(readFileSync(fileOf(dataDir), 'utf8'));
		return {last: timeOf(last), previous: timeOf(previous)};
	} catch {
		return {last: null, previous: null};
	}
}

const timeOf = (value: unknown): number | null => (typeof value === 'number' && Number.isFinite(value) ? value : null);

/** Notes that a backup was made and read again. A backup stays good where this cannot be written. */
export function noteBackup(dataDir: string, at: number): void {
	const {last: previous} = readBackups(dataDir);
	const draft = `${fileOf(dataDir)}.${process.pid}`;
	try {
		// For the daemon to read, also where root makes the backups.
		writeFileSync(draft, `${JSON.stringify({last: at, previous} satisfies Backups)}\n`, {mode: 0o644});
		renameSync(draft, fileOf(dataDir));
	} catch {}
}
