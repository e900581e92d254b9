/** The result of some work; rejects with the error once the time is over. `more` starts the time again. */
export async function inTime<Result>(
	limitMs: number,
	late: () => Error,
	work: (more: () => void) => Promise<Result>,
): Promise<Result> {
	let timer: NodeJS.Timeout | undefined;
	const limit = new Promise<never>((_, reject) => {
		timer = setTimeout(() => reject(late()), limitMs);
	});
	try {
		return await Promise.race([work(() => void timer?.refresh()), limit]);
	} finally {
		clearTimeout(timer);
	}
}
