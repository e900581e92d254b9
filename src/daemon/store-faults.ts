import {spawn} from 'node:child_process';
import process from 'node:process';
import type {Logger} from 'pino';
import {processEnvironment} from '../config/process-env.ts';
import {bumpGeneration} from '../store/changes.ts';
import type {Store} from '../store/store.ts';

export type StoreFaults = {
	/** Somebody's read or write failed. A damaged store, or a failing disk, ends the process with exit code 74. */
	readonly noted: (error: unknown) => void;
	/** Whether the store cannot be written now. */
	readonly failing: () => boolean;
	readonly stop: () => void;
};

/** What follows where the store fails: it is logged, and tried until it can be used again. */
export function watchForStoreFaults({store, logger}: {readonly store: Store; readonly logger: Logger}): StoreFaults {
	const watch = watchStore({
		// A change of its own: an update that changes nothing writes nothing.
		probe: () => store.writer.transaction(bumpGeneration),
		isUnavailable: store.dialect.isUnavailable,
		onFailure(error) {
			logger.error({event: 'store_failed', err: error}, 'The store cannot be used; it is tried again.');
		},
		onRecovery() {
			logger.info({event: 'store_recovered'}, 'The store can be used again.');
		},
	});
	return {
		noted(error) {
			if (store.dialect.isDamage(error)) {
				logger.fatal({event: 'store_damaged', err: error}, 'The store is damaged or its disk fails: stopping.');
				killIfStuck(exitSeconds);
				process.exit(74);
			}
			watch.failed(error);
		},
		failing: watch.failing,
		stop: watch.stop,
	};
}

export type StoreWatchOptions = {
	/** Writes a little; rejects while the store cannot be written. */
	readonly probe: () => Promise<void>;
	readonly isUnavailable: (error: unknown) => boolean;
	readonly onFailure: (error: unknown) => void;
	/** The store can be written again. */
	readonly onRecovery: () => void;
};

/** Whether the store can be written, learnt from whoever failed; while it cannot it is tried every second. */
export type StoreWatch = {
	/** Somebody's read or write failed. */
	readonly failed: (error: unknown) => void;
	readonly failing: () => boolean;
	readonly stop: () => void;
};

const probeMs = 1000;

export function watchStore({probe, isUnavailable, onFailure, onRecovery}: StoreWatchOptions): StoreWatch {
	let failing = false;
	/** It has not failed lately. */
	let calm = true;
	let stopped = false;
	let timer: NodeJS.Timeout | undefined;

	function probeNow(): void {
		probe().then(recover, probeLater);
	}

	function probeLater(): void {
		if (!stopped) {
			timer = setTimeout(probeNow, probeMs);
		}
	}

	function recover(): void {
		failing = false;
		calm = false;
		timer = setTimeout(() => {
			calm = true;
		}, probeMs).unref();
		onRecovery();
	}

	return {
		failed(error) {
			if (!isUnavailable(error)) {
				onFailure(error);
			} else if (!failing) {
				failing = true;
				onFailure(error);
				clearTimeout(timer);
				// It may have been one connection that ended: then nobody else shall wait.
				if (calm) {
					probeNow();
				} else {
					probeLater();
				}
			}
		},
		failing: () => failing,
		stop() {
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
