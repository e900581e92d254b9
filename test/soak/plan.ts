// What happens when in a run, as shares of it: three minutes see what an hour sees.

/**
 * `backup`: `mailctl backup` beside the daemon. `restart`: SIGTERM, and the next start. `kill`: SIGKILL, and the next
 * start. `full`: there is no room on the disk.
 */
export type Deed = 'backup' | 'restart' | 'kill' | 'full';

/** One after the other: where one takes long, the next is late. */
export const deeds: ReadonlyArray<{readonly at: number; readonly deed: Deed}> = [
	{at: 0.12, deed: 'backup'},
	{at: 0.18, deed: 'restart'},
	{at: 0.32, deed: 'backup'},
	{at: 0.38, deed: 'kill'},
	{at: 0.56, deed: 'full'},
	{at: 0.62, deed: 'restart'},
	{at: 0.82, deed: 'backup'},
];

/** One host of the forty is gone. */
export const dead = {from: 0.25, to: 0.5} as const;

/** How long there is no room. */
export const full = {share: 0.01, minS: 6, maxS: 20} as const;

/**
 * How long messages are kept gets shorter step by step, so that what lies there from the past goes while mail comes in.
 */
export const retention = {
	steps: Array.from({length: 19}, (_, step) => ({at: 0.04 + 0.05 * step, days: 76 - 4 * step})),
	/** Before the first step. */
	days: 90,
	/** How far the messages go back that lie there from the past. */
	pastDays: 80,
} as const;

/**
 * Where the figures are of a daemon that runs undisturbed: after the first start, long after the last one, at the end.
 */
export const calm = {
	first: {from: 0.05, to: 0.12},
	middle: {from: 0.68, to: 0.76},
	last: {from: 0.9, to: 1},
} as const;
