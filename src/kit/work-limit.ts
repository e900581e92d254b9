import {type Clock, systemClock} from './clock.ts';

/** Returns the CPU time used by the whole process, in milliseconds. No single thread can have used more. */
export type CpuClock = () => number;

/** Asking the system takes longer than rendering a small message, so a result is reused for a while. */
const cpuFreshMs = 10;
let cpuSample = {at: Number.NEGATIVE_INFINITY, used: 0};

export const processCpu: CpuClock = () => {
	const now = performance.now();
	if (now - cpuSample.at >= cpuFreshMs) {
		const {user, system} = process.cpuUsage();
		cpuSample = {at: now, used: (user + system) / 1000};
	}
	return cpuSample.used;
};

export type WorkClocks = {readonly clock: Pick<Clock, 'monotonic'>; readonly cpu: CpuClock};

export const systemClocks = {clock: systemClock, cpu: processCpu} satisfies WorkClocks;

/** `starved`: the machine was too busy to run the work, so its real duration is unknown. */
export type WorkState = 'within' | 'spent' | 'starved';

const maxWaitFactor = 15;

/**
 * Starts measuring a piece of work in some thread. On a busy machine time passes without progress, so the limit is
 * reached only once it has elapsed both on the clock and as CPU time. Node.js 20 cannot measure the CPU time of one
 * thread, but that of the process is an upper bound.
 *
 * @param limitMs the limit for both; after 15 times that without enough CPU time, the work is `starved`
 * @returns a function that returns the current state
 */
export function limitWork(limitMs: number, {clock, cpu}: WorkClocks): () => WorkState {
	const startedAt = clock.monotonic();
	const cpuAtStart = cpu();
	return () => {
		const elapsed = clock.monotonic() - startedAt;
		if (elapsed < limitMs) {
			return 'within';
		}
		if (cpu() - cpuAtStart >= limitMs) {
			return 'spent';
		}
		return elapsed < maxWaitFactor * limitMs ? 'within' : 'starved';
	};
}
