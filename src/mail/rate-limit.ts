/** A fixed window. */
export type RateLimit = {readonly requests: number; readonly windowMs: number};

const mostRequests = 1_000_000_000;
const longestWindow = 86_400;

/** `6000/60` is requests per window in seconds. Null: `0`, no limit; undefined: the text is neither. */
export function readRateLimit(text: string): RateLimit | null | undefined {
	if (text === '0') {
		return null;
	}
	const [, requests, seconds] = /^(\d{1,10})\/(\d{1,5})$/.exec(text)?.map(Number) ?? [];
	const isGood = isFrom1(requests, mostRequests) && isFrom1(seconds, longestWindow);
	return isGood ? {requests, windowMs: seconds * 1000} : undefined;
}

function isFrom1(number: number | undefined, most: number): number is number {
	return number !== undefined && number >= 1 && number <= most;
}
