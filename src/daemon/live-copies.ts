import {statSync} from 'node:fs';
import type {Logger} from 'pino';
import type {Settings} from '../config/settings.ts';
import {type Clock, repeated} from '../kit/clock.ts';
import {freeBytes} from '../store/data-folder/data-dir.ts';
import {
	endCopy,
	isWanted,
	liveCopyFile,
	readCopyEnd,
	removeAbandoned,
	removeCopy,
	takeRequest,
} from '../store/data-folder/live-copy.ts';
import {storeFile} from '../store/data-folder/open.ts';
import {copyLive} from '../store/engine/live-copy.ts';
import type {Store} from '../store/store.ts';

const checkMs = 500;

type LiveCopyOptions = {
	readonly settings: Pick<Settings, 'dataDir'>;
	readonly store: Pick<Store, 'database' | 'writer' | 'wal'>;
	readonly clock: Pick<Clock, 'monotonic'>;
	/** MAILCTL_MIN_FREE_DISK. */
	readonly minFreeDisk: () => number;
	/** While held, the writer thread is idle and everything is written through the store's own connection. */
	readonly hold: (isHeld: boolean) => void;
	readonly logger: Pick<Logger, 'info' | 'warn'>;
};

/** Copies an SQLite store for `mailctl backup`. Only the process that writes can do so without making the log grow. */
export function watchLiveCopies(options: LiveCopyOptions) {
	const {dataDir} = options.settings;
	const {logger} = options;
	let isStopping = false;

	function throwIfCanceled(): void {
		if (isStopping) {
			throw new Error('the daemon is stopping');
		}
		if (!isWanted(dataDir)) {
			throw new Error('mailctl backup has stopped');
		}
	}

	async function check(): Promise<void> {
		removeAbandoned(dataDir);
		if (!isWanted(dataDir)) {
			return;
		}
		if (!takeRequest(dataDir)) {
			// No copy is in progress here, so a killed daemon began this one, or its result could not be written.
			if (readCopyEnd(dataDir) === null) {
				endCopy(dataDir, {ok: false, error: 'the copy was interrupted'});
			}
			return;
		}
		try {
			await copyStore(options, throwIfCanceled);
			endCopy(dataDir, {ok: true});
		} catch (error) {
			logger.warn(
				{event: 'store_not_copied', err: error},
				'The store was not copied for a backup. If mailctl backup is still running, it makes its own copy.',
			);
			if (isWanted(dataDir)) {
				endCopy(dataDir, {ok: false, error: (error as Error).message});
			} else {
				removeCopy(dataDir);
			}
		}
	}

	const watch = repeated(checkMs, check, error => logger.warn({event: 'store_not_copied', err: error}));
	return {
		async stop(): Promise<void> {
			isStopping = true;
			await watch.stop();
		},
	};
}

/** Copies the store once. Rejects if the disk has no space for the copy, or `throwIfCanceled` throws. */
async function copyStore(
	{settings: {dataDir}, store, clock, minFreeDisk, hold, logger}: LiveCopyOptions,
	throwIfCanceled: () => void,
): Promise<void> {
	const startedAt = clock.monotonic();
	const {size} = statSync(storeFile(dataDir));
	if ((await freeBytes(dataDir)) < size + minFreeDisk()) {
		throw new Error('the disk of the data folder has no space for a copy');
	}
	hold(true);
	store.wal?.hold(true);
	try {
		await copyLive({...store, file: liveCopyFile(dataDir), throwIfCanceled, monotonic: clock.monotonic});
	} finally {
		store.wal?.hold(false);
		hold(false);
	}
	const seconds = Math.round(clock.monotonic() - startedAt) / 1000;
	logger.info({event: 'store_copied', bytes: size, seconds}, 'The store was copied for a backup.');
}
