import {usualWal, type WriteAheadLog} from '../store/engine/sqlite.ts';

export type FreeSpaceOptions = {
	/** Bytes that the file system of the data folder has left for us. */
	readonly free: () => Promise<number>;
	/** MAILCTL_MIN_FREE_DISK; 0: none is asked for. */
	readonly least: () => number;
	/** It became too little, or enough again. */
	readonly onChange: (state: {readonly enough: boolean; readonly free: number}) => void;
};

/** Whether there is room for new mail. What must go on (outcomes, opt-outs, retention) does not ask. */
export type FreeSpace = {
	/** Looks at once; resolves when it has looked. */
	readonly look: () => Promise<void>;
	readonly enough: () => boolean;
	/** As of the last look; null where the system does not tell. */
	readonly free: () => number | null;
	readonly stop: () => void;
};

const lookMs = 1000;
/** Once too little, it is enough again with a tenth more: at the limit itself the state would change with every mail. */
const recovery = 1.1;

/** Looks every second. */
export function watchFreeSpace({free, least, onChange}: FreeSpaceOptions): FreeSpace {
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
		if (isEnough !== enough) {
			enough = isEnough;
			onChange({enough, free: bytes});
		}
	}

	return {look, enough: () => enough, free: () => last, stop: () => clearInterval(timer)};
}

export type WalWatchOptions = {
	readonly wal: WriteAheadLog;
	/** From this on it is emptied, octets. */
	readonly most?: number;
	/** It cannot be emptied, and has doubled since the last call. */
	readonly onLarge: (bytes: number) => void;
	/** After `onLarge`. `bytes`: what it had. */
	readonly onEmptied: (bytes: number) => void;
	readonly onError: (error: unknown) => void;
};

/** Short reads that follow each other closely look like a long one. */
const silentTries = 5;

export type WalWatch = {
	/** Looks at once; resolves when it has looked. */
	readonly look: () => Promise<void>;
	/** Resolves when it is not being emptied any more. */
	readonly stop: () => Promise<void>;
};

/**
 * Looks at SQLite's write-ahead log every second, and empties one that has grown. SQLite itself only adds to it while a read is
 * under way, and leaves it as large as it was when nobody writes any more.
 */
export function watchWal({wal, most = usualWal, onLarge, onEmptied, onError}: WalWatchOptions): WalWatch {
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
				onEmptied(bytes);
			}
			[isLarge, tries, reported] = [false, 0, 0];
		} else if (++tries >= silentTries && bytes >= 2 * reported) {
			reported = bytes;
			onLarge(bytes);
		}
	}

	function look(): Promise<void> {
		looking ??= check()
			.catch(onError)
			.finally(() => {
				looking = null;
			});
		return looking;
	}

	return {
		look,
		async stop() {
			clearInterval(timer);
			await looking;
		},
	};
}

/** How large the store was, octets. */
export type StoreSize = {readonly at: number; readonly bytes: number};

export type StoreSizes = {
	/** Since the daemon started, an hour apart, for at most 30 days; oldest first. */
	readonly past: () => readonly StoreSize[];
	readonly stop: () => void;
};

const sizeEveryMs = 60 * 60_000;
const mostSizes = 30 * 24;

/** Notes the size of the store every hour, so that its growth can be told. */
export function watchStoreSize({
	read,
	now,
	onError,
}: {
	readonly read: () => Promise<number>;
	readonly now: () => number;
	readonly onError: (error: unknown) => void;
}): StoreSizes {
	const sizes: StoreSize[] = [];

	async function look(): Promise<void> {
		try {
			sizes.push({bytes: await read(), at: now()});
			sizes.splice(0, sizes.length - mostSizes);
		} catch (error) {
			onError(error);
		}
	}

	void look();
	const timer = setInterval(() => void look(), sizeEveryMs).unref();
	return {past: () => sizes, stop: () => clearInterval(timer)};
}
