/** A reply as it came: its code and its lines without their codes. */
export type RawReply = {readonly code: number; readonly lines: readonly string[]};

export type ReplyReader = {
	/** Takes what arrived, hands each complete reply to `found`; a text says what was wrong, the reader is of no use then. */
	readonly push: (chunk: Buffer, found: (reply: RawReply) => void) => string | null;
	/** Whether part of a reply is waiting for the rest. */
	readonly partial: () => boolean;
};

// RFC 5321 §4.5.3.1.5 allows 512 octets a line; real servers write more. What is beyond these is an attack.
const longestLine = 8 * 1024;
const longestReply = 64 * 1024;
const mostLines = 512;

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
	let size = 0;
	return {
		push(chunk, found) {
			const bytes: Buffer = rest === null ? chunk : Buffer.concat([rest, chunk]);
			let start = 0;
			for (let end = bytes.indexOf(10); end !== -1; end = bytes.indexOf(10, start)) {
				const line = bytes.toString('utf8', start, end > start && bytes[end - 1] === 13 ? end - 1 : end);
				size += end - start + 1;
				start = end + 1;
				const code = replyCode(line);
				if (code === null) {
					return 'the server sent a line that is not an SMTP reply';
				}

				lines.push(line.slice(4));
				if (size > longestReply || lines.length > mostLines) {
					return 'the server sent a reply that does not end';
				}

				if (line.charCodeAt(3) !== hyphen) {
					found({code, lines});
					lines = [];
					size = 0;
				}
			}

			rest = start < bytes.length ? bytes.subarray(start) : null;
			return rest !== null && rest.length > longestLine ? 'the server sent a line that does not end' : null;
		},
		partial: () => rest !== null || lines.length > 0,
	};
}
