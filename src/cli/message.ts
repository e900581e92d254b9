import {randomBytes} from 'node:crypto';
import {eventView, messageView, storedTime} from '../api/views.ts';
import {capturedFile} from '../daemon/recipient-mails.ts';
import {createLinks} from '../links/links.ts';
import {isTemplateId} from '../mail/ids.ts';
import {type RecipientState, recipientStates} from '../mail/message.ts';
import {askedTerms, messageIdTerm, metadataTerm, mostAsked, type Term, tagTerm, valueTerm} from '../mail/terms.ts';
import {notFound} from '../ops/operation.ts';
import {type ListedMessage, listMessages, readLines} from '../store/message-scan.ts';
import {findMessage, readMessages, type StoredMessage} from '../store/messages.ts';
import {type EngagementCount, readEngagement, readRecipients, type StoredRecipient} from '../store/recipients.ts';
import {readReports, type StoredReport} from '../store/reports.ts';
import {readEvents} from '../store/timeline.ts';
import {CliError} from './fault.ts';
import {describe, rawMail, storedReportView} from './message-text.ts';
import {address, collect, count, metadataPair, oneOf, past} from './options.ts';
import type {CliCommand} from './program.ts';
import type {Session} from './session.ts';
import {chosenTemplate} from './template.ts';
import {type Noun, shortTime} from './terminal-text.ts';

type ListOptions = {
	status?: RecipientState;
	recipient?: string;
	from?: string;
	subject?: Term[];
	metadata?: string[];
	template?: string;
	tag?: string;
	messageId?: string;
	since?: number;
	until?: number;
	limit: number;
};

const mostEvents = 10_000;
const mostReports = 1000;

export function messageCommands(message: CliCommand): void {
	message
		.verb('list', 'List messages, newest first')
		.sample('mailctl message list --status bounced --since 24h')
		.option('--status <status>', recipientStates.join(', '), status)
		.option('--recipient <address>', 'to this address')
		.option('--from <address>', 'from this address')
		.option('--subject <words>', 'whose subject has all of these words', subjectWords)
		.option(
			'--metadata <key=value|value>',
			'with this metadata, or this value of any key; several must all match',
			collect,
		)
		.option('--template <id|name>', 'made of this template')
		.option('--tag <tag>', 'with this tag')
		.option('--message-id <id>', 'whose mail has this Message-ID')
		.option('--since <time>', 'accepted then or later: a time, or a duration before now', past('--since'))
		.option('--until <time>', 'accepted before', past('--until'))
		.option('--limit <n>', 'at most this many', count('--limit', 1, 10_000), 25)
		.does<ListOptions>(list);

	message
		.verb('show <id>', 'Show status, timeline, attempts and what came back')
		.sample('mailctl message show msg_06f…')
		.does<object, [string]>(async (session, _options, id) => {
			const found = await chosenMessage(session, id);
			const {reader, workspaceId} = await session.inWorkspace();
			const events = await readEvents(reader, found.id, {after: null, limit: mostEvents});
			const recipients = await readRecipients(reader, workspaceId, found.id);
			const engagement = await readEngagement(reader, found.id);
			const reports = await readReports(reader, found.id, mostReports);
			session.show(
				{
					message: messageView(found),
					// The store's times, with milliseconds, where order matters.
					events: events.map(event => ({
						...eventView(event),
						occurred_at: event.occurredAt,
						recorded_at: event.recordedAt,
					})),
					recipients: recipients.map(recipient => recipientView(session, recipient, engagement, reports)),
				},
				() => describe(session, found, events, recipients, {engagement, reports}),
			);
		});

	message
		.verb('resend <id>', 'Send it again as a new message, with all checks')
		.sample('mailctl message resend msg_06f…')
		.does<object, [string]>(async (session, options, id) => {
			const {resend} = await import('./send.ts');
			await resend(session, options, id);
		});

	message
		.verb('raw <id>', 'Print the mail as it is sent')
		.sample('mailctl message raw msg_06f… > mail.eml')
		.option('--recipient <address>', 'the copy of this address')
		.does<{recipient?: string}, [string]>(async (session, {recipient: to}, id) => {
			const found = await chosenMessage(session, id);
			const {id: workspaceId} = await session.workspace();
			const recipients = await readRecipients(await session.reader(), workspaceId, found.id);
			const wanted = to === undefined ? undefined : address(to, true).key;
			const recipient = recipients.find(each => wanted === undefined || address(each.address, true).key === wanted);
			if (!recipient) {
				throw new CliError('data', `the message has no copy for ${to}`, `see mailctl message show ${id}`);
			}
			session.terminal.write(await rawMail(session, workspaceId, recipient.id));
		});
}

/** Throws bad data (65) where the workspace has no such message. */
async function chosenMessage(session: Session, text: string): Promise<StoredMessage> {
	const id = (await session.idOf('msg', text)) ?? notFound('message', text);
	const {id: workspaceId} = await session.workspace();
	return (await findMessage(await session.reader(), workspaceId, id)) ?? notFound('message', text);
}

const status = oneOf('--status', recipientStates);

const none = 'no messages, mailctl send sends one';

const wholeMessages: Noun<StoredMessage> = {none, json: message => messageView(message, storedTime), fields: []};

const messages: Noun<ListedMessage> = {
	none,
	json: row => row,
	fields: [
		{title: 'TO', cell: row => row.to, cut: true},
		{title: 'STATUS', cell: row => row.status},
		{title: 'SUBJECT', cell: row => row.subject, cut: 'first'},
		{title: 'UTC', cell: row => shortTime(row.created_at).slice(5, 16)},
		{title: 'ID', cell: row => row.id, id: 12},
	],
};

async function list(session: Session, options: ListOptions): Promise<void> {
	const {id: workspaceId} = await session.workspace();
	const {messageId} = options;
	const id = messageId === undefined ? undefined : await messageOf(session, messageId);
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
			// One that is not ours is that of a submitted mail.
			...(messageId === undefined || id !== undefined ? [] : [messageIdTerm(messageId)]),
		],
		id,
		since: options.since,
		until: options.until,
	};
	const reader = await session.reader();
	if (session.json) {
		const read = (ids: readonly string[]) => readMessages(reader, workspaceId, ids);
		session.list(wholeMessages, await listMessages(reader, filter, options.limit, read));
	} else {
		session.list(messages, await listMessages(reader, filter, options.limit, ids => readLines(reader, ids)));
	}
}

/** Of a deleted template only the id is known still. */
async function templateId(session: Session, key: string): Promise<string> {
	return isTemplateId(key) ? key : (await chosenTemplate(session, key)).id;
}

async function messageOf(session: Session, messageId: string): Promise<string | undefined> {
	const links = createLinks({keys: await session.secrets(), publicUrl: '', random: randomBytes});
	return links.readMessageId(messageId) ?? undefined;
}

/** Throws a usage error (64). */
function subjectWords(text: string): Term[] {
	const terms = askedTerms(text);
	if (terms === null) {
		throw new CliError(
			'usage',
			`--subject "${text}" is not allowed`,
			`use 1 to ${mostAsked} words of letters and digits`,
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
	const own = engagement.filter(({recipientId}) => recipientId === id);
	return {
		id,
		address,
		role,
		state,
		attempts: attempts.map(({recipient_id: _, ...attempt}) => attempt),
		next_attempt_at: nextAttemptAt,
		captured: capturedFile(session.settings().dataDir, id),
		opens: own.filter(({kind}) => kind === 'opened').map(countView)[0] ?? null,
		clicks: own.filter(({kind}) => kind === 'clicked').map(count => ({url: count.url, ...countView(count)})),
		reports: reports.filter(({recipientId}) => recipientId === id).map(storedReportView),
	};
}

function countView({n, machineN, firstAt, lastAt}: EngagementCount) {
	return {n, machine_n: machineN, first_at: firstAt, last_at: lastAt};
}
