import {type Html, html} from '../hosted/html.ts';
import type {Content} from './route.ts';

// The HTML of messages and templates is untrusted. It is shown in a frame that cannot do or reach anything. Three
// layers contain it: the frame with its policy, the policy of the page around it (no other host in frames), and changes
// to the HTML.

/**
 * Returns the policy of a frame: its sandbox allows no scripts, forms, refresh or outside navigation, and has its own
 * origin. With `allowImages`, remote images are loaded, so their hosts learn that the message is read.
 */
function toPolicy(allowImages: boolean): string {
	return [
		'sandbox',
		"default-src 'none'",
		"style-src 'unsafe-inline'",
		`img-src data:${allowImages ? ' https: http:' : ''}`,
		"form-action 'none'",
		"base-uri 'none'",
		"frame-ancestors 'self'",
	].join('; ');
}

/** Returns the HTML of a message for a frame, made harmless. */
export const mailContent = (mail: string, allowImages: boolean): Content => framedContent(defused(mail), allowImages);

/** Returns HTML that is harmless already for a frame. */
export function framedContent(body: string | Buffer, allowImages: boolean): Content {
	return {kind: 'content', type: 'text/html; charset=utf-8', body, policy: toPolicy(allowImages)};
}

/** For some of these elements, browsers connect to the hosts they name in spite of the policy, but request nothing. */
const dangerous = /<(\/?)(link|base|i?frame|frameset|fencedframe|object|embed|applet|portal)(?=[\s/>])/gi;

/**
 * Makes HTML harmless: links go nowhere, and elements that name another page or file, and `http-equiv`, have no effect.
 * This holds for any text, because a tag begins with its name, and the first of two equal attributes counts (HTML
 * Standard §13.2.5).
 */
export function defused(mail: string): string {
	return mail
		.replace(dangerous, '<$1x-$2')
		.replace(/http-equiv/gi, 'x-http-equiv')
		.replace(/<(a|area)(?=[\s/>])/gi, '<$1 href="#_"');
}

/** The maximum length of a link that is shown beside the frame; most servers accept URLs up to this length. */
export const maxLinkLength = 2000;

/** Returns plain text in place of the HTML: the text part, or the reason why the message cannot be shown. */
export function textContent(text: string): Content {
	return {kind: 'content', type: 'text/plain; charset=utf-8', body: text, policy: toPolicy(false)};
}

type MailFrame = {
	/** The path of the content. If absent, a form fills the frame, by its name. */
	readonly path?: string;
	readonly name?: string;
	/** For screen readers. */
	readonly title: string;
	/** Whether the frame is as wide as a phone. */
	readonly phone?: boolean;
	/** Whether the frame uses dark colors. */
	readonly dark?: boolean;
};

export function mailFrame({path, name, title, phone = false, dark = false}: MailFrame): Html {
	const source = path === undefined ? null : html` src="${path}"`;
	const target = name === undefined ? null : html` name="${name}"`;
	return html`<iframe class="frame${phone ? ' phone' : ''}${dark ? ' dark' : ''}" title="${title}" sandbox=""${source}${target}></iframe>`;
}
