import type {FastifyReply} from 'fastify';
import {domainOf} from '../mail/address.ts';
import {readBranding} from '../mail/branding.ts';
import type {Workspace} from '../resources/workspaces/store.ts';
import {filled, type Html, html, plainName} from './html.ts';
import type {Texts} from './texts/wording.ts';

/** The workspace's name and branding, as a page shows them. */
export type Brand = {
	readonly name: string;
	readonly logo_url: string | null;
	readonly accent: string | null;
	readonly support_email: string | null;
};

export type Icon = 'letter' | 'done' | 'warning';

export type Page = {
	readonly status: number;
	readonly texts: Texts;
	/** `null` if the link does not identify a workspace. */
	readonly brand: Brand | null;
	readonly icon: Icon;
	readonly title: string | Html;
	readonly content: Html;
};

/** A workspace without a brand name is shown as the sender's domain, which the recipient knows from the message. */
export function toBrand({name, branding}: Workspace, from: string | undefined): Brand {
	const {name: brandName, ...rest} = readBranding(branding);
	return {name: brandName ?? (from && domainOf(from)) ?? name, ...rest};
}

const nonceLength = 16;

/**
 * Sends a page that works without scripts and styles, is never cached, and loads nothing but the workspace's logo. All
 * hosted pages are sent by this function.
 */
export function sendPage(reply: FastifyReply, random: (size: number) => Buffer, page: Page): FastifyReply {
	const nonce = random(nonceLength).toString('base64');
	return reply
		.code(page.status)
		.headers({
			'content-type': 'text/html; charset=utf-8',
			'content-language': page.texts.language,
			'content-security-policy': toPolicy(nonce, page.brand?.logo_url ?? null),
			'referrer-policy': 'no-referrer',
			'x-content-type-options': 'nosniff',
			'x-robots-tag': 'noindex',
			'cache-control': 'no-store',
		})
		.send(render(page, nonce));
}

function toPolicy(nonce: string, logoUrl: string | null): string {
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
<style nonce="${nonce}">${{markup: toStyle(brand?.accent ?? null)}}</style>
</head>
<body>
${brand && header(brand)}
<main>
${icons[icon]}
<h1>${title}</h1>
${content}
</main>
${brand?.support_email ? footer(texts, brand.support_email) : null}
</body>
</html>
`.markup;
}

function header({name, logo_url: logoUrl}: Brand): Html {
	const displayName = plainName(name);
	return logoUrl === null
		? html`<header><bdi>${displayName}</bdi></header>`
		: html`<header><img src="${logoUrl}" alt="${displayName}"></header>`;
}

function footer(texts: Texts, email: string): Html {
	return html`<footer>${filled(texts.help, {address: html`<a href="mailto:${encodeURIComponent(email).replace('%40', '@')}">${email}</a>`})}</footer>`;
}

const frame = (path: Html) =>
	html`<svg viewBox="0 0 44 44" fill="none" stroke="currentColor" stroke-width="2.5" stroke-linecap="round" stroke-linejoin="round" width="44" height="44" aria-hidden="true">${path}</svg>`;

const icons: Readonly<Record<Icon, Html>> = {
	letter: frame(html`<rect x="4" y="9" width="36" height="26" rx="4"/><path d="m5 13 17 12 17-12"/>`),
	done: frame(html`<circle cx="22" cy="22" r="18"/><path d="m14 22.5 5.5 5.5L30 17"/>`),
	warning: frame(html`<circle cx="22" cy="22" r="18"/><path d="M22 13v11M22 30.5v.1"/>`),
};

/** Why a request changed nothing. */
type NoticeKind = 'forged' | 'expired' | 'unclear' | 'tooMany';

/**
 * Returns the page for a request that was rejected: its link is forged or expired, it is malformed, or over a limit.
 */
export function noticePage(kind: NoticeKind, status: number, texts: Texts, brand: Brand | null): Page {
	return {
		status,
		texts,
		brand,
		icon: 'warning',
		title: texts[kind],
		content: html`<p>${texts[`${kind}Text`]}</p>
<p class="soft">${texts.nothingChanged}</p>`,
	};
}

/** Returns the page for a tracked link whose token is forged, so that it has no destination. */
export function lostPage(texts: Texts): Page {
	return {
		status: 404,
		texts,
		brand: null,
		icon: 'warning',
		title: texts.forged,
		content: html`<p>${texts.forgedText}</p>`,
	};
}

const defaultAccent = '#2f5bd7';

const light = {page: '#f4f5f7', card: '#ffffff', text: '#1b1f24', soft: '#59626e', line: '#e2e5e9', control: '#868e99'};
const dark = {page: '#101216', card: '#191c22', text: '#eceef0', soft: '#a2abb6', line: '#2c313a', control: '#6f7884'};

/** Returns the style sheet of a page, in the colors of its workspace. */
function toStyle(accent: string | null): string {
	return `${variables(light, accent)}@media(prefers-color-scheme:dark){${variables(dark, accent)}header img{padding:8px 12px;border-radius:10px;background:#fff}}${rules}`;
}

function variables(colors: typeof light, accent: string | null): string {
	const {fill, onFill, link} = accentOn([colors.page, colors.card], accent ?? defaultAccent);
	const all = {...colors, fill, 'on-fill': onFill, link};
	return `:root{${Object.entries(all)
		.map(([name, value]) => `--${name}:${value}`)
		.join(';')}}`;
}

const rules = `
:root{color-scheme:light dark}
*{box-sizing:border-box}
body{margin:0;min-height:100vh;display:flex;flex-direction:column;align-items:center;padding:clamp(24px,9vh,104px) 16px 32px;
background:var(--page);color:var(--text);font:17px/1.55 -apple-system,"Segoe UI",Roboto,"Helvetica Neue","Noto Sans","Liberation Sans",Arial,sans-serif;
overflow-wrap:anywhere;-webkit-text-size-adjust:100%}
header,main,footer{width:100%;max-width:28.5rem}
header{margin-bottom:24px;text-align:center;font-size:1.1875rem;font-weight:650;line-height:1.3}
header img{display:block;margin:0 auto;max-width:min(240px,100%);max-height:64px}
main{padding:36px 24px 32px;border:1px solid var(--line);border-radius:16px;background:linear-gradient(var(--fill) 0 5px,var(--card) 0);
box-shadow:0 6px 24px rgb(0 0 0/.05)}
svg{display:block;width:44px;height:44px;margin:0 0 16px -3px;color:var(--link)}
h1{margin:0 0 12px;font-size:1.5rem;line-height:1.25;font-weight:700;letter-spacing:-.012em;text-wrap:balance}
p{margin:0 0 12px}
main>:last-child,section>:last-child{margin-bottom:0}
bdi.address{font-weight:600}
.soft{color:var(--soft);font-size:.9375rem;line-height:1.5}
form{margin:28px 0 0}
section{margin:0 0 28px}section:last-child{margin:0}
fieldset{margin:0 0 20px;padding:0;border:0}legend{padding:0;margin:0 0 8px;font-weight:650}
.choice{display:flex;gap:12px;align-items:flex-start;margin:0;padding:10px 0}.choice small{display:block;color:var(--soft);font-size:.9375rem;line-height:1.5}
label.choice{cursor:pointer}.choice input{flex:none;width:22px;height:22px;margin:2px 0 0;accent-color:var(--fill)}
section+section{padding-top:28px;border-top:1px solid var(--line)}
button{display:block;width:100%;min-height:50px;margin:0 0 12px;padding:10px 18px;border:2px solid transparent;border-radius:11px;
font:inherit;font-weight:600;line-height:1.3;cursor:pointer}
button.main{background:var(--fill);color:var(--on-fill)}
button.other{background:transparent;border-color:var(--control);color:var(--text)}
button.main:hover{text-decoration:underline}
button.other:hover{border-color:currentcolor}
a{color:var(--link);text-underline-offset:.15em}
:focus-visible{outline:3px solid var(--link);outline-offset:3px;border-radius:11px}
footer{margin-top:24px;text-align:center;color:var(--soft);font-size:.9375rem}
@media(min-width:600px){main{padding:44px 40px 40px}h1{font-size:1.75rem}}
`.replaceAll('\n', '');

/** The colors derived from a workspace's accent for the given surfaces. All are `#rrggbb`. */
type AccentColors = {
	/** The color of buttons, with enough contrast to the surfaces (WCAG 2.2 §1.4.11). */
	readonly fill: string;
	/** The color of the text on buttons: black or white, with a contrast of at least 4.5 to 1. */
	readonly onFill: string;
	/** The color of links and focus rings (WCAG 2.2 §1.4.3). */
	readonly link: string;
};

type Rgb = readonly [red: number, green: number, blue: number];

const minShapeContrast = 3;
const minTextContrast = 4.5;
const step = 0.04;

/** Uses the accent unchanged if it contrasts with the surfaces; otherwise darkens or lightens it until it does. */
export function accentOn(surfaces: readonly string[], accent: string): AccentColors {
	const fill = withContrast(surfaces, accent, minShapeContrast);
	return {
		fill,
		onFill: contrast('#ffffff', fill) >= minTextContrast ? '#ffffff' : '#000000',
		link: withContrast(surfaces, accent, minTextContrast),
	};
}

/** Returns the contrast ratio of two colors, 1 to 21 (WCAG 2.2). */
export function contrast(first: string, second: string): number {
	const [darker = 0, lighter = 0] = [luminance(first), luminance(second)].sort((a, b) => a - b);
	return (lighter + 0.05) / (darker + 0.05);
}

function withContrast(surfaces: readonly string[], accent: string, min: number): string {
	const target = surfaces.every(surface => contrast('#000000', surface) > contrast('#ffffff', surface)) ? 0 : 255;
	for (let share = 0; share < 1; share += step) {
		const color = mix(accent, target, share);
		if (surfaces.every(surface => contrast(color, surface) >= min)) {
			return color;
		}
	}
	return target === 0 ? '#000000' : '#ffffff';
}

function mix(color: string, target: number, share: number): string {
	const parts = rgb(color).map(part => Math.round(part + (target - part) * share));
	return `#${parts.map(part => part.toString(16).padStart(2, '0')).join('')}`;
}

function luminance(color: string): number {
	const [red = 0, green = 0, blue = 0] = rgb(color).map(part => {
		const share = part / 255;
		return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
	});
	return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}

function rgb(color: string): Rgb {
	const number = Number.parseInt(color.slice(1), 16);
	return [number >> 16, (number >> 8) & 255, number & 255];
}
