import {spawn} from 'node:child_process';
import process from 'node:process';
import {Worker} from 'node:worker_threads';
import type {Logger} from 'pino';
import {processEnvironment} from '../config/process-env.ts';
import {storeFile} from '../data-folder/open.ts';
import {threadLimits} from '../kit/memory.ts';
import {bumpGeneration} from '../store/changes.ts';
import type {Writer} from '../store/engine/writer.ts';
import {WriterThread} from '../store/engine/writer-thread.ts';
import type {Store} from '../store/store.ts';
import type {WriterData, WriterLive, WriterNews} from '../threads/store-writer.ts';
import type {Context} from './context.ts';

const probeMs = 1000;

/** Logs a store that fails, and tries once a second to write until it works again. */
export function watchForStoreFaults({writer, dialect}: Pick<Store, 'writer' | 'dialect'>, logger: Logger) {
	let failing = false;
	/** The store has not failed for a second. */
	let calm = true;
	let stopped = false;
	let timer: NodeJS.Timeout | undefined;

	function probe(): void {
		// A real change: an update that changes nothing writes nothing.
		writer.transaction(bumpGeneration).then(recover, probeLater);
	}

	function probeLater(): void {
		if (!stopped) {
			timer = setTimeout(probe, probeMs);
		}
	}

	function recover(): void {
		failing = false;
		calm = false;
		timer = setTimeout(() => {
			calm = true;
		}, probeMs).unref();
		logger.info({event: 'store_recovered'}, 'The store can be used again.');
	}

	return {
		/** Notes that a read or write failed. A damaged store, or a failing disk, ends the process with exit code 74. */
		failed(error: unknown): void {
			if (dialect.isDamage(error)) {
				logger.fatal({event: 'store_damaged', err: error}, 'The store is damaged or its disk fails: stopping.');
				killIfStuck(exitSeconds);
				process.exit(74);
			}
			const isUnavailable = dialect.isUnavailable(error);
			if (isUnavailable && failing) {
				return;
			}
			logger.error({event: 'store_failed', err: error}, 'The store cannot be used; it is tried again.');
			if (isUnavailable) {
				failing = true;
				clearTimeout(timer);
				// A single lost connection must not keep others waiting.
				if (calm) {
					probe();
				} else {
					probeLater();
				}
			}
		},
		/** Whether the store cannot be written now. */
		failing: (): boolean => failing,
		stop(): void {
			stopped = true;
			clearTimeout(timer);
		},
	};
}

/** What the end of a process may take when nothing is stuck, with much to spare. */
export const exitSeconds = 20;

/** `read` returns when we end, however we do; its whole group ends with it. */
const script = '(sleep "$1"; kill -KILL "$0") & read -r _; kill 0';

/**
 * Kills this process (SIGKILL) if it is still there after that many seconds. Node waits for every thread at its end, and one
 * that is stuck in a system call never ends; nothing in the process itself is left to run then.
 */
export function killIfStuck(seconds: number): void {
	const child = spawn('/bin/sh', ['-c', script, String(process.pid), String(seconds)], {
		stdio: ['pipe', 'ignore', 'ignore'],
		// A group of its own: what the terminal sends to ours must not end it.
		detached: true,
		// Ours holds secrets.
		env: {PATH: processEnvironment().PATH},
	});
	child.on('error', () => undefined);
	child.stdin.on('error', () => undefined);
	child.unref();
}

/** How the daemon writes: `writer` takes the place of the store's own. */
type Writing = {
	readonly writer: Writer;
	/** From now on a thread writes beside; its start takes a moment, in which the store's own writer goes on. */
	readonly start: () => void;
	/** Other settings hold. */
	readonly reload: () => void;
	/** Waits for all that was submitted. */
	readonly stop: () => Promise<void>;
};

/** With SQLite a thread writes what comes often; PostgreSQL does its work elsewhere, and needs none. */
export function createWriting({
	settings,
	live,
	store,
	boot,
	eventWriter,
}: Pick<Context, 'settings' | 'live' | 'store' | 'boot' | 'eventWriter'>): Writing {
	if (settings.databaseUrl !== null) {
		const {writer} = store;
		return {writer, start: () => undefined, reload: () => undefined, stop: writer.idle};
	}
	const liveNow = (): WriterLive => ({keyRetention: live().idempotencyRetention});
	const thread = new WriterThread<WriterLive, WriterNews>({
		own: store.writer,
		spawn: ended =>
			new Worker(new URL('../threads/store-writer.js', import.meta.url), {
				workerData: {
					file: storeFile(settings.dataDir),
					time: store.clock.memory,
					boot,
					live: liveNow(),
					ended,
				} satisfies WriterData,
				resourceLimits: threadLimits.writer,
			}),
		onNews({kind, ids}) {
			if (kind === 'due') {
				eventWriter.onDue(ids);
			} else {
				eventWriter.onCounted?.(ids);
			}
		},
		onDeath(error) {
			// As where it happens in the main thread: nothing is answered that may not be written, and the next start knows our claims.
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
		reload: () => thread.obey(liveNow()),
		async stop() {
			await thread.stop();
			process.off('exit', halt);
		},
	};
}
