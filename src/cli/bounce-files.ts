import {resolve} from 'node:path';
import type {FoundMail} from '../inbound/found-mail.ts';
import {type MailFile, mailFiles} from '../inbound/mail-files.ts';
import {readMailFile} from '../inbound/maildir.ts';
import {isMbox, type MboxPosition, mailsOfMbox, startOf} from '../inbound/mbox.ts';
import {openRegular, RefusedFileError} from '../mail/regular-file.ts';
import {CliError} from './fault.ts';

/** A mail of a file; of an mbox with what is to be written down once it is taken in. */
export type FoundInFiles = {
	readonly found: FoundMail;
	readonly checkpoint: {readonly mailbox: string; readonly position: MboxPosition} | null;
};

/** What became of files that gave no mail. */
export type Passed = {
	/** Files without mail in them. */
	noMail: number;
	/** Files that could not be read, and why. */
	readonly failed: Array<{readonly path: string; readonly message: string}>;
};

export type FilesOptions = {
	readonly files: readonly MailFile[];
	/** How far an mbox was read; null: from its beginning. */
	readonly positionOf: (mailbox: string) => Promise<MboxPosition | null>;
	/** Of all octets, how many were looked at. */
	readonly onRead: (octets: number) => void;
	readonly passed: Passed;
};

/** The files of a path. Bad data (65) where it leads nowhere. */
export async function listMailFiles(path: string): Promise<MailFile[]> {
	const files: MailFile[] = [];
	try {
		for await (const file of mailFiles(path)) {
			files.push(file);
		}
	} catch (error) {
		const {code} = error as NodeJS.ErrnoException;
		throw code === 'ENOENT' || code === 'ENOTDIR'
			? new CliError('data', `there is no ${path}`, 'name an mbox, a Maildir, a mail or a folder of mails')
			: error;
	}
	return files;
}

/** The mails of all files, one after the other; a file that cannot be read does not keep the others back. */
export async function* mailsOfFiles(options: FilesOptions): AsyncGenerator<FoundInFiles> {
	const {files, passed, onRead} = options;
	let before = 0;
	for (const file of files) {
		const base = before;
		try {
			yield* mailsOfFile(file, {...options, onRead: octets => onRead(base + octets)});
		} catch (error) {
			const message = error instanceof RefusedFileError ? error.why : (error as Error).message;
			passed.failed.push({path: file.path, message});
		}
		before += file.size;
		onRead(before);
	}
}

async function* mailsOfFile(
	{path, inMaildir, links}: MailFile,
	{positionOf, onRead, passed}: FilesOptions,
): AsyncGenerator<FoundInFiles> {
	if (inMaildir) {
		yield {found: await readMailFile(path, 'maildir', links), checkpoint: null};
		return;
	}
	const {file} = await openRegular(path, links);
	try {
		if (!(await isMbox(file))) {
			const found = await readMailFile(path, 'file', links);
			if (looksLikeMail(found.raw)) {
				yield {found, checkpoint: null};
			} else {
				passed.noMail++;
			}
			return;
		}
		const mailbox = `mbox:${resolve(path)}`;
		const start = await startOf(file, await positionOf(mailbox));
		for await (const {found, position} of mailsOfMbox(file, start, onRead)) {
			yield {found, checkpoint: {mailbox, position}};
		}
	} finally {
		await file.close();
	}
}

const lookedAt = 8192;

/** Whether there is text with a header field in it: other files lie in folders of mail too. */
function looksLikeMail(raw: Buffer): boolean {
	const text = raw.toString('latin1', 0, lookedAt);
	return !text.includes('\0') && /^[a-z][\w-]{0,75}[ \t]*:/im.test(text);
}
