import type {Logger} from 'pino';
import {usualWal, type WriteAheadLog} from '../store/engine/sqlite.ts';

// What the daemon watches of its disk: free space, SQLite's write-ahead log, the size of the store.

/** Whether there is space for new mail. What must go on (outcomes, opt-outs, retention) does not ask. */
type FreeSpace = {
	/** Looks at once; resolves when it has looked. */
	readonly look: () => Promise<void>;
	readonly enough: () => boolean;
	/** As of the last look; null where the system does not answer. */
	readonly free: () => number | null;
	readonly stop: () => void;
};

const lookMs = 1000;
/** After a shortage a tenth more than the limit is needed: at the limit itself the state would change with every mail. */
const recovery = 1.1;

/**
 * Looks every second, and logs each change. `free`: bytes that the file system of the data folder has left for us. `least`:
 * MAILCTL_MIN_FREE_DISK.
 */
export function watchFreeSpace(
	free: () => Promise<number>,
	least: () => number,
	logger: Pick<Logger, 'info' | 'error'>,
): FreeSpace {
	let enough = true;
	let last: number | null = null;
	let looking: Promise<void> | null = null;
	const timer = setInterval(look, lookMs).unref();

	/** A file system that does not answer is asked once. */
	function look(): Promise<void> {
		looking ??= free()
			.then(judge, () => undefined)
			.finally(() => {
				looking = null;
			});
		return looking;
	}

	function judge(bytes: number): void {
		last = bytes;
		const isEnough = bytes >= least() * (enough ? 1 : recovery);
		if (isEnough === enough) {
			return;
		}
		enough = isEnough;
		const figures = {free: bytes, least: least()};
		if (enough) {
			logger.info({event: 'disk_recovered', ...figures}, 'There is room for new mail again.');
		} else {
			logger.error(
				{event: 'disk_low', ...figures},
				'The disk of the data folder has less free space than MAILCTL_MIN_FREE_DISK: no new mail is accepted.',
			);
		}
	}

	return {look, enough: () => enough, free: () => last, stop: () => clearInterval(timer)};
}

/** Short reads that follow each other closely look like a long one. */
const silentTries = 5;

/**
 * Looks at SQLite's write-ahead log every second, and empties it above `most` bytes. SQLite itself only appends to it during a
 * read, and never shrinks it without writes. A log that cannot be emptied is logged each time that it has doubled.
 */
export function watchWal({
	wal,
	most = usualWal,
	logger,
	storeFailed,
}: {
	readonly wal: WriteAheadLog;
	readonly most?: number;
	readonly logger: Pick<Logger, 'info' | 'warn'>;
	readonly storeFailed: (error: unknown) => void;
}) {
	let isLarge = false;
	let tries = 0;
	let reported = 0;
	let looking: Promise<void> | null = null;
	const timer = setInterval(look, lookMs).unref();

	async function check(): Promise<void> {
		const bytes = wal.bytes();
		isLarge ||= bytes > most;
		if (!isLarge) {
			return;
		}
		if (await wal.empty()) {
			if (reported > 0) {
				logger.info({event: 'wal_emptied', bytes}, 'The write-ahead log of the store was emptied.');
			}
			[isLarge, tries, reported] = [false, 0, 0];
		} else if (++tries >= silentTries && bytes >= 2 * reported) {
			reported = bytes;
			logger.warn(
				{event: 'wal_large', bytes},
				'The write-ahead log of the store keeps growing, probably because a program holds a long read transaction: see mailctl doctor.',
			);
		}
	}

	function look(): Promise<void> {
		looking ??= check()
			.catch(storeFailed)
			.finally(() => {
				looking = null;
			});
		return looking;
	}

	return {
		/** Looks at once; resolves when it has looked. */
		look,
		/** Resolves when the log is not being emptied any more. */
		async stop(): Promise<void> {
			clearInterval(timer);
			await looking;
		},
	};
}

/** How large the store was, bytes. */
type StoreSize = {readonly at: number; readonly bytes: number};

const sizeEveryMs = 60 * 60_000;
const mostSizes = 30 * 24;

/** Notes the size of the store every hour, which shows its growth. */
export function watchStoreSize(read: () => Promise<number>, now: () => number, storeFailed: (error: unknown) => void) {
	const sizes: StoreSize[] = [];

	async function look(): Promise<void> {
		try {
			sizes.push({bytes: await read(), at: now()});
			sizes.splice(0, sizes.length - mostSizes);
		} catch (error) {
			storeFailed(error);
		}
	}

	void look();
	const timer = setInterval(() => void look(), sizeEveryMs).unref();
	return {
		/** Since the start, an hour apart, of at most 30 days; oldest first. */
		past: (): readonly StoreSize[] => sizes,
		stop: (): void => clearInterval(timer),
	};
}
