import {usualWal, type WriteAheadLog} from '../store/engine/sqlite.ts';

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
const everyMs = 1000;

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
	const timer = setInterval(look, everyMs).unref();

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
