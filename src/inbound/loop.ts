const mostReceived = 25;
/** A header is looked at so far. */
const longestHeader = 256 * 1024;

/**
 * Whether a mail goes round in circles: more trace fields than any way has (RFC 5321 §6.3), or an `X-Loop` with one of our
 * names.
 */
export function isLooping(raw: Buffer, ourNames: readonly string[]): boolean {
	const header = headerOf(raw);
	if ((header.match(/^received:/gim)?.length ?? 0) > mostReceived) {
		return true;
	}
	const loops = header.match(/^x-loop:.*$/gim) ?? [];
	return loops.some(field =>
		field
			.toLowerCase()
			.split(/[\s:;,<>@]+/)
			.some(word => ourNames.includes(word)),
	);
}

function headerOf(raw: Buffer): string {
	const text = raw.toString('latin1', 0, longestHeader);
	const end = text.search(/\r?\n\r?\n/);
	return end === -1 ? text : text.slice(0, end + 1);
}
