import {readdir, readFile, stat} from 'node:fs/promises';
import path from 'node:path';
import type {Command} from 'commander';
import {classify} from '../bounce/classify.ts';
import type {Reading, Report} from '../mail/report.ts';
import {readReport} from '../report/read-report.ts';
import {explained} from './bounce-text.ts';
import {CliError} from './fault.ts';
import {readInput} from './files.ts';
import {verb} from './program.ts';
import {action, type Session} from './session.ts';

export function explainCommand(bounce: Command): void {
	verb(
		bounce,
		'explain [files...]',
		'Say how bounces and complaints are read, and why; changes nothing',
		'mailctl bounce explain returned.eml',
	).action(action<object, [string[]]>(explain));
}

async function explain(session: Session, _options: object, names: readonly string[]): Promise<void> {
	const [name = '-'] = names;
	const folder = name !== '-' && (await isFolder(name));
	if (names.length <= 1 && !folder) {
		const reading = readReport(await readInput(name), classify);
		session.show(viewOf(reading), () => explained(reading, session.terminal.width));
		return;
	}
	await explainAll(session, names);
}

/** One after the other, each printed as soon as it is read. */
async function explainAll(session: Session, names: readonly string[]): Promise<void> {
	const {terminal, json} = session;
	let first = true;
	for await (const file of filesOf(names)) {
		const reading = readReport(await bytesOf(file), classify);
		const text = json
			? `${first ? '[' : ','}\n${JSON.stringify({file, ...viewOf(reading)})}`
			: [...(first ? [] : ['']), terminal.bold(file), ...explained(reading, terminal.width)]
					.map(line => `${line}\n`)
					.join('');
		first = false;
		if (!(await terminal.pour(text))) {
			return;
		}
	}
	if (json) {
		await terminal.pour(first ? '[]\n' : '\n]\n');
	} else if (first) {
		throw new CliError('data', 'there is no file in the folder', 'name a folder with mails');
	}
}

/** A file that cannot be read is a mail that says nothing. */
async function bytesOf(file: string): Promise<Buffer> {
	return await readFile(file).catch(() => Buffer.alloc(0));
}

async function isFolder(name: string): Promise<boolean> {
	return (await stat(name).catch(() => null))?.isDirectory() ?? false;
}

/** Files as they were named, and every file of a folder, by name, with those in its folders; none that is hidden. */
async function* filesOf(names: readonly string[]): AsyncGenerator<string> {
	for (const name of names) {
		if (!(await isFolder(name))) {
			yield name;
			continue;
		}
		const entries = await readdir(name, {recursive: true, withFileTypes: true});
		const files = entries.filter(entry => entry.isFile()).map(entry => path.join(entry.parentPath, entry.name));
		yield* files
			.filter(
				file =>
					!path
						.relative(name, file)
						.split(path.sep)
						.some(part => part.startsWith('.')),
			)
			.toSorted();
	}
}

/** A reading as scripts see it. */
export function viewOf({kind, reports, fault}: Reading) {
	return {kind, reports: reports.map(reportView), ...(fault !== null && {fault})};
}

function reportView(report: Report) {
	return {
		recipient: report.recipient,
		original_recipient: report.originalRecipient,
		action: report.action,
		status: report.status,
		type: report.type,
		category: report.category,
		suppresses: report.suppresses,
		reason: report.reason,
		code: report.code,
		host: report.host,
		rule: report.rule,
		matched: report.matched,
		feedback_type: report.feedbackType,
	};
}
