import type {EngagementCount} from '../store/engagement.ts';
import type {StoredEvent} from '../store/events.ts';
import type {StoredAttempt, StoredCopy} from '../store/message-copies.ts';
import type {StoredMessage} from '../store/messages.ts';
import type {StoredReport} from '../store/reports.ts';
import {attemptLines} from './attempt-text.ts';
import {capturedFile} from './captured.ts';
import {reportLines} from './report-text.ts';
import type {Session} from './session.ts';
import {fields, table} from './table.ts';
import {nextTry, printable, shortTime} from './text.ts';

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
