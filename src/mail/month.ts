/** A calendar month in UTC. */
export type Month = {
	/** `2026-11`. */
	readonly name: string;
	/** Milliseconds since the epoch: its first moment, and that of the next month. */
	readonly start: number;
	readonly end: number;
};

export function monthOf(milliseconds: number): Month {
	const date = new Date(milliseconds);
	const [year, month] = [date.getUTCFullYear(), date.getUTCMonth()];
	return {name: date.toISOString().slice(0, 7), start: Date.UTC(year, month), end: Date.UTC(year, month + 1)};
}
