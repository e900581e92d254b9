const lineLength = 76;

/** Base64 in lines of 76 characters joined by CRLF, none after the last (RFC 2045 §6.8). */
export function base64Lines(content: Uint8Array): Uint8Array {
	const text = Buffer.from(content.buffer, content.byteOffset, content.byteLength).toString('base64');
	const lines: string[] = [];
	for (let start = 0; start < text.length; start += lineLength) {
		lines.push(text.slice(start, start + lineLength));
	}
	return Buffer.from(lines.join('\r\n'), 'latin1');
}
