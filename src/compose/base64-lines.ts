const lineLength = 76;
const bytesPerLine = 57;

/** The octets that `writeBase64Lines` writes. */
export function base64Length(bytes: number): number {
	const length = 4 * Math.ceil(bytes / 3);
	return length + 2 * Math.max(0, Math.ceil(bytes / bytesPerLine) - 1);
}

/**
 * Writes base64 in lines of 76 characters joined by CRLF, none after the last (RFC 2045 §6.8).
 *
 * @returns the octets written
 */
export function writeBase64Lines(content: Uint8Array, output: Buffer, start: number): number {
	const length = base64Length(content.length);
	const text = Buffer.from(content.buffer, content.byteOffset, content.byteLength).toString('base64');
	// Written at the end first; then each line moves forward to its place.
	const end = start + length;
	let from = end - text.length;
	output.write(text, from, 'latin1');
	for (let at = start; at < end; at += lineLength + 2) {
		output.copyWithin(at, from, Math.min(from + lineLength, end));
		from += lineLength;
		if (at + lineLength < end) {
			output[at + lineLength] = 0x0d;
			output[at + lineLength + 1] = 0x0a;
		}
	}
	return length;
}
