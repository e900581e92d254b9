import {RefusedFileError} from '../kit/regular-file.ts';
import {type FoundMail, foundMail, longestMail} from './found-mail.ts';
import {createMboxSplitter, isFromLine} from './mbox.ts';

/** A mail that is longer never ends. */
const mostOfMail = 256 * 1024 ** 2;

/**
 * The mails that come in one stream, as standard input. `single`: it is one mail, also if a `From ` line comes first. Throws
 * RefusedFileError where a mail has no end.
 */
export async function* mailsOfStream(
	chunks: AsyncIterable<Buffer>,
	options: {readonly single: boolean},
): AsyncGenerator<FoundMail> {
	let length = 0;
	async function* counted(): AsyncGenerator<Buffer> {
		for await (const chunk of chunks) {
			length += chunk.length;
			if (length > mostOfMail) {
				throw new RefusedFileError('standard input', `holds a mail of more than ${mostOfMail} octets`);
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
	while (!ended && first.length < longestFirstLine && !first.includes('\n')) {
		const next = await stream.next();
		ended = next.done === true;
		first = next.done ? first : Buffer.concat([first, next.value]);
	}
	const rest = {[Symbol.asyncIterator]: () => prefixed(first, stream)};
	const isMbox = isFromLine((first.toString('latin1').split('\n')[0] as string).replace(/\r$/, ''));
	if (isMbox && !single) {
		yield* mailsOfMbox(rest);
	} else {
		yield* oneMail(rest, isMbox ? first.indexOf('\n') + 1 : 0);
	}
}

const longestFirstLine = 1024;

async function* prefixed(first: Buffer, rest: AsyncIterator<Buffer>): AsyncGenerator<Buffer> {
	yield first;
	for (let next = await rest.next(); !next.done; next = await rest.next()) {
		yield next.value;
	}
}

async function* mailsOfMbox(chunks: AsyncIterable<Buffer>): AsyncGenerator<FoundMail> {
	const splitter = createMboxSplitter(longestMail);
	for await (const chunk of chunks) {
		for (const {bytes, size} of splitter.push(chunk)) {
			yield foundMail('stdin', bytes, size);
		}
	}
	for (const {bytes, size} of splitter.end()) {
		yield foundMail('stdin', bytes, size);
	}
}

/** None where nothing comes. */
async function* oneMail(chunks: AsyncIterable<Buffer>, skip: number): AsyncGenerator<FoundMail> {
	const parts: Buffer[] = [];
	let size = -skip;
	for await (const chunk of chunks) {
		const part = size < 0 ? chunk.subarray(-size) : chunk;
		if (size < longestMail) {
			parts.push(part);
		}
		size += chunk.length;
	}
	if (size > 0) {
		yield foundMail('stdin', Buffer.concat(parts), size);
	}
}
