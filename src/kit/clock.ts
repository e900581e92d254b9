import process from 'node:process';
import {setImmediate} from 'node:timers/promises';

/** Time as an argument: tests pass their own clock, the daemon passes that of its store. */
export type Clock = {
	/** Wall clock, milliseconds since the epoch. For what is stored or shown. */
	readonly now: () => number;
	/** Monotonic clock, milliseconds. For rates, idle times and durations. */
	readonly monotonic: () => number;
};

/** The same instant on both clocks. */
export type Moment = {readonly now: number; readonly monotonic: number};

export const systemClock: Clock = {
	now: () => Date.now(),
	monotonic: () => performance.now(),
};

/** A clock that can be set. Until it is set it shows the system's time. */
export type SharedClock = Clock & {
	/** For `createSharedClock` in another thread: the clock there shows the same time. */
	readonly memory: SharedArrayBuffer;
	readonly set: (now: number) => void;
};

/**
 * Once set, it advances with the monotonic clock: a step of the system's wall clock does not move it. All threads that
 * share its memory show the same time.
 */
export function createSharedClock(memory = new SharedArrayBuffer(8)): SharedClock {
	// When the monotonic clock began, in this clock's time; 0: not set.
	const origin = new BigInt64Array(memory);
	return {
		memory,
		now() {
			const began = Atomics.load(origin, 0);
			return began === 0n ? Date.now() : Number(began) + monotonicMs();
		},
		monotonic: systemClock.monotonic,
		set(now) {
			Atomics.store(origin, 0, BigInt(Math.round(now) - monotonicMs()));
		},
	};
}

/** Unlike `performance.now()` it counts from the same moment in every thread. Whole milliseconds, as ids need them. */
function monotonicMs(): number {
	const [seconds, nanoseconds] = process.hrtime();
	return seconds * 1000 + Math.floor(nanoseconds / 1e6);
}

/** More than clocks that are kept by NTP ever differ, milliseconds. */
export const noticeableSkewMs = 2000;

/** The result of some work; rejects with the error once the time is over. `more` starts the time again. */
export async function inTime<Result>(
	limitMs: number,
	late: () => Error,
	work: (more: () => void) => Promise<Result>,
): Promise<Result> {
	let timer: NodeJS.Timeout | undefined;
	const limit = new Promise<never>((_, reject) => {
		timer = setTimeout(() => reject(late()), limitMs);
	});
	try {
		return await Promise.race([work(() => void timer?.refresh()), limit]);
	} finally {
		clearTimeout(timer);
	}
}

/** Runs pieces of work one after the other; one that fails stops none after it. */
export function inTurn(): <Result>(work: () => Promise<Result>) => Promise<Result> {
	let last: Promise<unknown> = Promise.resolve();
	return work => {
		const next = last.then(work, work);
		last = next;
		return next;
	};
}

/**
 * Lets long work pause. The function that it returns resolves at once, or after all else that waits for the event loop
 * if the last pause is longer ago than `everyMs`.
 */
export function createPauses(clock: Pick<Clock, 'monotonic'>, everyMs = 10): () => Promise<void> {
	let last = clock.monotonic();
	return async () => {
		if (clock.monotonic() - last >= everyMs) {
			await setImmediate();
			last = clock.monotonic();
		}
	};
}

/** Repeats work at intervals, never twice at once. Work that fails is reported and repeated all the same. */
export function repeated(everyMs: number, work: () => Promise<void>, failed: (error: unknown) => void) {
	let running: Promise<void> | null = null;
	let isStopped = false;
	const timer = setInterval(now, everyMs).unref();

	function now(): Promise<void> {
		running ??= work()
			.catch(failed)
			.finally(() => {
				running = null;
			});
		return running;
	}

	return {
		/** Does it at once, unless it is under way; resolves when it is done. */
		now,
		/** Does it at once, or once more after what is under way. */
		async again(): Promise<void> {
			await running;
			await (isStopped ? undefined : now());
		},
		/** Resolves when nothing is under way any more. */
		async stop(): Promise<void> {
			clearInterval(timer);
			isStopped = true;
			await running;
		},
	};
}
