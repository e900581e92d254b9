import type {Command} from 'commander';
import {letterOf, reviewOf, tokenFaults, whyOf} from '../admin/kept-mail.ts';
import type {Report} from '../mail/report.ts';
import {findKept, type KeptMail, listKept, readRaw} from '../store/inbound-mails.ts';
import {explainCommand, reportView} from './bounce-explain.ts';
import {ingestCommand} from './bounce-ingest.ts';
import {CliError} from './fault.ts';
import {count} from './options.ts';
import {verb} from './program.ts';
import {action, type Session} from './session.ts';
import {fields, folded, type Noun, printable, shortTime} from './text.ts';

export function bounceCommands(bounce: Command): void {
	ingestCommand(bounce);
	unmatchedCommand(bounce);
	explainCommand(bounce);
}

type Options = {limit: number; raw?: true};

export function unmatchedCommand(bounce: Command): void {
	verb(
		bounce,
		'unmatched [id]',
		'List mails that came back and proved to be about no mail of ours, or show one',
		'mailctl bounce unmatched 3f9a0c1b2d4e --raw > mail.eml',
	)
		.option('--limit <n>', 'at most this many, the newest', count('--limit', 1, 10_000), 25)
		.option('--raw', 'print the mail itself, as it came (its first 256 KiB)')
		.action(
			action<Options, [string?]>(async (session, options, id) => {
				if (id === undefined) {
					await list(session, options);
				} else {
					await show(session, options, id);
				}
			}),
		);
}

const keptMails: Noun<KeptMail> = {
	none: 'no mail is kept: every report found its copy',
	json: view,
	fields: [
		{title: 'ID', cell: ({id}) => id.slice(0, shownId)},
		{title: 'UTC', cell: ({receivedAt}) => shortTime(receivedAt).slice(5, 16)},
		{title: 'KEPT', cell: ({kept}) => kept},
		{title: 'KIND', cell: mail => reviewOf(mail).kind},
		// Whom a report names; who wrote to the operator, and about what.
		{title: 'WHO', cell: mail => letterOf(mail)?.from ?? reviewOf(mail).reports[0]?.recipient ?? null, cut: true},
		{title: 'WHY', cell: mail => letterOf(mail)?.subject ?? whyOf(mail), cut: true},
	],
};

async function list(session: Session, {limit, raw}: Options): Promise<void> {
	if (raw) {
		throw new CliError('usage', '--raw needs to know of which mail', 'add its id: mailctl bounce unmatched ID --raw');
	}
	const mails = await listKept(await session.reader(), limit);
	session.list(keptMails, mails);
}

async function show(session: Session, {raw}: Options, id: string): Promise<void> {
	const reader = await session.reader();
	const [mail, another] = /^[0-9a-f]{6,64}$/.test(id) ? await findKept(reader, id) : [];
	if (!mail) {
		throw new CliError('data', `there is no kept mail ${id}`, 'see mailctl bounce unmatched');
	}
	if (another) {
		throw new CliError('usage', `several ids begin with ${id}`, 'give more of it');
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
		why: whyOf(mail),
		kind,
		mail_from: mail.mailFrom,
		rcpt_to: mail.rcptTo,
		...letterOf(mail),
		size: mail.size,
		fault: mail.fault,
		reports: reports.map(reportView),
		tried,
	};
}

function describe(mail: KeptMail, width: number): string[] {
	const {kind, reports, tried} = reviewOf(mail);
	const letter = letterOf(mail);
	return [
		...fields([
			['id', mail.id],
			['received', `${shortTime(mail.receivedAt)} UTC, by ${mail.source}, ${mail.size} octets`],
			['from', mail.mailFrom === '' ? '<> (null sender)' : mail.mailFrom],
			['for', mail.rcptTo.join(', ') || null],
			...(letter
				? ([
						['written by', letter.from],
						['subject', letter.subject],
					] as const)
				: []),
			['kept', `${mail.kept}: ${whyOf(mail)}`],
			['kind', kind],
			...tried.map(
				({via, id, fault}) => ['tried', `${id} by ${via.replaceAll('_', ' ')}: ${tokenFaults[fault]}`] as const,
			),
		]),
		...reports.flatMap(report => reportLines(report, width)),
		'',
		`The mail itself: mailctl bounce unmatched ${mail.id.slice(0, shownId)} --raw`,
	];
}

function reportLines({recipient, action: did, status, category, reason}: Report, width: number): string[] {
	const what = [did, status, category].filter(each => each !== null).join(', ');
	return ['', printable(`${recipient ?? 'nobody named'}: ${what}`), ...folded(printable(reason), width, '  ')];
}
