import type {Knex} from 'knex';
import {LRUCache} from 'lru-cache';
import {inspectMail, type MailInspections} from '../../dashboard/look.ts';
import {mailFrame, maxLinkLength} from '../../dashboard/mail-frame.ts';
import {fileList, imagesNote} from '../../dashboard/mail-parts.ts';
import {
	chips,
	code,
	copyButton,
	count,
	emptyNote,
	name,
	nothing,
	section,
	table,
	toHref,
} from '../../dashboard/markup.ts';
import type {DashboardParts} from '../../dashboard/parts.ts';
import type {Visit} from '../../dashboard/route.ts';
import type {SeenHtml, SeenMail} from '../../dashboard/seen-mail.ts';
import {type Html, html} from '../../hosted/html.ts';
import {writeExact} from '../../kit/exact-json.ts';
import {toBuffer} from '../../kit/text.ts';
import {createTurns} from '../../kit/turns.ts';
import {isId} from '../../mail/ids.ts';
import {erasedAddress} from '../../mail/message.ts';
import {findMessage, findMessageStatus, type StoredMessage} from '../../store/messages.ts';
import {readRecipients, type StoredRecipient} from '../../store/recipients.ts';
import {notFound} from '../operation.ts';

// The content of a message as sent to one recipient: captured, or rendered again.

/** The message of a page, and the recipient whose message is shown. */
export type Opened = {
	readonly workspaceId: string;
	readonly message: StoredMessage;
	readonly recipients: readonly StoredRecipient[];
	/** The first one, `to`, unless the query names another. */
	readonly recipient: StoredRecipient;
	/** Whether its content was erased. */
	readonly isErased: boolean;
	/** Whether its content was removed at the end of its retention period. The message is retained for longer. */
	readonly isEmptied: boolean;
};

/** Throws `Refused` because the workspace has no such message. */
export const messageNotFound = (): never =>
	notFound('message', '', {
		page: 'Message not found. It may have been removed at the end of its retention period.',
	});

/** Reads the message that the path names. */
export async function openMessage(reader: Knex, {params: {id = ''}, query, form, workspace}: Visit): Promise<Opened> {
	const message = isId('msg', id) ? await findMessage(reader, workspace.id, id) : undefined;
	const status = message && (await findMessageStatus(reader, workspace.id, id));
	if (!(message && status)) {
		return messageNotFound();
	}
	const recipients = await readRecipients(reader, workspace.id, id);
	const requested = query.get('copy') ?? form.get('copy');
	const recipient =
		recipients.find(({id: recipientId}) => recipientId === requested) ?? recipients[0] ?? messageNotFound();
	const isErased = status.erasedAt !== null || message.to === erasedAddress;
	return {workspaceId: workspace.id, message, recipients, recipient, isErased, isEmptied: status.isEmptied};
}

/** The message to a recipient, as bytes. */
type RawMail = {
	readonly raw: Buffer;
	/** Whether it is the message that was sent. Otherwise it was rendered again. */
	readonly isCaptured: boolean;
};

/** The same message, parsed for display. */
type ShownMail = SeenMail & Pick<RawMail, 'isCaptured'>;

/** The reason why there is nothing to show, as a sentence. */
export type Missing = {readonly missing: string};

/** The limits of the caches. A page, its frame and its tabs request the same message. */
const limits = {max: 8, ttl: 60_000, ttlAutopurge: true};
/** The maximum size of the cache of parsed messages, in octets. */
const maxCachedBytes = 64 * 1024 * 1024;
const sizeOf = ({html, text}: SeenMail) => 1024 * 1024 + (html?.framed.length ?? 0) + (text?.length ?? 0);

/** Reads messages. Templates are untrusted code, so each message is rendered again in its own thread, one at a time. */
export class MailReader {
	readonly #mails: DashboardParts['messageContent'];
	readonly #turns = createTurns();
	readonly #rendered = new LRUCache<string, Buffer>(limits);
	readonly #parsed = new LRUCache<string, SeenMail>({...limits, maxSize: maxCachedBytes, sizeCalculation: sizeOf});

	constructor({messageContent}: Pick<DashboardParts, 'messageContent'>) {
		this.#mails = messageContent;
	}

	async raw(opened: Opened): Promise<RawMail | Missing> {
		const {workspaceId, recipient, isErased, isEmptied} = opened;
		if (isEmptied) {
			return {missing: 'The content was removed because its retention period has ended.'};
		}
		if (isErased) {
			return {missing: 'The recipient was erased, together with the content of the message.'};
		}
		const captured = await this.#mails.captured(recipient.id);
		if (captured !== null) {
			return {raw: toBuffer(captured), isCaptured: true};
		}
		const key = toCacheKey(opened);
		const cached = this.#rendered.get(key);
		if (cached) {
			return {raw: cached, isCaptured: false};
		}
		const rendered = await this.#turns(workspaceId, () => this.#mails.rerender(workspaceId, recipient.id));
		if (rendered === 'no_sender') {
			return {missing: 'The message cannot be rendered again: its sender was removed.'};
		}
		if (!rendered.ok) {
			return {missing: `The message cannot be rendered again: ${rendered.message.replace(/\.$/, '')}.`};
		}
		const raw = toBuffer(rendered.mail);
		this.#rendered.set(key, raw);
		return {raw, isCaptured: false};
	}

	async shown(opened: Opened): Promise<ShownMail | Missing> {
		const mail = await this.raw(opened);
		if ('missing' in mail) {
			return mail;
		}
		const {raw, isCaptured} = mail;
		const key = `${isCaptured} ${toCacheKey(opened)}`;
		const cached = this.#parsed.get(key);
		if (cached) {
			return {...cached, isCaptured};
		}
		const parsed = await inspectMail(opened.workspaceId, 'mail', {raw});
		if (!parsed.ok) {
			return {missing: `The message cannot be displayed: ${parsed.fault}. See its source instead.`};
		}
		this.#parsed.set(key, parsed.seen);
		return {...parsed.seen, isCaptured};
	}

	async file(opened: Opened, index: number): Promise<NonNullable<MailInspections['file']['seen']> | Missing> {
		const mail = await this.raw(opened);
		if ('missing' in mail) {
			return mail;
		}
		const parsed = await inspectMail(opened.workspaceId, 'file', {raw: mail.raw, index});
		return (parsed.ok && parsed.seen) || {missing: 'Attachment not found.'};
	}
}

/** The key includes the addresses, so that a message cached before an erasure is not shown after it. */
const toCacheKey = ({message, recipient}: Opened) =>
	JSON.stringify([recipient.id, recipient.address, message.to, message.cc, message.replyTo]);

/** The input of the tabs. */
type TabInput = {
	readonly message: StoredMessage;
	readonly mail: ShownMail;
	readonly query: URLSearchParams;
};

/** Renders the message in a frame, with its attachments and links. */
export function previewContent({message, mail, query}: TabInput): Html {
	if (mail.html === null) {
		return html`${rerenderedNote(mail)}<p class="soft">This message has no HTML part.</p>${textContent({mail})}`;
	}
	const path = `/messages/${message.id}/preview`;
	const look = query.get('look') ?? '';
	const isDark = query.get('scheme') === 'dark';
	const isPhone = look === 'phone';
	const frame = toHref(`/messages/${message.id}/frame`, pickKeys(query, ['copy', 'images']));
	return html`${rerenderedNote(mail)}<div class="looks">${chips('Width', query, 'look', widths, path)}${chips('Colors', query, 'scheme', schemes, path)}</div>${mail.html.hasRemoteImages ? imagesNote(query, path) : nothing}
${mailFrame({path: frame, title: 'Message', phone: isPhone, dark: isDark})}
${fileList(mail.files, index => toHref(`/messages/${message.id}/attachments/${index}`, pickKeys(query, ['copy'])))}${linkList(mail.html)}`;
}

const widths = [
	{value: '', label: 'Desktop'},
	{value: 'phone', label: 'Phone'},
];
const schemes = [
	{value: '', label: 'Light'},
	{value: 'dark', label: 'Dark'},
];

function pickKeys(query: URLSearchParams, keys: readonly string[]): URLSearchParams {
	return new URLSearchParams([...query].filter(([key]) => keys.includes(key)));
}

function rerenderedNote({isCaptured, fault}: Pick<ShownMail, 'isCaptured' | 'fault'>): Html {
	const note = isCaptured
		? null
		: html`<p class="soft">Rendered again from the template and variables of this message. Signatures and link tokens differ from those that were sent.</p>`;
	return html`${note}${fault === null ? null : html`<p class="notice warn">Part of this message is not shown: ${fault}.</p>`}`;
}

function linkList({links, moreLinks}: SeenHtml): Html {
	if (links.length === 0) {
		return nothing;
	}
	const items = links.map(link =>
		link.length <= maxLinkLength && /^(?:https?|mailto|tel):/i.test(link)
			? html`<li><a href="${link}" target="_blank" rel="noopener noreferrer">${name(link)}</a></li>`
			: html`<li>${name(link)}</li>`,
	);
	const more = moreLinks > 0 ? html`<p class="soft">And ${count(moreLinks)} more.</p>` : null;
	return section(
		'Links',
		html`<p class="soft">Links are disabled in the preview. These open in a new tab, just as they would for the recipient.</p><ul class="links">${items}</ul>${more}`,
	);
}

export function textContent({mail}: Pick<TabInput, 'mail'>): Html {
	return mail.text === null
		? emptyNote(html`<p>This message has no text part.</p>`)
		: html`${rerenderedNote(mail)}<pre>${lines(mail.text)}</pre>`;
}

// The usual spelling of field names, which are case-insensitive.
const spellings: ReadonlyMap<string, string> = new Map([
	['dkim-signature', 'DKIM-Signature'],
	['message-id', 'Message-ID'],
	['mime-version', 'MIME-Version'],
	['content-id', 'Content-ID'],
	['list-id', 'List-ID'],
]);

export function headersContent({mail}: Pick<TabInput, 'mail'>): Html {
	return html`${rerenderedNote(mail)}${table({
		label: 'Headers',
		rows: mail.fields,
		empty: html`<p>This message has no header fields.</p>`,
		columns: [
			{title: 'Name', cell: field => displayName(field.name)},
			{title: 'Value', cell: field => code(field.value)},
		],
	})}`;
}

const displayName = (field: string) =>
	spellings.get(field) ?? field.replace(/(^|-)[a-z]/g, first => first.toUpperCase()).slice(0, 200);

/** How much of the source is shown, in octets. The download has all of it. */
const maxSourceLength = 1024 * 1024;

export function sourceContent({message, mail, query}: Omit<TabInput, 'mail'> & {readonly mail: RawMail}): Html {
	const href = toHref(`/messages/${message.id}/raw`, pickKeys(query, ['copy']));
	const text = mail.raw.toString('utf8', 0, maxSourceLength);
	return html`${rerenderedNote({...mail, fault: null})}<p><a class="button" href="${href}" download>Download message (.eml)</a> <span class="soft">${count(mail.raw.length)} octets</span></p><pre>${lines(text)}</pre>`;
}

export function variablesContent({data}: Pick<StoredMessage, 'data'>): Html {
	const text = writeExact(data, 2);
	return Object.keys(data).length === 0
		? emptyNote(html`<p>This message was sent without variables.</p>`)
		: html`<pre>${lines(text)}</pre><p>${copyButton(text, 'the variables')}</p>`;
}

const maxTextLength = 256 * 1024;
const maxLines = 5000;

/** Renders untrusted text line by line, so that lines cannot affect each other. Long text is cut off. */
export function lines(text: string): Html {
	const rows = text.slice(0, maxTextLength).split(/\r?\n/, maxLines);
	const escaped = rows.map((line, index) => html`${index === 0 ? '' : '\n'}${name(line.replaceAll('\t', '    '))}`);
	const isCut = text.length > maxTextLength || rows.length === maxLines;
	return html`${escaped}${isCut ? html`\n<em>Only the beginning is shown.</em>` : null}`;
}
