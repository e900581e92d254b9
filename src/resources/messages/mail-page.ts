import type {Knex} from 'knex';
import {LRUCache} from 'lru-cache';
import {type Looks, lookAt} from '../../dashboard/look.ts';
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

// The mail of a message: read from what was captured, or made again, and shown.

/** The message of a page, and the recipient of the mail that is shown. */
export type Opened = {
	readonly workspaceId: string;
	readonly message: StoredMessage;
	readonly recipients: readonly StoredRecipient[];
	/** That of `to` unless the query names another. */
	readonly recipient: StoredRecipient;
	/** Nothing is left of what it said. */
	readonly isErased: boolean;
	/** The same, and the message itself is kept for longer. */
	readonly isEmptied: boolean;
};

/** Throws that the workspace has no such message. */
export const noMessage = (): never =>
	notFound('message', '', {
		page: 'This workspace has no such message, or it was removed when its time to be kept was over.',
	});

/** The one that a path names. */
export async function openMessage(reader: Knex, {params: {id = ''}, query, form, workspace}: Visit): Promise<Opened> {
	const message = isId('msg', id) ? await findMessage(reader, workspace.id, id) : undefined;
	const status = message && (await findMessageStatus(reader, workspace.id, id));
	if (!(message && status)) {
		return noMessage();
	}
	const recipients = await readRecipients(reader, workspace.id, id);
	const wanted = query.get('copy') ?? form.get('copy');
	const recipient = recipients.find(one => one.id === wanted) ?? recipients[0] ?? noMessage();
	const isErased = status.erasedAt !== null || message.to === erasedAddress;
	return {workspaceId: workspace.id, message, recipients, recipient, isErased, isEmptied: status.isEmptied};
}

/** The bytes of a recipient's mail. */
type RawMail = {
	readonly raw: Buffer;
	/** It is the one that was sent; else it was made again. */
	readonly isCaptured: boolean;
};

/** The same, taken apart to be looked at. */
type ShownMail = SeenMail & Pick<RawMail, 'isCaptured'>;

/** Why there is nothing to show, a sentence. */
export type Missing = {readonly missing: string};

/** The page of a mail, its frame and its tabs ask for the same one. */
const cached = {max: 8, ttl: 60_000, ttlAutopurge: true};
/** Octets of what was seen in them. */
const maxCachedBytes = 64 * 1024 * 1024;
const sizeOf = ({html, text}: SeenMail) => 1024 * 1024 + (html?.framed.length ?? 0) + (text?.length ?? 0);

/** Reads mails. Templates are foreign code: each mail that is made again has a thread of its own, one at a time. */
export class MailReader {
	readonly #mails: DashboardParts['messageContent'];
	readonly #turns = createTurns();
	readonly #remade = new LRUCache<string, Buffer>(cached);
	readonly #seen = new LRUCache<string, SeenMail>({...cached, maxSize: maxCachedBytes, sizeCalculation: sizeOf});

	constructor({messageContent}: Pick<DashboardParts, 'messageContent'>) {
		this.#mails = messageContent;
	}

	async raw(opened: Opened): Promise<RawMail | Missing> {
		const {workspaceId, recipient, isErased, isEmptied} = opened;
		if (isEmptied) {
			return {missing: 'Its content was removed: the workspace keeps it for less long than the message.'};
		}
		if (isErased) {
			return {missing: 'The recipient was erased, and what the message said with them.'};
		}
		const captured = await this.#mails.captured(recipient.id);
		if (captured !== null) {
			return {raw: toBuffer(captured), isCaptured: true};
		}
		const key = keyOf(opened);
		const known = this.#remade.get(key);
		if (known) {
			return {raw: known, isCaptured: false};
		}
		const made = await this.#turns(workspaceId, () => this.#mails.rerender(workspaceId, recipient.id));
		if (made === 'no_sender') {
			return {missing: 'The mail cannot be made again: its sender was removed.'};
		}
		if (!made.ok) {
			return {missing: `The mail cannot be made: ${made.message.replace(/\.$/, '')}.`};
		}
		const raw = toBuffer(made.mail);
		this.#remade.set(key, raw);
		return {raw, isCaptured: false};
	}

	async shown(opened: Opened): Promise<ShownMail | Missing> {
		const mail = await this.raw(opened);
		if ('missing' in mail) {
			return mail;
		}
		const {raw, isCaptured} = mail;
		const key = `${isCaptured} ${keyOf(opened)}`;
		const known = this.#seen.get(key);
		if (known) {
			return {...known, isCaptured};
		}
		const looked = await lookAt(opened.workspaceId, 'mail', {raw});
		if (!looked.ok) {
			return {missing: `The mail cannot be shown: ${looked.fault}. Its source can.`};
		}
		this.#seen.set(key, looked.seen);
		return {...looked.seen, isCaptured};
	}

	/** A file that it holds. */
	async file(opened: Opened, index: number): Promise<NonNullable<Looks['file']['seen']> | Missing> {
		const mail = await this.raw(opened);
		if ('missing' in mail) {
			return mail;
		}
		const looked = await lookAt(opened.workspaceId, 'file', {raw: mail.raw, index});
		return (looked.ok && looked.seen) || {missing: 'The mail has no such file.'};
	}
}

/** Addresses are part of it: a mail that was kept before an erasure is not shown after it. */
const keyOf = ({message, recipient}: Opened) =>
	JSON.stringify([recipient.id, recipient.address, message.to, message.cc, message.replyTo]);

/** What the tabs of a mail are made from. */
type Looked = {
	readonly message: StoredMessage;
	readonly mail: ShownMail;
	readonly query: URLSearchParams;
};

/** The mail in a frame, its attachments and where its links lead. */
export function previewContent({message, mail, query}: Looked): Html {
	if (mail.html === null) {
		return html`${rerenderedNote(mail)}<p class="soft">This mail has no html part.</p>${textContent({mail})}`;
	}
	const path = `/messages/${message.id}/preview`;
	const look = query.get('look') ?? '';
	const isDark = query.get('scheme') === 'dark';
	const isPhone = look === 'phone';
	const frame = toHref(`/messages/${message.id}/frame`, kept(query, ['copy', 'images']));
	return html`${rerenderedNote(mail)}<div class="looks">${chips('Width', query, 'look', looks, path)}${chips('Colours', query, 'scheme', schemes, path)}</div>${mail.html.hasRemoteImages ? imagesNote(query, path) : nothing}
${mailFrame({path: frame, title: 'The mail', phone: isPhone, dark: isDark})}
${fileList(mail.files, index => toHref(`/messages/${message.id}/attachments/${index}`, kept(query, ['copy'])))}${linkList(mail.html)}`;
}

const looks = [
	{value: '', label: 'Desktop'},
	{value: 'phone', label: 'Phone'},
];
const schemes = [
	{value: '', label: 'Light'},
	{value: 'dark', label: 'Dark'},
];

function kept(query: URLSearchParams, keys: readonly string[]): URLSearchParams {
	return new URLSearchParams([...query].filter(([key]) => keys.includes(key)));
}

function rerenderedNote({isCaptured, fault}: Pick<ShownMail, 'isCaptured' | 'fault'>): Html {
	const again = isCaptured
		? null
		: html`<p class="soft">Made again from the template and the variables of this message. Its signatures and the tokens of its links differ from the mail that was sent.</p>`;
	return html`${again}${fault === null ? null : html`<p class="notice warn">Not all of this mail is shown: ${fault}.</p>`}`;
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
		html`<p class="soft">Links lead nowhere in the preview. These open in a new tab, as the recipient would open them.</p><ul class="links">${items}</ul>${more}`,
	);
}

export function textContent({mail}: Pick<Looked, 'mail'>): Html {
	return mail.text === null
		? emptyNote(html`<p>This mail has no text part.</p>`)
		: html`${rerenderedNote(mail)}<pre>${lines(mail.text)}</pre>`;
}

// As RFCs and mail programs write them; names in mail have no case.
const spellings: ReadonlyMap<string, string> = new Map([
	['dkim-signature', 'DKIM-Signature'],
	['message-id', 'Message-ID'],
	['mime-version', 'MIME-Version'],
	['content-id', 'Content-ID'],
	['list-id', 'List-ID'],
]);

export function headersContent({mail}: Pick<Looked, 'mail'>): Html {
	return html`${rerenderedNote(mail)}${table({
		label: 'Headers',
		rows: mail.fields,
		empty: html`<p>This mail has no header fields.</p>`,
		columns: [
			{title: 'Name', cell: field => spelled(field.name)},
			{title: 'Value', cell: field => code(field.value)},
		],
	})}`;
}

const spelled = (field: string) =>
	spellings.get(field) ?? field.replace(/(^|-)[a-z]/g, first => first.toUpperCase()).slice(0, 200);

/** Octets of a source that may be shown; the file has all. */
const maxSourceLength = 1024 * 1024;

export function sourceContent({message, mail, query}: Omit<Looked, 'mail'> & {readonly mail: RawMail}): Html {
	const href = toHref(`/messages/${message.id}/raw`, kept(query, ['copy']));
	const text = mail.raw.toString('utf8', 0, maxSourceLength);
	return html`${rerenderedNote({...mail, fault: null})}<p><a class="button" href="${href}" download>Download the mail (.eml)</a> <span class="soft">${count(mail.raw.length)} octets</span></p><pre>${lines(text)}</pre>`;
}

/** What the caller gave the template. */
export function variablesContent({data}: Pick<StoredMessage, 'data'>): Html {
	const text = writeExact(data, 2);
	return Object.keys(data).length === 0
		? emptyNote(html`<p>This message was sent without variables.</p>`)
		: html`<pre>${lines(text)}</pre><p>${copyButton(text, 'the variables')}</p>`;
}

const maxTextLength = 256 * 1024;
const maxLines = 5000;

/** What strangers said, each line kept apart; of what is very long the beginning. */
export function lines(text: string): Html {
	const all = text.slice(0, maxTextLength).split(/\r?\n/, maxLines);
	const shown = all.map((line, index) => html`${index === 0 ? '' : '\n'}${name(line.replaceAll('\t', '    '))}`);
	const isCut = text.length > maxTextLength || all.length === maxLines;
	return html`${shown}${isCut ? html`\n<em>Only the beginning is shown.</em>` : null}`;
}
