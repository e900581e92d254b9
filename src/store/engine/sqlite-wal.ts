import {statSync} from 'node:fs';
import type {Knex} from 'knex';

/** SQLite's write-ahead log. It grows for as long as somebody reads the store as it was. */
export type WriteAheadLog = {
	readonly file: string;
	/** What it takes on the disk, octets. */
	readonly bytes: () => number;
	/** Takes it into the file and empties it. False: somebody reads what it holds. Writers wait a moment at most. */
	readonly empty: () => Promise<boolean>;
};

/** SQLite cuts the log to this when it begins again at its start, octets. */
export const usualWal = 64 * 1024 * 1024;

const patienceMs = 100;

/** `connect`: a connection of its own, for the copying may take seconds. */
export function writeAheadLog(file: string, connect: () => Knex): WriteAheadLog {
	return {
		file: `${file}-wal`,
		bytes: () => walBytes(file),
		async empty() {
			const connection = connect();
			const checkpoint = async (mode: string) => (await connection.raw(`pragma wal_checkpoint(${mode})`))[0];
			try {
				await connection.raw(`pragma busy_timeout = ${patienceMs}`);
				// Others write on while it copies; only the rest of it needs the write lock.
				const {busy, log, checkpointed} = await checkpoint('passive');
				return busy === 0 && checkpointed === log && (await checkpoint('truncate')).busy === 0;
			} finally {
				await connection.destroy();
			}
		},
	};
}

export function walBytes(file: string): number {
	return statSync(`${file}-wal`, {throwIfNoEntry: false})?.size ?? 0;
}
