import {PostFault} from './fault.ts';

/** Waits for the work so many milliseconds and no longer; then rejects with the text. */
export async function inTime<Result>(limitMs: number, late: string, work: () => Promise<Result>): Promise<Result> {
	let timer: NodeJS.Timeout | undefined;
	const limit = new Promise<never>((_, reject) => {
		timer = setTimeout(() => reject(new PostFault(late)), limitMs);
	});
	try {
		return await Promise.race([work(), limit]);
	} finally {
		clearTimeout(timer);
	}
}
