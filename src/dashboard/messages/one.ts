import {isBuiltIn} from '../../admin/templates.ts';
import {type Html, html, type Value} from '../../hosted/html.ts';
import {isId} from '../../mail/ids.ts';
import {erasedAddress} from '../../mail/message.ts';
import {findMessage, findMessageStatus, type StoredMessage} from '../../store/messages.ts';
import {readRecipients, type StoredRecipient} from '../../store/recipients.ts';
import {live} from '../live.ts';
import {badge, code, facts, hrefOf, join, name, time} from '../markup.ts';
import type {DashboardParts} from '../parts.ts';
import {missing, type Page, type Visit} from '../route.ts';
import {stateBadge} from './list.ts';

/** A message that is looked at, and the copy of it that is meant. */
export type Opened = {
	readonly message: StoredMessage;
	readonly recipients: readonly StoredRecipient[];
	/** That of `to` unless the query names another. */
	readonly recipient: StoredRecipient;
	/** Nothing is left of what it said. */
	readonly isErased: boolean;
};

/** Null: the workspace has no such message. */
export async function openMessage(
	{reader}: Pick<DashboardParts, 'reader'>,
	{params: {id = ''}, query, form, workspace}: Visit,
): Promise<Opened | null> {
	const message = isId('msg', id) ? await findMessage(reader, workspace.id, id) : undefined;
	const status = message && (await findMessageStatus(reader, workspace.id, id));
	if (!(message && status)) {
		return null;
	}
	const recipients = await readRecipients(reader, workspace.id, id);
	const wanted = query.get('copy') ?? form.get('copy');
	const recipient = recipients.find(one => one.id === wanted) ?? recipients[0];
	const isErased = status.erasedAt !== null || message.to === erasedAddress;
	return recipient ? {message, recipients, recipient, isErased} : null;
}

export const noMessage = missing(
	'This workspace has no such message, or it was removed when its time to be kept was over.',
);

/** Each a page of its own, below the message's. */
const tabs = [
	['', 'Timeline'],
	['preview', 'Preview'],
	['text', 'Text'],
	['headers', 'Headers'],
	['source', 'Source'],
	['variables', 'Variables'],
] as const;

export type Tab = (typeof tabs)[number][0];

/** Where a tab of a message is. */
export const tabPath = (id: string, tab: Tab): string => (tab === '' ? `/messages/${id}` : `/messages/${id}/${tab}`);

export type Shown = {
	readonly tab: Tab;
	readonly content: Html;
	readonly actions: Html;
	readonly problem?: string | null;
	/** It is fetched again while it is looked at: something of it may change soon. */
	readonly isMoving?: boolean;
};

/** Shown on every page of a message. */
export function messagePage(
	opened: Opened,
	{query, now}: Pick<Visit, 'query' | 'now'>,
	{tab, content, actions, problem = null, isMoving = false}: Shown,
): Page {
	const {message} = opened;
	return {
		kind: 'page',
		place: 'messages',
		...(problem !== null && {status: 422}),
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
			? html`<a href="${hrefOf(tabPath(id, tab), kept)}" aria-current="page">${title}</a>`
			: html`<a href="${hrefOf(tabPath(id, tab), kept)}">${title}</a>`,
	);
	return html`<nav class="tabs" aria-label="Of this message">${links}</nav>`;
}

/** `isWhole`: with all that is known of it, not only what tells it from others. */
function head({message, recipients}: Opened, now: number, isWhole: boolean): Html {
	const {mode, status, from, to, templateId, templateName, templateVersion} = message;
	const test = mode === 'test' ? html` ${badge('test', 'idle')}` : null;
	const others = recipients
		.slice(1)
		.map(recipient => html`<div>${name(recipient.address)} ${stateBadge(recipient.state)}</div>`);
	return html`<div id="head" class="card">${facts([
		['To', html`${name(to)} ${stateBadge(status)}${test}`],
		['From', name(from)],
		['Cc', others.length === 0 ? null : join(others)],
		[
			'Template',
			isBuiltIn({id: templateId})
				? 'none: submitted by SMTP'
				: html`<a href="/templates/${templateId}">${name(templateName)}</a> version ${templateVersion}`,
		],
		['Accepted', time(message.createdAt, now)],
		...(isWhole ? more(message) : []),
	])}</div>`;
}

function more({id, replyTo, tags, metadata, attachments, resentFrom}: StoredMessage): Array<readonly [string, Value]> {
	const files = attachments.map(one => html`<div>${name(one.filename)}</div>`);
	return [
		['Reply to', replyTo === null ? null : name(replyTo)],
		['Tags', found(tags.map(tag => [tag, `tag:${tag}`]))],
		['Metadata', found(Object.entries(metadata).map(([key, value]) => [`${key}=${value}`, `${key}=${value}`]))],
		['Attachments', files.length === 0 ? null : join(files)],
		['Sent again from', resentFrom === null ? null : html`<a href="/messages/${resentFrom}">${code(resentFrom)}</a>`],
		['Id', code(id)],
	];
}

/** Links to the messages that have the same. The search takes words apart at spaces. */
function found(searches: ReadonlyArray<readonly [text: string, search: string]>): Html | null {
	const links = searches.map(([text, search]) =>
		/\s/.test(search)
			? html`<span class="chip">${name(text)}</span> `
			: html`<a class="chip" href="${hrefOf('/messages', new URLSearchParams({q: search}))}">${name(text)}</a> `,
	);
	return links.length === 0 ? null : join(links);
}

/** Which copy is looked at, where there are several. */
export function recipientChips({recipients, recipient}: Opened, path: string, query: URLSearchParams): Html | null {
	if (recipients.length < 2) {
		return null;
	}
	const links = recipients.map(({id, role, address}) => {
		const href = hrefOf(path, query, {copy: id});
		const text = html`${role} ${name(address)}`;
		return id === recipient.id
			? html`<a href="${href}" class="chip" aria-current="true">${text}</a>`
			: html`<a href="${href}" class="chip">${text}</a>`;
	});
	return html`<nav class="chips" aria-label="Copy">${links}</nav>`;
}
