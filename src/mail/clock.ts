/** Time as an argument: tests pass their own clock, the daemon passes `systemClock`. */
export type Clock = {
	/** Wall clock, milliseconds since the epoch. For what is stored or shown. */
	readonly now: () => number;
	/** Monotonic clock, milliseconds. For rates, idle times and durations. */
	readonly monotonic: () => number;
};

export const systemClock: Clock = {
	now: () => Date.now(),
	monotonic: () => performance.now(),
};
