// What became of every mail, in memory that load, sink and report share.

/** How the API answered. `unanswered`: the connection broke, so the mail may have been accepted. */
export const answers = {accepted: 1, refused: 2, away: 3, unanswered: 4, wrong: 5} as const;

/** Where `counts` has what. `late`: sends that were due while too many waited for their answer. */
export const countOf = {
	sent: 0,
	accepted: 1,
	refused: 2,
	away: 3,
	unanswered: 4,
	wrong: 5,
	late: 6,
	arrived: 7,
	again: 8,
} as const;

/** The index of each array but `counts` is the number of the mail. Times are those of `now`. */
export type Tally = {
	readonly sentAt: Float64Array<SharedArrayBuffer>;
	readonly answer: Uint8Array<SharedArrayBuffer>;
	readonly arrivals: Uint8Array<SharedArrayBuffer>;
	readonly arrivedAt: Float64Array<SharedArrayBuffer>;
	readonly counts: Int32Array<SharedArrayBuffer>;
};

export function createTally(mails: number): Tally {
	return {
		sentAt: new Float64Array(new SharedArrayBuffer(8 * mails)),
		answer: new Uint8Array(new SharedArrayBuffer(mails)),
		arrivals: new Uint8Array(new SharedArrayBuffer(mails)),
		arrivedAt: new Float64Array(new SharedArrayBuffer(8 * mails)),
		counts: new Int32Array(new SharedArrayBuffer(4 * Object.keys(countOf).length)),
	};
}

/** Milliseconds; the same in all threads. */
export const now = (): number => Number(process.hrtime.bigint()) / 1e6;

/** A mail that came more than once. */
export type Again = {readonly number: number; readonly first: number; readonly at: number};

/** What a thread reports of the time since its last report: latencies in milliseconds. */
export type News = {readonly latencies: readonly number[]; readonly again: readonly Again[]};

export const newsEveryMs = 250;
