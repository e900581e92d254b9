import {type FileHandle, readdir, rename, stat} from 'node:fs/promises';
import {join} from 'node:path';
import {type Links, openRegular, RefusedFileError} from '../kit/regular-file.ts';
import type {InboundSource} from '../mail/report.ts';

/** A file with one message, or with many if it is an mbox. */
export type MailFile = {
	readonly path: string;
	/** In octets. */
	readonly size: number;
	/** A file of a Maildir contains one message, even if its first line looks like that of an mbox. */
	readonly isInMaildir: boolean;
	/** Only a file that was named explicitly may be a link. */
	readonly links: Links;
};

/**
 * Finds the files that may contain messages: the file itself, or all files in and below a folder, ordered by name. Of a
 * Maildir, these are `new` and `cur`. Skips hidden files and links. A folder that cannot be listed is returned as a
 * file, so that opening it fails with the reason. Throws if `path` does not exist.
 */
export async function* mailFiles(path: string): AsyncGenerator<MailFile> {
	const stats = await stat(path);
	if (stats.isDirectory()) {
		yield* filesIn(path);
	} else {
		yield {path, size: stats.size, isInMaildir: false, links: 'follow'};
	}
}

async function* filesIn(folder: string): AsyncGenerator<MailFile> {
	const entries = await list(folder).catch(() => null);
	if (entries === null) {
		yield {path: folder, size: 0, isInMaildir: false, links: 'refuse'};
		return;
	}
	for (const {path, isFolder, isInMaildir} of entries) {
		yield* isFolder ? filesIn(path) : sized(path, isInMaildir);
	}
}

type Entry = {readonly path: string; readonly isFolder: boolean; readonly isInMaildir: boolean};

async function list(folder: string): Promise<Entry[]> {
	if (await isMaildir(folder)) {
		// In this order, because a mail reader may move messages from `new` to `cur` meanwhile, and none may be missed.
		const fresh = await namesIn(folder, 'new');
		const current = await namesIn(folder, 'cur');
		const paths = [...fresh.map(name => join('new', name)), ...current.map(name => join('cur', name))];
		return paths.map(path => ({path: join(folder, path), isFolder: false, isInMaildir: true}));
	}
	const entries = await readdir(folder, {withFileTypes: true});
	return entries
		.filter(entry => !entry.name.startsWith('.') && (entry.isDirectory() || entry.isFile()))
		.sort((a, b) => (a.name < b.name ? -1 : 1))
		.map(entry => ({path: join(folder, entry.name), isFolder: entry.isDirectory(), isInMaildir: false}));
}

/** Yields nothing if the file has been removed. */
async function* sized(path: string, isInMaildir: boolean): AsyncGenerator<MailFile> {
	const stats = await stat(path).catch(() => null);
	if (stats) {
		yield {path, size: stats.size, isInMaildir, links: 'refuse'};
	}
}

/** A message in its own file. */
type FoundInFile = {readonly found: FoundMail; readonly path: string};

export async function isMaildir(folder: string): Promise<boolean> {
	const [cur, fresh] = await Promise.all([isFolder(join(folder, 'cur')), isFolder(join(folder, 'new'))]);
	return cur && fresh;
}

async function isFolder(path: string): Promise<boolean> {
	return await stat(path).then(
		stats => stats.isDirectory(),
		() => false,
	);
}

/**
 * Returns the names of the messages in a part of a Maildir, oldest first, because names begin with the time. (Files in
 * `tmp` are incomplete.)
 */
export async function namesIn(folder: string, part: 'new' | 'cur'): Promise<string[]> {
	const entries = await readdir(join(folder, part), {withFileTypes: true});
	return entries
		.filter(entry => entry.isFile() && !entry.name.startsWith('.'))
		.map(entry => entry.name)
		.sort();
}

/** Reads the message in a file, or its beginning if it is too large. Throws the system's error. */
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
 * Yields the messages in `new`. Skips those that another reader has moved, and reports those that cannot be read, which
 * stay in place.
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

/** Moves a stored message from `new` to `cur`, marked as seen. */
export async function moveToCur(folder: string, name: string): Promise<void> {
	const base = name.split(':2,')[0] as string;
	await rename(join(folder, 'new', name), join(folder, 'cur', `${base}:2,S`)).catch(error => {
		// Another reader has moved it already.
		if ((error as NodeJS.ErrnoException).code !== 'ENOENT') {
			throw error;
		}
	});
}

/** A message of an mbox. */
type MboxMail = {
	/** Where its `From ` line begins in the file. */
	readonly offset: number;
	/** Its `From ` line, without the line ending. */
	readonly line: string;
	/** The message without that line, unquoted, at most `maxLength` octets of it. */
	readonly bytes: Buffer;
	/** Octets of the whole message. */
	readonly size: number;
};

// An asctime date, with a zone in one of several places, or the date of RFC 5322, which some programs write.
const weekday = '(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)';
const month = '(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)';
const time = '\\d\\d?:\\d\\d(?::\\d\\d)?';
const fromLine = new RegExp(
	`^From (?:\\S.{0,900} )?${weekday},? +(?:${month} +\\d\\d? +${time} .{0,40}\\d{4}|\\d\\d? +${month} +\\d{4} +${time})(?: .{0,40})?$`,
	'i',
);
/** A longer line is not a `From ` line. */
const maxLineLength = 1000;

/**
 * Whether a line begins a message of an mbox (RFC 4155): `From sender Fri Nov 20 10:00:00 2026`. Without the date, it
 * could be a sentence.
 */
export function isFromLine(line: string): boolean {
	return line.length <= maxLineLength && fromLine.test(line);
}

const mark = Buffer.from('\nFrom ');
const [newline, space] = [0x0a, 0x20];

/**
 * Splits an mbox that arrives in pieces, starting with a `From ` line at `offset` of the file. Keeps up to `maxLength`
 * octets of a message in memory and counts the rest. Ignores Content-Length, which is often wrong. It is not needed,
 * because lines of a message that look like a `From ` line are quoted.
 */
export class MboxSplitter {
	readonly #maxLength: number;
	// The data to search again, its offset in the file, and how much of it belongs to a message already. The initial
	// line break makes the first `From ` line look like all others.
	#rest: Buffer = Buffer.from('\n');
	#restOffset: number;
	#restConsumed = 1;
	#current: Pick<MboxMail, 'offset' | 'line'>;
	#parts: Buffer[] = [];
	#size = 0;

	constructor(maxLength: number, offset = 0) {
		this.#maxLength = maxLength;
		this.#restOffset = offset - 1;
		this.#current = {offset, line: ''};
	}

	/** Returns the messages completed by this piece. */
	push(chunk: Buffer): MboxMail[] {
		return this.#split(Buffer.concat([this.#rest, chunk]), false);
	}

	/** Returns the last message, which may be incomplete. */
	end(): MboxMail[] {
		return [...this.#split(this.#rest, true), ...this.#finish()];
	}

	#add(bytes: Buffer): void {
		const room = this.#maxLength - this.#size;
		if (room > 0 && bytes.length > 0) {
			this.#parts.push(bytes.subarray(0, room));
		}
		this.#size += bytes.length;
	}

	/** Returns the message that ends here, or nothing if there were only empty lines. */
	#finish(): MboxMail[] {
		const bytes = Buffer.concat(this.#parts);
		const content = this.#size <= this.#maxLength ? withoutLastLine(bytes) : bytes;
		const mail = {...this.#current, bytes: unquoted(content), size: this.#size - (bytes.length - content.length)};
		this.#parts = [];
		this.#size = 0;
		return bytes.some(byte => byte > space) ? [mail] : [];
	}

	#split(data: Buffer, isAtEnd: boolean): MboxMail[] {
		const messages: MboxMail[] = [];
		let consumed = this.#restConsumed;
		let index = data.indexOf(mark);
		while (index !== -1) {
			const lineFeed = data.indexOf(newline, index + 1);
			if (lineFeed === -1 && !isAtEnd && data.length - index <= maxLineLength) {
				break; // The line is incomplete so far.
			}
			const end = lineFeed === -1 ? data.length : lineFeed;
			const line = data
				.toString('latin1', index + 1, Math.min(end, index + 2 + maxLineLength))
				.replace(/\r$/, '');
			if (isFromLine(line)) {
				this.#add(data.subarray(consumed, Math.max(consumed, index + 1)));
				messages.push(...this.#finish());
				this.#current = {offset: this.#restOffset + index + 1, line};
				consumed = Math.min(end + 1, data.length);
			}
			index = data.indexOf(mark, index + 1);
		}
		// The end of the data may be the beginning of a `From ` line.
		const restStart = index === -1 ? Math.max(0, data.length - mark.length) : index;
		this.#add(data.subarray(consumed, isAtEnd ? data.length : Math.max(consumed, restStart)));
		this.#rest = data.subarray(restStart);
		this.#restOffset += restStart;
		this.#restConsumed = Math.max(0, consumed - restStart);
		return messages;
	}
}

/** The empty line before the next `From ` line is not part of the message. */
function withoutLastLine(bytes: Buffer): Buffer {
	const end = bytes.toString('latin1', Math.max(0, bytes.length - 4));
	const length = /\n\r\n$/.test(end) ? 2 : /\n\n$/.test(end) ? 1 : 0;
	return bytes.subarray(0, bytes.length - length);
}

/** Removes one `>` from each line `>From `, `>>From ` …: mboxrd, and mboxo, which quotes only the first kind. */
function unquoted(bytes: Buffer): Buffer {
	return bytes.includes('>From ')
		? Buffer.from(bytes.toString('latin1').replace(/(^|\n)>(>*From )/g, '$1$2'), 'latin1')
		: bytes;
}

/**
 * How far an mbox has been read: the last message that was stored. That message is read again the next time, because a
 * program may not have finished appending it.
 */
export type MboxPosition = {
	readonly device: number;
	readonly inode: number;
	/** Where its `From ` line begins, and that line. */
	readonly offset: number;
	readonly line: string;
};

/** A message of an mbox, with the position from which to continue once it is stored. */
type FoundInMbox = {readonly found: FoundMail; readonly position: MboxPosition};

const maxFirstLineLength = 1024;

/** Returns the line at `offset`, without its ending. */
async function lineAt(file: FileHandle, offset: number): Promise<string> {
	const {buffer, bytesRead} = await file.read({buffer: Buffer.alloc(maxFirstLineLength), position: offset});
	return (buffer.toString('latin1', 0, bytesRead).split('\n')[0] as string).replace(/\r$/, '');
}

/** Whether a file is an mbox, judged by its first line. */
export async function isMbox(file: FileHandle): Promise<boolean> {
	return isFromLine(await lineAt(file, 0));
}

/**
 * Returns where to continue: at the position, or at 0 if the file was replaced, or was rewritten without that message.
 */
export async function startOf(file: FileHandle, position: MboxPosition | null): Promise<number> {
	if (position === null) {
		return 0;
	}
	const {dev, ino, size} = await file.stat();
	const isSameFile = dev === position.device && ino === position.inode && position.offset < size;
	return isSameFile && (await lineAt(file, position.offset)) === position.line ? position.offset : 0;
}

/** Yields the messages of an mbox from an offset, in bounded memory. Passes to `onProgress` how far it was read. */
export async function* mailsOfMbox(
	file: FileHandle,
	start: number,
	onProgress: (offset: number) => void,
): AsyncGenerator<FoundInMbox> {
	const {dev: device, ino: inode} = await file.stat();
	const chunks = file.createReadStream({start, autoClose: false}) as AsyncIterable<Buffer>;
	for await (const {offset, line, bytes, size} of splitMbox(chunks, start, onProgress)) {
		yield {found: foundMail('mbox', bytes, size), position: {device, inode, offset, line}};
	}
}

async function* splitMbox(
	chunks: AsyncIterable<Buffer>,
	start = 0,
	onProgress?: (offset: number) => void,
): AsyncGenerator<MboxMail> {
	const splitter = new MboxSplitter(maxMailBytes, start);
	let read = start;
	for await (const chunk of chunks) {
		yield* splitter.push(chunk);
		read += chunk.length;
		onProgress?.(read);
	}
	yield* splitter.end();
}

/** Parses a stored position. `null` means that none is stored. */
export function parsePosition(text: string | null): MboxPosition | null {
	return text === null ? null : JSON.parse(text);
}

/** In octets. A longer message is assumed never to end. */
const maxMessageBytes = 256 * 1024 ** 2;

/**
 * Yields the messages of a stream, such as standard input. With `isSingle`, it is one message even if it starts with a
 * `From ` line. Throws `RefusedFileError` if a message never ends.
 */
export async function* mailsOfStream(
	chunks: AsyncIterable<Buffer>,
	options: {readonly isSingle: boolean},
): AsyncGenerator<FoundMail> {
	let length = 0;
	async function* counted(): AsyncGenerator<Buffer> {
		for await (const chunk of chunks) {
			length += chunk.length;
			if (length > maxMessageBytes) {
				throw new RefusedFileError(
					'standard input',
					`contains a message of more than ${maxMessageBytes} octets`,
				);
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
	{isSingle}: {readonly isSingle: boolean},
): AsyncGenerator<FoundMail> {
	const stream = chunks[Symbol.asyncIterator]();
	let head = Buffer.alloc(0);
	let isEnded = false;
	while (!isEnded && head.length < maxFirstLineLength && !head.includes('\n')) {
		const next = await stream.next();
		isEnded = next.done === true;
		head = next.done ? head : Buffer.concat([head, next.value]);
	}
	const allChunks = {[Symbol.asyncIterator]: () => prefixed(head, stream)};
	const isMbox = isFromLine((head.toString('latin1').split('\n')[0] as string).replace(/\r$/, ''));
	if (isMbox && !isSingle) {
		for await (const {bytes, size} of splitMbox(allChunks)) {
			yield foundMail('stdin', bytes, size);
		}
	} else {
		yield* singleMail(allChunks, isMbox ? head.indexOf('\n') + 1 : 0);
	}
}

async function* prefixed(head: Buffer, rest: AsyncIterator<Buffer>): AsyncGenerator<Buffer> {
	yield head;
	for (let next = await rest.next(); !next.done; next = await rest.next()) {
		yield next.value;
	}
}

/** Yields nothing if the stream is empty. */
async function* singleMail(chunks: AsyncIterable<Buffer>, skip: number): AsyncGenerator<FoundMail> {
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

/** A message from a mailbox or a file. */
export type FoundMail = {
	readonly source: InboundSource;
	/** As it is stored: with CRLF line endings, and cut if it is larger than `maxMailBytes`. */
	readonly raw: Buffer;
	/** The envelope's sender as recorded on delivery, empty for `<>`, or `null` if it was not recorded. */
	readonly mailFrom: string | null;
	/** Whether only the beginning was read. */
	readonly isCut: boolean;
};

/** The largest message that is stored completely, in octets. The listener has the same limit. */
export const maxMailBytes = 10 * 1024 * 1024;

/**
 * How much is read of a larger message. A report has its information at the beginning and returns the original message
 * last, which would only fill the store.
 */
const maxCutBytes = 1024 * 1024;

/** Creates a message. `bytes` are at least its first `maxMailBytes` octets, and `size` is its full size. */
export function foundMail(source: InboundSource, bytes: Buffer, size: number): FoundMail {
	const isCut = size > maxMailBytes;
	const raw = wireForm(isCut ? bytes.subarray(0, maxCutBytes) : bytes);
	return {source, raw, mailFrom: returnPathOf(raw), isCut};
}

/** Return-Path is among the first fields (RFC 5321 §4.4). */
const maxTraceLength = 16 * 1024;

function returnPathOf(raw: Buffer): string | null {
	const [header = ''] = raw.toString('latin1', 0, maxTraceLength).split('\r\n\r\n', 1);
	return /^return-path:[ \t]*<([^<>\r\n]*)>/im.exec(header)?.[1] ?? null;
}

const [lf, cr] = [0x0a, 0x0d];

/**
 * Converts a stored message to how it was transferred: each line ends with CRLF, including the last. That way, a
 * message has the same digest wherever it was stored. A lone CR is left alone.
 */
export function wireForm(stored: Buffer): Buffer {
	const bare = bareLineFeeds(stored);
	const hasFinalLf = stored.length === 0 || stored.at(-1) === lf;
	if (bare === 0 && hasFinalLf) {
		return stored;
	}
	const wire = Buffer.allocUnsafe(stored.length + bare + (hasFinalLf ? 0 : 2));
	let length = 0;
	for (let index = 0; index < stored.length; index++) {
		const byte = stored[index] as number;
		if (byte === lf && stored[index - 1] !== cr) {
			wire[length++] = cr;
		}
		wire[length++] = byte;
	}
	if (!hasFinalLf) {
		wire[length++] = cr;
		wire[length++] = lf;
	}
	return wire;
}

function bareLineFeeds(stored: Buffer): number {
	let count = 0;
	// With millions of them, `indexOf` for each takes five times as long as this loop.
	for (let index = 0; index < stored.length; index++) {
		count += stored[index] === lf && stored[index - 1] !== cr ? 1 : 0;
	}
	return count;
}
