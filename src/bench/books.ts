/** What a sink knows of a recipient. */
export type Entry = {
	readonly address: string;
	/** RCPT commands, and mails taken. */
	tries: number;
	taken: number;
	/** When the first mail was taken, or refused for good, by `monotonicMs`; 0: neither. */
	at: number;
};

/** The same clock for all processes of a machine. */
export const monotonicMs = (): number => Number(process.hrtime.bigint()) / 1e6;

/** What became of mails that were accepted, each for a recipient of its own. */
export function accountOf(accepted: number, entries: readonly Entry[]) {
	const count = (what: (entry: Entry) => boolean) => entries.filter(what).length;
	const delivered = count(({taken}) => taken > 0);
	const bounced = count(({taken, at}) => taken === 0 && at > 0);
	const delivered_later = count(({taken, tries}) => taken > 0 && tries > 1);
	const twice = count(({taken}) => taken > 1);
	return {accepted, delivered, delivered_later, bounced, lost: accepted - delivered - bounced, twice};
}

/** `p50_ms` and so on of latencies. */
export function percentiles(latencies: readonly number[], prefix = ''): Readonly<Record<string, number>> {
	const sorted = latencies.toSorted((a, b) => a - b);
	const at = (share: number) => Math.round(10 * (sorted[Math.floor((sorted.length - 1) * share)] ?? 0)) / 10;
	const names = Object.entries({p50: 0.5, p90: 0.9, p99: 0.99, max: 1});
	return Object.fromEntries(names.map(([name, share]) => [`${prefix}${name}_ms`, at(share)]));
}
