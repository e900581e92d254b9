import {type Html, html} from '../hosted/html.ts';

/**
 * A part of a page that is fetched again while it is looked at: its own page is asked for, and this part of it put in its place.
 * `path`: null where the part does not change by itself, as the older pages of a list.
 */
export function live(id: string, path: string | null, content: Html, every = '5s'): Html {
	return path === null
		? html`<div id="${id}">${content}</div>`
		: html`<div id="${id}" hx-get="${path}" hx-trigger="every ${every}" hx-select="#${id}" hx-swap="outerMorph">${content}</div>`;
}
