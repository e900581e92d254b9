/** Seldom enough after a while that asking costs little, in milliseconds. */
const maxPause = 50;

/**
 * Asks until the condition holds, less often the longer it takes, as many conditions ask a program; throws with `what`
 * when it did not within the limit (milliseconds), which a machine that stands still for a minute must not reach.
 */
export async function waitFor<T>(
	what: string,
	condition: () => T | Promise<T>,
	limit = 180_000,
): Promise<Exclude<T, false | null | undefined>> {
	const start = performance.now();
	for (;;) {
		const value = await condition();
		if (value !== false && value !== null && value !== undefined) {
			return value as Exclude<T, false | null | undefined>;
		}
		const waited = performance.now() - start;
		if (waited > limit) {
			throw new Error(`Not within ${limit} ms: ${what}`);
		}
		await new Promise(resolve => setTimeout(resolve, Math.min(Math.max(waited / 10, 10), maxPause)));
	}
}

const minute = 60_000;
const hour = 60 * minute;
const day = 24 * hour;

/** Waits for the next day (UTC) where the present one is about to end: for tests that midnight would disturb. */
export async function clearOfMidnight(): Promise<void> {
	await waitFor('the next day', () => Date.now() % day < day - 1.5 * minute, 2 * minute);
}

/** The same for tests of figures by the hour. */
export async function clearOfNextHour(): Promise<void> {
	await waitFor('the next hour', () => Date.now() % hour < hour - minute, 2 * minute);
}
