import process from 'node:process';
import {setImmediate} from 'node:timers/promises';

/**
 * A clock that is passed as an argument: tests control their own, and the daemon passes the one of its store.
 *
 * The folder holds general-purpose tools: time, text, files, exact JSON, turns, calls between threads. It relies on
 * Node.js and a few libraries. No tool knows what a message is, and only `turns.ts` imports another folder.
 */
export type Clock = {
	/** Wall clock, in milliseconds since the epoch, for times that are stored or displayed. */
	readonly now: () => number;
	/** Monotonic clock, in milliseconds, for rates, idle times and durations. */
	readonly monotonic: () => number;
};

/** The same instant on both clocks. */
export type Moment = {readonly now: number; readonly monotonic: number};

export const systemClock: Clock = {
	now: () => Date.now(),
	monotonic: () => performance.now(),
};

/** A clock that can be set. Until then it follows the system clock. */
export type SharedClock = Clock & {
	/** Pass this to `createSharedClock` in another thread for a clock that shows the same time. */
	readonly memory: SharedArrayBuffer;
	readonly set: (now: number) => void;
};

/**
 * Creates a clock. Once set, it advances with the monotonic clock, so changes of the system's wall clock do not affect
 * it. All threads that share the memory see the same time.
 */
export function createSharedClock(memory = new SharedArrayBuffer(8)): SharedClock {
	// The origin of the monotonic clock in this clock's time, or 0 if the clock is not set.
	const origin = new BigInt64Array(memory);
	return {
		memory,
		now() {
			const start = Atomics.load(origin, 0);
			return start === 0n ? Date.now() : Number(start) + monotonicMs();
		},
		monotonic: systemClock.monotonic,
		set(now) {
			Atomics.store(origin, 0, BigInt(Math.round(now) - monotonicMs()));
		},
	};
}

/** Returns whole milliseconds, as ids need them. Unlike `performance.now()`, the origin is the same in every thread. */
function monotonicMs(): number {
	const [seconds, nanoseconds] = process.hrtime();
	return seconds * 1000 + Math.floor(nanoseconds / 1e6);
}

/** A difference that clocks synchronized by NTP never reach, in milliseconds. */
export const noticeableSkewMs = 2000;

/** Returns the result of the work, or rejects with the error after the time limit. Calling `extend` restarts it. */
export async function inTime<Result>(
	limitMs: number,
	toError: () => Error,
	work: (extend: () => void) => Promise<Result>,
): Promise<Result> {
	let timer: NodeJS.Timeout | undefined;
	const timeout = new Promise<never>((_, reject) => {
		timer = setTimeout(() => reject(toError()), limitMs);
	});
	try {
		return await Promise.race([work(() => void timer?.refresh()), timeout]);
	} finally {
		clearTimeout(timer);
	}
}

/** Runs tasks one after another. A task that fails does not stop the next one. */
export function inTurn(): <Result>(work: () => Promise<Result>) => Promise<Result> {
	let previous: Promise<unknown> = Promise.resolve();
	return work => {
		const next = previous.then(work, work);
		previous = next;
		return next;
	};
}

/**
 * Lets a long task yield. The returned function resolves immediately, or, if the last pause was `everyMs` ago, after
 * everything else that waits for the event loop.
 */
export function createPauses(clock: Pick<Clock, 'monotonic'>, everyMs = 10): () => Promise<void> {
	let lastPause = clock.monotonic();
	return async () => {
		if (clock.monotonic() - lastPause >= everyMs) {
			await setImmediate();
			lastPause = clock.monotonic();
		}
	};
}

/** Repeats a task at intervals, never twice at a time. Failures are reported, and the repetition continues. */
export function repeated(everyMs: number, work: () => Promise<void>, onError: (error: unknown) => void) {
	let running: Promise<void> | null = null;
	let isStopped = false;
	const timer = setInterval(now, everyMs).unref();

	function now(): Promise<void> {
		running ??= work()
			.catch(onError)
			.finally(() => {
				running = null;
			});
		return running;
	}

	return {
		/** Runs the task now, unless it is already running. Resolves when it is finished. */
		now,
		/** Runs the task now, or once more after the current run. */
		async again(): Promise<void> {
			await running;
			await (isStopped ? undefined : now());
		},
		/** Stops the repetition. Resolves when the current run has finished. */
		async stop(): Promise<void> {
			clearInterval(timer);
			isStopped = true;
			await running;
		},
	};
}
