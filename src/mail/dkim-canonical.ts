// What DKIM signs: the relaxed forms of fields and bodies (RFC 6376 §3.4).

/** A header field in relaxed form (RFC 6376 §3.4.2), with its CRLF. */
export function relaxedHeader(line: string): string {
	const colon = line.indexOf(':');
	const value = line
		.slice(colon + 1)
		.replace(/[ \t\r\n]+/g, ' ')
		.replace(/^ | $/g, '');
	return `${line.slice(0, colon).trimEnd().toLowerCase()}:${value}\r\n`;
}

/**
 * Writes a part of a body with its white space as in relaxed form (RFC 6376 §3.4.4): none at line ends, one space for
 * each run of it. Line ends must be CRLF; the part ends with none, or with other than white space.
 *
 * @returns where it ends in the output
 */
export function writeRelaxed(part: Uint8Array, output: Uint8Array, start: number): number {
	const end = part.length;
	let at = start;
	for (let index = 0; index < end; index++) {
		const octet = part[index] as number;
		if (octet !== 0x20 && octet !== 0x09) {
			output[at++] = octet;
			continue;
		}
		while (part[index + 1] === 0x20 || part[index + 1] === 0x09) {
			index++;
		}
		if (part[index + 1] !== 0x0d) {
			output[at++] = 0x20;
		}
	}
	return at;
}

/** A body with relaxed white space, without the empty lines at its end. It ends with CRLF or is empty. */
export function withoutLastLines(body: Buffer): Buffer {
	let end = body.length;
	while (end >= 4 && body.readUInt32BE(end - 4) === 0x0d0a0d0a) {
		end -= 2;
	}
	return body.subarray(0, end === 2 && body[0] === 0x0d ? 0 : end);
}
