// The relaxed canonical forms of fields and bodies that DKIM signs (RFC 6376 §3.4).

/** Returns a header field in relaxed form (RFC 6376 §3.4.2), with its CRLF. */
export function relaxedHeader(line: string): string {
	const colon = line.indexOf(':');
	const value = line
		.slice(colon + 1)
		.replace(/[ \t\r\n]+/g, ' ')
		.replace(/^ | $/g, '');
	return `${line.slice(0, colon).trimEnd().toLowerCase()}:${value}\r\n`;
}

/**
 * Writes part of a body with its white space in relaxed form (RFC 6376 §3.4.4): none at line ends, and one space for
 * each run. Line ends must be CRLF, and the part must not end within white space or a line end.
 *
 * @returns the end position in the output
 */
export function writeRelaxed(part: Uint8Array, output: Uint8Array, start: number): number {
	const end = part.length;
	let position = start;
	for (let index = 0; index < end; index++) {
		const octet = part[index] as number;
		if (octet !== 0x20 && octet !== 0x09) {
			output[position++] = octet;
			continue;
		}
		while (part[index + 1] === 0x20 || part[index + 1] === 0x09) {
			index++;
		}
		if (part[index + 1] !== 0x0d) {
			output[position++] = 0x20;
		}
	}
	return position;
}

/** Removes the empty lines at the end of a body with relaxed white space. The result is empty or ends with CRLF. */
export function withoutLastLines(body: Buffer): Buffer {
	let end = body.length;
	while (end >= 4 && body.readUInt32BE(end - 4) === 0x0d0a0d0a) {
		end -= 2;
	}
	return body.subarray(0, end === 2 && body[0] === 0x0d ? 0 : end);
}
