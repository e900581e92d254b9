/** The same clock for all processes of a machine. */
export const monotonicMs = (): number => Number(process.hrtime.bigint()) / 1e6;

/** `p50_ms` and so on of latencies. */
export function percentiles(latencies: readonly number[], prefix = ''): Readonly<Record<string, number>> {
	const sorted = latencies.toSorted((a, b) => a - b);
	const at = (share: number) => Math.round(10 * (sorted[Math.floor((sorted.length - 1) * share)] ?? 0)) / 10;
	const names = Object.entries({p50: 0.5, p90: 0.9, p99: 0.99, max: 1});
	return Object.fromEntries(names.map(([name, share]) => [`${prefix}${name}_ms`, at(share)]));
}
