import {type FileHandle, readdir, rename, stat} from 'node:fs/promises';
import {join} from 'node:path';
import {type Links, openRegular, RefusedFileError} from '../kit/regular-file.ts';
import type {InboundSource} from '../mail/report.ts';

/** A file with one mail or, where it is an mbox, with many. */
export type MailFile = {
	readonly path: string;
	/** In octets. */
	readonly size: number;
	/** A file of a Maildir holds one mail, even if its first line looks like that of an mbox. */
	readonly inMaildir: boolean;
	/** Only a file that was named may be a link. */
	readonly links: Links;
};

/**
 * The files that may hold mail: the file itself, or all in a folder and those below it, in the order of their names. Of
 * a Maildir they are those of `new` and `cur`. Hidden files and links are left out. A folder that cannot be listed is
 * named in place of its files: opening it fails with the reason. Throws if `path` does not exist.
 */
export async function* mailFiles(path: string): AsyncGenerator<MailFile> {
	const found = await stat(path);
	if (found.isDirectory()) {
		yield* filesIn(path);
	} else {
		yield {path, size: found.size, inMaildir: false, links: 'follow'};
	}
}

async function* filesIn(folder: string): AsyncGenerator<MailFile> {
	const entries = await list(folder).catch(() => null);
	if (entries === null) {
		yield {path: folder, size: 0, inMaildir: false, links: 'refuse'};
		return;
	}
	for (const {path, isFolder, inMaildir} of entries) {
		yield* isFolder ? filesIn(path) : sized(path, inMaildir);
	}
}

type Entry = {readonly path: string; readonly isFolder: boolean; readonly inMaildir: boolean};

async function list(folder: string): Promise<Entry[]> {
	if (await isMaildir(folder)) {
		// In this order: a reader beside moves mails from the one to the other, and none is to be missed.
		const fresh = await namesIn(folder, 'new');
		const seen = await namesIn(folder, 'cur');
		const paths = [...fresh.map(name => join('new', name)), ...seen.map(name => join('cur', name))];
		return paths.map(path => ({path: join(folder, path), isFolder: false, inMaildir: true}));
	}
	const entries = await readdir(folder, {withFileTypes: true});
	return entries
		.filter(entry => !entry.name.startsWith('.') && (entry.isDirectory() || entry.isFile()))
		.sort((a, b) => (a.name < b.name ? -1 : 1))
		.map(entry => ({path: join(folder, entry.name), isFolder: entry.isDirectory(), inMaildir: false}));
}

/** None where the file is gone by now. */
async function* sized(path: string, inMaildir: boolean): AsyncGenerator<MailFile> {
	const found = await stat(path).catch(() => null);
	if (found) {
		yield {path, size: found.size, inMaildir, links: 'refuse'};
	}
}

/** A mail that lies in a file of its own. */
type FoundInFile = {readonly found: FoundMail; readonly path: string};

/** Whether a folder is a Maildir. */
export async function isMaildir(folder: string): Promise<boolean> {
	const [cur, fresh] = await Promise.all([isFolder(join(folder, 'cur')), isFolder(join(folder, 'new'))]);
	return cur && fresh;
}

async function isFolder(path: string): Promise<boolean> {
	return await stat(path).then(
		found => found.isDirectory(),
		() => false,
	);
}

/**
 * The names of the mails in a part of a Maildir, oldest first: a name begins with the time. What lies in `tmp` is not
 * complete.
 */
export async function namesIn(folder: string, part: 'new' | 'cur'): Promise<string[]> {
	const entries = await readdir(join(folder, part), {withFileTypes: true});
	return entries
		.filter(entry => entry.isFile() && !entry.name.startsWith('.'))
		.map(entry => entry.name)
		.sort();
}

/** The one mail of a file, at most its beginning where it is too large. Throws what the system says. */
export async function readMailFile(path: string, source: FoundMail['source'], links: Links): Promise<FoundMail> {
	const {file, size} = await openRegular(path, links);
	try {
		const buffer = Buffer.alloc(Math.min(size, maxMailBytes));
		let length = 0;
		for (;;) {
			const {bytesRead} = await file.read({buffer, offset: length, position: length});
			if (bytesRead === 0) {
				break;
			}
			length += bytesRead;
		}
		return foundMail(source, buffer.subarray(0, length), size);
	} finally {
		await file.close();
	}
}

/**
 * The mails of `new`. Passes over one that another reader took; reports one that cannot be read, which stays where it
 * is.
 */
export async function* newMails(
	folder: string,
	signal: AbortSignal,
	observer: {readonly mailUnreadable: (path: string, error: unknown) => void},
): AsyncGenerator<FoundInFile & {readonly name: string}> {
	for (const name of await namesIn(folder, 'new')) {
		if (signal.aborted) {
			return;
		}
		const path = join(folder, 'new', name);
		const found = await readMailFile(path, 'maildir', 'refuse').catch((error: NodeJS.ErrnoException) => {
			if (error.code !== 'ENOENT') {
				observer.mailUnreadable(path, error);
			}
			return null;
		});
		if (found) {
			yield {found, path, name};
		}
	}
}

/** Moves a mail that is stored: from `new` to `cur`, marked as seen. */
export async function putAside(folder: string, name: string): Promise<void> {
	const base = name.split(':2,')[0] as string;
	await rename(join(folder, 'new', name), join(folder, 'cur', `${base}:2,S`)).catch(error => {
		// Another reader was faster.
		if ((error as NodeJS.ErrnoException).code !== 'ENOENT') {
			throw error;
		}
	});
}

/** A mail of an mbox. */
type MboxMail = {
	/** Where its `From ` line begins in the file. */
	readonly offset: number;
	/** Its `From ` line, without the line end. */
	readonly line: string;
	/** The mail without that line, unquoted; at most `longest` octets of it. */
	readonly bytes: Buffer;
	/** Octets of the whole. */
	readonly size: number;
};

// An asctime date, with a zone in one of the places where zones are found; some programs write the date of RFC 5322.
const weekday = '(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)';
const month = '(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)';
const time = '\\d\\d?:\\d\\d(?::\\d\\d)?';
const fromLine = new RegExp(
	`^From (?:\\S.{0,900} )?${weekday},? +(?:${month} +\\d\\d? +${time} .{0,40}\\d{4}|\\d\\d? +${month} +\\d{4} +${time})(?: .{0,40})?$`,
	'i',
);
/** A longer line is no `From ` line. */
const maxLineLength = 1000;

/**
 * Whether a line begins a mail of an mbox (RFC 4155): `From sender Fri Nov 20 10:00:00 2026`. Without the date it may
 * as well be a sentence.
 */
export function isFromLine(line: string): boolean {
	return line.length <= maxLineLength && fromLine.test(line);
}

const mark = Buffer.from('\nFrom ');
const [newline, space] = [0x0a, 0x20];

/**
 * Splits an mbox that comes piece by piece, from a `From ` line at `offset` of the file on. Keeps up to `longest`
 * octets of a mail in memory and counts the rest. Ignores Content-Length: what writes it is often wrong, and the lines
 * of a mail that would be taken for the next one are quoted.
 */
export class MboxSplitter {
	readonly #longest: number;
	// What is to be looked at again, and how much of it belongs to a mail already. The first `From ` line begins like
	// all others once a line end precedes it.
	#rest: Buffer = Buffer.from('\n');
	#restAt: number;
	#added = 1;
	#current: Pick<MboxMail, 'offset' | 'line'>;
	#parts: Buffer[] = [];
	#size = 0;

	constructor(longest: number, offset = 0) {
		this.#longest = longest;
		this.#restAt = offset - 1;
		this.#current = {offset, line: ''};
	}

	/** The mails that this piece completes. */
	push(chunk: Buffer): MboxMail[] {
		return this.#split(Buffer.concat([this.#rest, chunk]), false);
	}

	/** The last mail, which may be incomplete. */
	end(): MboxMail[] {
		return [...this.#split(this.#rest, true), ...this.#finish()];
	}

	#add(bytes: Buffer): void {
		const room = this.#longest - this.#size;
		if (room > 0 && bytes.length > 0) {
			this.#parts.push(bytes.subarray(0, room));
		}
		this.#size += bytes.length;
	}

	/** The mail that ends here; empty if only empty lines were read. */
	#finish(): MboxMail[] {
		const bytes = Buffer.concat(this.#parts);
		const whole = this.#size <= this.#longest ? withoutLastLine(bytes) : bytes;
		const mail = {...this.#current, bytes: unquoted(whole), size: this.#size - (bytes.length - whole.length)};
		this.#parts = [];
		this.#size = 0;
		return bytes.some(byte => byte > space) ? [mail] : [];
	}

	#split(data: Buffer, atEnd: boolean): MboxMail[] {
		const mails: MboxMail[] = [];
		let taken = this.#added;
		let at = data.indexOf(mark);
		while (at !== -1) {
			const end = data.indexOf(newline, at + 1);
			if (end === -1 && !atEnd && data.length - at <= maxLineLength) {
				break; // The line is not all here.
			}
			const lineEnd = end === -1 ? data.length : end;
			const line = data.toString('latin1', at + 1, Math.min(lineEnd, at + 2 + maxLineLength)).replace(/\r$/, '');
			if (isFromLine(line)) {
				this.#add(data.subarray(taken, Math.max(taken, at + 1)));
				mails.push(...this.#finish());
				this.#current = {offset: this.#restAt + at + 1, line};
				taken = Math.min(lineEnd + 1, data.length);
			}
			at = data.indexOf(mark, at + 1);
		}
		// A line that begins at the end may be one.
		const open = at === -1 ? Math.max(0, data.length - mark.length) : at;
		this.#add(data.subarray(taken, atEnd ? data.length : Math.max(taken, open)));
		this.#rest = data.subarray(open);
		this.#restAt += open;
		this.#added = Math.max(0, taken - open);
		return mails;
	}
}

/** The empty line before the next `From ` line is no part of the mail. */
function withoutLastLine(bytes: Buffer): Buffer {
	const end = bytes.toString('latin1', Math.max(0, bytes.length - 4));
	const length = /\n\r\n$/.test(end) ? 2 : /\n\n$/.test(end) ? 1 : 0;
	return bytes.subarray(0, bytes.length - length);
}

/** Takes one `>` from each line `>From `, `>>From ` …: mboxrd, and mboxo, which quotes the first only. */
function unquoted(bytes: Buffer): Buffer {
	return bytes.includes('>From ')
		? Buffer.from(bytes.toString('latin1').replace(/(^|\n)>(>*From )/g, '$1$2'), 'latin1')
		: bytes;
}

/**
 * How far an mbox was read: the last mail that was stored. It is read again the next time, as it may have been
 * incomplete: a program that appends to the file may not have finished.
 */
export type MboxPosition = {
	readonly device: number;
	readonly inode: number;
	/** Where its `From ` line begins, and that line. */
	readonly offset: number;
	readonly line: string;
};

/** A mail of an mbox, with the position to go on from once it is stored. */
type FoundInMbox = {readonly found: FoundMail; readonly position: MboxPosition};

const maxFirstLineLength = 1024;

/** The first line of what is read from `offset` on, without its end. */
async function lineAt(file: FileHandle, offset: number): Promise<string> {
	const {buffer, bytesRead} = await file.read({buffer: Buffer.alloc(maxFirstLineLength), position: offset});
	return (buffer.toString('latin1', 0, bytesRead).split('\n')[0] as string).replace(/\r$/, '');
}

/** Whether a file is an mbox: its first line begins a mail. */
export async function isMbox(file: FileHandle): Promise<boolean> {
	return isFromLine(await lineAt(file, 0));
}

/**
 * Where to go on reading: at the position, or at 0 if another file has that name now, or the file was rewritten without
 * the mail.
 */
export async function startOf(file: FileHandle, position: MboxPosition | null): Promise<number> {
	if (position === null) {
		return 0;
	}
	const {dev, ino, size} = await file.stat();
	const same = dev === position.device && ino === position.inode && position.offset < size;
	return same && (await lineAt(file, position.offset)) === position.line ? position.offset : 0;
}

/** The mails of an mbox from an offset on, in bounded memory; reports to `readTo` how far the file was read. */
export async function* mailsOfMbox(
	file: FileHandle,
	start: number,
	readTo: (offset: number) => void,
): AsyncGenerator<FoundInMbox> {
	const {dev: device, ino: inode} = await file.stat();
	const chunks = file.createReadStream({start, autoClose: false}) as AsyncIterable<Buffer>;
	for await (const {offset, line, bytes, size} of splitMbox(chunks, start, readTo)) {
		yield {found: foundMail('mbox', bytes, size), position: {device, inode, offset, line}};
	}
}

async function* splitMbox(
	chunks: AsyncIterable<Buffer>,
	start = 0,
	readTo?: (offset: number) => void,
): AsyncGenerator<MboxMail> {
	const splitter = new MboxSplitter(maxMailBytes, start);
	let read = start;
	for await (const chunk of chunks) {
		yield* splitter.push(chunk);
		read += chunk.length;
		readTo?.(read);
	}
	yield* splitter.end();
}

/** The position as it is stored; null for what cannot be read. */
export function parsePosition(text: string | null): MboxPosition | null {
	return text === null ? null : JSON.parse(text);
}

/** A mail that is longer never ends. */
const maxMessageBytes = 256 * 1024 ** 2;

/**
 * The mails that come in one stream, as standard input. `single`: it is one mail, also if a `From ` line comes first.
 * Throws RefusedFileError where a mail has no end.
 */
export async function* mailsOfStream(
	chunks: AsyncIterable<Buffer>,
	options: {readonly single: boolean},
): AsyncGenerator<FoundMail> {
	let length = 0;
	async function* counted(): AsyncGenerator<Buffer> {
		for await (const chunk of chunks) {
			length += chunk.length;
			if (length > maxMessageBytes) {
				throw new RefusedFileError('standard input', `holds a mail of more than ${maxMessageBytes} octets`);
			}
			yield chunk;
		}
	}
	for await (const mail of mailsIn(counted(), options)) {
		length = 0;
		yield mail;
	}
}

async function* mailsIn(
	chunks: AsyncIterable<Buffer>,
	{single}: {readonly single: boolean},
): AsyncGenerator<FoundMail> {
	const stream = chunks[Symbol.asyncIterator]();
	let first = Buffer.alloc(0);
	let ended = false;
	while (!ended && first.length < maxFirstLineLength && !first.includes('\n')) {
		const next = await stream.next();
		ended = next.done === true;
		first = next.done ? first : Buffer.concat([first, next.value]);
	}
	const rest = {[Symbol.asyncIterator]: () => prefixed(first, stream)};
	const isMbox = isFromLine((first.toString('latin1').split('\n')[0] as string).replace(/\r$/, ''));
	if (isMbox && !single) {
		for await (const {bytes, size} of splitMbox(rest)) {
			yield foundMail('stdin', bytes, size);
		}
	} else {
		yield* oneMail(rest, isMbox ? first.indexOf('\n') + 1 : 0);
	}
}

async function* prefixed(first: Buffer, rest: AsyncIterator<Buffer>): AsyncGenerator<Buffer> {
	yield first;
	for (let next = await rest.next(); !next.done; next = await rest.next()) {
		yield next.value;
	}
}

/** None where nothing comes. */
async function* oneMail(chunks: AsyncIterable<Buffer>, skip: number): AsyncGenerator<FoundMail> {
	const parts: Buffer[] = [];
	let size = -skip;
	for await (const chunk of chunks) {
		const part = size < 0 ? chunk.subarray(-size) : chunk;
		if (size < maxMailBytes) {
			parts.push(part);
		}
		size += chunk.length;
	}
	if (size > 0) {
		yield foundMail('stdin', Buffer.concat(parts), size);
	}
}

/** A mail that lies in a mailbox or a file. */
export type FoundMail = {
	readonly source: InboundSource;
	/** As it is stored: with the line ends of the wire, and cut if it is larger than `maxMailBytes`. */
	readonly raw: Buffer;
	/** The envelope's sender, empty for `<>`, as the server that put the mail there wrote it down; null: it did not. */
	readonly mailFrom: string | null;
	/** Whether only its beginning is there. */
	readonly cut: boolean;
};

/** The largest mail that is taken whole, octets: the listener's limit too. */
export const maxMailBytes = 10 * 1024 * 1024;

/**
 * What is read of a larger one. A report begins with its own words and returns the mail last, so its beginning says
 * all; the rest would only fill the store.
 */
const partOfLarger = 1024 * 1024;

/**
 * A mail of a mailbox or a file: `bytes` are its first `maxMailBytes` octets at least, `size` is the size of the whole.
 */
export function foundMail(source: InboundSource, bytes: Buffer, size: number): FoundMail {
	const cut = size > maxMailBytes;
	const raw = wireForm(cut ? bytes.subarray(0, partOfLarger) : bytes);
	return {source, raw, mailFrom: returnPathOf(raw), cut};
}

/** Return-Path is among the first fields (RFC 5321 §4.4). */
const maxTraceLength = 16 * 1024;

function returnPathOf(raw: Buffer): string | null {
	const [header = ''] = raw.toString('latin1', 0, maxTraceLength).split('\r\n\r\n', 1);
	return /^return-path:[ \t]*<([^<>\r\n]*)>/im.exec(header)?.[1] ?? null;
}

const [lf, cr] = [0x0a, 0x0d];

/**
 * A stored mail as it went over the wire: each line ends with CRLF, the last one too. So the same mail has the same
 * digest wherever it lay. A lone CR stays as it is.
 */
export function wireForm(stored: Buffer): Buffer {
	const bare = bareLineFeeds(stored);
	const ended = stored.length === 0 || stored.at(-1) === lf;
	if (bare === 0 && ended) {
		return stored;
	}
	const wire = Buffer.allocUnsafe(stored.length + bare + (ended ? 0 : 2));
	let at = 0;
	for (let i = 0; i < stored.length; i++) {
		const byte = stored[i] as number;
		if (byte === lf && stored[i - 1] !== cr) {
			wire[at++] = cr;
		}
		wire[at++] = byte;
	}
	if (!ended) {
		wire[at++] = cr;
		wire[at++] = lf;
	}
	return wire;
}

function bareLineFeeds(stored: Buffer): number {
	let count = 0;
	// A search for each of millions of them takes five times as long.
	for (let at = 0; at < stored.length; at++) {
		count += stored[at] === lf && stored[at - 1] !== cr ? 1 : 0;
	}
	return count;
}
