/** After the closing quote; the end of the text if it is missing. */
export type JsonObject = Readonly<Record<string, unknown>>;

export function isObject(value: unknown): value is Record<string, unknown> {
	return typeof value === 'object' && value !== null && !Array.isArray(value);
}
