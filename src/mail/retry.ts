/** When a deferred recipient is tried again (MAILCTL_RETRY_SCHEDULE, or `retry` of the destination). */
export type RetrySchedule = {
	/** Waits after the 1st, 2nd … failed try, milliseconds. */
	readonly waits: readonly number[];
	/**
	 * Whether the last wait repeats until the queue lifetime; otherwise the recipient is given up at the end of the
	 * list.
	 */
	readonly repeatLast: boolean;
};

export type Retry = {
	readonly schedule: RetrySchedule;
	/** From acceptance, milliseconds. */
	readonly lifetime: number;
	/** The lifetime is the send's own (`expiresAt`). */
	readonly expires?: true;
};

/** What the destinations file says for one destination; null: as the settings say. */
export type OwnRetry = {readonly schedule: RetrySchedule | null; readonly lifetime: number | null};

/** A destination without rules of its own. */
export const noOwnRetry: OwnRetry = {schedule: null, lifetime: null};

/** A destination's lifetime can only shorten the workspace's (seconds), or without one the settings'. */
export function lifetimeOf(own: OwnRetry, ofSettings: number, ofWorkspaceS: number | null): number {
	const lifetime = ofWorkspaceS === null ? ofSettings : ofWorkspaceS * 1000;
	return own.lifetime === null ? lifetime : Math.min(lifetime, own.lifetime);
}

/** The rules for one recipient. */
export function retryOf(own: OwnRetry, settings: Retry, ofWorkspaceS: number | null): Retry {
	return {
		schedule: own.schedule ?? settings.schedule,
		lifetime: lifetimeOf(own, settings.lifetime, ofWorkspaceS),
	};
}

/** The rules for a recipient whose send expires `ms` after its time began. */
export function expiringIn(ms: number, retry: Retry): Retry {
	return ms < retry.lifetime ? {...retry, lifetime: ms, expires: true} : retry;
}

export function maxWait({waits}: RetrySchedule): number {
	return Math.max(...waits);
}

type FailedTry = {
	/** When the message was accepted, and now: milliseconds since the epoch. */
	readonly acceptedAt: number;
	readonly now: number;
	/** How many tries have failed, this one included: from 1. */
	readonly tries: number;
	/** A wait that the host named, or that our code fixes (lost reply to the dot, render limit), milliseconds. */
	readonly waitMs?: number | undefined;
	/** From the first try on the schedule's wait counts if it is longer. */
	readonly isLeast?: boolean;
};

/** A claim without its daemon outlasts the attempt deadline by this time, milliseconds. */
export const claimMarginMs = 60_000;

const jitter = 0.1;
/**
 * How long before the end of its lifetime a recipient gets its last try: this part of the lifetime, at most `maxMs`.
 */
const lastTry = {part: 0.1, maxMs: 60_000};
/** A stated wait alone decides for the first tries. After that the schedule's wait counts if it is longer. */
const statedWaitTries = 5;

/** A stated wait, never longer than the schedule's longest, so that one setting shortens a whole test. */
export function cappedWait(waitMs: number, schedule: RetrySchedule): number {
	return Math.min(waitMs, maxWait(schedule));
}

/** Shorter lifetimes count as this one, so that every recipient gets a first try, milliseconds. */
const minLifetime = 1000;

/** When a recipient's lifetime ends. */
export function endOfLife(acceptedAt: number, lifetime: number): number {
	return acceptedAt + Math.max(lifetime, minLifetime);
}

/** The time of the next try, or null if the recipient is given up (4.4.7). */
export function nextAttempt(retry: Retry, failed: FailedTry, random: () => number): number | null {
	const {waits, repeatLast} = retry.schedule;
	const scheduled = waits[failed.tries - 1] ?? (repeatLast ? waits.at(-1) : undefined);
	const {lifetime} = retry;
	const last = failed.acceptedAt + Math.ceil(lifetime - Math.min(lifetime * lastTry.part, lastTry.maxMs));
	if (scheduled === undefined || failed.now >= last) {
		return null;
	}
	const jittered = scheduled * (1 - jitter + 2 * jitter * random());
	const stated = failed.waitMs === undefined ? null : cappedWait(failed.waitMs, retry.schedule);
	const wait =
		stated === null
			? jittered
			: failed.tries <= statedWaitTries && !failed.isLeast
				? stated
				: Math.max(stated, jittered);
	return Math.min(failed.now + Math.round(wait), last);
}
