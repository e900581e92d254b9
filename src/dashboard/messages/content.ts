import {type Html, html} from '../../hosted/html.ts';
import {writeExact} from '../../kit/exact-json.ts';
import type {StoredMessage} from '../../store/messages.ts';
import {longestLink, mailFrame} from '../mail-frame.ts';
import {chips, code, copyButton, count, hrefOf, name, nothing, section, table} from '../markup.ts';
import type {SeenHtml} from '../seen-mail.ts';
import type {RawMail, ShownMail} from './mail.ts';
import {lines} from './timeline.ts';

/** What the pages of one copy's mail are made from. */
type Looked = {
	readonly message: StoredMessage;
	readonly mail: ShownMail;
	readonly query: URLSearchParams;
};

/** The mail in a frame, its attachments and where its links lead. */
export function previewContent({message, mail, query}: Looked): Html {
	if (mail.html === null) {
		return html`${remade(mail)}<p class="soft">This mail has no html part.</p>${textContent({mail})}`;
	}
	const path = `/messages/${message.id}/preview`;
	const look = query.get('look') ?? '';
	const isDark = query.get('scheme') === 'dark';
	const isPhone = look === 'phone';
	const frame = hrefOf(`/messages/${message.id}/frame`, kept(query, ['copy', 'images']));
	return html`${remade(mail)}<div class="looks">${chips('Width', query, 'look', looks, path)}${chips('Colours', query, 'scheme', schemes, path)}</div>${imagesNote(mail.html, query, path)}
${mailFrame({path: frame, title: 'The mail', phone: isPhone, dark: isDark})}
${filesOf(message, mail, query)}${linkList(mail.html)}`;
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

function imagesNote({hasRemoteImages}: SeenHtml, query: URLSearchParams, path: string): Html {
	if (!hasRemoteImages) {
		return nothing;
	}
	const shown = query.get('images') === '1';
	const href = hrefOf(path, query, {images: shown ? null : '1'});
	return shown
		? html`<p class="soft">Images of other hosts are shown: those hosts see that you look. <a href="${href}">Hide them</a></p>`
		: html`<p class="soft">Images of other hosts are not loaded. <a href="${href}">Show remote images</a></p>`;
}

function remade({isCaptured, fault}: Pick<ShownMail, 'isCaptured' | 'fault'>): Html {
	const again = isCaptured
		? null
		: html`<p class="soft">Made again from the template and the variables of this message. Its signatures and the tokens of its links differ from the mail that was sent.</p>`;
	return html`${again}${fault === null ? null : html`<p class="notice warn">Not all of this mail is shown: ${fault}.</p>`}`;
}

function filesOf({id}: StoredMessage, {files}: ShownMail, query: URLSearchParams): Html {
	if (files.length === 0) {
		return nothing;
	}
	const recipient = kept(query, ['copy']);
	return section(
		'Attachments',
		table({
			label: 'Attachments',
			rows: files.map((file, index) => ({...file, index})),
			empty: nothing,
			columns: [
				{
					title: 'Name',
					cell: row =>
						html`<a href="${hrefOf(`/messages/${id}/attachments/${row.index}`, recipient)}" download>${name(row.name)}</a>`,
				},
				{title: 'Type', cell: row => name(row.type), wide: true},
				{title: 'Octets', cell: row => count(row.octets), right: true},
			],
		}),
	);
}

function linkList({links, moreLinks}: SeenHtml): Html {
	if (links.length === 0) {
		return nothing;
	}
	const items = links.map(link =>
		link.length <= longestLink && /^(?:https?|mailto|tel):/i.test(link)
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
		? html`<div class="empty"><p>This mail has no text part.</p></div>`
		: html`${remade(mail)}<pre>${lines(mail.text)}</pre>`;
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
	return html`${remade(mail)}${table({
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
const longestSource = 1024 * 1024;

export function sourceContent({message, mail, query}: Omit<Looked, 'mail'> & {readonly mail: RawMail}): Html {
	const href = hrefOf(`/messages/${message.id}/raw`, kept(query, ['copy']));
	const text = mail.raw.toString('utf8', 0, longestSource);
	return html`${remade({...mail, fault: null})}<p><a class="button" href="${href}" download>Download the mail (.eml)</a> <span class="soft">${count(mail.raw.length)} octets</span></p><pre>${lines(text)}</pre>`;
}

/** What the caller gave the template. */
export function variablesContent({data}: Pick<StoredMessage, 'data'>): Html {
	const text = writeExact(data, 2);
	return Object.keys(data).length === 0
		? html`<div class="empty"><p>This message was sent without variables.</p></div>`
		: html`<pre>${lines(text)}</pre><p>${copyButton(text, 'the variables')}</p>`;
}
