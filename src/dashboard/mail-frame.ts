import {type Html, html} from '../hosted/html.ts';
import type {Content} from './route.ts';

// Mail and templates are foreign html. They are shown in a frame that can do nothing and reach nothing. Three walls
// keep them in: the frame and its policy, the policy of the page around it (no other host in frames), and what is
// changed in the html.

/**
 * The sandbox without exceptions has no scripts, forms or refresh, an origin of its own, and no way out of the frame.
 * `images`: those of the web are loaded, so their hosts learn that the mail is read.
 */
function toPolicy(images: boolean): string {
	return [
		'sandbox',
		"default-src 'none'",
		"style-src 'unsafe-inline'",
		`img-src data:${images ? ' https: http:' : ''}`,
		"form-action 'none'",
		"base-uri 'none'",
		"frame-ancestors 'self'",
	].join('; ');
}

/** The html of a mail, for a frame. */
export const mailContent = (mail: string, images: boolean): Content => framedContent(defused(mail), images);

/** The same where nothing can be done with it any more. */
export function framedContent(body: string | Buffer, images: boolean): Content {
	return {kind: 'content', type: 'text/html; charset=utf-8', body, policy: toPolicy(images)};
}

/** Browsers connect to the hosts that some of these name in spite of the policy, though they request nothing. */
const dangerous = /<(\/?)(link|base|i?frame|frameset|fencedframe|object|embed|applet|portal)(?=[\s/>])/gi;

/**
 * Links lead nowhere; elements that name another page or file, and `http-equiv`, mean nothing. This holds for any text:
 * a tag begins with its name, and of two attributes the first one counts (HTML Standard §13.2.5).
 */
export function defused(mail: string): string {
	return mail
		.replace(dangerous, '<$1x-$2')
		.replace(/http-equiv/gi, 'x-http-equiv')
		.replace(/<(a|area)(?=[\s/>])/gi, '<$1 href="#_"');
}

/** Characters of a link that is shown beside the frame: as servers take them. */
export const maxLinkLength = 2000;

/** A plain text in the place of the mail: its text part, or why it cannot be shown. */
export function textContent(text: string): Content {
	return {kind: 'content', type: 'text/plain; charset=utf-8', body: text, policy: toPolicy(false)};
}

type MailFrame = {
	/** The path of the content; absent: a form fills the frame, by its name. */
	readonly path?: string;
	readonly name?: string;
	/** For screen readers. */
	readonly title: string;
	/** As wide as a phone. */
	readonly phone?: boolean;
	/** For those who prefer dark colours. */
	readonly dark?: boolean;
};

export function mailFrame({path, name, title, phone = false, dark = false}: MailFrame): Html {
	const source = path === undefined ? null : html` src="${path}"`;
	const target = name === undefined ? null : html` name="${name}"`;
	return html`<iframe class="frame${phone ? ' phone' : ''}${dark ? ' dark' : ''}" title="${title}" sandbox=""${source}${target}></iframe>`;
}
