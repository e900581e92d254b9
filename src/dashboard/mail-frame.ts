import {type Html, html} from '../hosted/html.ts';
import type {Content} from './route.ts';

// Mail and templates are foreign html. They are shown in a frame that can do nothing and reach nothing.

/**
 * The sandbox without exceptions has no scripts, forms or refresh, an origin of its own, and no way out of the frame.
 * `images`: those of the web, which tell their host that somebody looks.
 */
function policyOf(images: boolean): string {
	return [
		'sandbox',
		"default-src 'none'",
		"style-src 'unsafe-inline'",
		`img-src data:${images ? ' https:' : ''}`,
		"form-action 'none'",
		"base-uri 'none'",
		"frame-ancestors 'self'",
	].join('; ');
}

// Browsers connect to the hosts that these name, whatever the policy says.
const ahead = /<(?=(?:link|meta)\b)/gi;

/** The html of a mail, for a frame. */
export function mailContent(mail: string, images: boolean): Content {
	return {
		kind: 'content',
		type: 'text/html; charset=utf-8',
		body: mail.replace(ahead, '<x-'),
		policy: policyOf(images),
	};
}

/** A plain text in the place of the mail: its text part, or why it cannot be shown. */
export function textContent(text: string): Content {
	return {kind: 'content', type: 'text/plain; charset=utf-8', body: text, policy: policyOf(false)};
}

export type MailFrame = {
	/** The path of the content; absent: a form fills the frame, by its name. */
	readonly path?: string;
	readonly name?: string;
	/** For those who hear the page. */
	readonly title: string;
	/** As wide as a phone. */
	readonly phone?: boolean;
};

export function mailFrame({path, name, title, phone = false}: MailFrame): Html {
	const source = path === undefined ? null : html` src="${path}"`;
	const target = name === undefined ? null : html` name="${name}"`;
	return html`<iframe class="frame${phone ? ' phone' : ''}" title="${title}" sandbox=""${source}${target}></iframe>`;
}
