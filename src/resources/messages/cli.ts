import {randomBytes} from 'node:crypto';
import {CliError} from '../../cli/fault.ts';
import {address, collect, count, metadataPair, oneOf, past} from '../../cli/options.ts';
import type {CliCommand} from '../../cli/program.ts';
import type {Session} from '../../cli/session.ts';
import {
	fields,
	folded,
	formatNextAttempt,
	type Noun,
	printable,
	shortTime,
	table,
	wrapped,
} from '../../cli/terminal-text.ts';
import {createLinks} from '../../compose/links/links.ts';
import {linkBase} from '../../config/derive.ts';
import {capturedFile, RecipientMessages} from '../../daemon/recipient-messages.ts';
import {storeTime} from '../../kit/time.ts';
import {isTemplateId} from '../../mail/ids.ts';
import {type RecipientState, recipientStates} from '../../mail/message.ts';
import {type Received, senderOf} from '../../mail/received.ts';
import {
	maxQueryTerms,
	messageIdTerm,
	metadataTerm,
	queryTerms,
	type Term,
	tagTerm,
	valueTerm,
} from '../../mail/terms.ts';
import {liveDaemon} from '../../store/data-folder/daemon-file.ts';
import {eventsUntilNow} from '../../store/event-stream.ts';
import {type ListedMessage, listMessages, pageMessages, readLines} from '../../store/message-scan.ts';
import {findMessage, findMessageStatus, readMessages, type StoredMessage} from '../../store/messages.ts';
import {type EngagementCount, readEngagement, readRecipients, type StoredRecipient} from '../../store/recipients.ts';
import {readReports, type StoredReport} from '../../store/reports.ts';
import {readEvents, type StoredEvent} from '../../store/timeline.ts';
import {csvColumns, readPages, streamCsv} from '../csv-lists.ts';
import {notFound} from '../operation.ts';
import {listReceived} from '../received/store.ts';
import {chosenTemplate} from '../templates/cli.ts';
import {eventView, messageView, storedTime, streamedEventView} from '../views.ts';
import {attemptLines} from './attempt-lines-cli.ts';
import {cancelMessage, rescheduleMessage} from './rules.ts';
import {engagementText, eventText, reportText, textOrNull} from './timeline-text.ts';

type ListOptions = {
	status?: RecipientState;
	recipient?: string;
	from?: string;
	subject?: Term[];
	metadata?: string[];
	template?: string;
	tag?: string;
	messageId?: string;
	scheduled?: true;
	since?: number;
	until?: number;
	limit?: number;
	csv?: true;
};

const defaultLimit = 25;

const maxEvents = 10_000;
const maxReports = 1000;

export function messageCommands(message: CliCommand): void {
	listVerb(message);

	message
		.verb('events', 'Print the events of all messages, oldest first')
		.sample('mailctl message events --csv')
		.requiredOption('--csv', 'print CSV')
		.does(printEvents);

	message
		.verb('show <id>', 'Show a message: status, timeline, attempts and reports')
		.sample('mailctl message show msg_06f…')
		.does<object, [string]>(show);

	message
		.verb('resend <id>', 'Send a message again as a new message, with all checks')
		.sample('mailctl message resend msg_06f…')
		.does<object, [string]>(async (session, options, id) => {
			const {resend} = await import('./send-cli.ts');
			await resend(session, options, id);
		});

	message
		.verb('cancel <id>', 'Cancel a message before its first attempt')
		.sample('mailctl message cancel msg_06f…')
		.does<object, [string]>(cancel);

	message
		.verb(
			'reschedule <id> <time>',
			'Change when a message is sent, before its first attempt: a time, or +90m, +2h, +3d',
		)
		.sample('mailctl message reschedule msg_06f… +2h')
		.does<object, [string, string]>(reschedule);

	message
		.verb('raw <id>', 'Print the message as it is sent')
		.sample('mailctl message raw msg_06f… > mail.eml')
		.option('--recipient <address>', 'the message to this recipient')
		.does<{recipient?: string}, [string]>(printRaw);
}

function listVerb(message: CliCommand): void {
	message
		.verb('list', 'List messages, newest first')
		.sample('mailctl message list --status bounced --since 24h')
		.option('--status <status>', recipientStates.join(', '), status)
		.option('--recipient <address>', 'to this address')
		.option('--from <address>', 'from this address')
		.option('--subject <words>', 'with all of these words in the subject', subjectWords)
		.option(
			'--metadata <key=value|value>',
			'with this metadata, or this value of any key; if repeated, all must match',
			collect,
		)
		.option('--template <id|name>', 'rendered from this template')
		.option('--tag <tag>', 'with this tag')
		.option('--message-id <id>', 'with this Message-ID')
		.option('--scheduled', 'scheduled for later with --at')
		.option('--since <time>', 'accepted at this time or later: a time, or a duration before now', past('--since'))
		.option('--until <time>', 'accepted before this time', past('--until'))
		.option(
			'--limit <n>',
			`at most this many (default: ${defaultLimit}; all with --csv)`,
			count('--limit', 1, 10_000),
		)
		.option('--csv', 'print CSV')
		.does<ListOptions>(list);
}

/** Prints the events of the workspace until now as CSV. */
async function printEvents(session: Session): Promise<void> {
	const {reader, workspaceId} = await session.inWorkspace();
	await session.csv(streamCsv(csvColumns.events, eventsUntilNow(reader, workspaceId, {after: 0}), streamedEventView));
}

async function show(session: Session, _options: object, id: string): Promise<void> {
	const message = await chosenMessage(session, id);
	const {reader, workspaceId} = await session.inWorkspace();
	const events = await readEvents(reader, message.id, {after: null, limit: maxEvents});
	const recipients = await readRecipients(reader, workspaceId, message.id);
	const engagement = await readEngagement(reader, message.id);
	const reports = await readReports(reader, message.id, maxReports);
	const {rows: replies} = await listReceived(reader, {workspaceId, terms: [`re:${message.id}`]});
	session.show(
		{
			message: messageView(message),
			// The store's exact times with milliseconds, because the order matters.
			events: events.map(event => ({
				...eventView(event),
				occurred_at: event.occurredAt,
				recorded_at: event.recordedAt,
			})),
			recipients: recipients.map(recipient => recipientView(session, recipient, engagement, reports)),
			answers: replies.map(mail => ({id: mail.id, from: senderOf(mail), received_at: mail.receivedAt})),
		},
		() => describe(session, message, events, recipients, {engagement, reports, replies}),
	);
}

async function cancel(session: Session, _options: object, id: string): Promise<void> {
	const {id: messageId} = await chosenMessage(session, id);
	const message = await session.perform(cancelMessage, {id: messageId});
	session.show(messageView(message), () => [`cancelled ${message.id}`]);
}

async function reschedule(session: Session, _options: object, id: string, sendAt: string): Promise<void> {
	const {id: messageId} = await chosenMessage(session, id);
	const message = await session.perform(rescheduleMessage, {id: messageId, sendAt});
	session.show(messageView(message), () => [`${message.id} is sent at ${message.extras.sendAt ?? 'once'}`]);
}

/** Renders a message again for one of its recipients and prints it. */
async function printRaw(session: Session, {recipient: to}: {recipient?: string}, id: string): Promise<void> {
	const message = await chosenMessage(session, id);
	const {id: workspaceId} = await session.workspace();
	const recipients = await readRecipients(await session.reader(), workspaceId, message.id);
	const requestedKey = to === undefined ? undefined : address(to, true).key;
	const recipient = recipients.find(
		row => requestedKey === undefined || address(row.address, true).key === requestedKey,
	);
	if ((await findMessageStatus(await session.reader(), workspaceId, message.id))?.isEmptied) {
		throw new CliError(
			'data',
			'the content was removed',
			'the workspace retains content for less time than messages',
		);
	}
	if (!recipient) {
		throw new CliError('data', `the message has no recipient ${to}`, `see mailctl message show ${id}`);
	}
	session.terminal.write(await rawMail(session, workspaceId, recipient.id));
}

/** Finds a message. Throws bad data (65) if the workspace does not have it. */
async function chosenMessage(session: Session, text: string): Promise<StoredMessage> {
	const id = (await session.idOf('msg', text)) ?? notFound('message', text);
	const {id: workspaceId} = await session.workspace();
	return (await findMessage(await session.reader(), workspaceId, id)) ?? notFound('message', text);
}

const status = oneOf('--status', recipientStates);

const none = 'no messages; send one with mailctl send';

const fullMessages: Noun<StoredMessage> = {none, json: message => messageView(message, storedTime), fields: []};

const createListNoun = (title: string, column: 'created_at' | 'send_at'): Noun<ListedMessage> => ({
	none,
	json: row => row,
	fields: [
		{title: 'TO', cell: row => row.to, cut: true},
		{title: 'STATUS', cell: row => row.status},
		{title: 'SUBJECT', cell: row => row.subject, cut: 'first'},
		{title, cell: row => shortTime(row[column]).slice(5, 16)},
		{title: 'ID', cell: row => row.id, id: 12},
	],
});

const messages = createListNoun('UTC', 'created_at');
const scheduled = {...createListNoun('SENT AT UTC', 'send_at'), none: 'no messages are scheduled'};

async function list(session: Session, options: ListOptions): Promise<void> {
	const {id: workspaceId} = await session.workspace();
	const {messageId} = options;
	const id = messageId === undefined ? undefined : await readMessageId(session, messageId);
	const filter = {
		workspaceId,
		status: options.status,
		toKey: options.recipient === undefined ? undefined : address(options.recipient, true).key,
		fromKey: options.from === undefined ? undefined : address(options.from).key,
		templateId: options.template === undefined ? undefined : await templateId(session, options.template),
		terms: [
			...(options.subject ?? []),
			...(options.metadata ?? []).map(text =>
				text.trim() === '' || text.includes('=') ? metadataTerm(...metadataPair(text)) : valueTerm(text),
			),
			...(options.tag === undefined ? [] : [tagTerm(options.tag)]),
			// If mailctl did not create the Message-ID, it may be that of a submitted message.
			...(messageId === undefined || id !== undefined ? [] : [messageIdTerm(messageId)]),
		],
		id,
		scheduledAfter: options.scheduled && storeTime(session.tools.clock.now()),
		since: options.since,
		until: options.until,
	};
	const reader = await session.reader();
	const {limit = defaultLimit} = options;
	if (options.csv) {
		const pages = readPages<StoredMessage>(part => pageMessages(reader, filter, part), {max: options.limit});
		await session.csv(streamCsv(csvColumns.messages, pages, row => messageView(row, storedTime)));
	} else if (session.json) {
		const read = (ids: readonly string[]) => readMessages(reader, workspaceId, ids);
		session.list(fullMessages, await listMessages(reader, filter, limit, read));
	} else {
		const rows = await listMessages(reader, filter, limit, ids => readLines(reader, ids));
		session.list(options.scheduled ? scheduled : messages, rows);
	}
}

/** Returns the id of a template; a deleted one can only be named by its id. */
async function templateId(session: Session, key: string): Promise<string> {
	return isTemplateId(key) ? key : (await chosenTemplate(session, key)).id;
}

async function readMessageId(session: Session, messageId: string): Promise<string | undefined> {
	const links = createLinks({keys: await session.secrets(), publicUrl: '', random: randomBytes});
	return links.readMessageId(messageId) ?? undefined;
}

/** Parses the words of `--subject`. Throws a usage error (64). */
function subjectWords(text: string): Term[] {
	const terms = queryTerms(text);
	if (terms === null) {
		throw new CliError(
			'usage',
			`--subject "${text}" is not allowed`,
			`use 1 to ${maxQueryTerms} words of letters and digits`,
		);
	}
	return terms;
}

function recipientView(
	session: Session,
	recipient: StoredRecipient,
	engagement: readonly EngagementCount[],
	reports: readonly StoredReport[],
) {
	const {id, address, role, state, attempts, next_attempt_at: nextAttemptAt} = recipient;
	const rows = engagement.filter(({recipientId}) => recipientId === id);
	return {
		id,
		address,
		role,
		state,
		attempts: attempts.map(({recipient_id: _, ...attempt}) => attempt),
		next_attempt_at: nextAttemptAt,
		captured: capturedFile(session.settings().dataDir, id),
		opens: rows.filter(({kind}) => kind === 'opened').map(countView)[0] ?? null,
		clicks: rows.filter(({kind}) => kind === 'clicked').map(count => ({url: count.url, ...countView(count)})),
		reports: reports.filter(({recipientId}) => recipientId === id).map(storedReportView),
	};
}

function countView({n, machineN, firstAt, lastAt}: EngagementCount) {
	return {n, machine_n: machineN, first_at: firstAt, last_at: lastAt};
}

/** What happened to recipients after delivery. */
type Feedback = {
	readonly engagement: readonly EngagementCount[];
	readonly reports: readonly StoredReport[];
	readonly replies: readonly Received[];
};

/**
 * Formats a message for `message show`: its fields, its timeline, each recipient with its attempts, reports, opens and
 * clicks, and the replies.
 */
export function describe(
	session: Session,
	message: StoredMessage,
	events: readonly StoredEvent[],
	recipients: readonly StoredRecipient[],
	{engagement, reports, replies}: Feedback,
): string[] {
	const {bold, width} = session.terminal;
	const {sendAt, expiresAt} = message.extras;
	return [
		...fields([
			['id', message.id],
			['status', message.status],
			['from', message.from],
			['to', message.to],
			['cc', message.cc.length > 0 ? message.cc.join(', ') : undefined],
			['subject', message.subject],
			['template', `${message.templateName} version ${message.templateVersion}`],
			['scheduled for', sendAt && `${shortTime(sendAt)} UTC`],
			['expires', expiresAt && `${shortTime(expiresAt)} UTC`],
			['priority', message.extras.priority],
			['mode', message.mode === 'test' ? 'test' : undefined],
			['resent from', message.resentFrom ?? undefined],
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
			bold(
				`${recipient.role} ${printable(recipient.address)}: ${queuedStatus(recipient, session.tools.clock.now())}`,
			),
			...recipient.attempts.flatMap(attempt => attemptLines(attempt, width)),
			...capturedLines(session, recipient),
			...reports
				.filter(({recipientId}) => recipientId === recipient.id)
				.flatMap(report => reportLines(report, width)),
			...engagement.filter(({recipientId}) => recipientId === recipient.id).flatMap(countLines),
		]),
		...(replies.length === 0 ? [] : ['', bold('Replies')]),
		...replies.flatMap(mail =>
			wrapped(printable(`${shortTime(mail.receivedAt)}  ${mail.id}  ${senderOf(mail)}`), width, '  '),
		),
	];
}

function queuedStatus({state, next_attempt_at: next}: StoredRecipient, now: number): string {
	return next === null ? state : `${state}, ${formatNextAttempt(next, now)}`;
}

function capturedLines(session: Session, {id}: StoredRecipient): string[] {
	const file = capturedFile(session.settings().dataDir, id);
	return file === null ? [] : [`  captured in ${printable(file)}`];
}

function countLines(count: EngagementCount): string[] {
	return [
		`  ${engagementText(count)}, last ${shortTime(count.lastAt)} UTC`,
		...(count.kind === 'clicked' ? [`     ${printable(count.url)}`] : []),
	];
}

/** Formats a report about a recipient for people: its kind, its classification and its text. */
function reportLines(report: StoredReport, width: number): string[] {
	const {at, summary, notes, reason} = reportText(report);
	return [
		`  report ${shortTime(at)}  ${printable(summary)}`,
		...(notes.length === 0 ? [] : wrapped(printable(notes.join(', ')), width, '     ')),
		...(reason === '' ? [] : folded(printable(reason), width, '     ')),
	];
}

/** Returns a report for scripts. */
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

/** Returns a recipient's message: the captured one, or else rendered again as the daemon would. */
export async function rawMail(session: Session, workspaceId: string, recipientId: string): Promise<Uint8Array> {
	const settings = session.settings();
	const recipients = new RecipientMessages({
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
	const rendered = await recipients.rerender(workspaceId, recipientId);
	if (rendered === 'no_sender') {
		throw new CliError(
			'unavailable',
			'the message cannot be rendered again: its sender was removed',
			'add the sender again',
		);
	}
	session.terminal.warn(
		'mailctl: the message was not captured, so it was rendered again: signatures and link tokens differ',
	);
	if (!rendered.ok) {
		throw new CliError(
			'data',
			`the message cannot be rendered: ${rendered.message}`,
			'fix the template and send again',
		);
	}
	return rendered.mail;
}
