import {unprintable} from '../kit/text.ts';

/** One entry of the dialogue. Message data is only counted (`octets`). */
type Entry =
	| {readonly at: number; readonly by: 'C' | '*'; readonly line: string}
	| {readonly at: number; readonly by: 'C'; octets: number}
	| {readonly at: number; readonly by: 'S'; readonly reply: RawReply};

const maxFormattedBytes = 4096;
const maxHeadLength = 1024;
const maxFormattedLine = 512;
const mask = '****';
const unsafe = new RegExp(`[${unprintable}]`, 'gu');

/** Records what was sent and received on a connection. It is formatted only when someone reads it. */
export class Dialogue {
	readonly #now: () => number;
	#startedAt: number;
	#entries: Entry[] = [];

	/** `now` returns monotonic milliseconds. */
	constructor(now: () => number) {
		this.#now = now;
		this.#startedAt = now();
	}

	/** Starts a new conversation and discards the previous one. */
	begin(): void {
		this.#startedAt = this.#now();
		this.#entries = [];
	}

	sent(part: string | Uint8Array): void {
		const last = this.#entries.at(-1);
		if (typeof part === 'string') {
			this.#entries.push({at: this.#now(), by: 'C', line: part});
		} else if (last !== undefined && 'octets' in last) {
			last.octets += part.length;
		} else {
			this.#entries.push({at: this.#now(), by: 'C', octets: part.length});
		}
	}

	received(reply: RawReply): void {
		this.#entries.push({at: this.#now(), by: 'S', reply});
	}

	/** Records an event on the connection, in mailctl's own words. */
	noted(what: string): void {
		this.#entries.push({at: this.#now(), by: '*', line: what});
	}

	/**
	 * Returns the dialogue with one line per entry: milliseconds since the start, who, what
	 * (`    12 C: MAIL FROM:<a@b.example>`). Passwords are masked, data appears as `C: (4321 octets)`, and the text is
	 * printable and at most 4 KB. Returns `null` if nothing was sent.
	 */
	text(): string | null {
		return this.#entries.length === 0 ? null : shorten(formatEntries(this.#entries, this.#startedAt));
	}
}

function formatEntries(entries: readonly Entry[], startedAt: number): string[] {
	const formatted: string[] = [];
	let isChallenged = false; // The server waits for part of the credentials (RFC 4954 §4).
	for (const entry of entries) {
		for (const line of toLines(entry, isChallenged)) {
			const ms = String(Math.round(entry.at - startedAt)).padStart(6);
			formatted.push(`${ms} ${entry.by}: ${line.slice(0, maxFormattedLine).replace(unsafe, ' ').trimEnd()}`);
		}
		isChallenged = 'reply' in entry && entry.reply.code === 334;
	}
	return formatted;
}

function toLines(entry: Entry, isChallenged: boolean): string[] {
	if ('reply' in entry) {
		const {code, lines} = entry.reply;
		return lines.map((line, index) => `${code}${index < lines.length - 1 ? '-' : ' '}${line}`);
	}
	if ('octets' in entry) {
		return [`(${entry.octets} octets)`];
	}
	if (entry.by === '*') {
		return [entry.line];
	}
	// An entry may hold several pipelined commands.
	const commands = entry.line.split('\r\n').slice(0, -1);
	return isChallenged
		? commands.map(() => mask)
		: commands.map(line => line.replace(/^(AUTH \S+) .*/i, `$1 ${mask}`));
}

/** Cuts the middle of a long dialogue, because its beginning and end are the most informative. */
function shorten(lines: readonly string[]): string {
	const text = lines.join('\n');
	if (Buffer.byteLength(text) <= maxFormattedBytes) {
		return text;
	}
	const head: string[] = [];
	const tail: string[] = [];
	let size = 0;
	const fits = (line: string, limit: number) => {
		size += Buffer.byteLength(line) + 1;
		return size <= limit;
	};
	for (let index = 0; index < lines.length && fits(lines[index] ?? '', maxHeadLength); index++) {
		head.push(lines[index] ?? '');
	}
	const gap = '     … ';
	size = Buffer.byteLength(`${head.join('\n')}\n${gap}\n`);
	for (let index = lines.length - 1; index >= head.length && fits(lines[index] ?? '', maxFormattedBytes); index--) {
		tail.unshift(lines[index] ?? '');
	}
	return [...head, gap.trimEnd(), ...tail].join('\n');
}

/** A reply as received: its code, and its lines without the code. */
export type RawReply = {readonly code: number; readonly lines: readonly string[]};

// RFC 5321 §4.5.3.1.5 allows 512 octets per line, but real servers send more. Longer lines and texts are cut; a reply
// beyond `maxReceivedBytes` is treated as an attack.
const maxLineLength = 8 * 1024;
const maxTextLength = 64 * 1024;
const maxReceivedBytes = 1024 * 1024;
/** The maximum number of lines without a code that are passed on per reply. */
const maxStrayLines = 16;

const endlessReply = 'the server sent a reply that does not end';

const zero = 48;
const space = 32;
const hyphen = 45;

/** Returns the code of a reply line (RFC 5321 §4.2: three digits, the first 2 to 5), or `null` if it has none. */
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

/** Splits the bytes from a server into replies, within fixed limits. */
export class ReplyReader {
	/** The beginning of an incomplete line. */
	#partialLine: Buffer | null = null;
	#lines: string[] = [];
	/** The code of the lines so far, or `null` before the first line. */
	#code: number | null = null;
	/** The total length of the reply's lines so far. */
	#retainedLength = 0;
	/** The octets received since the last reply, and how many of their lines had no code. */
	#receivedBytes = 0;
	#strayLines = 0;

	/**
	 * Reads a chunk. Passes each complete reply to `onReply`, and each line without a code to `onStray`; such a line is
	 * not a reply, so the next one counts. Returns an error text if the bytes are invalid; the reader is unusable after
	 * that.
	 */
	push(chunk: Buffer, onReply: (reply: RawReply) => void, onStray: (line: string) => void): string | null {
		let start = 0;
		for (let end = chunk.indexOf(10); end !== -1; end = chunk.indexOf(10, start)) {
			const line =
				this.#partialLine === null
					? textOf(chunk, start, end)
					: textOf(this.#appendPartial(chunk.subarray(start, end)));
			this.#receivedBytes += end + 1 - start;
			start = end + 1;
			this.#partialLine = null;
			if (this.#receivedBytes > maxReceivedBytes) {
				return endlessReply;
			}
			const next = replyCode(line);
			if (next === null) {
				this.#strayLines += 1;
				if (this.#strayLines <= maxStrayLines) {
					onStray(line);
				}
				continue;
			}
			// RFC 5321 §4.2.1: the code is the same on every line. If one line accepts and another refuses, neither is
			// trusted.
			if (this.#code !== null && contradict(this.#code, next)) {
				return `the server sent a reply with two codes: ${this.#code} and ${next}`;
			}
			const code = this.#code !== null && this.#code < 500 && next >= 500 ? this.#code : next;
			this.#code = code;
			this.#retainedLength += line.length;
			if (this.#retainedLength <= maxTextLength) {
				this.#lines.push(line.slice(4));
			}
			if (line.charCodeAt(3) !== hyphen) {
				onReply({code, lines: this.#lines});
				this.#lines = [];
				this.#code = null;
				this.#retainedLength = 0;
				this.#receivedBytes = 0;
				this.#strayLines = 0;
			}
		}
		if (start < chunk.length) {
			this.#receivedBytes += chunk.length - start;
			this.#partialLine = this.#appendPartial(chunk.subarray(start));
		}
		return this.#receivedBytes > maxReceivedBytes ? endlessReply : null;
	}

	/** Whether part of a line or reply has arrived and the rest is missing. */
	get isPartial(): boolean {
		return this.#partialLine !== null || this.#code !== null;
	}

	/** Whether that part is the beginning of a reply. */
	get isBegun(): boolean {
		const prefix = this.#partialLine?.toString('latin1', 0, 4);
		return this.#code !== null || (prefix !== undefined && /^[2-5](?:\d(?:\d[ \r-]?)?)?$/.test(prefix));
	}

	/** Appends bytes to the current line, up to the maximum length. */
	#appendPartial(bytes: Buffer): Buffer {
		const more = bytes.subarray(0, maxLineLength - (this.#partialLine?.length ?? 0));
		return this.#partialLine === null ? more : Buffer.concat([this.#partialLine, more]);
	}
}

/** Returns a line without its final CR, cut at the maximum length. */
function textOf(bytes: Buffer, start = 0, end = bytes.length): string {
	const lineEnd = Math.min(end, start + maxLineLength);
	return bytes.toString('utf8', start, lineEnd > start && bytes[lineEnd - 1] === 13 ? lineEnd - 1 : lineEnd);
}

/** Whether two codes of one reply contradict each other. A temporary and a permanent refusal together do not. */
function contradict(a: number, b: number): boolean {
	return Math.trunc(a / 100) !== Math.trunc(b / 100) && (a < 400 || b < 400);
}
