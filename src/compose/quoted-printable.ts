const encode = 0;
const literal = 1;
/** Literal, but not at the start of a line: `.` needs no dot-stuffing then, `From ` no mbox escape (RFC 2049 §3). */
const notFirst = 2;
/** Literal, but not at the end of a line. */
const space = 3;
const cr = 4;
const lf = 5;

const kinds = new Uint8Array(256).fill(literal, 0x21, 0x7f);
kinds[0x3d] = encode; // =
kinds[0x2e] = notFirst; // .
kinds[0x46] = notFirst; // F
kinds[0x20] = space;
kinds[0x09] = space;
kinds[0x0d] = cr;
kinds[0x0a] = lf;
const hex = Buffer.from('0123456789ABCDEF', 'latin1');

const lineLength = 75; // And a `=` where the line goes on: 76 in all.

/**
 * Quoted-printable of a text's UTF-8 (RFC 2045 §6.7): lines of at most 76 octets, 7-bit. Every line end (CRLF, CR or
 * LF) becomes CRLF.
 */
export function quotedPrintable(text: string): Uint8Array {
	const input = Buffer.from(text, 'utf8');
	const end = input.length;
	// Each byte makes three at most, and each 73 of those at most one soft break of three.
	const output = Buffer.allocUnsafe(Math.ceil(end * 3.13) + 3);
	let at = 0;
	let lineStart = 0;
	for (let index = 0; index < end; index++) {
		const byte = input[index] as number;
		const kind = kinds[byte] as number;
		if (kind === literal && at - lineStart < lineLength) {
			output[at++] = byte;
			continue;
		}

		if (kind >= cr) {
			if (kind === cr && input[index + 1] === 0x0a) {
				index++;
			}
			output[at++] = 0x0d;
			output[at++] = 0x0a;
			lineStart = at;
			continue;
		}

		let asIs = kind === literal;
		if (kind === space) {
			const next = input[index + 1];
			asIs = next !== undefined && next !== 0x0d && next !== 0x0a;
		} else if (kind === notFirst) {
			asIs = at > lineStart && at - lineStart < lineLength;
		}

		if (at - lineStart + (asIs ? 1 : 3) > lineLength) {
			output[at++] = 0x3d;
			output[at++] = 0x0d;
			output[at++] = 0x0a;
			lineStart = at;
		}
		if (asIs) {
			output[at++] = byte;
		} else {
			output[at++] = 0x3d;
			output[at++] = hex[byte >> 4] as number;
			output[at++] = hex[byte & 15] as number;
		}
	}
	return output.subarray(0, at);
}
