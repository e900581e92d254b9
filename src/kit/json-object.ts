/** A JSON object with unknown fields. */
export type JsonObject = Readonly<Record<string, unknown>>;

export function isObject(value: unknown): value is Record<string, unknown> {
	return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** Where the parser stopped, as a clause. Its own words may repeat the text, in which a password may be. */
export function stoppedAt(error: unknown, text: string): string {
	const position = /at position (\d+)/.exec((error as Error).message)?.[1];
	return position === undefined ? '' : `: look at line ${text.slice(0, Number(position)).split('\n').length}`;
}
