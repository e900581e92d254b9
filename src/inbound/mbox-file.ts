import type {FileHandle} from 'node:fs/promises';
import {type FoundMail, foundMail, longestMail} from './found-mail.ts';
import {createMboxSplitter, isFromLine} from './mbox.ts';

/**
 * How far an mbox was read: the last mail that was taken in. It is read again the next time, because nobody knows whether it
 * was complete: whoever appends to the file may have been about to write on.
 */
export type MboxPosition = {
	readonly device: number;
	readonly inode: number;
	/** Where its `From ` line begins, and that line. */
	readonly offset: number;
	readonly line: string;
};

/** A mail of an mbox, with the position to go on from once it is taken in. */
export type FoundInMbox = {readonly found: FoundMail; readonly position: MboxPosition};

const longestFirstLine = 1024;

/** The first line of what is read from `offset` on, without its end. */
async function lineAt(file: FileHandle, offset: number): Promise<string> {
	const {buffer, bytesRead} = await file.read({buffer: Buffer.alloc(longestFirstLine), position: offset});
	return (buffer.toString('latin1', 0, bytesRead).split('\n')[0] as string).replace(/\r$/, '');
}

/** Whether a file is an mbox: its first line begins a mail. */
export async function isMbox(file: FileHandle): Promise<boolean> {
	return isFromLine(await lineAt(file, 0));
}

/**
 * Where to go on reading: at the position, or at 0 when another file has that name now, or the file was written anew, so
 * that the mail is not there any more.
 */
export async function startOf(file: FileHandle, position: MboxPosition | null): Promise<number> {
	if (position === null) {
		return 0;
	}
	const {dev, ino, size} = await file.stat();
	const same = dev === position.device && ino === position.inode && position.offset < size;
	return same && (await lineAt(file, position.offset)) === position.line ? position.offset : 0;
}

/** The mails of an mbox from an offset on, in bounded memory; `onRead` hears how far the file was read. */
export async function* mailsOfMbox(
	file: FileHandle,
	start: number,
	onRead: (offset: number) => void,
): AsyncGenerator<FoundInMbox> {
	const {dev: device, ino: inode} = await file.stat();
	const splitter = createMboxSplitter(longestMail, start);
	const found = ({offset, line, bytes, size}: ReturnType<typeof splitter.end>[number]): FoundInMbox => ({
		found: foundMail('mbox', bytes, size),
		position: {device, inode, offset, line},
	});
	let read = start;
	for await (const chunk of file.createReadStream({start, autoClose: false}) as AsyncIterable<Buffer>) {
		yield* splitter.push(chunk).map(found);
		read += chunk.length;
		onRead(read);
	}
	yield* splitter.end().map(found);
}

/** The position as it is stored; null for what cannot be read. */
export function parsePosition(text: string | null): MboxPosition | null {
	return text === null ? null : JSON.parse(text);
}
