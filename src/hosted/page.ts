import type {FastifyReply} from 'fastify';
import {readBranding} from '../mail/branding.ts';
import type {Workspace} from '../store/workspaces.ts';
import {type Html, html, plainName} from './html.ts';
import {styleOf} from './style.ts';
import type {Texts} from './texts/wording.ts';

/** Whose page it is. */
export type Brand = {
	readonly name: string;
	readonly logoUrl: string | null;
	readonly accent: string | null;
	readonly supportEmail: string | null;
};

export type Icon = 'letter' | 'done' | 'warning';

export type Page = {
	readonly status: number;
	readonly texts: Texts;
	/** Null: it is not known whose link it was. */
	readonly brand: Brand | null;
	readonly icon: Icon;
	readonly title: string;
	readonly content: Html;
};

/** A workspace that has no brand name goes by the domain that its mail came from, which the recipient has seen. */
export function brandOf({name, branding}: Workspace, from: string | undefined): Brand {
	const {name: brandName, ...rest} = readBranding(branding);
	return {name: brandName ?? from?.slice(from.lastIndexOf('@') + 1) ?? name, ...rest};
}

const nonceLength = 16;

/**
 * Answers with a page that needs neither script nor style, is kept by nobody, and loads nothing but the workspace's logo.
 * All hosted pages are sent here.
 */
export function sendPage(reply: FastifyReply, random: (size: number) => Buffer, page: Page): FastifyReply {
	const nonce = random(nonceLength).toString('base64');
	return reply
		.code(page.status)
		.headers({
			'content-type': 'text/html; charset=utf-8',
			'content-language': page.texts.language,
			'content-security-policy': policyOf(nonce, page.brand?.logoUrl ?? null),
			'referrer-policy': 'no-referrer',
			'x-content-type-options': 'nosniff',
			'x-robots-tag': 'noindex',
			'cache-control': 'no-store',
		})
		.send(render(page, nonce));
}

function policyOf(nonce: string, logoUrl: string | null): string {
	return [
		"default-src 'none'",
		`style-src 'nonce-${nonce}'`,
		...(logoUrl === null ? [] : [`img-src ${new URL(logoUrl).origin}`]),
		"form-action 'self'",
		"frame-ancestors 'none'",
		"base-uri 'none'",
	].join('; ');
}

function render({texts, brand, icon, title, content}: Page, nonce: string): string {
	const name = brand && plainName(brand.name);
	return html`<!doctype html>
<html lang="${texts.language}">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="robots" content="noindex">
<title>${title}${name === null ? '' : ` – ${name}`}</title>
<style nonce="${nonce}">${{markup: styleOf(brand?.accent ?? null)}}</style>
</head>
<body>
${brand && header(brand)}
<main>
${icons[icon]}
<h1>${title}</h1>
${content}
</main>
${brand?.supportEmail ? footer(texts, brand.supportEmail) : null}
</body>
</html>
`.markup;
}

function header({name, logoUrl}: Brand): Html {
	const shown = plainName(name);
	return logoUrl === null
		? html`<header><bdi>${shown}</bdi></header>`
		: html`<header><img src="${logoUrl}" alt="${shown}"></header>`;
}

function footer(texts: Texts, email: string): Html {
	return html`<footer>${texts.help(html`<a href="mailto:${encodeURIComponent(email).replace('%40', '@')}">${email}</a>`)}</footer>`;
}

const frame = (path: Html) =>
	html`<svg viewBox="0 0 44 44" fill="none" stroke="currentColor" stroke-width="2.5" stroke-linecap="round" stroke-linejoin="round" width="44" height="44" aria-hidden="true">${path}</svg>`;

const icons: Readonly<Record<Icon, Html>> = {
	letter: frame(html`<rect x="4" y="9" width="36" height="26" rx="4"/><path d="m5 13 17 12 17-12"/>`),
	done: frame(html`<circle cx="22" cy="22" r="18"/><path d="m14 22.5 5.5 5.5L30 17"/>`),
	warning: frame(html`<circle cx="22" cy="22" r="18"/><path d="M22 13v11M22 30.5v.1"/>`),
};

/** The pages that say why nothing was done. */
type NoticeKind = 'forged' | 'expired' | 'unclear' | 'tooMany';

/** The page of a link or a request that cannot be followed: forged, expired, not understood, one too many. */
export function noticePage(kind: NoticeKind, status: number, texts: Texts, brand: Brand | null): Page {
	const {title, text} = texts[kind];
	return {
		status,
		texts,
		brand,
		icon: 'warning',
		title,
		content: html`<p>${text}</p>
<p class="soft">${texts.nothingChanged}</p>`,
	};
}

/** The page of a tracked link that is not ours: it leads nowhere. */
export function lostPage(texts: Texts): Page {
	const {title, text} = texts.forged;
	return {status: 404, texts, brand: null, icon: 'warning', title, content: html`<p>${text}</p>`};
}
