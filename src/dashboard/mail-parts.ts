import {type Html, html} from '../hosted/html.ts';
import {toBuffer} from '../kit/text.ts';
import {framedContent, textContent} from './mail-frame.ts';
import {count, name, nothing, section, table, toHref} from './markup.ts';
import {type Answer, go, type Visit} from './route.ts';

// What pages of a mail have in common, be it one of ours or one that came in.

/**
 * What is in the frame of a page: html where there is some, else text. Alone in a window its links could lead
 * somewhere.
 */
export function frameContent(
	{query, request}: Visit,
	page: string,
	{html: seen, text}: {readonly html: {readonly framed: Uint8Array} | null; readonly text: string | null},
): Answer {
	if (request.headers['sec-fetch-dest'] === 'document') {
		return go(page);
	}
	return seen === null ? textContent(text ?? '') : framedContent(toBuffer(seen.framed), query.get('images') === '1');
}

/** Whether images of other hosts are shown on a page, and the way to the other choice. */
export function imagesNote(query: URLSearchParams, path: string): Html {
	const shown = query.get('images') === '1';
	const href = toHref(path, query, {images: shown ? null : '1'});
	return shown
		? html`<p class="soft">Images of other hosts are shown: those hosts see that you look. <a href="${href}">Hide them</a></p>`
		: html`<p class="soft">Images of other hosts are not loaded. <a href="${href}">Show remote images</a></p>`;
}

type MailFile = {readonly name: string; readonly type: string; readonly octets: number};

/** The files of a mail; `href`: where one is saved from, by its place. */
export function fileList(files: readonly MailFile[], href: (index: number) => string): Html {
	const rows = files.map((file, index) => ({...file, href: href(index)}));
	const columns = [
		{title: 'Name', cell: (row: (typeof rows)[0]) => html`<a href="${row.href}" download>${name(row.name)}</a>`},
		{title: 'Type', cell: (row: MailFile) => name(row.type), wide: true as const},
		{title: 'Octets', cell: (row: MailFile) => count(row.octets), right: true as const},
	];
	return rows.length === 0
		? nothing
		: section('Attachments', table({label: 'Attachments', rows, empty: nothing, columns}));
}
