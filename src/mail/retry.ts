/** When a deferred copy is tried again (MAILCTL_RETRY_SCHEDULE, MAILCTL_QUEUE_LIFETIME). */
export type RetrySchedule = {
	/** Waits after the 1st, 2nd … failed try, milliseconds. */
	readonly waits: readonly number[];
	/** Whether the last wait is repeated until the queue lifetime; otherwise the copy is given up when the list is used up. */
	readonly repeatLast: boolean;
};

export type Retry = {
	readonly schedule: RetrySchedule;
	/** From acceptance, milliseconds. */
	readonly lifetime: number;
};

export type FailedTry = {
	/** When the message was accepted, and now: milliseconds since the epoch. */
	readonly acceptedAt: number;
	readonly now: number;
	/** How many tries have failed, this one included: from 1. */
	readonly tries: number;
	/** A wait that a rule or the peer states, milliseconds. */
	readonly waitMs?: number | undefined;
};

const jitter = 0.1;

/** The time of the next try, or null when the copy is given up (4.4.7). No stated wait is longer than the schedule's longest. */
export function nextAttempt(retry: Retry, failed: FailedTry, random: () => number): number | null {
	const {waits, repeatLast} = retry.schedule;
	const scheduled = waits[failed.tries - 1] ?? (repeatLast ? waits.at(-1) : undefined);
	const expiry = failed.acceptedAt + retry.lifetime;
	if (scheduled === undefined || failed.now >= expiry) {
		return null;
	}
	const wait =
		failed.waitMs === undefined
			? scheduled * (1 - jitter + 2 * jitter * random())
			: Math.min(failed.waitMs, Math.max(...waits));
	// The last try is at the end of the lifetime, not before it.
	return Math.min(failed.now + Math.round(wait), expiry);
}
