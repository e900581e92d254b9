import {bufferOf} from '../kit/octets.ts';
import type {Constant, Pieces} from '../kit/pieces.ts';
import {withoutLastLines, writeRelaxed} from './canonical.ts';
import {
	type QuotedPrintable,
	quotedPrintable,
	quotedPrintableRoom,
	type Writing,
	writeQuotedPrintable,
} from './quoted-printable.ts';

/** A part of a body: ASCII as it is, a text to be quoted-printable, or bytes to be base64. */
export type BodyPart = {readonly ascii: string} | {readonly text: Pieces} | {readonly bytes: Uint8Array};

/** Both last until the next body is written. */
export type Body = {
	readonly octets: Buffer;
	/** In relaxed form (RFC 6376 §3.4.4), for signatures. */
	readonly canonical: Buffer;
};

const usualRoom = 512 * 1024;
const softLine = Buffer.from('=\r\n', 'latin1');

/**
 * Writes bodies, each with its relaxed form beside it. The constants of texts are encoded once: each begins a line of its
 * own, after a soft break, so that it is the same octets in every mail.
 */
export function createBodyWriter(): (parts: readonly BodyPart[]) => Body {
	const known = new WeakMap<Constant, QuotedPrintable>();
	const usual = [Buffer.allocUnsafeSlow(usualRoom), Buffer.allocUnsafeSlow(usualRoom)] as const;

	function encoded(constant: Constant): QuotedPrintable {
		let found = known.get(constant);
		if (!found) {
			found = quotedPrintable(constant.text);
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
		const writing: Writing = {octets, at: 0, lineStart: 0, canonical, canonicalAt: 0};

		function copy(written: Uint8Array, relaxed: Uint8Array): void {
			octets.set(written, writing.at);
			writing.at += written.length;
			canonical.set(relaxed, writing.canonicalAt);
			writing.canonicalAt += relaxed.length;
		}

		/** `skipped`: octets at its start that are there already. */
		function writeConstant(constant: QuotedPrintable, skipped: number): void {
			if (writing.at > writing.lineStart && constant.octets[0] !== 0x0d) {
				copy(softLine, softLine);
			}
			if (skipped === 0) {
				copy(constant.octets, constant.canonical);
			} else {
				copy(constant.octets.subarray(skipped), constant.canonical.subarray(skipped));
			}
			writing.lineStart = writing.at - constant.column;
		}

		function writePieces(pieces: readonly (string | Constant)[]): void {
			writing.lineStart = writing.at;
			let afterCr = false;
			for (const piece of pieces) {
				const text = typeof piece === 'string' ? piece : piece.text;
				// A CR and the LF that the next piece begins with are one line end.
				const skip = afterCr && text.startsWith('\n');
				if (typeof piece === 'string') {
					writeQuotedPrintable(skip ? text.slice(1) : text, writing);
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
				const from = writing.at;
				writing.at += writeBase64Lines(part.bytes, octets, from);
				writing.canonicalAt += octets.copy(canonical, writing.canonicalAt, from, writing.at);
			} else {
				const from = writing.at;
				writing.at += octets.write(part.ascii, from, 'latin1');
				writing.canonicalAt = writeRelaxed(octets.subarray(from, writing.at), canonical, writing.canonicalAt);
			}
		}
		return {
			octets: octets.subarray(0, writing.at),
			canonical: withoutLastLines(canonical.subarray(0, writing.canonicalAt)),
		};
	};
}

const lineLength = 76;
const bytesPerLine = 57;

/** The octets that `writeBase64Lines` writes. */
export function base64Length(bytes: number): number {
	const length = 4 * Math.ceil(bytes / 3);
	return length + 2 * Math.max(0, Math.ceil(bytes / bytesPerLine) - 1);
}

/**
 * Writes base64 in lines of 76 characters joined by CRLF, none after the last (RFC 2045 §6.8).
 *
 * @returns the octets written
 */
export function writeBase64Lines(content: Uint8Array, output: Buffer, start: number): number {
	const length = base64Length(content.length);
	const text = bufferOf(content).toString('base64');
	// Written at the end first; then each line moves forward to its place.
	const end = start + length;
	let from = end - text.length;
	output.write(text, from, 'latin1');
	for (let at = start; at < end; at += lineLength + 2) {
		output.copyWithin(at, from, Math.min(from + lineLength, end));
		from += lineLength;
		if (at + lineLength < end) {
			output[at + lineLength] = 0x0d;
			output[at + lineLength + 1] = 0x0a;
		}
	}
	return length;
}
