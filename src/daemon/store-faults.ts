import {spawn} from 'node:child_process';
import process from 'node:process';
import {Worker} from 'node:worker_threads';
import type {Logger} from 'pino';
import {processEnvironment} from '../config/process-env.ts';
import {repeated} from '../kit/clock.ts';
import {threadLimits} from '../kit/memory.ts';
import {entryPoint} from '../kit/program-files.ts';
import {bumpGeneration} from '../store/changes.ts';
import {storeFile} from '../store/data-folder/open.ts';
import {type WriteAheadLog, walSizeLimit} from '../store/engine/sqlite.ts';
import type {Writer} from '../store/engine/writer.ts';
import {WriterThread} from '../store/engine/writer-thread.ts';
import type {Store} from '../store/store.ts';
import type {Context} from './context.ts';
import type {WriterData, WriterLive, WriterNews} from './threads/store-writer.ts';

const probeMs = 1000;

/** Logs failures of the store and attempts a write every second until one succeeds. */
export function watchForStoreFaults(
	{writer, dialect}: Pick<Store, 'writer' | 'dialect'>,
	logger: Logger,
	isDiskFull: () => boolean,
) {
	let isFailing = false;
	/** Whether the store has worked for a second. */
	let isStable = true;
	let isStopped = false;
	let timer: NodeJS.Timeout | undefined;

	function probe(): void {
		// This must be a real change: an update that changes nothing writes nothing.
		writer.transaction(bumpGeneration).then(recover, probeLater);
	}

	function probeLater(): void {
		if (!isStopped) {
			timer = setTimeout(probe, probeMs);
		}
	}

	function recover(): void {
		isFailing = false;
		isStable = false;
		timer = setTimeout(() => {
			isStable = true;
		}, probeMs).unref();
		logger.info({event: 'store_recovered'}, 'The store is available again.');
	}

	return {
		/** Handles a failed read or write. If the store is damaged or its disk is failing, the process exits (74). */
		failed(error: unknown): void {
			const mayBeDamage = dialect.isDamage(error);
			if (mayBeDamage && dialect.isDamage(error, isDiskFull())) {
				logger.fatal(
					{event: 'store_damaged', err: error},
					'The store is damaged or its disk is failing: stopping.',
				);
				exitDamaged();
			}
			const isUnavailable = mayBeDamage || dialect.isUnavailable(error);
			if (isUnavailable && isFailing) {
				return;
			}
			logger.error({event: 'store_failed', err: error}, 'The store is unavailable: retrying.');
			if (isUnavailable) {
				isFailing = true;
				clearTimeout(timer);
				// A single lost connection must not keep others waiting.
				isStable ? probe() : probeLater();
			}
		},
		/** Whether the store cannot be written now. */
		failing: (): boolean => isFailing,
		stop(): void {
			isStopped = true;
			clearTimeout(timer);
		},
	};
}

/** Exits without closing any file. */
export function exitDamaged(): void {
	killIfStuck(exitSeconds);
	process.exit(74);
}

const slowCommitMs = 1000;

/**
 * Creates a function that receives the duration of each commit. It logs once when the disk or server becomes slow, and
 * once when it is fast again.
 */
export function createCommitWatch(logger: Pick<Logger, 'info' | 'warn'>): (ms: number) => void {
	let isSlow = false;
	return ms => {
		if (ms > slowCommitMs && !isSlow) {
			isSlow = true;
			const text =
				'A commit took over a second: the disk of the store is slow or busy, so mail is accepted slowly.';
			logger.warn({event: 'store_slow', ms: Math.round(ms)}, text);
		} else if (ms <= slowCommitMs && isSlow) {
			isSlow = false;
			logger.info({event: 'store_quick', ms: Math.round(ms)}, 'Commits are fast again.');
		}
	};
}

/** How long a process that is not stuck may take to exit, in seconds, with a wide margin. */
export const exitSeconds = 20;

/** `read` returns when our process ends for whatever reason. The script then ends its whole process group. */
const script = '(sleep "$1"; kill -KILL "$0") & read -r _; kill 0';

/**
 * Kills this process (SIGKILL) if it still exists after that many seconds. Node waits for every thread when it exits,
 * and a thread stuck in a system call never ends; by then, nothing in the process itself can act.
 */
export function killIfStuck(seconds: number): void {
	const child = spawn('/bin/sh', ['-c', script, String(process.pid), String(seconds)], {
		stdio: ['pipe', 'ignore', 'ignore'],
		// Its own process group: signals from the terminal to ours must not end it.
		detached: true,
		// Our environment contains secrets.
		env: {PATH: processEnvironment().PATH},
	});
	child.on('error', () => undefined);
	child.stdin.on('error', () => undefined);
	child.unref();
}

/** How the daemon writes. `writer` replaces the store's own. */
type Writing = {
	readonly writer: Writer;
	/**
	 * Starts the writer thread. Until it is ready, the store's own writer continues. It is not started later, under
	 * load: a thread that opened a file removed in the meantime would create another one beside the log.
	 */
	readonly start: () => void;
	/** Applies changed settings. */
	readonly reload: () => void;
	/** While held, everything goes through the store's own connection. */
	readonly hold: (isHeld: boolean) => void;
	/** Resolves when everything that was submitted has been written. */
	readonly stop: () => Promise<void>;
};

/**
 * Creates the writer. With SQLite, frequent writes go to a thread. PostgreSQL works in its own processes and needs
 * none.
 */
export function createWriting({
	settings,
	live,
	store,
	boot,
	eventWriter,
	logger,
}: Pick<Context, 'settings' | 'live' | 'store' | 'boot' | 'eventWriter'> & {
	readonly logger: Pick<Logger, 'info' | 'warn'>;
}): Writing {
	const watchCommit = createCommitWatch(logger);
	store.writer.onCommit?.(watchCommit);
	if (settings.databaseUrl !== null) {
		const {writer} = store;
		return {writer, start: () => undefined, reload: () => undefined, hold: () => undefined, stop: writer.idle};
	}
	const readLive = (): WriterLive => ({keyRetention: live().idempotencyRetention});
	const thread = new WriterThread<WriterLive, WriterNews>({
		own: store.writer,
		spawn: ended =>
			new Worker(entryPoint('daemon/threads/store-writer'), {
				workerData: {
					file: storeFile(settings.dataDir),
					committed: store.committed,
					time: store.clock.memory,
					boot,
					live: readLive(),
					ended,
				} satisfies WriterData,
				resourceLimits: threadLimits.writer,
			}),
		onNews(news) {
			if (news.kind === 'commit') {
				watchCommit(news.ms);
			} else if (news.kind === 'due') {
				eventWriter.onDue(news.ids);
			} else {
				eventWriter.onCounted?.(news.ids);
			}
		},
		onDeath(error) {
			// The process ends, as after such an error in the main thread: nothing is acknowledged that may not have
			// been written, and the next start knows our claims.
			throw error;
		},
	});
	const halt = () => thread.halt();
	return {
		writer: thread.writer,
		start() {
			process.once('exit', halt);
			thread.start();
		},
		reload: () => thread.obey(readLive()),
		hold: isHeld => thread.hold(isHeld),
		async stop() {
			await thread.stop();
			process.off('exit', halt);
		},
	};
}

// What the daemon monitors: free disk space, SQLite's write-ahead log and the size of the store.

/** Whether there is space for new mail. Work that must continue (outcomes, opt-outs, retention) does not check this. */
type FreeSpace = {
	/** Checks at once. Resolves when done. */
	readonly check: () => Promise<void>;
	readonly hasEnough: () => boolean;
	/** The result of the last check, or `null` if the system did not respond. */
	readonly free: () => number | null;
	readonly stop: () => void;
};

const checkMs = 1000;
/** After a shortage, 10 % more than the limit is needed, or the state would change with every message. */
const recoveryFactor = 1.1;

/**
 * Checks every second and logs each change. `free` returns the bytes available on the data folder's file system, and
 * `min` is MAILCTL_MIN_FREE_DISK.
 */
export function watchFreeSpace(
	free: () => Promise<number>,
	min: () => number,
	logger: Pick<Logger, 'info' | 'error'>,
): FreeSpace {
	let hasEnough = true;
	let lastFree: number | null = null;
	const watch = repeated(checkMs, check, () => undefined);

	async function check(): Promise<void> {
		const bytes = await free();
		lastFree = bytes;
		const isEnough = bytes >= min() * (hasEnough ? 1 : recoveryFactor);
		if (isEnough === hasEnough) {
			return;
		}
		hasEnough = isEnough;
		const figures = {free: bytes, min: min()};
		if (hasEnough) {
			logger.info({event: 'disk_recovered', ...figures}, 'There is space for new mail again.');
		} else {
			logger.error(
				{event: 'disk_low', ...figures},
				'The disk of the data folder has less free space than MAILCTL_MIN_FREE_DISK: no new mail is accepted.',
			);
		}
	}

	// A file system that does not respond must not prevent the daemon from stopping.
	return {check: watch.now, hasEnough: () => hasEnough, free: () => lastFree, stop: () => void watch.stop()};
}

/** A warning needs several attempts, because a few short reads in a row look like one long read. */
const minAttemptsToWarn = 5;

/**
 * Checks SQLite's write-ahead log every second and empties it above `max` bytes. SQLite only appends to it during a
 * read, and never shrinks it without writes. If it cannot be emptied, a warning is logged each time it has doubled.
 */
export function watchWal({
	wal,
	max = walSizeLimit,
	lookMs = checkMs,
	logger,
	storeFailed,
}: {
	readonly wal: WriteAheadLog;
	readonly max?: number;
	/** The time between two checks, in milliseconds. */
	readonly lookMs?: number;
	readonly logger: Pick<Logger, 'info' | 'warn'>;
	readonly storeFailed: (error: unknown) => void;
}) {
	let isLarge = false;
	let attempts = 0;
	let reportedBytes = 0;

	async function check(): Promise<void> {
		const bytes = wal.bytes();
		isLarge ||= bytes > max;
		if (!isLarge) {
			return;
		}
		if (await wal.checkpoint()) {
			if (reportedBytes > 0) {
				logger.info({event: 'wal_emptied', bytes}, 'The write-ahead log of the store was emptied.');
			}
			[isLarge, attempts, reportedBytes] = [false, 0, 0];
		} else if (++attempts >= minAttemptsToWarn && bytes >= 2 * reportedBytes) {
			reportedBytes = bytes;
			const text =
				'The write-ahead log of the store keeps growing, ' +
				'probably because a program holds a long read transaction: see mailctl doctor.';
			logger.warn({event: 'wal_large', bytes}, text);
		}
	}

	return repeated(lookMs, check, storeFailed);
}

const sizeEveryMs = 60 * 60_000;
const maxSizes = 30 * 24;

/** Records the size of the store every hour to show its growth. */
export function watchStoreSize(read: () => Promise<number>, now: () => number, storeFailed: (error: unknown) => void) {
	const sizes: Array<{readonly at: number; readonly bytes: number}> = [];

	async function measure(): Promise<void> {
		sizes.push({bytes: await read(), at: now()});
		sizes.splice(0, sizes.length - maxSizes);
	}

	const watch = repeated(sizeEveryMs, measure, storeFailed);
	void watch.now();
	return {
		/** Returns the hourly sizes in bytes since the start, for at most 30 days, oldest first. */
		past: () => sizes,
		stop: watch.stop,
	};
}
