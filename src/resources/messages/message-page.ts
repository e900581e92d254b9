import type {Knex} from 'knex';
import {live} from '../../dashboard/live.ts';
import {frameContent} from '../../dashboard/mail-parts.ts';
import {
	act,
	badge,
	chip,
	chipRow,
	code,
	copyButton,
	dangerItem,
	disclosure,
	emptyNote,
	facts,
	input,
	join,
	menu,
	menuItem,
	name,
	nothing,
	select,
	time,
	toHref,
} from '../../dashboard/markup.ts';
import {operationForms, pageForms, rejectForm, toContext} from '../../dashboard/operation-form.ts';
import type {DashboardParts} from '../../dashboard/parts.ts';
import {type Answer, go, type Page, page, type Route, type Visit} from '../../dashboard/route.ts';
import {type Html, html, plainName, type Value} from '../../hosted/html.ts';
import {pick} from '../../kit/collections.ts';
import {parseExact, writeExact} from '../../kit/exact-json.ts';
import {toBuffer} from '../../kit/text.ts';
import {type Address, parseAddress} from '../../mail/address.ts';
import {apiErrors} from '../../mail/api-error.ts';
import {erasedAddress, extraFields, readExtras} from '../../mail/message.ts';
import {readResend} from '../../send/send.ts';
import {findForResend, type ResendableMessage, type StoredMessage} from '../../store/messages.ts';
import {perform} from '../operation.ts';
import {addSuppression} from '../suppressions/rules.ts';
import {findSuppression} from '../suppressions/store.ts';
import {isBuiltIn} from '../templates/versions.ts';
import {
	headersContent,
	MailReader,
	type Missing,
	messageNotFound,
	type Opened,
	openMessage,
	previewContent,
	sourceContent,
	textContent,
	variablesContent,
} from './mail-page.ts';
import {stateBadge} from './page.ts';
import {flush} from './queue.ts';
import {changeFromPage} from './queue-page.ts';
import {cancelMessage, rescheduleMessage} from './rules.ts';
import {renderTimeline} from './timeline-page.ts';

/** The pages of one message, and the forms that act on it. */
export function oneMessagePages(parts: DashboardParts): readonly Route[] {
	const {reader, accept, mayAccept} = parts;
	const mails = new MailReader(parts);

	async function render(visit: Visit, opened: Opened, tab: Omit<MessageTab, 'actions'>): Promise<Answer> {
		return messagePage(opened, visit, {...tab, actions: await renderActions(parts, visit, opened)});
	}

	async function timeline(visit: Visit, problem: string | null = null): Promise<Answer> {
		const opened = await openMessage(reader, visit);
		const content = await renderTimeline(parts, opened, visit.now);
		const isQueued = idsOfWaiting(opened).length > 0;
		return await render(visit, opened, {tab: '', content, problem, isQueued});
	}

	async function variables(visit: Visit): Promise<Answer> {
		const opened = await openMessage(reader, visit);
		return await render(visit, opened, {tab: 'variables', content: variablesContent(opened.message)});
	}

	/** The route of a tab that shows part of the message, or why it is not available. */
	const mailTab = <Mail extends object>(
		tab: Tab,
		read: (opened: Opened) => Promise<Mail | Missing>,
		renderTab: (input: Pick<Opened, 'message'> & Pick<Visit, 'query'> & {readonly mail: Mail}) => Html,
	): Route =>
		page(tabPath(':id', tab), async visit => {
			const opened = await openMessage(reader, visit);
			const mail = await read(opened);
			const content =
				'missing' in mail
					? emptyNote(html`<p>${mail.missing}</p>`)
					: renderTab({message: opened.message, mail, query: visit.query});
			const chips = recipientChips(opened, tabPath(opened.message.id, tab), visit.query);
			return await render(visit, opened, {tab, content: html`${chips}${content}`});
		});

	/** The route of the message itself or one of its files. It responds with 404 if the message is not available. */
	const mailFile = <Mail extends object>(
		path: string,
		read: (opened: Opened, visit: Visit) => Promise<Mail | Missing>,
		toAnswer: (mail: Mail, opened: Opened, visit: Visit) => Answer,
	): Route =>
		page(`/messages/:id/${path}`, async visit => {
			const opened = await openMessage(reader, visit);
			const mail = await read(opened, visit);
			return 'missing' in mail ? messageNotFound() : toAnswer(mail, opened, visit);
		});

	async function tryNow(visit: Visit): Promise<Answer> {
		const opened = await openMessage(reader, visit);
		const {changed} = await changeFromPage(parts, visit, flush, idsOfWaiting(opened), {});
		const isDue = 'The next attempt is due now.';
		const notice = changed > 0 ? isDue : 'Nothing was changed: the timeline says what the message waits for.';
		return go(tabPath(opened.message.id, ''), notice);
	}

	async function resend(visit: Visit): Promise<Answer> {
		const opened = await openMessage(reader, visit);
		const {message} = opened;
		if (idsOfWaiting(opened).length > 0) {
			rejectForm('This message is still waiting: sending it again would deliver it twice.');
		}
		const send = (await readResend(reader, visit.workspace.id, message.id)) ?? messageNotFound();
		if (send === 'erased') {
			rejectForm('The message was erased and cannot be sent again.');
		}
		if (send === 'removed') {
			rejectForm(apiErrors.content_removed.message);
		}
		const result = mayAccept()
			? await accept.single({...send, by: visit.tools.operator}, null)
			: ({ok: false, code: 'unavailable'} as const);
		return result.ok
			? go(tabPath(result.id, ''), 'Message sent again. This is the new message.')
			: rejectForm(`The message was not sent again. ${apiErrors[result.code].message}`);
	}

	async function suppress(visit: Visit): Promise<Answer> {
		const {message, recipient, isErased} = await openMessage(reader, visit);
		const address = toAddress(recipient.address);
		if (isErased || address === null) {
			rejectForm('The address was erased.');
		}
		const context = {...toContext(parts, visit, visit.workspace.id), mode: message.mode};
		const {isNew} = await perform(addSuppression, context, {recipient: address.spelling});
		const result = isNew ? 'is now on the suppression list' : 'was already on the suppression list';
		return go(tabPath(message.id, ''), `${recipient.address} ${result}.`);
	}

	const form = pageForms(timeline);
	const operation = operationForms(parts, {path: '/messages', show: timeline});
	const before = async (visit: Visit) => void (await openMessage(reader, visit));
	return [
		page('/messages/:id', timeline),
		mailTab('preview', opened => mails.shown(opened), previewContent),
		mailTab('text', opened => mails.shown(opened), textContent),
		mailTab('headers', opened => mails.shown(opened), headersContent),
		mailTab('source', opened => mails.raw(opened), sourceContent),
		page('/messages/:id/variables', variables),
		mailFile(
			'frame',
			opened => mails.shown(opened),
			(seen, {message}, visit) => frameContent(visit, tabPath(message.id, 'preview'), seen),
		),
		mailFile(
			'raw',
			opened => mails.raw(opened),
			({raw}, {message}) => ({kind: 'content', type: 'message/rfc822', body: raw, saveAs: `${message.id}.eml`}),
		),
		mailFile(
			'attachments/:n',
			(opened, {params}) => mails.file(opened, Number(params.n)),
			({name, content}) => ({
				kind: 'content',
				type: 'application/octet-stream',
				body: toBuffer(content),
				saveAs: name,
			}),
		),
		form('/messages/:id/flush', 'operator', tryNow),
		form('/messages/:id/resend', 'operator', resend),
		operation(
			cancelMessage,
			'/messages/:id/cancel',
			({id}) => go(tabPath(id, ''), 'Message canceled. None of its recipients will receive it.'),
			{before},
		),
		operation(
			rescheduleMessage,
			'/messages/:id/reschedule',
			({id, extras}) => go(tabPath(id, ''), extras.sendAt ? 'Message rescheduled.' : 'Sending now.'),
			{before},
		),
		form('/messages/:id/suppress', 'operator', suppress),
	];
}

/** The tabs, each with its own page below that of the message. */
const tabs = [
	['', 'Timeline'],
	['preview', 'Preview'],
	['text', 'Text'],
	['headers', 'Headers'],
	['source', 'Source'],
	['variables', 'Variables'],
] as const;

type Tab = (typeof tabs)[number][0];

const tabPath = (id: string, tab: Tab): string => (tab === '' ? `/messages/${id}` : `/messages/${id}/${tab}`);

type MessageTab = {
	readonly tab: Tab;
	readonly content: Html;
	readonly actions: Html;
	readonly problem?: string | null;
	/** Whether a recipient is still queued. The page is then refreshed while it is open. */
	readonly isQueued?: boolean;
};

/** Renders a page of a message: its head, the links to its tabs, and the selected tab. */
function messagePage(
	opened: Opened,
	{query, now}: Pick<Visit, 'query' | 'now'>,
	{tab, content, actions, problem = null, isQueued = false}: MessageTab,
): Page {
	const {message} = opened;
	return {
		kind: 'page',
		place: 'messages',
		problem,
		title: message.subject ?? (opened.isErased ? 'Erased message' : 'No subject yet'),
		actions,
		content: live(
			'message',
			isQueued ? tabPath(message.id, tab) : null,
			html`${head(opened, now, tab === '')}${tabLinks(message.id, tab, query)}${content}`,
			'mail',
		),
	};
}

function tabLinks(id: string, selected: Tab, query: URLSearchParams): Html {
	const recipientQuery = new URLSearchParams([...query].filter(([key]) => key === 'copy'));
	const links = tabs.map(([tab, title]) =>
		tab === selected
			? html`<a href="${toHref(tabPath(id, tab), recipientQuery)}" aria-current="page">${title}</a>`
			: html`<a href="${toHref(tabPath(id, tab), recipientQuery)}">${title}</a>`,
	);
	return html`<nav class="tabs" aria-label="Message tabs">${links}</nav>`;
}

/** Renders what identifies the message or, with `isDetailed`, everything that is known about it. */
function head({message, recipients}: Opened, now: number, isDetailed: boolean): Html {
	const {mode, status, from, to, templateId, templateName, templateVersion, extras} = message;
	const test = mode === 'test' ? html` ${badge('test', 'idle')}` : null;
	const ccRecipients = recipients
		.slice(1)
		.map(recipient => html`<div>${name(recipient.address)} ${stateBadge(recipient.state)}</div>`);
	return html`<div id="head" class="card">${facts([
		['To', html`${nameAndAddress(extras.toName, to)} ${stateBadge(status)}${test}`],
		['From', name(from)],
		['Cc', ccRecipients.length === 0 ? null : join(ccRecipients)],
		[
			'Template',
			isBuiltIn({id: templateId})
				? 'none (submitted over SMTP)'
				: html`<a href="/templates/${templateId}">${name(templateName)}</a> version ${templateVersion}`,
		],
		['Accepted', time(message.createdAt, now)],
		['Scheduled for', extras.sendAt ? time(extras.sendAt, now) : null],
		['Expires', extras.expiresAt ? time(extras.expiresAt, now) : null],
		...(isDetailed ? details(message) : []),
	])}</div>`;
}

/** Formats an address with its display name, if it has one. */
const nameAndAddress = (label: string | undefined, address: string): Html =>
	label === undefined ? name(address) : html`${name(label)} &lt;${name(address)}&gt;`;

function details(message: StoredMessage): Array<readonly [string, Value]> {
	const {id, replyTo, tags, metadata, attachments, resentFrom, extras} = message;
	const headers = (extras.headers ?? []).map(([field, value]) => html`<div>${code(`${field}: ${value}`)}</div>`);
	const files = attachments.map(({filename}) => html`<div>${name(filename)}</div>`);
	return [
		['Reply to', replyTo === null ? null : nameAndAddress(extras.replyToName, replyTo)],
		['Priority', extras.priority ?? null],
		['Headers', headers.length === 0 ? null : join(headers)],
		['Tags', linkChips(tags.map(tag => [tag, `tag:${tag}`]))],
		['Metadata', linkChips(Object.entries(metadata).map(([key, value]) => [`${key}=${value}`, `${key}=${value}`]))],
		['Attachments', files.length === 0 ? null : join(files)],
		[
			'Sent again from',
			resentFrom === null ? null : html`<a href="/messages/${resentFrom}">${code(resentFrom)}</a>`,
		],
		['Id', code(id)],
	];
}

/** Links to the messages with the same values. Values with spaces have no link, because a search splits at spaces. */
function linkChips(searches: ReadonlyArray<readonly [text: string, search: string]>): Html | null {
	const links = searches.map(([text, search]) =>
		/\s/.test(search)
			? html`<span class="chip">${name(text)}</span> `
			: html`${chip(toHref('/messages', new URLSearchParams({q: search})), name(text))} `,
	);
	return links.length === 0 ? null : join(links);
}

/** Links to the messages to each recipient, if there are several. */
function recipientChips({recipients, recipient}: Opened, path: string, query: URLSearchParams): Html | null {
	if (recipients.length < 2) {
		return null;
	}
	const links = recipients.map(({id, role, address}) =>
		chip(toHref(path, query, {copy: id}), html`${role} ${name(address)}`, id === recipient.id),
	);
	return chipRow('Recipient', links);
}

/** The maximum length of a command on the page, in characters. */
const maxCommandLength = 16 * 1024;

/** Renders what the visitor can do with a message. */
async function renderActions({reader, apiUrl}: DashboardParts, visit: Visit, opened: Opened): Promise<Html> {
	const {message, isErased} = opened;
	if (isErased) {
		return join([]);
	}
	const {workspace} = visit;
	const sent = isBuiltIn({id: message.templateId})
		? undefined
		: await findForResend(reader, workspace.id, message.id);
	const parts = [];
	if (sent) {
		const command = curlCommand(apiUrl(), sent);
		const files = message.attachments.length > 0 ? html`<p class="soft">Attachments are not included.</p>` : null;
		const content =
			command.length > maxCommandLength
				? html`<p>The variables are too long to show here. <code>mailctl message show ${message.id} --json</code> prints them.</p>`
				: html`${files}<pre>${command}</pre><p>${copyButton(command, 'the command')}</p>`;
		parts.push(disclosure('Copy as curl', content));
	}
	if (!visit.may('operator')) {
		return join(parts);
	}
	const {primary, items} = nextSteps(opened, visit);
	items.push(await suppressAction(reader, visit, opened));
	const isOpen = !isScheduled(opened, visit) && visit.form.has('sendAt');
	return join([primary, ...parts, menu(items, undefined, isOpen)]);
}

/** The recipients without an outcome, among them held and scheduled ones. */
const idsOfWaiting = ({recipients}: Opened): string[] =>
	recipients.filter(recipient => recipient.next_attempt_at !== null).map(({id}) => id);

const isScheduled = ({message: {status, extras}}: Opened, {now}: Visit): boolean =>
	status === 'accepted' && Date.parse(extras.sendAt ?? '') > now;

/** The safe next step of a message, and the items of its menu. Sending a waiting one again would deliver it twice. */
function nextSteps(opened: Opened, visit: Visit): {readonly primary: Html; readonly items: Html[]} {
	const {id, status} = opened.message;
	if (idsOfWaiting(opened).length === 0) {
		const again = act({to: `/messages/${id}/resend`, label: 'Send again', look: 'quiet'});
		const sentence = html`<p class="soft">Sends the same content once more as a new message.</p>`;
		return {primary: nothing, items: [html`<div>${again}${sentence}</div>`]};
	}
	const isOpen = visit.form.has('sendAt');
	if (isScheduled(opened, visit)) {
		const time = rescheduleForm(opened, visit, 'main');
		return {primary: disclosure('Change time', time, isOpen, 'main'), items: [cancelItem(id)]};
	}
	const primary = act({to: `/messages/${id}/flush`, label: 'Try now'});
	const time = rescheduleForm(opened, visit, 'quiet');
	const isUntried = status === 'accepted';
	return {primary, items: isUntried ? [menuItem('Change time', time, isOpen), cancelItem(id)] : []};
}

function rescheduleForm({message: {id, extras}}: Opened, {form}: Visit, look: 'main' | 'quiet'): Html {
	const time = input({
		name: 'sendAt',
		label: 'Time',
		value: form.get('sendAt') ?? extras.sendAt,
		hint: '2026-06-09T10:00:00Z, or from now: +90m, +2h, +3d; at most 30 days ahead',
		required: true,
	});
	return act({to: `/messages/${id}/reschedule`, label: 'Change time', fields: time, look});
}

function cancelItem(id: string): Html {
	const about = 'None of its recipients will receive it. This cannot be undone.';
	return dangerItem({to: `/messages/${id}/cancel`, label: 'Cancel message', about});
}

/** The form that suppresses one of the recipients, or a note if the only one is already suppressed. */
async function suppressAction(
	reader: Knex,
	{workspace, now}: Visit,
	{message, recipients, recipient}: Opened,
): Promise<Html> {
	const [only] = recipients;
	const address = recipients.length === 1 && only ? toAddress(only.address) : null;
	const entry = address && (await findSuppression(reader, workspace.id, {addressKey: address.key}));
	if (entry) {
		return html`<p>${name(address.spelling)} was added to the suppression list ${time(entry.created_at, now)}: ${entry.reason}.</p>`;
	}
	const choices = recipients
		.filter(({address}) => toAddress(address) !== null)
		.map(({id, address}) => ({value: id, label: plainName(address)}));
	const fields = select({name: 'copy', label: 'Recipient', value: recipient.id}, choices);
	const about = 'This workspace sends no more messages to the recipient until the entry is removed.';
	return dangerItem({to: `/messages/${message.id}/suppress`, label: 'Suppress recipient', about, fields});
}

function toAddress(text: string): Address | null {
	const parsed = text === erasedAddress ? null : parseAddress(text, {allowsUtf8Local: true});
	return parsed?.ok ? parsed.address : null;
}

/** Returns the API call that sends such a message, for a shell. Attachments are omitted, because they are too long. */
function curlCommand(apiUrl: string, sent: ResendableMessage): string {
	const {from, to, cc, replyTo, templateId, data, metadata, tags, topicCode, locale, timezone, tracking} = sent;
	const extras = readExtras(sent.extras);
	const parse = (json: string | null) => (json === null ? undefined : parseExact(json));
	const body = {
		from,
		to,
		cc: parse(cc),
		replyTo: replyTo ?? undefined,
		...pick(extras, extraFields),
		headers: extras.headers && Object.fromEntries(extras.headers),
		templateId,
		data: parse(data),
		metadata: parse(metadata),
		tags: parse(tags),
		unsubscribeGroup: topicCode ?? undefined,
		locale: locale ?? undefined,
		timezone: timezone ?? undefined,
		tracking: parse(tracking),
	};
	return [
		`curl -sS ${apiUrl}/v1/messages \\`,
		"  -H 'Content-Type: application/json' \\",
		'  -H "Authorization: Bearer $API_KEY" \\',
		`  --data-binary ${quoteWord(writeExact(body, 2))}`,
	].join('\n');
}

const quoteWord = (text: string) => `'${text.replaceAll("'", "'\\''")}'`;
