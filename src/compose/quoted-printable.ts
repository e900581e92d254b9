const encode = 0;
const literal = 1;
/** Literal, but not at the start of a line: `.` needs no dot-stuffing then, `From ` no mbox escape (RFC 2049 §3). */
const notFirst = 2;
/** Literal, but not at the end of a line. */
const space = 3;
const cr = 4;
const lf = 5;

// Octets of characters that are not ASCII are encoded, and all else that is not named here.
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
/** A character of three bytes makes nine octets, and each 73 octets at most one soft break of three. */
const mostPerUnit = 9.4;

/** A text that is being written, and its relaxed form (RFC 6376 §3.4.4) beside it. */
export type Writing = {
	readonly octets: Buffer;
	at: number;
	/** Where its line began. */
	lineStart: number;
	readonly canonical: Buffer;
	canonicalAt: number;
};

/** The most octets that quoted-printable of this many UTF-16 units needs. */
export const quotedPrintableRoom = (units: number): number => Math.ceil(units * mostPerUnit) + 3;

const usualUtf8 = Buffer.allocUnsafeSlow(64 * 1024);
const octetsPerUnit = 3;

/**
 * Writes a text's UTF-8 as quoted-printable (RFC 2045 §6.7): lines of at most 76 octets, 7-bit. Every line end (CRLF, CR
 * or LF) becomes CRLF. What is written next may follow on the same line: the last octet is no white space.
 */
export function writeQuotedPrintable(text: string, writing: Writing): void {
	// Half a surrogate pair becomes U+FFFD here. Octets are read several times as fast as the characters of a string.
	const room = octetsPerUnit * text.length;
	const utf8 = room <= usualUtf8.length ? usualUtf8 : Buffer.allocUnsafe(room);
	const end = utf8.write(text, 'utf8');
	const {octets, canonical} = writing;
	let {at, lineStart, canonicalAt} = writing;
	for (let index = 0; index < end; index++) {
		const octet = utf8[index] as number;
		const kind = kinds[octet] as number;
		if (kind === literal && at - lineStart < lineLength) {
			octets[at++] = octet;
			canonical[canonicalAt++] = octet;
			continue;
		}

		if (kind >= cr) {
			if (kind === cr && index + 1 < end && utf8[index + 1] === 0x0a) {
				index++;
			}
			octets[at++] = 0x0d;
			octets[at++] = 0x0a;
			canonical[canonicalAt++] = 0x0d;
			canonical[canonicalAt++] = 0x0a;
			lineStart = at;
			continue;
		}

		let asIs = kind === literal;
		if (kind === space) {
			asIs = index + 1 < end && utf8[index + 1] !== 0x0d && utf8[index + 1] !== 0x0a;
		} else if (kind === notFirst) {
			asIs = at > lineStart && at - lineStart < lineLength;
		}
		if (at - lineStart + (asIs ? 1 : 3) > lineLength) {
			octets[at++] = 0x3d;
			octets[at++] = 0x0d;
			octets[at++] = 0x0a;
			canonical[canonicalAt++] = 0x3d;
			canonical[canonicalAt++] = 0x0d;
			canonical[canonicalAt++] = 0x0a;
			lineStart = at;
		}
		if (!asIs) {
			const [high, low] = [hex[octet >>> 4] as number, hex[octet & 15] as number];
			octets[at++] = 0x3d;
			octets[at++] = high;
			octets[at++] = low;
			canonical[canonicalAt++] = 0x3d;
			canonical[canonicalAt++] = high;
			canonical[canonicalAt++] = low;
			continue;
		}
		// White space that is left as it is stands before no line end: relaxed, it is one space for each run.
		if (kind !== space) {
			canonical[canonicalAt++] = octet;
		} else if (at === lineStart || kinds[octets[at - 1] as number] !== space) {
			canonical[canonicalAt++] = 0x20;
		}
		octets[at++] = octet;
	}
	writing.at = at;
	writing.lineStart = lineStart;
	writing.canonicalAt = canonicalAt;
}

/** Quoted-printable of a text that begins a line. */
export type QuotedPrintable = {
	readonly octets: Buffer;
	readonly canonical: Buffer;
	/** Octets of its last line. */
	readonly column: number;
};

export function quotedPrintable(text: string): QuotedPrintable {
	const room = quotedPrintableRoom(text.length);
	const [octets, canonical] = [Buffer.allocUnsafe(room), Buffer.allocUnsafe(room)];
	const writing = {octets, at: 0, lineStart: 0, canonical, canonicalAt: 0};
	writeQuotedPrintable(text, writing);
	return {
		octets: Buffer.from(octets.subarray(0, writing.at)),
		canonical: Buffer.from(canonical.subarray(0, writing.canonicalAt)),
		column: writing.at - writing.lineStart,
	};
}
