import {type QueueStatus, readQueueStatus} from '../../admin/queue.ts';
import {type Html, html} from '../../hosted/html.ts';
import {storeTime} from '../../kit/time.ts';
import type {SiteReport} from '../../queue/site.ts';
import {searchForm} from '../lists.ts';
import {live} from '../live.ts';
import {act, badge, count, hrefOf, input, name, nothing, opened, section, table, time} from '../markup.ts';
import type {DashboardParts} from '../parts.ts';
import type {Answer, Route, Visit} from '../route.ts';
import {countingRest, createShared} from '../shared.ts';
import {destinationPages} from './destination.ts';
import {suspensionPages} from './suspension.ts';

const path = '/queue';
const mostSites = 50;
/** Destinations that are listed, and stopped ones behind them. A search finds the others. */
const mostListed = 100;

/** What waits, where it goes, and what keeps it. */
export function queuePages(parts: DashboardParts): readonly Route[] {
	const shared = createShared(parts.tools.clock, countingRest);
	const list = (visit: Visit, problem: string | null = null) => {
		// A domain is suspended for all workspaces.
		const {workspace, now, everywhere: idle} = visit;
		const status = {now, workspaceId: workspace.id, idle};
		const rows = shared(visit, `${workspace.id} ${idle}`, () => readQueueStatus(parts.reader, status));
		return queueList(parts, visit, {rows, problem});
	};
	return [
		{method: 'GET', path, role: 'viewer', answer: visit => list(visit)},
		...suspensionPages(parts, list),
		...destinationPages(parts),
	];
}

async function queueList(
	{process: {sites}}: DashboardParts,
	{everywhere: seesAll, query, now, form, may}: Visit,
	{rows: reading, problem}: {readonly rows: Promise<QueueStatus[]>; readonly problem: string | null},
): Promise<Answer> {
	const rows = await reading;
	return {
		kind: 'page',
		...(problem !== null && {status: 422, problem}),
		place: 'queue',
		title: 'Queue',
		actions: may('operator') && seesAll ? opened('Suspend a domain', suspendForm(form.get('domain') ?? '')) : nothing,
		// Outside of what is fetched again while somebody types.
		content: html`${rows.length > mostListed ? searchForm({to: path, query, placeholder: 'example.com'}) : nothing}${live(
			'queue',
			hrefOf(path, query),
			html`${totals(rows)}${statuses(rows, query, now)}${seesAll ? bySite(sites(), now) : null}`,
			'10s',
		)}`,
	};
}

function totals(rows: readonly QueueStatus[]): Html {
	const sum = (of: (row: QueueStatus) => number) => count(rows.reduce((all, row) => all + of(row), 0));
	const figures = [
		['Ready', sum(row => row.ready)],
		['Later try', sum(row => row.deferred)],
		['Being tried', sum(row => row.in_flight)],
		['Held', sum(row => row.held)],
	];
	return html`<div class="grid tiles">${figures.map(
		([title = '', figure = '']) =>
			html`<div class="card figure"><span class="soft">${title}</span><strong>${figure}</strong></div>`,
	)}</div>`;
}

function statuses(rows: readonly QueueStatus[], query: URLSearchParams, now: number): Html {
	const part = query.get('q')?.trim().toLowerCase() ?? '';
	const found = rows.filter(({destination}) => destination.includes(part));
	const stopped = found.slice(mostListed).filter(row => row.suspended);
	const listed = [...found.slice(0, mostListed), ...stopped.slice(0, mostListed)];
	const left = found.length - listed.length;
	return section(
		'By destination',
		html`${table({
			label: 'What waits, by destination',
			link: row => `${path}/${row.destination}`,
			columns: [
				{title: 'Destination', cell: row => name(row.destination), cut: true},
				{title: 'State', cell: statusBadge},
				{title: 'Ready', cell: row => count(row.ready), right: true},
				{title: 'Deferred', cell: row => count(row.deferred), right: true},
				{title: 'In flight', cell: row => count(row.in_flight), right: true, wide: true},
				{title: 'Held', cell: row => count(row.held), right: true, wide: true},
				{title: 'Oldest', cell: row => time(row.oldest, now), right: true, wide: true},
				{title: 'Last reply', cell: row => name(row.suspension_reason ?? row.last_reply ?? ''), wide: true, cut: true},
			],
			rows: listed,
			empty:
				part === ''
					? html`<p>No mail waits.</p><p>Mail that cannot be delivered at once is listed here, with the reason and the time of the next try.</p>`
					: html`<p>No mail waits for such a destination.</p><p><a href="${path}">Show all</a></p>`,
		})}${left > 0 ? html`<p class="more soft">and ${count(left)} more with less mail: search for them</p>` : nothing}`,
	);
}

export function statusBadge({suspended_by: by, held, ready, deferred, in_flight: now}: QueueStatus): Html {
	switch (by) {
		case 'operator':
			return badge('suspended', 'bad');
		case 'failures':
			return badge('backing off', 'warn');
		case 'route':
			return badge('route refuses', 'bad');
		case null:
			return held > 0 && ready + deferred + now === 0
				? badge('held', 'warn')
				: deferred > 0 && ready + now === 0
					? badge('deferred', 'warn')
					: badge('sending', 'busy');
	}
}

/** How this process paces the hosts that share a limit. It tells of the mail of all workspaces. */
function bySite(sites: readonly SiteReport[], now: number): Html {
	const busy = sites.toSorted((a, b) => b.inFlight - a.inFlight).slice(0, mostSites);
	return section(
		'By site',
		table({
			label: 'How sites are paced',
			columns: [
				{title: 'Site', cell: row => name(row.site), cut: true},
				{title: 'State', cell: siteBadge},
				{title: 'In flight', cell: row => count(row.inFlight), right: true},
				{title: 'Connections', cell: row => `${row.connections} of ${row.mostConnections}`, right: true, wide: true},
				{title: 'A minute', cell: row => (row.perMinute === null ? 'no limit' : count(row.perMinute)), right: true},
				{title: 'Until', cell: row => time(untilOf(row), now), right: true, wide: true},
				{title: 'Why', cell: row => name(row.reason ?? ''), wide: true, cut: true},
			],
			rows: busy,
			empty: html`<p>Nothing was sent for a while.</p><p>Hosts that share a limit are one site; each has its own pace.</p>`,
		}),
	);
}

function siteBadge({suspendedUntil, waitsFor, slowUntil}: SiteReport): Html {
	return suspendedUntil !== null
		? badge(waitsFor === 'route' ? 'route refuses' : 'backing off', 'bad')
		: slowUntil !== null
			? badge('slowed', 'warn')
			: badge('open', 'good');
}

function untilOf({suspendedUntil, slowUntil}: SiteReport): string | null {
	const until = suspendedUntil ?? slowUntil;
	return until === null ? null : storeTime(until);
}

const suspendForm = (value: string): Html =>
	act({
		to: `${path}/suspend`,
		label: 'Suspend',
		fields: html`${input({name: 'domain', label: 'Domain', required: true, value, placeholder: 'example.com'})}${input({name: 'reason', label: 'Reason', placeholder: 'their disk is full'})}`,
	});
