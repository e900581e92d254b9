import {type Clock, systemClock} from './clock.ts';

/** CPU time that the whole process has used, milliseconds. No thread of it can have used more meanwhile. */
export type CpuClock = () => number;

/** To ask the system takes longer than a small mail's html, so an answer serves for a while. */
const cpuFreshMs = 10;
let cpuSeen = {at: Number.NEGATIVE_INFINITY, used: 0};

export const processCpu: CpuClock = () => {
	const now = performance.now();
	if (now - cpuSeen.at >= cpuFreshMs) {
		const {user, system} = process.cpuUsage();
		cpuSeen = {at: now, used: (user + system) / 1000};
	}
	return cpuSeen.used;
};

export type WorkClocks = {readonly clock: Pick<Clock, 'monotonic'>; readonly cpu: CpuClock};

export const systemClocks = {clock: systemClock, cpu: processCpu} satisfies WorkClocks;

/** `starved`: the machine had no time for it, which says nothing about the work. */
export type WorkState = 'within' | 'spent' | 'starved';

const maxWaits = 15;

/**
 * Begins to measure the time of a piece of work in some thread. On a busy machine time passes without work, so the
 * limit is reached when it has passed both on the clock and as CPU time. Node.js 20 cannot measure the CPU time of one
 * thread; that of the process bounds it from above.
 *
 * @param limitMs of the clock and of the CPU; after 15 times this time on the clock alone the work is `starved`
 * @returns a function that gives the present state
 */
export function limitWork(limitMs: number, {clock, cpu}: WorkClocks): () => WorkState {
	const since = clock.monotonic();
	const cpuSince = cpu();
	return () => {
		const passed = clock.monotonic() - since;
		if (passed < limitMs) {
			return 'within';
		}
		if (cpu() - cpuSince >= limitMs) {
			return 'spent';
		}
		return passed < maxWaits * limitMs ? 'within' : 'starved';
	};
}
