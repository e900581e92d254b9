import {capturedFile} from '../daemon/mail-copies.ts';
import type {Phase} from '../mail/outcome.ts';
import type {EngagementCount} from '../store/engagement.ts';
import type {StoredEvent} from '../store/events.ts';
import type {StoredReport} from '../store/inbound/reports.ts';
import type {StoredAttempt, StoredCopy} from '../store/message-copies.ts';
import type {StoredMessage} from '../store/messages.ts';
import type {Session} from './session.ts';
import {fields, folded, nextTry, printable, shortTime, table, wrapped} from './text.ts';

/** What came of copies after they were delivered. */
export type Afterwards = {
	readonly engagement: readonly EngagementCount[];
	readonly reports: readonly StoredReport[];
};

/** What `message show` prints for people: the message, its timeline, each copy with its tries, reports, opens and clicks. */
export function describe(
	session: Session,
	message: StoredMessage,
	events: readonly StoredEvent[],
	copies: readonly StoredCopy[],
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
				{title: 'RECIPIENT', cell: event => text(event.detail.recipient), cut: true},
				{title: 'DETAIL', cell: event => said(event.detail), cut: true},
			],
			events,
			width,
		),
		...copies.flatMap(copy => [
			'',
			bold(`${copy.role} ${printable(copy.address)}: ${standing(copy, session.tools.clock.now())}`),
			...copy.attempts.flatMap(attempt => attemptLines(attempt, width)),
			...captured(session, copy),
			...reports.filter(({recipientId}) => recipientId === copy.id).flatMap(report => reportLines(report, width)),
			...engagement.filter(({recipientId}) => recipientId === copy.id).flatMap(counted),
		]),
	];
}

function standing({state, next_attempt_at: next}: StoredCopy, now: number): string {
	return next === null ? state : `${state}, ${nextTry(next, now)}`;
}

function captured(session: Session, {id}: StoredCopy): string[] {
	const file = capturedFile(session.settings().dataDir, id);
	return file === null ? [] : [`  captured in ${printable(file)}`];
}

function counted({kind, url, n, machineN, lastAt}: EngagementCount): string[] {
	const times = n === 1 ? 'once' : `${n} times`;
	const machines = machineN === 0 ? '' : `, ${machineN} by machine`;
	return [
		`  ${kind} ${times}${machines}, last ${shortTime(lastAt)} UTC`,
		...(kind === 'clicked' ? [`     ${printable(url)}`] : []),
	];
}

function said({reason, code: number, reply, url, machine, topic, via}: StoredEvent['detail']): string | null {
	if (topic !== undefined && typeof via === 'string') {
		return `${text(topic) ?? 'everything'}, ${via}`;
	}
	if (typeof reason === 'string') {
		return reason;
	}
	if (machine === true || typeof url === 'string') {
		return [machine === true ? 'by machine' : '', text(url) ?? ''].join(' ').trim();
	}
	return typeof reply === 'string' ? code({code: typeof number === 'number' ? number : null, reply}) + reply : null;
}

function code({code, reply}: Pick<StoredAttempt, 'code' | 'reply'>): string {
	return code === null || reply.startsWith(String(code)) ? '' : `${code} `;
}

function text(value: unknown): string | null {
	return typeof value === 'string' ? value : null;
}

/**
 * One conversation for people: where and when, how far it came, the reply in full and, where it was kept, what was said.
 * Everything that came from outside is made safe to print.
 */
export function attemptLines(attempt: StoredAttempt, width: number): string[] {
	const {n, at, host, ip, tls, phase, ms, dialogue} = attempt;
	const security = ip === null ? [] : [tls ?? 'no TLS'];
	const end = `${stages[phase]}, ${ms} ms`;
	const where = `${host ?? 'no host'}${ip === null ? '' : ` [${ip}]`}`;
	return [
		`  ${n}. ${shortTime(at)}  ${printable(where)}`,
		...wrapped(printable([...security, end].join(', ')), width, '     '),
		...replyOf(attempt).flatMap(line => wrapped(printable(line), width, '     ')),
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

/** The lines of the reply, each with its code. */
function replyOf({code, reply}: StoredAttempt): string[] {
	return reply.split('\n').map(line => (code === null || line.startsWith(String(code)) ? line : `${code} ${line}`));
}

const stages: Readonly<Record<Phase, string>> = {
	route: 'ended before any connection',
	connect: 'ended at the connection',
	greeting: 'ended at the greeting',
	ehlo: 'ended at EHLO',
	starttls: 'ended at STARTTLS',
	auth: 'ended at AUTH',
	mail: 'ended at MAIL FROM',
	rcpt: 'ended at RCPT TO',
	data: 'ended at DATA',
	dot: 'ended after the mail',
};

/** What came back about a copy, for people: what it is and says, how it was judged, and the text of it. */
export function reportLines({kind, category, rule, matched, detail, createdAt}: StoredReport, width: number): string[] {
	const action = text(detail.action);
	const what = action === null || action === 'none' ? kinds[kind] : `${action} (${kinds[kind]})`;
	const said = [what, text(detail.status), category].filter(each => each !== null).join(', ');
	const by = rule === null ? null : `by rule ${rule}${matched === null ? '' : ` on "${matched}"`}`;
	const named = text(detail.recipient);
	const found = text(detail.via)?.replaceAll('_', ' ');
	const notes = [
		by,
		named === null ? null : `names ${named}`,
		text(detail.host),
		found === undefined ? null : `found by ${found}`,
	].filter(each => each !== null);
	const reason = text(detail.reason) ?? '';
	return [
		`  report ${shortTime(text(detail.received_at) ?? createdAt)}  ${printable(said)}`,
		...(notes.length === 0 ? [] : wrapped(printable(notes.join(', ')), width, '     ')),
		...(reason === '' ? [] : folded(printable(reason), width, '     ')),
	];
}

const kinds: Readonly<Record<StoredReport['kind'], string>> = {
	dsn: 'DSN',
	text: 'bounce in words',
	arf: 'feedback report',
	auto_reply: 'auto-reply',
	other: 'mail',
};

/** As a script reads it. */
export function storedReportView(report: StoredReport) {
	const {detail, kind, category, rule, matched} = report;
	return {
		id: report.id,
		at: text(detail.received_at) ?? report.createdAt,
		kind,
		action: text(detail.action),
		type: text(detail.type),
		category,
		status: text(detail.status),
		code: typeof detail.code === 'number' ? detail.code : null,
		host: text(detail.host),
		rule,
		matched,
		suppresses: detail.suppresses === true,
		recipient: text(detail.recipient),
		reason: text(detail.reason),
		feedback_type: text(detail.feedback_type),
		source: text(detail.source),
		via: text(detail.via),
	};
}
