// What a run leaves: a line of JSON for each of these.

export type Facts = {
	readonly began: string;
	readonly seconds: number;
	readonly topPerS: number;
	readonly perS: number;
	/** Messages of the past. */
	readonly past: number;
	readonly cpus: number;
	readonly node: string;
};

/** A second of the run; null: the daemon was away, or nothing was measured. Latencies in milliseconds. */
export type Sample = {
	/** Seconds since the beginning of the run. */
	readonly at: number;
	readonly accepted: number;
	readonly arrived: number;
	readonly refused: number;
	readonly away: number;
	/** From POST to 202, and to the 250 of the host. */
	readonly answerP50: number | null;
	readonly answerP99: number | null;
	readonly arriveP50: number | null;
	readonly arriveP99: number | null;
	/** Accepted and not arrived. */
	readonly waiting: number;
	readonly deferred: number | null;
	readonly rssMb: number | null;
	/** Of the main thread. */
	readonly heapMb: number | null;
	readonly lagMs: number | null;
	readonly descriptors: number | null;
	readonly walMb: number;
	readonly storeMb: number;
	readonly freeMb: number;
};

/** Something that was done, seconds since the beginning of the run. */
export type Moment = {
	readonly what: 'backup' | 'restart' | 'kill' | 'dead' | 'full' | 'load';
	readonly from: number;
	readonly to: number;
	readonly note?: string;
};

/** What is known at the end, when all mail has arrived or time is over. */
export type End = {
	readonly sent: number;
	readonly accepted: number;
	readonly refused: number;
	readonly away: number;
	readonly unanswered: number;
	readonly wrong: number;
	readonly late: number;
	/** Different mails. */
	readonly arrived: number;
	/** Accepted, and never arrived. */
	readonly lost: number;
	/** Refused, and arrived all the same. */
	readonly arrivedRefused: number;
	/** Copies beyond the first: within the seconds around a kill, and others. */
	readonly againByKill: number;
	readonly againElse: number;
	/** What the daemon's queue still has. */
	readonly queued: number;
	readonly descriptorsBefore: number;
	readonly descriptorsAfter: number;
	readonly walAfterMb: number;
	/** Messages of the past whose time was over, and those of them that are there. */
	readonly overdue: number;
	readonly overdueLeft: number;
	readonly exitCodes: readonly (number | null)[];
	/** Events that the daemon logged as errors, and how often. */
	readonly errors: Readonly<Record<string, number>>;
};

export type Run = {
	readonly facts: Facts;
	readonly samples: readonly Sample[];
	readonly moments: readonly Moment[];
	readonly end: End | null;
};

export type Line =
	| {readonly facts: Facts}
	| {readonly sample: Sample}
	| {readonly moment: Moment}
	| {readonly end: End};

export function readRun(text: string): Run {
	const lines = text
		.split('\n')
		.filter(Boolean)
		.map(line => JSON.parse(line) as Line);
	const facts = lines.flatMap(line => ('facts' in line ? [line.facts] : []))[0];
	if (!facts) {
		throw new Error('This is no record of a soak: it has no line with its facts.');
	}
	return {
		facts,
		samples: lines.flatMap(line => ('sample' in line ? [line.sample] : [])),
		moments: lines.flatMap(line => ('moment' in line ? [line.moment] : [])),
		end: lines.flatMap(line => ('end' in line ? [line.end] : []))[0] ?? null,
	};
}

/** The value below which that share of the values is; null without any. */
export function quantile(values: readonly number[], share: number): number | null {
	const sorted = values.toSorted((a, b) => a - b);
	return sorted[Math.floor((sorted.length - 1) * share)] ?? null;
}
