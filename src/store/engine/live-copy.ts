import {open} from 'node:fs/promises';
import type {Knex} from 'knex';
import type {Writer} from './writer.ts';

/** The backup API of the `sqlite3` driver. */
type Backup = {
	readonly remaining: number;
	readonly pageCount: number;
	readonly step: (pages: number, done: (error: NodeJS.ErrnoException | null, isComplete?: boolean) => void) => void;
	readonly finish: (done: () => void) => void;
};
type Connection = {
	readonly backup: (file: string, done: (error: Error | null) => void) => Backup;
};

export type LiveCopyOptions = {
	/** The only connection that may write during the copy: SQLite restarts the copy after a write by any other one. */
	readonly database: Knex;
	/** The steps of the copy run between its transactions. */
	readonly writer: Pick<Writer, 'between'>;
	/** An empty file that only its owner can read. */
	readonly file: string;
	/** Called before each step; throws to cancel the copy. */
	readonly throwIfCanceled: () => void;
	readonly monotonic: () => number;
};

const pagesPerStep = 256;
/** Pages (32 MiB) that may be written to the copy before it is synced: a commit has to wait for them. */
const maxUnsyncedPages = 8192;
const maxRestMs = 100;
/** Other processes seldom write, and each of their writes restarts the copy. */
const maxStarts = 5;

/** Other processes write so often that the copy cannot finish. */
export class CopyDisturbedError extends Error {
	override readonly name = 'CopyDisturbedError';
}

/**
 * Copies a SQLite store that is in use. The copy contains everything that was committed before it finished. Because
 * SQLite applies later writes to pages that were already copied, the copy needs no snapshot and the write-ahead log
 * does not grow. After each step the copy pauses for as long as the step took, including its wait for transactions, so
 * it slows down when commits do.
 */
export async function copyLive({database, writer, file, throwIfCanceled, monotonic}: LiveCopyOptions): Promise<void> {
	const target = await open(file, 'r+');
	const pool = database.client;

	/** The pool has a single connection, which is free between transactions. */
	const onConnection = async <Result>(work: (connection: Connection) => Promise<Result>): Promise<Result> =>
		await writer.between(async () => {
			const connection = await pool.acquireConnection();
			try {
				return await work(connection);
			} finally {
				await pool.releaseConnection(connection);
			}
		});

	async function copyPages(backup: Backup): Promise<void> {
		let [copied, unsynced, starts] = [0, 0, 1];
		for (let isComplete = false; !isComplete; ) {
			throwIfCanceled();
			const startedAt = monotonic();
			isComplete = await onConnection(async () => await step(backup));
			const elapsed = monotonic() - startedAt;
			const position = backup.pageCount - backup.remaining;
			if (position < copied && ++starts > maxStarts) {
				throw new CopyDisturbedError('other processes keep writing to the store');
			}
			unsynced += Math.abs(position - copied);
			copied = position;
			if (isComplete || unsynced >= maxUnsyncedPages) {
				await target.datasync();
				unsynced = 0;
			}
			await new Promise(resolve => setTimeout(resolve, Math.min(elapsed, maxRestMs)));
		}
	}

	try {
		const backup = await onConnection(connection => begin(connection, file));
		try {
			await copyPages(backup);
		} finally {
			await onConnection(async () => await new Promise<void>(resolve => backup.finish(resolve)));
		}
	} finally {
		await target.close();
	}
}

async function begin(connection: Connection, file: string): Promise<Backup> {
	return await new Promise((resolve, reject) => {
		const backup = connection.backup(file, error => (error ? reject(error) : resolve(backup)));
	});
}

/** Returns whether the copy is complete. If another connection blocks this step, the next one tries again. */
async function step(backup: Backup): Promise<boolean> {
	return await new Promise((resolve, reject) => {
		backup.step(pagesPerStep, (error, isComplete = false) => {
			if (error && error.code !== 'SQLITE_BUSY' && error.code !== 'SQLITE_LOCKED') {
				reject(error);
			} else {
				resolve(isComplete);
			}
		});
	});
}
