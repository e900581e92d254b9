/** A header field in relaxed form (RFC 6376 §3.4.2), with its CRLF. */
export function relaxedHeader(line: string): string {
	const colon = line.indexOf(':');
	const value = line
		.slice(colon + 1)
		.replace(/[ \t\r\n]+/g, ' ')
		.trim();
	return `${line.slice(0, colon).trimEnd().toLowerCase()}:${value}\r\n`;
}

/**
 * A body in relaxed form (RFC 6376 §3.4.4): no white space at line ends, one space for each run of it, no empty lines
 * at the end, and a CRLF after the last line. Line ends must be CRLF.
 */
export function relaxedBody(body: Uint8Array): Uint8Array {
	const output = Buffer.allocUnsafe(body.length + 2);
	const end = body.length;
	let at = 0;
	let kept = 0; // After the last line that was not empty.
	let lineStart = 0;
	let space = false;
	for (let index = 0; index < end; index++) {
		const byte = body[index] as number;
		if (byte === 0x20 || byte === 0x09) {
			space = true;
		} else if (byte === 0x0d && body[index + 1] === 0x0a) {
			index++;
			space = false;
			const empty = at === lineStart;
			output[at++] = 0x0d;
			output[at++] = 0x0a;
			lineStart = at;
			if (!empty) {
				kept = at;
			}
		} else {
			if (space) {
				output[at++] = 0x20;
				space = false;
			}
			output[at++] = byte;
		}
	}
	if (at > lineStart) {
		output[at++] = 0x0d;
		output[at++] = 0x0a;
		kept = at;
	}
	return output.subarray(0, kept);
}
