/** The store's form: fixed-width UTC text with milliseconds (`2026-06-09T10:15:30.123Z`), so that text order is time order. */
export function storeTime(milliseconds: number): string {
	return new Date(milliseconds).toISOString();
}

/** The API's form of a stored time: `2026-06-09T10:15:30+00:00` (interface.md, rule 6). */
export function apiTime(stored: string): string {
	return `${stored.slice(0, 19)}+00:00`;
}
