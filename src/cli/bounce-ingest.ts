import {resolve} from 'node:path';
import process from 'node:process';
import {
	type FoundMail,
	isMbox,
	type MailFile,
	type MboxPosition,
	mailFiles,
	mailsOfMbox,
	mailsOfStream,
	parsePosition,
	readMailFile,
	startOf,
} from '../inbound/mail-files.ts';
import {takeAll} from '../inbound/take-in.ts';
import {openRegular, RefusedFileError} from '../kit/regular-file.ts';
import {storeTime} from '../kit/time.ts';
import {readCheckpoint, saveCheckpoint} from '../store/inbound-mails.ts';
import {countLines, createIntake, type Intake} from './bounce-intake.ts';
import {CliError, exitCodes, report} from './fault.ts';
import {collect} from './options.ts';
import type {CliCommand} from './program.ts';
import type {Session} from './session.ts';
import {grouped} from './text.ts';

type IngestOptions = {rcpt?: string[]; again?: boolean};

export function ingestCommand(bounce: CliCommand): void {
	bounce
		.verb(
			'ingest [paths...]',
			'Import bounces and complaints: an mbox, a Maildir, mails, folders of them, or standard input',
		)
		.sample('mailctl bounce ingest /var/mail/bounces')
		.option('--rcpt <address>', 'whom the mail on standard input was for; several', collect)
		.option('--again', 'read an mbox from its beginning, not from where it was read before')
		.does<IngestOptions, [string[]]>(ingest);
}

async function ingest(
	session: Session,
	{rcpt = [], again = false}: IngestOptions,
	paths: readonly string[],
): Promise<void> {
	const files = paths.filter(path => path !== '-');
	if (files.length > 0) {
		if (rcpt.length > 0) {
			throw new CliError('usage', '--rcpt is for one mail on standard input', `leave out ${files[0]} or --rcpt`);
		}
		if (files.length < paths.length) {
			throw new CliError('usage', 'standard input and files cannot be read together', 'leave one of them out');
		}
		return await ingestPaths(session, files, again);
	}
	if (process.stdin.isTTY) {
		throw new CliError('usage', 'there is nothing on standard input', 'name a file or a folder, or pipe a mail in');
	}
	try {
		await ingestStream(session, rcpt.map(bare));
	} catch (error) {
		throw asTemporary(error);
	}
}

/** As the listener stores it: servers differ in brackets and case. */
function bare(address: string): string {
	return address
		.trim()
		.replace(/^<(.*)>$/, '$1')
		.toLowerCase();
}

/**
 * A mail server that pipes mail in tries again after 75 and returns the mail to its sender after anything else: what it
 * holds must not be lost because of us. A mail that was stored is not asked for again.
 */
function asTemporary(error: unknown): unknown {
	const {lines, exitCode} = report(error);
	if (exitCode === exitCodes.usage || exitCode === exitCodes.data) {
		return error;
	}
	const wrong = lines.map(line => line.replace(/^mailctl: /, '')).join(' ');
	return new CliError('temporary', `it was not taken in: ${wrong}`, 'bring the mail again later');
}

async function ingestStream(session: Session, rcptTo: readonly string[]): Promise<void> {
	const intake = await createIntake(session, rcptTo);
	const progress = session.progress('mails');
	try {
		const mails = mailsOfStream(process.stdin, {single: rcptTo.length > 0});
		const drain = nowAndThen(async () => {
			progress.show(intake.counts.mails, null);
			await intake.drain();
		});
		for await (const _ of takeAll(asFound(mails), intake.takeIn)) {
			await drain();
		}
		await intake.end();
	} finally {
		progress.end();
	}
	if (intake.counts.mails === 0) {
		throw new CliError('data', 'there is no mail on standard input', 'pipe a mail or an mbox in');
	}
	show(session, intake, {noMail: 0, failed: []});
}

async function* asFound(mails: AsyncIterable<FoundMail>): AsyncGenerator<{readonly found: FoundMail}> {
	for await (const found of mails) {
		yield {found};
	}
}

const someMails = 128;

/** Calls it after each such number of mails. */
function nowAndThen(drain: () => Promise<void>): () => Promise<void> {
	let count = 0;
	return async () => {
		count++;
		if (count % someMails === 0) {
			await drain();
		}
	};
}

async function ingestPaths(session: Session, paths: readonly string[], again: boolean): Promise<void> {
	const files = (await Promise.all(paths.map(listMailFiles))).flat();
	const total = files.reduce((sum, {size}) => sum + size, 0);
	const reader = await session.reader();
	const intake = await createIntake(session, []);
	const progress = session.progress('mails');
	const passed: Passed = {noMail: 0, failed: []};
	const reached = new Map<string, string>();
	const mails = mailsOfFiles({
		files,
		positionOf: async mailbox => (again ? null : parsePosition(await readCheckpoint(reader, mailbox))),
		onRead: octets => progress.show(intake.counts.mails, octets / Math.max(1, total)),
		passed,
	});

	async function saveReached(): Promise<void> {
		const at = storeTime(session.tools.clock.now());
		await session.write(async trx => {
			for (const [mailbox, position] of reached) {
				await saveCheckpoint(trx, {mailbox, position, at});
			}
		});
		reached.clear();
	}

	const drain = nowAndThen(async () => {
		await saveReached();
		await intake.drain();
	});
	let failure: unknown;
	try {
		for await (const {mail} of takeAll(mails, intake.takeIn)) {
			if (mail.checkpoint) {
				reached.set(mail.checkpoint.mailbox, JSON.stringify(mail.checkpoint.position));
			}
			await drain();
		}
		await saveReached();
		failure = await intake.end();
	} finally {
		progress.end();
	}
	show(session, intake, passed);
	if (failure !== undefined) {
		throw failure;
	}
	refuseFailed(paths.join(', '), files.length, passed, intake.counts.mails);
}

function show(session: Session, {counts}: Intake, {noMail, failed}: Passed): void {
	session.show({...counts, files_without_mail: noMail, files_failed: failed.length}, () => [
		...countLines(counts),
		...(noMail > 0 ? [`${grouped(noMail)} ${noMail === 1 ? 'file' : 'files'} without mail`] : []),
	]);
}

const mostNamed = 10;

function refuseFailed(path: string, files: number, {failed, noMail}: Passed, mails: number): void {
	if (failed.length > 0) {
		const named = failed.slice(0, mostNamed).map(({path: file, message}) => `${file}: ${message}`);
		const more = failed.length > mostNamed ? [`and ${grouped(failed.length - mostNamed)} more`] : [];
		const wrong = `${grouped(failed.length)} of ${grouped(files)} files could not be read`;
		throw new CliError('io', wrong, 'let this user read them and run it again', [...named, ...more]);
	}
	if (mails === 0 && noMail > 0) {
		throw new CliError('data', `there is no mail in ${path}`, 'name an mbox, a Maildir, a mail or a folder of mails');
	}
}

/** A mail of a file; of an mbox with what is to be written down once it is taken in. */
type FoundInFiles = {
	readonly found: FoundMail;
	readonly checkpoint: {readonly mailbox: string; readonly position: MboxPosition} | null;
};

/** The results of files that gave no mail. */
type Passed = {
	/** Files without mail in them. */
	noMail: number;
	/** Files that could not be read, and why. */
	readonly failed: Array<{readonly path: string; readonly message: string}>;
};

type FilesOptions = {
	readonly files: readonly MailFile[];
	/** How far an mbox was read; null: from its beginning. */
	readonly positionOf: (mailbox: string) => Promise<MboxPosition | null>;
	/** Of all octets, how many were looked at. */
	readonly onRead: (octets: number) => void;
	readonly passed: Passed;
};

/** The files of a path. Bad data (65) where it leads nowhere. */
async function listMailFiles(path: string): Promise<MailFile[]> {
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
async function* mailsOfFiles(options: FilesOptions): AsyncGenerator<FoundInFiles> {
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
