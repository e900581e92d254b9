import {type Html, html, plainName} from '../hosted/html.ts';
import {mayActAs} from '../mail/operator.ts';
import type {SignedIn} from '../resources/users/sessions.ts';
import type {Workspace} from '../resources/workspaces/store.ts';
import type {Assets} from './assets.ts';
import type {IncidentCount} from './incidents.ts';
import {act, badge, hidden, nothing, select, withToken} from './markup.ts';
import {groups, type Place, placeKeys} from './places.ts';
import {maxOffered} from './visitor.ts';

/** The content of a page and what surrounds it. */
type Frame = {
	readonly title: string;
	readonly actions: Html;
	readonly problem: string | null;
	readonly content: Html;
	readonly place: Place | null;
	/** The result of the previous form; shown once. */
	readonly notice: string | null;
	/** `null` if nobody is signed in: the page then has no navigation. */
	readonly visitor: Visitor | null;
	/** Allows the scripts and styles of this response. */
	readonly nonce: string;
	/** Authenticates the forms of this response. */
	readonly token: string;
	readonly assets: Assets;
	readonly hasCharts: boolean;
};

export type Visitor = {
	readonly signedIn: SignedIn;
	/** The workspace that the path names, otherwise the last one that was visited; `null` if there is none. */
	readonly workspace: Workspace | null;
	readonly workspaces: readonly Workspace[];
	/** The pages in the navigation that this user may open. */
	readonly places: readonly Place[];
	/** Absent on errors, which are shown without reading anything; `null` if it cannot be read. */
	readonly incidents?: IncidentCount | null;
};

/** Returns a complete page. It works without scripts; with them, parts are refreshed and lists stay current. */
export function layout(frame: Frame): string {
	const {title, actions, problem, content, place, notice, visitor, nonce, token, assets, hasCharts} = frame;
	const page = html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="robots" content="noindex">
<meta name="htmx-config" content='{"includeIndicatorCSS":false,"history":true,"noSwap":[204,304,"4xx","5xx"],"morphIgnore":["data-htmx-powered","open"],"morphSkipChildren":".chart"}'>
<title>${tabTitle(title, visitor)}</title>
<link rel="icon" type="image/svg+xml" href="${favicon(visitor?.incidents?.worst ?? null)}">
<link rel="stylesheet" href="${assets.style}" nonce="${nonce}">
<script src="${assets.htmx}" nonce="${nonce}" defer></script>
<script src="${assets.script}" nonce="${nonce}" defer></script>
${hasCharts ? charting(assets, nonce) : nothing}</head>
<body${visitor ? nothing : html` class="bare"`}>
<a class="skip" href="#main">Skip to content</a>
${visitor && navigation(visitor, place)}
<main id="main" tabindex="-1">
<header class="top"><h1>${title}</h1><div class="actions">${actions}</div></header>
${visitor && pauseBanner(visitor)}
${notice === null ? null : html`<p class="notice good" role="status">${notice}</p>`}
${problem === null ? null : html`<p class="notice bad" role="alert">${problem}</p>`}
${content}
</main>
${visitor && keysHelp(visitor.places)}
</body>
</html>
`;
	return withToken(page, token);
}

function charting({plotStyle, plot, charts}: Assets, nonce: string): Html {
	return html`<link rel="stylesheet" href="${plotStyle}" nonce="${nonce}">
<script src="${plot}" nonce="${nonce}" defer></script>
<script src="${charts}" nonce="${nonce}" defer></script>
`;
}

/** Returns `(3) acme-shop · Messages`: how many incidents there are, and where the page belongs. */
function tabTitle(title: string, visitor: Visitor | null): string {
	const {workspace = null, incidents = null} = visitor ?? {};
	const count = incidents === null || incidents.count === 0 ? '' : `(${incidents.count}) `;
	const owner = workspace === null ? 'mailctl' : plainName(workspace.name);
	return `${count}${owner} · ${plainName(title)}`;
}

const markColors = {bad: '#c62828', warn: '#b26a00', good: '#2563b0'} as const;

/** Returns an envelope in the color of the worst incident, as a data URL. */
function favicon(worst: IncidentCount['worst']): string {
	const color = markColors[worst ?? 'good'];
	const mark = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16"><rect y="2" width="16" height="12" rx="2" fill="${color}"/><path d="M2 5l6 4 6-4" fill="none" stroke="#fff" stroke-width="1.6"/></svg>`;
	return `data:image/svg+xml,${encodeURIComponent(mark)}`;
}

/** Says on every page of a workspace that it is paused. */
function pauseBanner({workspace, signedIn, places}: Visitor): Html {
	if (workspace === null || workspace.paused_at === null) {
		return nothing;
	}
	const mayResume =
		mayActAs(signedIn.user.role, 'admin') &&
		(workspace.paused_by === 'workspace' || signedIn.user.workspaceId === null);
	const resume = mayResume
		? act({to: `/workspaces/${workspace.id}/resume`, label: 'Resume', look: 'quiet'})
		: places.includes('workspaces')
			? html`<a href="/workspaces/${workspace.id}">Details</a>`
			: nothing;
	return html`<div class="notice bad banner" role="status"><p>This workspace is paused: ${plainName(workspace.pause_reason ?? 'by an operator')}. New messages are refused, and those that wait are held.</p>${resume}</div>`;
}

function navigation({signedIn, workspace, workspaces, places, incidents}: Visitor, place: Place | null): Html {
	const links = (group: readonly Place[]) =>
		group
			.filter(target => places.includes(target))
			.map(target => {
				const current = target === place ? html` aria-current="page"` : nothing;
				const key = placeKeys[target] === undefined ? nothing : html` data-key="${placeKeys[target]}"`;
				const count =
					target === 'alerts' && incidents?.worst
						? html` ${badge(String(incidents.count), incidents.worst)}`
						: nothing;
				return html`<li><a href="/${target}"${current}${key}>${titleOf(target)}${count}</a></li>`;
			});
	const lists = groups
		.map(({title, places: group}) => ({title, items: links(group)}))
		.filter(({items}) => items.length > 0)
		.map(({title, items}) => html`<h2>${title}</h2><ul>${items}</ul>`);
	return html`<nav class="side" aria-label="Pages">
<input type="checkbox" id="menu" aria-label="Show the menu">
<div class="brand"><a href="/messages">mailctl</a><label for="menu" aria-hidden="true">Menu</label></div>
<div class="menu">
${workspace && switcher(workspace, workspaces, place)}
${lists}
<footer><a href="/account">${signedIn.user.email}</a>${act({to: '/logout', label: 'Sign out', look: 'quiet'})}</footer>
</div>
</nav>`;
}

/** Shows which workspace the pages belong to, and lets the user switch to the same page of another one. */
function switcher(workspace: Workspace, workspaces: readonly Workspace[], place: Place | null): Html {
	if (workspaces.length < 2) {
		return html`<p class="workspace"><span class="soft">Workspace</span> <bdi>${plainName(workspace.name)}</bdi></p>`;
	}
	const newest = workspaces.slice(0, maxOffered);
	const offered = newest.some(({id}) => id === workspace.id) ? newest : [...newest, workspace];
	const choices = offered.map(({id, name}) => ({value: id, label: plainName(name)}));
	const choice = select({name: 'workspace', label: 'Workspace', value: workspace.id}, choices);
	const fields = html`${place && hidden('place', place)}${choice}`;
	const more = workspaces.length > maxOffered ? html`<a href="/workspaces">More workspaces</a>` : nothing;
	return html`<div class="workspace">${act({to: '/workspaces/use', label: 'Switch', fields, look: 'quiet'})}${more}</div>`;
}

/** Converts `messages` to `Messages`. */
function titleOf(place: Place): string {
	return `${place[0]?.toUpperCase()}${place.slice(1)}`;
}

function keysHelp(places: readonly Place[]): Html {
	const pages = places.flatMap(place => (placeKeys[place] === undefined ? [] : [`${placeKeys[place]} ${place}`]));
	const keys: ReadonlyArray<readonly [string, string]> = [
		['/', 'search'],
		['j  k', 'next and previous row'],
		['Enter', 'open the row'],
		['g then a letter', `go to a page: ${pages.join(', ')}`],
		['?', 'show this list'],
		['Esc', 'close this list'],
	];
	const rows = keys.map(([key, text]) => html`<div><dt><kbd>${key}</kbd></dt><dd>${text}</dd></div>`);
	return html`<dialog id="keys" aria-labelledby="keys-title"><h2 id="keys-title">Keyboard shortcuts</h2><dl class="facts">${rows}</dl><form method="dialog"><button>Close</button></form></dialog>`;
}
