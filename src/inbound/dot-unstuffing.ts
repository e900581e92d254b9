const [lf, cr, dot] = [0x0a, 0x0d, 0x2e];

/** What a chunk of DATA holds of the mail. */
export type Unstuffed = {
	readonly content: Buffer;
	/** Where in the chunk the commands go on; null: the mail has not ended. */
	readonly end: number | null;
};

// What stands before the next octet, as far as it matters.
const [inLine, afterCr, lineStart, afterDot, afterDotCr] = [0, 1, 2, 3, 4];

/**
 * Takes the dots away that the sender put before those at the beginning of lines, and finds the end of the mail
 * (RFC 5321 §4.5.2). Only CRLF ends a line: CRLF `.` CRLF and nothing else ends the mail, however it is cut into chunks. Takes
 * as long for ten million dots as for ten million letters.
 */
export function createDotUnstuffing(): (chunk: Buffer) => Unstuffed {
	let state = lineStart;

	return chunk => {
		// A held-back dot and CR may come first.
		const content = Buffer.allocUnsafe(chunk.length + 2);
		let length = 0;
		for (let index = 0; index < chunk.length; index++) {
			const octet = chunk[index] as number;
			if (state === lineStart && octet === dot) {
				state = afterDot;
				continue;
			}
			if (state === afterDot && octet === cr) {
				state = afterDotCr;
				continue;
			}
			if (state === afterDotCr && octet === lf) {
				return {content: content.subarray(0, length), end: index + 1};
			}
			if (state === afterDotCr) {
				content[length++] = dot;
				content[length++] = cr;
			} else if (state === afterDot && octet !== dot) {
				content[length++] = dot; // Of a sender that stuffs nothing.
			}
			content[length++] = octet;
			const isAfterCr = state === afterCr || state === afterDotCr;
			state = octet === cr ? afterCr : octet === lf && isAfterCr ? lineStart : inLine;
		}
		return {content: content.subarray(0, length), end: null};
	};
}
