import {unprintable} from '../kit/unprintable.ts';

/** What was sent on a connection, as it came; made readable only for readers. */
export type Dialogue = {
	/** A new conversation begins: what was said before is forgotten. */
	readonly begin: () => void;
	readonly said: (part: string | Uint8Array) => void;
	readonly heard: (reply: RawReply) => void;
	/** What happened to the connection, in our words. */
	readonly noted: (what: string) => void;
	/**
	 * All of it, a line each: milliseconds since the beginning, who, what (`    12 C: MAIL FROM:<a@b.example>`), passwords
	 * masked, data as `C: (4321 octets)`; printable, at most 4 KB. Null: nothing was said.
	 */
	readonly text: () => string | null;
};

/** `octets`: data, which is only counted. */
type Entry =
	| {readonly at: number; readonly by: 'C' | '*'; readonly line: string}
	| {readonly at: number; readonly by: 'C'; octets: number}
	| {readonly at: number; readonly by: 'S'; readonly reply: RawReply};

const mostShown = 4096;
const longestHead = 1024;
const mostShownOfLine = 512;
const mask = '****';
const unsafe = new RegExp(`[${unprintable}]`, 'gu');

/** `now`: monotonic milliseconds. */
export function createDialogue(now: () => number): Dialogue {
	let begun = now();
	let entries: Entry[] = [];
	return {
		begin() {
			begun = now();
			entries = [];
		},
		said(part) {
			const last = entries.at(-1);
			if (typeof part === 'string') {
				entries.push({at: now(), by: 'C', line: part});
			} else if (last !== undefined && 'octets' in last) {
				last.octets += part.length;
			} else {
				entries.push({at: now(), by: 'C', octets: part.length});
			}
		},
		heard(reply) {
			entries.push({at: now(), by: 'S', reply});
		},
		noted(what) {
			entries.push({at: now(), by: '*', line: what});
		},
		text: () => (entries.length === 0 ? null : shortened(lines(entries, begun))),
	};
}

function lines(entries: readonly Entry[], begun: number): string[] {
	const all: string[] = [];
	let asked = false; // The server waits for a part of the credentials (RFC 4954 §4).
	for (const entry of entries) {
		for (const line of linesOf(entry, asked)) {
			const ms = String(Math.round(entry.at - begun)).padStart(6);
			all.push(`${ms} ${entry.by}: ${line.slice(0, mostShownOfLine).replace(unsafe, ' ').trimEnd()}`);
		}

		asked = 'reply' in entry && entry.reply.code === 334;
	}

	return all;
}

function linesOf(entry: Entry, asked: boolean): string[] {
	if ('reply' in entry) {
		const {code, lines} = entry.reply;
		return lines.map((line, n) => `${code}${n < lines.length - 1 ? '-' : ' '}${line}`);
	}

	if ('octets' in entry) {
		return [`(${entry.octets} octets)`];
	}

	if (entry.by === '*') {
		return [entry.line];
	}

	// Commands that were sent together.
	const commands = entry.line.split('\r\n').slice(0, -1);
	return asked ? commands.map(() => mask) : commands.map(line => line.replace(/^(AUTH \S+) .*/i, `$1 ${mask}`));
}

/** Where it is too long the middle goes: how it began and how it ended say most. */
function shortened(lines: readonly string[]): string {
	const whole = lines.join('\n');
	if (Buffer.byteLength(whole) <= mostShown) {
		return whole;
	}

	const head: string[] = [];
	const tail: string[] = [];
	let size = 0;
	const fits = (line: string, limit: number) => {
		size += Buffer.byteLength(line) + 1;
		return size <= limit;
	};
	for (let n = 0; n < lines.length && fits(lines[n] ?? '', longestHead); n++) {
		head.push(lines[n] ?? '');
	}

	const gap = '     … ';
	size = Buffer.byteLength(`${head.join('\n')}\n${gap}\n`);
	for (let n = lines.length - 1; n >= head.length && fits(lines[n] ?? '', mostShown); n--) {
		tail.unshift(lines[n] ?? '');
	}

	return [...head, gap.trimEnd(), ...tail].join('\n');
}

/** A reply as it came: its code and its lines without their codes. */
export type RawReply = {readonly code: number; readonly lines: readonly string[]};

type ReplyReader = {
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

// RFC 5321 §4.5.3.1.5 allows 512 octets a line; real servers write more. What is beyond the first two is dropped, what is
// beyond the last one is an attack.
const longestLine = 8 * 1024;
const longestText = 64 * 1024;
const mostSent = 1024 * 1024;
/** Lines without a code that are handed on, of each reply. */
const mostStrays = 16;

const tooMuch = 'the server sent a reply that does not end';

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
	/** The begin of a line. */
	let rest: Buffer | null = null;
	let lines: string[] = [];
	/** The code of the lines; null: none came yet. */
	let code: number | null = null;
	/** Octets of the lines. */
	let kept = 0;
	/** Octets that came since the last reply, and lines without a code. */
	let sent = 0;
	let strays = 0;

	/** Adds to the line up to its longest. */
	const added = (bytes: Buffer): Buffer => {
		const more = bytes.subarray(0, longestLine - (rest?.length ?? 0));
		return rest === null ? more : Buffer.concat([rest, more]);
	};

	return {
		push(chunk, found, stray) {
			let start = 0;
			for (let end = chunk.indexOf(10); end !== -1; end = chunk.indexOf(10, start)) {
				const line = rest === null ? textOf(chunk, start, end) : textOf(added(chunk.subarray(start, end)));
				sent += end + 1 - start;
				start = end + 1;
				rest = null;
				if (sent > mostSent) {
					return tooMuch;
				}

				const next = replyCode(line);
				if (next === null) {
					strays += 1;
					if (strays <= mostStrays) {
						stray(line);
					}

					continue;
				}

				// RFC 5321 §4.2.1: the code is the same in every line. Where one line accepts and another refuses, neither counts.
				if (code !== null && contradict(code, next)) {
					return `the server sent a reply of two codes: ${code} and ${next}`;
				}

				code = code !== null && code < 500 && next >= 500 ? code : next;
				kept += line.length;
				if (kept <= longestText) {
					lines.push(line.slice(4));
				}

				if (line.charCodeAt(3) !== hyphen) {
					found({code, lines});
					lines = [];
					code = null;
					kept = 0;
					sent = 0;
					strays = 0;
				}
			}

			if (start < chunk.length) {
				sent += chunk.length - start;
				rest = added(chunk.subarray(start));
			}

			return sent > mostSent ? tooMuch : null;
		},
		partial: () => rest !== null || code !== null,
		begun: () => code !== null || (rest !== null && /^[2-5](?:\d(?:\d[ \r-]?)?)?$/.test(rest.toString('latin1', 0, 4))),
	};
}

/** A line without the CR at its end, up to its longest. */
function textOf(bytes: Buffer, start = 0, end = bytes.length): string {
	const last = Math.min(end, start + longestLine);
	return bytes.toString('utf8', start, last > start && bytes[last - 1] === 13 ? last - 1 : last);
}

/** Two refusals do not: what is refused for now may be refused for good in the next line, and is refused for now. */
function contradict(a: number, b: number): boolean {
	return Math.trunc(a / 100) !== Math.trunc(b / 100) && (a < 400 || b < 400);
}
