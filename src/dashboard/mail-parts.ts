import {type Html, html} from '../hosted/html.ts';
import {toBuffer} from '../kit/text.ts';
import {framedContent, textContent} from './mail-frame.ts';
import {count, name, nothing, section, table, toHref} from './markup.ts';
import {type Answer, go, type Visit} from './route.ts';

// The common parts of pages that show a message, sent or received.

/** Returns the content of a page's frame: HTML if there is any, else text. Alone in a window, its links would work. */
export function frameContent(
	{query, request}: Visit,
	page: string,
	{html: markup, text}: {readonly html: {readonly framed: Uint8Array} | null; readonly text: string | null},
): Answer {
	if (request.headers['sec-fetch-dest'] === 'document') {
		return go(page);
	}
	return markup === null
		? textContent(text ?? '')
		: framedContent(toBuffer(markup.framed), query.get('images') === '1');
}

/** Tells whether remote images are shown on a page, with a link that switches. */
export function imagesNote(query: URLSearchParams, path: string): Html {
	const areShown = query.get('images') === '1';
	const href = toHref(path, query, {images: areShown ? null : '1'});
	return areShown
		? html`<p class="soft">Remote images are shown: their hosts can see that you open the message. <a href="${href}">Hide them</a></p>`
		: html`<p class="soft">Remote images are not loaded. <a href="${href}">Show remote images</a></p>`;
}

type MailFile = {readonly name: string; readonly type: string; readonly octets: number};

/** Lists the attachments of a message. `href` returns the path of a download, by the attachment's index. */
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
