import {unprintable} from '../kit/unprintable.ts';
import type {RawReply} from './reply-reader.ts';

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

const longestText = 4096;
const longestHead = 1024;
const longestLine = 512;
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
			all.push(`${ms} ${entry.by}: ${line.slice(0, longestLine).replace(unsafe, ' ').trimEnd()}`);
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
	if (Buffer.byteLength(whole) <= longestText) {
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
	for (let n = lines.length - 1; n >= head.length && fits(lines[n] ?? '', longestText); n--) {
		tail.unshift(lines[n] ?? '');
	}

	return [...head, gap.trimEnd(), ...tail].join('\n');
}
