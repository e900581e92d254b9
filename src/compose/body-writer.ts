import type {Constant, Pieces} from '../mail/pieces.ts';
import {base64Length, writeBase64Lines} from './base64-lines.ts';
import {withoutLastLines, writeRelaxed} from './canonical.ts';
import {quotedPrintable, quotedPrintableRoom, writeQuotedPrintable} from './quoted-printable.ts';

/** A part of a body: ASCII as it is, a text to be quoted-printable, or bytes to be base64. */
export type BodyPart = {readonly ascii: string} | {readonly text: Pieces} | {readonly bytes: Uint8Array};

/** Both last until the next body is written. */
export type Body = {
	readonly octets: Buffer;
	/** In relaxed form (RFC 6376 §3.4.4), for signatures. */
	readonly canonical: Buffer;
};

/** A constant as quoted-printable that begins a line. */
type Encoded = {
	readonly octets: Buffer;
	readonly canonical: Buffer;
	/** Octets of its last line. */
	readonly column: number;
};

const usualRoom = 512 * 1024;
const softLine = Buffer.from('=\r\n', 'latin1');

/**
 * Writes bodies, each with its relaxed form beside it. The constants of texts are encoded once: each begins a line of its
 * own, after a soft break, so that it is the same octets in every mail.
 */
export function createBodyWriter(): (parts: readonly BodyPart[]) => Body {
	const known = new WeakMap<Constant, Encoded>();
	const usual = [Buffer.allocUnsafeSlow(usualRoom), Buffer.allocUnsafeSlow(usualRoom)] as const;

	function encoded(constant: Constant): Encoded {
		let found = known.get(constant);
		if (!found) {
			found = encode(constant.text);
			known.set(constant, found);
		}
		return found;
	}

	function roomFor(part: BodyPart): number {
		if ('text' in part) {
			return part.text.reduce((sum, piece) => sum + roomForPiece(piece), 0);
		}
		return 'ascii' in part ? part.ascii.length : base64Length(part.bytes.length);
	}

	const roomForPiece = (piece: string | Constant): number =>
		typeof piece === 'string' ? quotedPrintableRoom(piece.length) : encoded(piece).octets.length + softLine.length;

	return parts => {
		const room = parts.reduce((sum, part) => sum + roomFor(part), 0);
		const [octets, canonical] = room <= usualRoom ? usual : [Buffer.allocUnsafe(room), Buffer.allocUnsafe(room)];
		const position = {at: 0, lineStart: 0};
		let canonicalEnd = 0;

		/** The same octets on both sides. */
		function copy(octetsOfBoth: Uint8Array): void {
			octets.set(octetsOfBoth, position.at);
			position.at += octetsOfBoth.length;
			canonical.set(octetsOfBoth, canonicalEnd);
			canonicalEnd += octetsOfBoth.length;
		}

		function writeText(text: string): void {
			const from = position.at;
			writeQuotedPrintable(text, octets, position);
			canonicalEnd = writeRelaxed(octets.subarray(from, position.at), canonical, canonicalEnd);
		}

		/** `skipped`: octets at its start that are there already. */
		function writeConstant(constant: Encoded, skipped: number): void {
			if (position.at > position.lineStart && constant.octets[0] !== 0x0d) {
				copy(softLine);
			}
			octets.set(constant.octets.subarray(skipped), position.at);
			position.at += constant.octets.length - skipped;
			position.lineStart = position.at - constant.column;
			canonical.set(constant.canonical.subarray(skipped), canonicalEnd);
			canonicalEnd += constant.canonical.length - skipped;
		}

		function writePieces(pieces: readonly (string | Constant)[]): void {
			position.lineStart = position.at;
			let afterCr = false;
			for (const piece of pieces) {
				const text = typeof piece === 'string' ? piece : piece.text;
				// A CR and the LF that the next piece begins with are one line end.
				const skip = afterCr && text.startsWith('\n');
				if (typeof piece === 'string') {
					writeText(skip ? text.slice(1) : text);
				} else {
					writeConstant(encoded(piece), skip ? 2 : 0);
				}
				afterCr = text === '' ? afterCr : text.endsWith('\r');
			}
		}

		for (const part of parts) {
			if ('text' in part) {
				writePieces(part.text);
			} else if ('bytes' in part) {
				const from = position.at;
				position.at += writeBase64Lines(part.bytes, octets, from);
				canonicalEnd += octets.copy(canonical, canonicalEnd, from, position.at);
			} else {
				const from = position.at;
				position.at += octets.write(part.ascii, from, 'latin1');
				canonicalEnd = writeRelaxed(octets.subarray(from, position.at), canonical, canonicalEnd);
			}
		}
		return {octets: octets.subarray(0, position.at), canonical: withoutLastLines(canonical.subarray(0, canonicalEnd))};
	};
}

function encode(text: string): Encoded {
	const {octets, position} = quotedPrintable(text);
	const relaxed = Buffer.allocUnsafe(octets.length);
	const end = writeRelaxed(octets, relaxed, 0);
	return {
		octets: Buffer.from(octets),
		canonical: Buffer.from(relaxed.subarray(0, end)),
		column: position.at - position.lineStart,
	};
}
