import type {Knex} from 'knex';
import {live} from '../../dashboard/live.ts';
import {frameContent} from '../../dashboard/mail-parts.ts';
import {
	act,
	badge,
	opened as behind,
	chip,
	chipRow,
	code,
	copyButton,
	emptyNote,
	facts,
	input,
	join,
	name,
	select,
	time,
	toHref,
} from '../../dashboard/markup.ts';
import {operationForms, pageForms, toContext, wrong} from '../../dashboard/operation-form.ts';
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
import {findSent, type SentMessage, type StoredMessage} from '../../store/messages.ts';
import {perform} from '../operation.ts';
import {addSuppression} from '../suppressions/rules.ts';
import {findSuppression} from '../suppressions/store.ts';
import {isBuiltIn} from '../templates/versions.ts';
import {
	headersContent,
	MailReader,
	type Missing,
	noMessage,
	type Opened,
	openMessage,
	previewContent,
	sourceContent,
	textContent,
	variablesContent,
} from './mail-page.ts';
import {stateBadge} from './page.ts';
import {cancelMessage, rescheduleMessage} from './rules.ts';
import {renderTimeline} from './timeline-page.ts';

/** The pages of one message, and what may be done with it. */
export function oneMessagePages(parts: DashboardParts): readonly Route[] {
	const {reader, accept, mayAccept} = parts;
	const mails = new MailReader(parts);

	async function shown(visit: Visit, opened: Opened, what: Omit<Shown, 'actions'>): Promise<Answer> {
		return messagePage(opened, visit, {...what, actions: await actionsOf(parts, visit, opened)});
	}

	async function timeline(visit: Visit, problem: string | null = null): Promise<Answer> {
		const opened = await openMessage(reader, visit);
		const content = await renderTimeline(parts, opened, visit.now);
		const isMoving = opened.recipients.some(recipient => recipient.next_attempt_at !== null);
		return await shown(visit, opened, {tab: '', content, problem, isMoving});
	}

	async function variables(visit: Visit): Promise<Answer> {
		const opened = await openMessage(reader, visit);
		return await shown(visit, opened, {tab: 'variables', content: variablesContent(opened.message)});
	}

	/** A tab that shows something of the mail, or why it cannot. */
	const mailTab = <Mail extends object>(
		tab: Tab,
		read: (opened: Opened) => Promise<Mail | Missing>,
		contentOf: (looked: Pick<Opened, 'message'> & Pick<Visit, 'query'> & {readonly mail: Mail}) => Html,
	): Route =>
		page(tabPath(':id', tab), async visit => {
			const opened = await openMessage(reader, visit);
			const mail = await read(opened);
			const content =
				'missing' in mail
					? emptyNote(html`<p>${mail.missing}</p>`)
					: contentOf({message: opened.message, mail, query: visit.query});
			const chips = recipientChips(opened, tabPath(opened.message.id, tab), visit.query);
			return await shown(visit, opened, {tab, content: html`${chips}${content}`});
		});

	/** What the mail is or holds, by itself: missing where the mail is not available. */
	const mailFile = <Mail extends object>(
		path: string,
		read: (opened: Opened, visit: Visit) => Promise<Mail | Missing>,
		contentOf: (mail: Mail, opened: Opened, visit: Visit) => Answer,
	): Route =>
		page(`/messages/:id/${path}`, async visit => {
			const opened = await openMessage(reader, visit);
			const mail = await read(opened, visit);
			return 'missing' in mail ? noMessage() : contentOf(mail, opened, visit);
		});

	async function resend(visit: Visit): Promise<Answer> {
		const {message} = await openMessage(reader, visit);
		const send = (await readResend(reader, visit.workspace.id, message.id)) ?? noMessage();
		if (send === 'erased') {
			wrong('The message was erased: nothing is left of it that could be sent again.');
		}
		if (send === 'removed') {
			wrong(apiErrors.content_removed.message);
		}
		const result = mayAccept()
			? await accept.single({...send, by: visit.tools.operator}, null)
			: ({ok: false, code: 'unavailable'} as const);
		return result.ok
			? go(tabPath(result.id, ''), 'Sent again: this is the new message.')
			: wrong(`It was not sent again. ${apiErrors[result.code].message}`);
	}

	async function suppress(visit: Visit): Promise<Answer> {
		const {message, recipient, isErased} = await openMessage(reader, visit);
		const address = toAddress(recipient.address);
		if (isErased || address === null) {
			wrong('The address was erased.');
		}
		const context = {...toContext(parts, visit), mode: message.mode};
		const {isNew} = await perform(addSuppression, context, {recipient: address.spelling});
		const said = isNew ? 'is on the suppression list now' : 'was on the suppression list already';
		return go(tabPath(message.id, ''), `${recipient.address} ${said}.`);
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
		form('/messages/:id/resend', 'operator', resend),
		operation(
			cancelMessage,
			'/messages/:id/cancel',
			({id}) => go(tabPath(id, ''), 'It is cancelled: none of its copies is sent.'),
			{before},
		),
		operation(
			rescheduleMessage,
			'/messages/:id/reschedule',
			({id, extras}) => go(tabPath(id, ''), extras.sendAt ? 'It has another time.' : 'It is sent now.'),
			{before},
		),
		form('/messages/:id/suppress', 'operator', suppress),
	];
}

/** Each a page of its own, below the message's. */
const tabs = [
	['', 'Timeline'],
	['preview', 'Preview'],
	['text', 'Text'],
	['headers', 'Headers'],
	['source', 'Source'],
	['variables', 'Variables'],
] as const;

type Tab = (typeof tabs)[number][0];

/** Where a tab of a message is. */
const tabPath = (id: string, tab: Tab): string => (tab === '' ? `/messages/${id}` : `/messages/${id}/${tab}`);

type Shown = {
	readonly tab: Tab;
	readonly content: Html;
	readonly actions: Html;
	readonly problem?: string | null;
	/** It is fetched again while it is looked at: something of it may change soon. */
	readonly isMoving?: boolean;
};

/** Shown on every page of a message. */
function messagePage(
	opened: Opened,
	{query, now}: Pick<Visit, 'query' | 'now'>,
	{tab, content, actions, problem = null, isMoving = false}: Shown,
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
			isMoving ? tabPath(message.id, tab) : null,
			html`${head(opened, now, tab === '')}${tabLinks(message.id, tab, query)}${content}`,
			'mail',
		),
	};
}

function tabLinks(id: string, chosen: Tab, query: URLSearchParams): Html {
	const kept = new URLSearchParams([...query].filter(([key]) => key === 'copy'));
	const links = tabs.map(([tab, title]) =>
		tab === chosen
			? html`<a href="${toHref(tabPath(id, tab), kept)}" aria-current="page">${title}</a>`
			: html`<a href="${toHref(tabPath(id, tab), kept)}">${title}</a>`,
	);
	return html`<nav class="tabs" aria-label="Of this message">${links}</nav>`;
}

/** `isWhole`: with all that is known of it; else only what identifies it. */
function head({message, recipients}: Opened, now: number, isWhole: boolean): Html {
	const {mode, status, from, to, templateId, templateName, templateVersion, extras} = message;
	const test = mode === 'test' ? html` ${badge('test', 'idle')}` : null;
	const others = recipients
		.slice(1)
		.map(recipient => html`<div>${name(recipient.address)} ${stateBadge(recipient.state)}</div>`);
	return html`<div id="head" class="card">${facts([
		['To', html`${named(extras.toName, to)} ${stateBadge(status)}${test}`],
		['From', name(from)],
		['Cc', others.length === 0 ? null : join(others)],
		[
			'Template',
			isBuiltIn({id: templateId})
				? 'none: submitted by SMTP'
				: html`<a href="/templates/${templateId}">${name(templateName)}</a> version ${templateVersion}`,
		],
		['Accepted', time(message.createdAt, now)],
		['Scheduled for', extras.sendAt ? time(extras.sendAt, now) : null],
		['Expires', extras.expiresAt ? time(extras.expiresAt, now) : null],
		...(isWhole ? more(message) : []),
	])}</div>`;
}

/** An address, with the name before it that few messages have. */
const named = (label: string | undefined, address: string): Html =>
	label === undefined ? name(address) : html`${name(label)} &lt;${name(address)}&gt;`;

function more(message: StoredMessage): Array<readonly [string, Value]> {
	const {id, replyTo, tags, metadata, attachments, resentFrom, extras} = message;
	const added = (extras.headers ?? []).map(([field, value]) => html`<div>${code(`${field}: ${value}`)}</div>`);
	const files = attachments.map(one => html`<div>${name(one.filename)}</div>`);
	return [
		['Reply to', replyTo === null ? null : named(extras.replyToName, replyTo)],
		['Priority', extras.priority ?? null],
		['Headers', added.length === 0 ? null : join(added)],
		['Tags', found(tags.map(tag => [tag, `tag:${tag}`]))],
		['Metadata', found(Object.entries(metadata).map(([key, value]) => [`${key}=${value}`, `${key}=${value}`]))],
		['Attachments', files.length === 0 ? null : join(files)],
		[
			'Sent again from',
			resentFrom === null ? null : html`<a href="/messages/${resentFrom}">${code(resentFrom)}</a>`,
		],
		['Id', code(id)],
	];
}

/** Links to the messages that have the same. The search takes words apart at spaces. */
function found(searches: ReadonlyArray<readonly [text: string, search: string]>): Html | null {
	const links = searches.map(([text, search]) =>
		/\s/.test(search)
			? html`<span class="chip">${name(text)}</span> `
			: html`${chip(toHref('/messages', new URLSearchParams({q: search})), name(text))} `,
	);
	return links.length === 0 ? null : join(links);
}

/** Which recipient's mail is shown, where there are several. */
function recipientChips({recipients, recipient}: Opened, path: string, query: URLSearchParams): Html | null {
	if (recipients.length < 2) {
		return null;
	}
	const links = recipients.map(({id, role, address}) =>
		chip(toHref(path, query, {copy: id}), html`${role} ${name(address)}`, id === recipient.id),
	);
	return chipRow('Copy', links);
}

/** Characters of the longest command that is part of its message's pages. */
const maxCommandLength = 16 * 1024;

/** What one may do with a message. */
async function actionsOf({reader, apiUrl}: DashboardParts, visit: Visit, opened: Opened): Promise<Html> {
	const {message, isErased} = opened;
	if (isErased) {
		return join([]);
	}
	const {workspace} = visit;
	const sent = isBuiltIn({id: message.templateId}) ? undefined : await findSent(reader, workspace.id, message.id);
	const parts = [];
	if (sent) {
		const command = curlCommand(apiUrl(), sent);
		const files = message.attachments.length > 0 ? html`<p class="soft">Without its attachments.</p>` : null;
		const content =
			command.length > maxCommandLength
				? html`<p>Its variables are too long for a page. <code>mailctl message show ${message.id} --json</code> prints them.</p>`
				: html`${files}<pre>${command}</pre><p>${copyButton(command, 'the command')}</p>`;
		parts.push(behind('Copy as curl', content));
	}
	if (!visit.may('operator')) {
		return join(parts);
	}
	if (message.status === 'accepted') {
		parts.push(waiting(opened, visit));
	}
	parts.push(await suppression(reader, visit, opened));
	parts.push(act({to: `/messages/${message.id}/resend`, label: 'Send again'}));
	return join(parts);
}

/** The forms for a message that no attempt has begun for. */
function waiting({message: {id, extras}}: Opened, {form}: Visit): Html {
	const time = input({
		name: 'sendAt',
		label: 'Time',
		value: form.get('sendAt') ?? extras.sendAt,
		hint: '2026-06-09T10:00:00Z, or from now: +90m, +2h, +3d; at most 30 days ahead',
		required: true,
	});
	const reschedule = act({to: `/messages/${id}/reschedule`, label: 'Reschedule', fields: time});
	const fields = html`<p>None of its recipients gets it. This cannot be undone.</p>`;
	const cancel = act({to: `/messages/${id}/cancel`, label: 'Cancel the message', fields, look: 'danger'});
	return html`${behind('Reschedule', reschedule, form.has('sendAt'))}${behind('Cancel', cancel)}`;
}

/** The form that suppresses one of the recipients, or that the only one is suppressed already. */
async function suppression(
	reader: Knex,
	{workspace, now}: Visit,
	{message, recipients, recipient}: Opened,
): Promise<Html> {
	const [only] = recipients;
	const address = recipients.length === 1 && only ? toAddress(only.address) : null;
	const listed = address && (await findSuppression(reader, workspace.id, {addressKey: address.key}));
	if (listed) {
		const note = html`<p>${name(address.spelling)} is on the suppression list since ${time(listed.created_at, now)}: ${listed.reason}.</p>`;
		return behind('Suppressed', note);
	}
	const choices = recipients
		.filter(({address}) => toAddress(address) !== null)
		.map(({id, address}) => ({value: id, label: plainName(address)}));
	const fields = html`${select({name: 'copy', label: 'Recipient', value: recipient.id}, choices)}<p>They get no mail of this workspace any more, until somebody removes the entry.</p>`;
	return behind(
		'Suppress recipient',
		act({to: `/messages/${message.id}/suppress`, label: 'Suppress', fields, look: 'danger'}),
	);
}

function toAddress(text: string): Address | null {
	const parsed = text === erasedAddress ? null : parseAddress(text, {allowsUtf8Local: true});
	return parsed?.ok ? parsed.address : null;
}

/** The call of the API that sends such a message, for a shell. Attachments are left out: they would not fit a line. */
function curlCommand(apiUrl: string, sent: SentMessage): string {
	const {from, to, cc, replyTo, templateId, data, metadata, tags, topicCode, locale, timezone, tracking} = sent;
	const extras = readExtras(sent.extras);
	const parsed = (json: string | null) => (json === null ? undefined : parseExact(json));
	const body = {
		from,
		to,
		cc: parsed(cc),
		replyTo: replyTo ?? undefined,
		...pick(extras, extraFields),
		headers: extras.headers && Object.fromEntries(extras.headers),
		templateId,
		data: parsed(data),
		metadata: parsed(metadata),
		tags: parsed(tags),
		unsubscribeGroup: topicCode ?? undefined,
		locale: locale ?? undefined,
		timezone: timezone ?? undefined,
		tracking: parsed(tracking),
	};
	return [
		`curl -sS ${apiUrl}/v1/messages \\`,
		"  -H 'Content-Type: application/json' \\",
		'  -H "Authorization: Bearer $API_KEY" \\',
		`  --data-binary ${quoted(writeExact(body, 2))}`,
	].join('\n');
}

/** As one word of a shell. */
const quoted = (text: string) => `'${text.replaceAll("'", "'\\''")}'`;
