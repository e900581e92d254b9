import {resolve} from 'node:path';
import process from 'node:process';
import {CliError, exitCodes, report} from '../../cli/fault.ts';
import {collect} from '../../cli/options.ts';
import type {CliCommand} from '../../cli/program.ts';
import type {Session} from '../../cli/session.ts';
import {grouped} from '../../cli/terminal-text.ts';
import {acceptAll} from '../../inbound/accept-inbound.ts';
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
} from '../../inbound/mail-files.ts';
import {mailOfReport} from '../../inbound/reports/aggregate-report.ts';
import {openRegular, RefusedFileError} from '../../kit/regular-file.ts';
import {storeTime} from '../../kit/time.ts';
import {type Intake, startIntake} from './bounce-intake-cli.ts';
import {countLines} from './ingest-counts-cli.ts';
import {readCheckpoint, saveCheckpoint} from './mailbox-store.ts';

type IngestOptions = {rcpt?: string[]; again?: boolean};

export function ingestCommand(bounce: CliCommand): void {
	bounce
		.verb(
			'ingest [paths...]',
			'Import bounces and complaints: an mbox, a Maildir, messages, folders of them, or standard input',
		)
		.sample('mailctl bounce ingest /var/mail/bounces')
		.option('--rcpt <address>', 'recipient of the message on standard input; repeatable', collect)
		.option('--again', 'read an mbox from the beginning, not from where the last import stopped')
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
			throw new CliError('usage', '--rcpt needs a message on standard input', `leave out ${files[0]} or --rcpt`);
		}
		if (files.length < paths.length) {
			throw new CliError('usage', 'standard input and files cannot be combined', 'leave one of them out');
		}
		return await ingestPaths(session, files, again);
	}
	if (process.stdin.isTTY) {
		throw new CliError('usage', 'standard input is a terminal', 'name a file or a folder, or pipe a message in');
	}
	try {
		await ingestStream(session, rcpt.map(bare));
	} catch (error) {
		throw toTemporary(error);
	}
}

/** Normalizes an address as the listener does: servers differ in brackets and case. */
function bare(address: string): string {
	const [, inner = address.trim()] = /^<(.*)>$/.exec(address.trim()) ?? [];
	return inner.toLowerCase();
}

/**
 * Converts an error to exit code 75. A mail server that pipes messages in retries after 75. After any other code, it
 * returns the message to its sender, so it would be lost. A message that was stored already is recognized.
 */
function toTemporary(error: unknown): unknown {
	const {lines, exitCode} = report(error);
	if (exitCode === exitCodes.usage || exitCode === exitCodes.data) {
		return error;
	}
	const reason = lines.map(line => line.replace(/^mailctl: /, '')).join(' ');
	return new CliError('temporary', `the message was not accepted: ${reason}`, 'try again later');
}

async function ingestStream(session: Session, rcptTo: readonly string[]): Promise<void> {
	const intake = await startIntake(session, rcptTo);
	const progress = session.progress('mails');
	try {
		const messages = mailsOfStream(process.stdin, {isSingle: rcptTo.length > 0});
		for await (const _ of acceptAll(asFound(messages), mail => intake.acceptMessage(mail))) {
			await intake.drain(() => progress.show(intake.counts.mails, null));
		}
		await intake.end();
	} finally {
		progress.end();
	}
	if (intake.counts.mails === 0) {
		throw new CliError('data', 'no message found on standard input', 'pipe a message or an mbox in');
	}
	show(session, intake, {noMail: [], failed: []});
}

async function* asFound(messages: AsyncIterable<FoundMail>): AsyncGenerator<{readonly found: FoundMail}> {
	for await (const found of messages) {
		yield {found};
	}
}

async function ingestPaths(session: Session, paths: readonly string[], shouldStartOver: boolean): Promise<void> {
	const files = (await Promise.all(paths.map(listMailFiles))).flat();
	const total = files.reduce((sum, {size}) => sum + size, 0);
	const reader = await session.reader();
	const intake = await startIntake(session, []);
	const progress = session.progress('mails');
	const skipped: SkippedFiles = {noMail: [], failed: []};
	const reached = new Map<string, string>();
	const messages = mailsOfFiles({
		files,
		positionOf: async mailbox => (shouldStartOver ? null : parsePosition(await readCheckpoint(reader, mailbox))),
		onRead: octets => progress.show(intake.counts.mails, octets / Math.max(1, total)),
		skipped,
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
	let failure: unknown;
	try {
		for await (const {mail} of acceptAll(messages, mail => intake.acceptMessage(mail))) {
			if (mail.checkpoint) {
				reached.set(mail.checkpoint.mailbox, JSON.stringify(mail.checkpoint.position));
			}
			await intake.drain(saveReached);
		}
		await saveReached();
		failure = await intake.end();
	} finally {
		progress.end();
	}
	show(session, intake, skipped);
	if (failure !== undefined) {
		throw failure;
	}
	refuseFailed(paths.join(', '), files.length, skipped, intake.counts.mails);
}

function show(session: Session, {counts}: Intake, {noMail, failed}: SkippedFiles): void {
	const {length: n} = noMail;
	session.show({...counts, files_without_mail: n, files_failed: failed.length}, () => [
		...countLines(counts),
		...(n > 0 ? [`${grouped(n)} ${n === 1 ? 'file' : 'files'} without messages`] : []),
	]);
}

const maxNamed = 10;
const pathHint = 'name an mbox, a Maildir, a message or a folder of messages';

function refuseFailed(path: string, files: number, {failed, noMail}: SkippedFiles, messageCount: number): void {
	if (failed.length > 0) {
		const named = failed.slice(0, maxNamed).map(({path: file, message}) => `${file}: ${message}`);
		const more = failed.length > maxNamed ? [`and ${grouped(failed.length - maxNamed)} more`] : [];
		const wrong = `${grouped(failed.length)} of ${grouped(files)} files could not be read`;
		throw new CliError('io', wrong, 'give this user read access and run it again', [...named, ...more]);
	}
	if (messageCount === 0 && noMail.length > 0) {
		const wrong = [`no message found in ${path}`, files === 1 ? noMail[0] : null].filter(Boolean).join(': ');
		throw new CliError('data', wrong, pathHint);
	}
}

/** A message in a file; for an mbox, with the checkpoint to save once the message is stored. */
type FoundInFiles = {
	readonly found: FoundMail;
	readonly checkpoint: {readonly mailbox: string; readonly position: MboxPosition} | null;
};

/** The files from which no message was imported. */
type SkippedFiles = {
	/** Why each of these files has no message; `null` if it is some other kind of file. */
	readonly noMail: Array<string | null>;
	/** Files that could not be read, and why. */
	readonly failed: Array<{readonly path: string; readonly message: string}>;
};

type FilesOptions = {
	readonly files: readonly MailFile[];
	/** Returns how far an mbox was read, or `null` to read it from the beginning. */
	readonly positionOf: (mailbox: string) => Promise<MboxPosition | null>;
	/** Receives the number of octets read so far, of all files. */
	readonly onRead: (octets: number) => void;
	readonly skipped: SkippedFiles;
};

/** Returns the files at a path. Throws bad data (65) if the path does not exist. */
async function listMailFiles(path: string): Promise<MailFile[]> {
	const files: MailFile[] = [];
	try {
		for await (const file of mailFiles(path)) {
			files.push(file);
		}
	} catch (error) {
		const {code} = error as NodeJS.ErrnoException;
		throw code === 'ENOENT' || code === 'ENOTDIR'
			? new CliError('data', `${path} does not exist`, pathHint)
			: error;
	}
	return files;
}

/** Yields the messages of all files in order. A file that cannot be read does not stop the others. */
async function* mailsOfFiles(options: FilesOptions): AsyncGenerator<FoundInFiles> {
	const {files, skipped, onRead} = options;
	let octetsBefore = 0;
	for (const file of files) {
		const base = octetsBefore;
		try {
			yield* mailsOfFile(file, {...options, onRead: octets => onRead(base + octets)});
		} catch (error) {
			const message = error instanceof RefusedFileError ? error.why : (error as Error).message;
			skipped.failed.push({path: file.path, message});
		}
		octetsBefore += file.size;
		onRead(octetsBefore);
	}
}

async function* mailsOfFile(
	{path, isInMaildir, links}: MailFile,
	{positionOf, onRead, skipped}: FilesOptions,
): AsyncGenerator<FoundInFiles> {
	if (isInMaildir) {
		yield {found: await readMailFile(path, 'maildir', links), checkpoint: null};
		return;
	}
	const {file} = await openRegular(path, links);
	try {
		if (!(await isMbox(file))) {
			const found = await readMailFile(path, 'file', links);
			const raw = looksLikeMail(found.raw) ? found.raw : found.isCut ? null : mailOfReport(await file.readFile());
			if (Buffer.isBuffer(raw)) {
				yield {found: {...found, raw}, checkpoint: null};
			} else {
				skipped.noMail.push(raw);
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

const maxHeadLength = 8192;

/** Whether a file is text with a header field. Folders of messages contain other files too. */
function looksLikeMail(raw: Buffer): boolean {
	const text = raw.toString('latin1', 0, maxHeadLength);
	return !text.includes('\0') && /^[a-z][\w-]{0,75}[ \t]*:/im.test(text);
}
