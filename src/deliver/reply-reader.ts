/** A reply as it came: its code and its lines without their codes. */
export type RawReply = {readonly code: number; readonly lines: readonly string[]};

export type ReplyReader = {
	/**
	 * Takes what arrived, hands each complete reply to `found`, and each line without a code to `stray`: such a line is no
	 * answer, so the one that follows counts. A text says what was wrong, the reader is of no use then.
	 */
	readonly push: (chunk: Buffer, found: (reply: RawReply) => void, stray: (line: string) => void) => string | null;
	/** Whether a part of a line or of a reply is waiting for the rest. */
	readonly partial: () => boolean;
	/** Whether that part is the begin of a reply. */
	readonly begun: () => boolean;
};

// RFC 5321 §4.5.3.1.5 allows 512 octets a line; real servers write more. What is beyond these is an attack.
const longestLine = 8 * 1024;
const longestReply = 64 * 1024;
const mostLines = 512;
const tooLongLine = 'the server sent a line that does not end';

const zero = 48;
const space = 32;
const hyphen = 45;

/** The code of a reply line (RFC 5321 §4.2: three digits, the first 2 to 5), or null. */
function replyCode(line: string): number | null {
	const first = line.charCodeAt(0) - zero;
	const second = line.charCodeAt(1) - zero;
	const third = line.charCodeAt(2) - zero;
	if (!(first >= 2 && first <= 5 && second >= 0 && second <= 9 && third >= 0 && third <= 9)) {
		return null;
	}

	const separator = line.charCodeAt(3);
	return line.length === 3 || separator === space || separator === hyphen ? first * 100 + second * 10 + third : null;
}

/** Splits a server's bytes into replies, within bounds. */
export function createReplyReader(): ReplyReader {
	let rest: Buffer | null = null;
	let lines: string[] = [];
	/** The code of the lines; null: none came yet. */
	let code: number | null = null;
	/** Of what came since the last reply, lines without a code included. */
	let size = 0;
	let count = 0;
	return {
		push(chunk, found, stray) {
			const bytes: Buffer = rest === null ? chunk : Buffer.concat([rest, chunk]);
			let start = 0;
			for (let end = bytes.indexOf(10); end !== -1; end = bytes.indexOf(10, start)) {
				if (end - start > longestLine) {
					return tooLongLine;
				}

				const line = bytes.toString('utf8', start, end > start && bytes[end - 1] === 13 ? end - 1 : end);
				size += end - start + 1;
				count += 1;
				start = end + 1;
				if (size > longestReply || count > mostLines) {
					return 'the server sent a reply that does not end';
				}

				const next = replyCode(line);
				if (next === null) {
					stray(line);
					continue;
				}

				// RFC 5321 §4.2.1: the code is the same in every line. Where one line accepts and another refuses, neither counts.
				if (code !== null && Math.trunc(code / 100) !== Math.trunc(next / 100)) {
					return `the server sent a reply of two codes: ${code} and ${next}`;
				}

				code = next;
				lines.push(line.slice(4));
				if (line.charCodeAt(3) !== hyphen) {
					found({code, lines});
					lines = [];
					code = null;
					size = 0;
					count = 0;
				}
			}

			rest = start < bytes.length ? bytes.subarray(start) : null;
			return rest !== null && rest.length > longestLine ? tooLongLine : null;
		},
		partial: () => rest !== null || code !== null,
		begun: () => code !== null || (rest !== null && /^[2-5](?:\d(?:\d[ \r-]?)?)?$/.test(rest.toString('latin1', 0, 4))),
	};
}
