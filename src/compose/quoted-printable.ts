const encode = 0;
const literal = 1;
/** Literal, but not at the start of a line: `.` needs no dot-stuffing then, `From ` no mbox escape (RFC 2049 §3). */
const notFirst = 2;
/** Literal, but not at the end of a line. */
const space = 3;
const cr = 4;
const lf = 5;

const kinds = new Uint8Array(128).fill(literal, 0x21, 0x7f);
kinds[0x3d] = encode; // =
kinds[0x2e] = notFirst; // .
kinds[0x46] = notFirst; // F
kinds[0x20] = space;
kinds[0x09] = space;
kinds[0x0d] = cr;
kinds[0x0a] = lf;
const hex = Buffer.from('0123456789ABCDEF', 'latin1');

const lineLength = 75; // And a `=` where the line goes on: 76 in all.
/** A character of three bytes makes nine octets, and each 73 octets at most one soft break of three. */
const mostPerUnit = 9.4;

/** The place to write to in a buffer, and where its line began. */
export type Position = {at: number; lineStart: number};

/** The octets that quoted-printable of so many UTF-16 units needs at most. */
export const quotedPrintableRoom = (units: number): number => Math.ceil(units * mostPerUnit) + 3;

/**
 * Writes a text's UTF-8 as quoted-printable (RFC 2045 §6.7): lines of at most 76 octets, 7-bit. Every line end (CRLF, CR
 * or LF) becomes CRLF. What is written next may follow on the same line: the last octet is no white space.
 */
export function writeQuotedPrintable(text: string, output: Uint8Array, position: Position): void {
	let {at, lineStart} = position;
	const end = text.length;
	for (let index = 0; index < end; index++) {
		const unit = text.charCodeAt(index);
		const kind = unit < 0x80 ? (kinds[unit] as number) : encode;
		if (kind === literal && at - lineStart < lineLength) {
			output[at++] = unit;
			continue;
		}

		if (kind >= cr) {
			if (kind === cr && text.charCodeAt(index + 1) === 0x0a) {
				index++;
			}
			output[at++] = 0x0d;
			output[at++] = 0x0a;
			lineStart = at;
			continue;
		}

		let asIs = kind === literal;
		if (kind === space) {
			const next = text.charCodeAt(index + 1);
			asIs = index + 1 < end && next !== 0x0d && next !== 0x0a;
		} else if (kind === notFirst) {
			asIs = at > lineStart && at - lineStart < lineLength;
		}
		if (asIs) {
			if (at - lineStart >= lineLength) {
				at = softBreak(output, at);
				lineStart = at;
			}
			output[at++] = unit;
			continue;
		}

		let octets = unit;
		let shift = 0;
		if (unit >= 0x80) {
			const point = text.codePointAt(index) as number;
			octets = utf8(point);
			shift = point < 0x800 ? 8 : point < 0x10000 ? 16 : 24;
			index += point < 0x10000 ? 0 : 1;
		}
		for (; shift >= 0; shift -= 8) {
			if (at - lineStart + 3 > lineLength) {
				at = softBreak(output, at);
				lineStart = at;
			}
			output[at++] = 0x3d;
			output[at++] = hex[(octets >>> (shift + 4)) & 15] as number;
			output[at++] = hex[(octets >>> shift) & 15] as number;
		}
	}
	position.at = at;
	position.lineStart = lineStart;
}

/** Ends a line that goes on; returns where the next begins. */
function softBreak(output: Uint8Array, at: number): number {
	output[at] = 0x3d;
	output[at + 1] = 0x0d;
	output[at + 2] = 0x0a;
	return at + 3;
}

/** The UTF-8 of a character that is not ASCII, as a number, first octet highest. Half a surrogate pair becomes U+FFFD. */
function utf8(found: number): number {
	const point = found >= 0xd800 && found < 0xe000 ? 0xfffd : found;
	const last = 0x80 | (point & 63);
	if (point < 0x800) {
		return ((0xc0 | (point >> 6)) << 8) | last;
	}
	const rest = ((0x80 | ((point >> 6) & 63)) << 8) | last;
	return point < 0x10000
		? ((0xe0 | (point >> 12)) << 16) | rest
		: ((0xf0 | (point >> 18)) << 24) | ((0x80 | ((point >> 12) & 63)) << 16) | rest;
}

/** Quoted-printable of a text that begins a line, and its position at the end. */
export function quotedPrintable(text: string): {readonly octets: Buffer; readonly position: Position} {
	const room = Buffer.allocUnsafe(quotedPrintableRoom(text.length));
	const position = {at: 0, lineStart: 0};
	writeQuotedPrintable(text, room, position);
	return {octets: room.subarray(0, position.at), position};
}
