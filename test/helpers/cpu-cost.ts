import process from 'node:process';

const maxRuns = 5;

/**
 * Milliseconds of processor time that the work takes: of up to five runs the cheapest, the first below `enough` ends
 * them. A busy machine makes single runs dearer, but never cheaper. For work whose careless form takes many times the
 * limit.
 */
export function cpuCost(work: () => unknown, enough: number): number {
	let least = Number.POSITIVE_INFINITY;
	for (let run = 0; run < maxRuns && least > enough; run++) {
		const started = process.cpuUsage();
		work();
		const {user, system} = process.cpuUsage(started);
		least = Math.min(least, (user + system) / 1000);
	}
	return least;
}
