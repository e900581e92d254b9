import {stat} from 'node:fs/promises';
import {CliError} from '../../cli/fault.ts';
import {readInput} from '../../cli/files.ts';
import {count, oneOf} from '../../cli/options.ts';
import type {CliCommand} from '../../cli/program.ts';
import type {Session} from '../../cli/session.ts';
import type {Terminal} from '../../cli/terminal.ts';
import {fields, folded, type Noun, printable, shortTime} from '../../cli/terminal-text.ts';
import {loadBounceRules} from '../../config/bounce-rules.ts';
import {mailFiles} from '../../inbound/mail-files.ts';
import {mailOfReport} from '../../inbound/reports/aggregate-report.ts';
import {kindOf, type Row, replyRows, reportRows, toEvidence} from '../../inbound/reports/explain.ts';
import {readReport} from '../../inbound/reports/read-report.ts';
import {openRegular} from '../../kit/regular-file.ts';
import type {Classify} from '../../mail/bounce.ts';
import {createClassify} from '../../mail/classify-reply.ts';
import {type Phase, phases} from '../../mail/outcome.ts';
import type {Reading, Report} from '../../mail/report.ts';
import {ingestCommand} from './bounce-ingest-cli.ts';
import {operatorMail, retentionReason, reviewOf, tokenProblems} from './kept-mail.ts';
import {findKept, type KeptMail, listKept, readRaw} from './kept-store.ts';

export function bounceCommands(bounce: CliCommand): void {
	ingestCommand(bounce);
	unmatchedCommand(bounce);
	explainCommand(bounce);
}

type Options = {limit: number; raw?: true};

export function unmatchedCommand(bounce: CliCommand): void {
	bounce
		.verb('unmatched [id]', 'List reports that match none of your messages, or show one')
		.sample('mailctl bounce unmatched 3f9a0c1b2d4e --raw > mail.eml')
		.option('--limit <n>', 'at most this many of the newest', count('--limit', 1, 10_000), 25)
		.option('--raw', 'print the message as received (its first 256 KiB)')
		.does<Options, [string?]>(async (session, options, id) => {
			if (id === undefined) {
				await list(session, options);
			} else {
				await show(session, options, id);
			}
		});
}

const keptMails: Noun<KeptMail> = {
	none: 'no messages are retained: every report matched a recipient',
	json: view,
	fields: [
		{title: 'ID', cell: ({id}) => id.slice(0, shownId)},
		{title: 'UTC', cell: ({receivedAt}) => shortTime(receivedAt).slice(5, 16)},
		{title: 'KEPT', cell: ({kept}) => kept},
		{title: 'KIND', cell: mail => reviewOf(mail).kind},
		// A report shows the recipient that it names; a message to the operator shows its author and subject.
		{
			title: 'ABOUT',
			cell: mail => operatorMail(mail)?.from ?? reviewOf(mail).reports[0]?.recipient ?? null,
			cut: true,
		},
		{title: 'REASON', cell: mail => operatorMail(mail)?.subject ?? retentionReason(mail), cut: true},
	],
};

async function list(session: Session, {limit, raw}: Options): Promise<void> {
	if (raw) {
		throw new CliError('usage', '--raw needs an id', 'add its id: mailctl bounce unmatched ID --raw');
	}
	const messages = await listKept(await session.reader(), limit);
	session.list(keptMails, messages);
}

async function show(session: Session, {raw}: Options, id: string): Promise<void> {
	const reader = await session.reader();
	const [mail, other] = /^[0-9a-f]{6,64}$/.test(id) ? await findKept(reader, id) : [];
	if (!mail) {
		throw new CliError('data', `retained message ${id} not found`, 'see mailctl bounce unmatched');
	}
	if (other) {
		throw new CliError('usage', `${id} is ambiguous`, 'use a longer prefix');
	}
	if (raw) {
		session.terminal.write((await readRaw(reader, mail.id)) ?? Buffer.alloc(0));
		return;
	}
	session.show(view(mail), () => describe(mail, session.terminal.width));
}

const shownId = 12;
function view(mail: KeptMail) {
	const {kind, reports, tried} = reviewOf(mail);
	return {
		id: mail.id,
		received_at: mail.receivedAt,
		source: mail.source,
		kept: mail.kept,
		why: retentionReason(mail),
		kind,
		mail_from: mail.mailFrom,
		rcpt_to: mail.rcptTo,
		...operatorMail(mail),
		size: mail.size,
		fault: mail.fault,
		reports: reports.map(reportView),
		tried,
	};
}

function describe(mail: KeptMail, width: number): string[] {
	const {kind, reports, tried} = reviewOf(mail);
	const header = operatorMail(mail);
	return [
		...fields([
			['id', mail.id],
			['received', `${shortTime(mail.receivedAt)} UTC, by ${mail.source}, ${mail.size} octets`],
			['from', mail.mailFrom === '' ? '<> (null sender)' : mail.mailFrom],
			['for', mail.rcptTo.join(', ') || null],
			...(header
				? ([
						['written by', header.from],
						['subject', header.subject],
					] as const)
				: []),
			['kept', `${mail.kept}: ${retentionReason(mail)}`],
			['kind', kind],
			...tried.map(
				({via, id, fault}) =>
					['tried', `${id} by ${via.replaceAll('_', ' ')}: ${tokenProblems[fault]}`] as const,
			),
		]),
		...reports.flatMap(report => reportLines(report, width)),
		'',
		`The message itself: mailctl bounce unmatched ${mail.id.slice(0, shownId)} --raw`,
	];
}

function reportLines({recipient, action, status, category, reason}: Report, width: number): string[] {
	const facts = [action, status, category].filter(part => part !== null).join(', ');
	return ['', printable(`${recipient ?? 'unnamed recipient'}: ${facts}`), ...folded(printable(reason), width, '  ')];
}

type ExplainOptions = {reply?: string; phase?: Phase; mx?: string};

export function explainCommand(bounce: CliCommand): void {
	bounce
		.verb('explain [files...]', 'Explain how bounces and complaints are classified; changes nothing')
		.sample('mailctl bounce explain returned.eml')
		.addHelpText(
			'after',
			`
Each file is a single message; - or no file is standard input. In a folder,
every file is read except hidden ones, including its subfolders; in a Maildir,
its messages.
For a reply: mailctl bounce explain --reply '550 5.1.1 no such user'`,
		)
		.option('--reply <text>', 'explain the reply of a mail server instead of a message')
		.option('--phase <phase>', `the command that was replied to: ${phases.join(', ')} (rcpt)`, phase)
		.option('--mx <host>', 'the mail server that sent the reply')
		.does<ExplainOptions, [string[]]>(explain);
}

async function explain(session: Session, options: ExplainOptions, names: readonly string[]): Promise<void> {
	const classify = createClassify(loadBounceRules(session.settings()));
	if (options.reply !== undefined) {
		explainReply(session, classify, {...options, reply: options.reply}, names);
		return;
	}
	if (options.phase !== undefined || options.mx !== undefined) {
		throw new CliError('usage', '--phase and --mx need --reply', "add --reply '550 …'");
	}
	const [name = '-'] = names;
	if (names.filter(file => file === '-').length > 1) {
		throw new CliError('usage', 'standard input can be read only once', 'leave out one -');
	}
	if ((name === '-' || names.includes('-')) && session.terminal.canAsk) {
		session.terminal.warn('mailctl: paste the message, then press Ctrl-D on an empty line');
	}
	if (names.length <= 1 && !(await isFolder(name))) {
		const bytes = await readInput(name);
		const mail = mailOfReport(bytes) ?? bytes;
		if (typeof mail === 'string') {
			throw new CliError(
				'data',
				`no message found in ${name}: ${mail}`,
				'name a message, or a report saved on its own',
			);
		}
		const reading = readReport(mail, classify);
		session.show(toView(reading), () => explained(reading, session.terminal));
		return;
	}
	await explainAll(session, classify, names);
}

function explainReply(
	session: Session,
	classify: Classify,
	{reply, phase = 'rcpt', mx}: ExplainOptions & {readonly reply: string},
	names: readonly string[],
): void {
	if (names.length > 0) {
		throw new CliError('usage', '--reply and files cannot be combined', 'leave one of them out');
	}
	const read = toEvidence(reply, phase, mx ?? null);
	if (!read.ok) {
		throw new CliError('data', read.problem, read.fix);
	}
	const {code, enhanced, host} = read.evidence;
	const judgement = classify(read.evidence);
	session.show({reply, phase, host, code, status: enhanced, ...judgement}, () =>
		rows(replyRows(judgement), session.terminal),
	);
}

/** Explains the files in order and prints each one at once. */
async function explainAll({terminal, json}: Session, classify: Classify, names: readonly string[]): Promise<void> {
	let count = 0;
	for await (const file of streamFiles(names)) {
		const input = file === '-' ? await readInput(file) : await headOf(file);
		if (input === null) {
			terminal.warn(`mailctl: ${file} cannot be read and is skipped`);
		}
		const bytes = input ?? Buffer.alloc(0);
		const mail = mailOfReport(bytes) ?? bytes;
		if (typeof mail === 'string') {
			terminal.warn(`mailctl: no message found in ${file}: ${mail}`);
		}
		const reading = readReport(typeof mail === 'string' ? Buffer.alloc(0) : mail, classify);
		const text = json
			? `${count === 0 ? '[' : ','}\n${JSON.stringify({file, ...toView(reading)})}`
			: `${count === 0 ? '' : '\n'}${[terminal.bold(file), ...explained(reading, terminal)].join('\n')}\n`;
		count++;
		if (!(await terminal.writeText(text))) {
			return;
		}
	}
	if (json) {
		await terminal.writeText(count === 0 ? '[]\n' : '\n]\n');
	} else if (count === 0) {
		throw new CliError('data', 'the folder contains no files', 'name a folder with messages');
	}
}

/** Yields the named files, whether they exist or not, and for a folder the files in it; see `mailFiles`. */
async function* streamFiles(names: readonly string[]): AsyncGenerator<string> {
	for (const name of names) {
		if (!(await isFolder(name))) {
			yield name;
			continue;
		}
		for await (const {path} of mailFiles(name)) {
			yield path;
		}
	}
}

async function isFolder(name: string): Promise<boolean> {
	return name !== '-' && ((await stat(name).catch(() => null))?.isDirectory() ?? false);
}

/** No returned message is longer, but a folder may contain files of any size. */
const maxMailBytes = 32 * 1024 * 1024;

/** Reads the first 32 MiB of a file. Returns `null` if it cannot be read. */
async function headOf(name: string): Promise<Buffer | null> {
	const opened = await openRegular(name, 'follow').catch(() => null);
	try {
		const bytes = Buffer.alloc(Math.min(opened?.size ?? 0, maxMailBytes));
		const {bytesRead} = (await opened?.file.read(bytes)) ?? {bytesRead: 0};
		return opened === null ? null : bytes.subarray(0, bytesRead);
	} catch {
		return null;
	} finally {
		await opened?.file.close();
	}
}

const phase = oneOf('--phase', phases);

/** Returns a reading for scripts. */
function toView({kind, reports, fault}: Reading) {
	// Scripts rely on the kinds that existed before these two.
	const stableKind = kind === 'dmarc' || kind === 'tls' ? 'other' : kind;
	return {kind: stableKind, reports: reports.map(reportView), ...(fault !== null && {fault})};
}

/** Explains to people how a message is read and why, in lines that fit the terminal. */
function explained(reading: Reading, terminal: Terminal): string[] {
	const {kind, reports, fault} = reading;
	return [
		kindOf(reading),
		...(fault === null ? [] : [`It could not be read completely: ${fault}.`]),
		...reports.flatMap(report => ['', terminal.bold(named(report)), ...rows(reportRows(kind, report), terminal)]),
	];
}

function named({recipient, originalRecipient}: Report): string {
	const name = printable(recipient ?? 'an unnamed recipient');
	return originalRecipient === null ? name : `${name} (sent to ${printable(originalRecipient)})`;
}

const indent = 2;
const nameWidth = 10;

function rows(pairs: readonly Row[], {width}: Terminal): string[] {
	const margin = ' '.repeat(indent + nameWidth);
	return pairs.flatMap(([name, value]) => {
		const [first = '', ...rest] = folded(printable(value), width, margin);
		return [`${' '.repeat(indent)}${name.padEnd(nameWidth)}${first.slice(margin.length)}`, ...rest];
	});
}

/** Returns a message's report about one recipient, for scripts. */
export function reportView(report: Report) {
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
