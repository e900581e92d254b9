/** When the attempts of a deferred recipient take place (MAILCTL_RETRY_SCHEDULE, or `retry` of the destination). */
export type RetrySchedule = {
	/** The waits after the 1st, 2nd … failed attempt, in milliseconds. */
	readonly waits: readonly number[];
	/**
	 * Whether the last wait repeats until the queue lifetime. Otherwise the recipient bounces at the end of the list.
	 */
	readonly repeatLast: boolean;
};

export type Retry = {
	readonly schedule: RetrySchedule;
	/** Measured from acceptance, in milliseconds. */
	readonly lifetime: number;
	/** Whether the lifetime was set by the send (`expiresAt`). */
	readonly expires?: true;
};

/** The rules for one destination in the destinations file. `null` means that the settings apply. */
export type OwnRetry = {readonly schedule: RetrySchedule | null; readonly lifetime: number | null};

/** The value for a destination without rules of its own. */
export const noOwnRetry: OwnRetry = {schedule: null, lifetime: null};

/** Returns the lifetime: a destination's own can only shorten the workspace's (seconds) or that of the settings. */
export function resolveLifetime(own: OwnRetry, settingsLifetime: number, workspaceSeconds: number | null): number {
	const lifetime = workspaceSeconds === null ? settingsLifetime : workspaceSeconds * 1000;
	return own.lifetime === null ? lifetime : Math.min(lifetime, own.lifetime);
}

/** Returns the rules for one recipient. */
export function resolveRetry(own: OwnRetry, settings: Retry, workspaceSeconds: number | null): Retry {
	return {
		schedule: own.schedule ?? settings.schedule,
		lifetime: resolveLifetime(own, settings.lifetime, workspaceSeconds),
	};
}

/** Returns the rules for a recipient whose send expires `ms` after its start. */
export function expiringIn(ms: number, retry: Retry): Retry {
	return ms < retry.lifetime ? {...retry, lifetime: ms, expires: true} : retry;
}

export function maxWait({waits}: RetrySchedule): number {
	return Math.max(...waits);
}

type FailedAttempt = {
	/** When the message was accepted and the current time, in milliseconds since the epoch. */
	readonly acceptedAt: number;
	readonly now: number;
	/** The number of failed attempts so far, including this one. */
	readonly attempts: number;
	/** A wait that the server stated or the code fixes (lost reply to the dot, render limit), in milliseconds. */
	readonly waitMs?: number | undefined;
	/** Whether the schedule's wait applies if it is longer, even for the first attempts. */
	readonly isLeast?: boolean;
};

/** How long a claim without its daemon outlasts the attempt deadline, in milliseconds. */
export const claimMarginMs = 60_000;

const jitter = 0.1;
/**
 * How long before the end of its lifetime a recipient gets its last attempt: a part of the lifetime, at most `maxMs`.
 */
const lastAttempt = {part: 0.1, maxMs: 60_000};
/** A stated wait alone decides for the first attempts. After these, the schedule's wait applies if it is longer. */
const statedWaitAttempts = 5;

/** Limits a stated wait to the schedule's longest, so that one setting shortens all waits in a test. */
export function cappedWait(waitMs: number, schedule: RetrySchedule): number {
	return Math.min(waitMs, maxWait(schedule));
}

/** Shorter lifetimes count as this, in milliseconds, so that every recipient gets a first attempt. */
const minLifetime = 1000;

/** Returns when a recipient's lifetime ends. */
export function endOfLife(acceptedAt: number, lifetime: number): number {
	return acceptedAt + Math.max(lifetime, minLifetime);
}

/** Returns the time of the next attempt, or `null` if the recipient is given up (4.4.7). */
export function nextAttempt(retry: Retry, failed: FailedAttempt, random: () => number): number | null {
	const {waits, repeatLast} = retry.schedule;
	const scheduled = waits[failed.attempts - 1] ?? (repeatLast ? waits.at(-1) : undefined);
	const {lifetime} = retry;
	const lastAt = failed.acceptedAt + Math.ceil(lifetime - Math.min(lifetime * lastAttempt.part, lastAttempt.maxMs));
	if (scheduled === undefined || failed.now >= lastAt) {
		return null;
	}
	const jittered = scheduled * (1 - jitter + 2 * jitter * random());
	const stated = failed.waitMs === undefined ? null : cappedWait(failed.waitMs, retry.schedule);
	const isStatedWait = stated !== null && failed.attempts <= statedWaitAttempts && !failed.isLeast;
	const wait = isStatedWait ? stated : Math.max(stated ?? 0, jittered);
	return Math.min(failed.now + Math.round(wait), lastAt);
}
