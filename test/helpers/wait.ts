/**
 * Asks until the condition holds; throws with `what` when it did not within the limit (milliseconds). The limit is what a slow
 * machine that others use too may need, not what it should take.
 */
export async function waitFor<T>(
	what: string,
	condition: () => T | Promise<T>,
	limit = 60_000,
): Promise<Exclude<T, false | null | undefined>> {
	const end = performance.now() + limit;
	for (;;) {
		const value = await condition();
		if (value !== false && value !== null && value !== undefined) {
			return value as Exclude<T, false | null | undefined>;
		}
		if (performance.now() > end) {
			throw new Error(`Not within ${limit} ms: ${what}`);
		}
		await new Promise(resolve => setTimeout(resolve, 10));
	}
}
