import {attemptText, engagementText, eventText, reportText, textOrNull} from '../admin/timeline-text.ts';
import {linkBase} from '../config/derive.ts';
import {capturedFile, RecipientMails} from '../daemon/recipient-mails.ts';
import {liveDaemon} from '../data-folder/daemon-file.ts';
import type {StoredMessage} from '../store/messages.ts';
import type {EngagementCount, StoredAttempt, StoredRecipient} from '../store/recipients.ts';
import type {StoredReport} from '../store/reports.ts';
import type {StoredEvent} from '../store/timeline.ts';
import {CliError} from './fault.ts';
import type {Session} from './session.ts';
import {fields, folded, nextTry, printable, shortTime, table, wrapped} from './terminal-text.ts';

/** What happened to recipients after delivery. */
type Afterwards = {
	readonly engagement: readonly EngagementCount[];
	readonly reports: readonly StoredReport[];
};

/** What `message show` prints for people: the message, its timeline, each recipient with its tries, reports, opens and clicks. */
export function describe(
	session: Session,
	message: StoredMessage,
	events: readonly StoredEvent[],
	recipients: readonly StoredRecipient[],
	{engagement, reports}: Afterwards,
): string[] {
	const {bold, width} = session.terminal;
	return [
		...fields([
			['id', message.id],
			['status', message.status],
			['from', message.from],
			['to', message.to],
			...(message.cc.length > 0 ? ([['cc', message.cc.join(', ')]] as const) : []),
			['subject', message.subject],
			['template', `${message.templateName} version ${message.templateVersion}`],
			...(message.mode === 'test' ? ([['mode', 'test']] as const) : []),
			...(message.resentFrom === null ? [] : ([['resent from', message.resentFrom]] as const)),
		]),
		'',
		bold('Timeline (UTC)'),
		...table<StoredEvent>(
			[
				{title: 'TIME', cell: event => event.occurredAt.slice(0, 23).replace('T', ' ')},
				{title: 'EVENT', cell: event => event.type},
				{title: 'RECIPIENT', cell: event => textOrNull(event.detail.recipient), cut: true},
				{title: 'DETAIL', cell: event => eventText(event), cut: true},
			],
			events,
			width,
		),
		...recipients.flatMap(recipient => [
			'',
			bold(`${recipient.role} ${printable(recipient.address)}: ${status(recipient, session.tools.clock.now())}`),
			...recipient.attempts.flatMap(attempt => attemptLines(attempt, width)),
			...captured(session, recipient),
			...reports.filter(({recipientId}) => recipientId === recipient.id).flatMap(report => reportLines(report, width)),
			...engagement.filter(({recipientId}) => recipientId === recipient.id).flatMap(counted),
		]),
	];
}

function status({state, next_attempt_at: next}: StoredRecipient, now: number): string {
	return next === null ? state : `${state}, ${nextTry(next, now)}`;
}

function captured(session: Session, {id}: StoredRecipient): string[] {
	const file = capturedFile(session.settings().dataDir, id);
	return file === null ? [] : [`  captured in ${printable(file)}`];
}

function counted(count: EngagementCount): string[] {
	return [
		`  ${engagementText(count)}, last ${shortTime(count.lastAt)} UTC`,
		...(count.kind === 'clicked' ? [`     ${printable(count.url)}`] : []),
	];
}

/**
 * One conversation for people: where and when, how far it came, the reply in full and, where it was kept, what was said.
 * Everything that came from outside is made safe to print.
 */
export function attemptLines(attempt: StoredAttempt, width: number): string[] {
	const {n, at, dialogue} = attempt;
	const {where, how, reply} = attemptText(attempt);
	return [
		`  ${n}. ${shortTime(at)}  ${printable(where)}`,
		...wrapped(printable(how), width, '     '),
		...reply.flatMap(line => wrapped(printable(line), width, '     ')),
		...(dialogue?.split('\n') ?? []).flatMap(line => saidLines(printable(line.trimEnd()), width)),
	];
}

/** `    12 S: 250 Ok`: what is too long goes on under itself. */
function saidLines(line: string, width: number): string[] {
	const head = /^ *\d+ [CS*]: /.exec(line)?.[0] ?? '';
	const bar = '     | ';
	const [first = '', ...rest] = wrapped(line.slice(head.length), width - bar.length - head.length);
	return [`${bar}${head}${first}`, ...rest.map(more => `${bar}${' '.repeat(head.length)}${more}`)];
}

/** What came back about a recipient, for people: what it is and says, how it was judged, and the text of it. */
function reportLines(report: StoredReport, width: number): string[] {
	const {at, said, notes, reason} = reportText(report);
	return [
		`  report ${shortTime(at)}  ${printable(said)}`,
		...(notes.length === 0 ? [] : wrapped(printable(notes.join(', ')), width, '     ')),
		...(reason === '' ? [] : folded(printable(reason), width, '     ')),
	];
}

/** As a script reads it. */
export function storedReportView(report: StoredReport) {
	const {detail, kind, category, rule, matched} = report;
	return {
		id: report.id,
		at: textOrNull(detail.received_at) ?? report.createdAt,
		kind,
		action: textOrNull(detail.action),
		type: textOrNull(detail.type),
		category,
		status: textOrNull(detail.status),
		code: typeof detail.code === 'number' ? detail.code : null,
		host: textOrNull(detail.host),
		rule,
		matched,
		suppresses: detail.suppresses === true,
		recipient: textOrNull(detail.recipient),
		reason: textOrNull(detail.reason),
		feedback_type: textOrNull(detail.feedback_type),
		source: textOrNull(detail.source),
		via: textOrNull(detail.via),
	};
}

/** The mail of a recipient: what was captured, else made again as the daemon makes it. */
export async function rawMail(session: Session, workspaceId: string, recipientId: string): Promise<Uint8Array> {
	const settings = session.settings();
	const recipients = new RecipientMails({
		settings,
		store: await session.store(),
		vault: await session.vault(),
		secrets: await session.secrets(),
		clock: session.tools.clock,
		publicUrl: () => linkBase(settings, liveDaemon(settings.dataDir)?.http),
	});
	const captured = await recipients.captured(recipientId);
	if (captured !== null) {
		return captured;
	}
	const made = await recipients.remade(workspaceId, recipientId);
	if (made === 'no_sender') {
		throw new CliError('unavailable', 'the mail cannot be made again: its sender was removed', 'add the sender again');
	}
	session.terminal.warn('mailctl: not captured, so made again: the signatures and the link’s token are other ones');
	if (!made.ok) {
		throw new CliError('data', `the mail cannot be made: ${made.message}`, 'correct the template and send again');
	}
	return made.mail;
}
