const lineFeedDot = Buffer.from('\n.');
const carriageReturnDot = Buffer.from('\r.');
const dot = Buffer.from('.');
const lineEnd = Buffer.from('\r\n');
const end = Buffer.from('.\r\n');
const lineEndAndEnd = Buffer.from('\r\n.\r\n');

/**
 * The pieces of a message as they go over the wire: dots at line starts doubled (RFC 5321 §4.5.2), the final dot last.
 * A dot after a bare CR or LF is doubled too: such lines do not occur in mail of ours, and a lax server must not find
 * the end of the data in one (SMTP smuggling). A message without such dots is passed on as it is, uncopied.
 */
export function dotStuffed(data: Uint8Array): Buffer[] {
	const bytes = Buffer.from(data.buffer, data.byteOffset, data.byteLength);
	const pieces: Buffer[] = [];
	let start = 0;
	if (bytes[0] === 46) {
		pieces.push(dot);
	}

	for (const at of dotPositions(bytes)) {
		pieces.push(bytes.subarray(start, at), dot);
		start = at;
	}

	pieces.push(start === 0 ? bytes : bytes.subarray(start), bytes.subarray(-2).equals(lineEnd) ? end : lineEndAndEnd);
	return pieces;
}

/** Where a dot follows a CR or an LF, in order. */
function dotPositions(bytes: Buffer): number[] {
	const positions: number[] = [];
	for (const pattern of [lineFeedDot, carriageReturnDot]) {
		for (let at = bytes.indexOf(pattern); at !== -1; at = bytes.indexOf(pattern, at + 2)) {
			positions.push(at + 1);
		}
	}

	return positions.sort((a, b) => a - b);
}
