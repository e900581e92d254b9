/** Returns the time of a clock that all processes of a machine share. */
export const monotonicMs = (): number => Number(process.hrtime.bigint()) / 1e6;

/** Returns the percentiles of latencies: `p50_ms` and so on. */
export function percentiles(latencies: readonly number[], prefix = ''): Readonly<Record<string, number>> {
	const sorted = latencies.toSorted((a, b) => a - b);
	const percentile = (share: number) => Math.round(10 * (sorted[Math.floor((sorted.length - 1) * share)] ?? 0)) / 10;
	const names = Object.entries({p50: 0.5, p90: 0.9, p99: 0.99, max: 1});
	return Object.fromEntries(names.map(([name, share]) => [`${prefix}${name}_ms`, percentile(share)]));
}
