import {type Html, html} from '../../hosted/html.ts';
import {nothing} from '../markup.ts';
import type {Page} from '../route.ts';

export const healthPath = '/health';

const tabs = [
	['', 'Overview'],
	['/checks', 'Checks'],
	['/log', 'Log'],
	['/settings', 'Settings'],
] as const;

/** A page about the installation, one of a few. */
export function healthPage(tab: (typeof tabs)[number][0], content: Html): Page {
	const links = tabs.map(([path, title]) => {
		const current = path === tab ? html` aria-current="page"` : nothing;
		return html`<a href="${healthPath}${path}"${current}>${title}</a>`;
	});
	return {
		kind: 'page',
		place: 'health',
		title: 'Health',
		content: html`<nav class="tabs" aria-label="Of the installation">${links}</nav>${content}`,
	};
}

const units = ['octets', 'KB', 'MB', 'GB', 'TB'] as const;

/** 1536000 as `1.5 MB`. */
export function sizeText(octets: number): string {
	const power = Math.min(units.length - 1, Math.floor(Math.log10(Math.max(1, Math.abs(octets))) / 3));
	const amount = octets / 1000 ** power;
	return `${amount.toLocaleString('en', {maximumFractionDigits: power === 0 || Math.abs(amount) >= 100 ? 0 : 1})} ${units[power]}`;
}
