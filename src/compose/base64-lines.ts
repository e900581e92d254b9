const bytesPerLine = 57;

/** Base64 in lines of 76 characters joined by CRLF, none after the last (RFC 2045 §6.8). */
export function base64Lines(content: Uint8Array): Uint8Array {
	const bytes = Buffer.from(content.buffer, content.byteOffset, content.byteLength);
	const lines = Math.ceil(bytes.length / bytesPerLine);
	const output = Buffer.allocUnsafe(4 * Math.ceil(bytes.length / 3) + 2 * Math.max(0, lines - 1));
	let at = 0;
	for (let start = 0; start < bytes.length; start += bytesPerLine) {
		if (start > 0) {
			output[at++] = 0x0d;
			output[at++] = 0x0a;
		}
		at += output.write(bytes.toString('base64', start, start + bytesPerLine), at, 'latin1');
	}
	return output;
}
