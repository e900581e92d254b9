import {hostname} from 'node:os';
import {version as nodeVersion, pid} from 'node:process';
import {freeBytes} from '../../data-folder/data-dir.ts';
import {type Html, html} from '../../hosted/html.ts';
import {dayMs, storeTime} from '../../kit/time.ts';
import {readStoreSize} from '../../store/engine/dialect.ts';
import {listNodes, type SeenNode, silentMs} from '../../store/nodes.ts';
import {live} from '../live.ts';
import {distance, facts, join, name, section, table, time} from '../markup.ts';
import type {DashboardParts} from '../parts.ts';
import type {Answer, Route, Visit} from '../route.ts';
import {awaitedChecks} from './checks.ts';
import {healthPage, healthPath, sizeText} from './frame.ts';
import {logTable} from './log.ts';

const mostLines = 10;

/** How the installation is doing: checks, processes, store, what was warned of. */
export function overviewPages({reader, settings, version, process}: DashboardParts): readonly Route[] {
	/** With SQLite there is this process alone. */
	async function nodes(now: number): Promise<readonly SeenNode[]> {
		const [startedAt, seenAt] = [storeTime(process.startedAt), storeTime(now)];
		return settings.databaseUrl === null
			? [{id: '', host: hostname(), pid, version, roles: settings.roles, startedAt, seenAt}]
			: await listNodes(reader, storeTime(now - silentMs));
	}

	async function store(now: number): Promise<Html> {
		const [bytes, free] = await Promise.all([readStoreSize(reader), freeBytes(settings.dataDir)]);
		const [day, week] = [grown(bytes, now, dayMs), grown(bytes, now, 7 * dayMs)];
		return facts([
			['Engine', settings.databaseUrl === null ? 'SQLite' : 'PostgreSQL'],
			['Size', sizeText(bytes)],
			['Growth', day ?? 'known an hour after the start'],
			['Growth, longer', week === day ? null : week],
			['Data folder', name(settings.dataDir)],
			['Free there', sizeText(free)],
		]);
	}

	/** Since the oldest size of the period that is known: they are noted since the start alone. */
	function grown(bytes: number, now: number, period: number): string | null {
		const [first] = process.storeSizes().filter(({at}) => at >= now - period - dayMs / 24 && now - at > dayMs / 48);
		if (first === undefined) {
			return null;
		}
		const more = bytes - first.bytes;
		return `${more < 0 ? '−' : '+'}${sizeText(Math.abs(more))} since ${distance(first.at - now)}`;
	}

	async function show({now}: Visit): Promise<Answer> {
		const program = facts([
			['Version', version],
			['Node.js', nodeVersion],
			['Started', time(storeTime(process.startedAt), now)],
			['Delivery', settings.delivery],
		]);
		const state = html`${section('Store', html`<div class="card">${await store(now)}</div>`)}${section('Nodes', nodeTable(await nodes(now), now))}`;
		const warnings = process.recentLines.warnings().slice(-mostLines);
		return healthPage(
			'',
			join([
				html`<div class="card">${program}</div>`,
				section('Checks', awaitedChecks),
				live('state', healthPath, state, '15s'),
				section(
					'Newest warnings',
					logTable(warnings, now, 'No warning since the daemon started.'),
					html`<a href="${healthPath}/log">The log</a>`,
				),
			]),
		);
	}

	return [{method: 'GET', path: healthPath, role: 'admin', everywhere: true, answer: show}];
}

function nodeTable(rows: readonly SeenNode[], now: number): Html {
	return table<SeenNode>({
		label: 'Nodes',
		columns: [
			{title: 'Host', cell: ({host}) => name(host), cut: true},
			{title: 'Process', cell: row => String(row.pid), right: true},
			{title: 'Version', cell: row => row.version || '–', wide: true},
			{title: 'Roles', cell: ({roles}) => roles.join(', ') || '–'},
			{title: 'Started', cell: ({startedAt}) => time(startedAt, now), right: true},
			{title: 'Seen', cell: ({seenAt}) => time(seenAt, now), right: true, wide: true},
		],
		rows,
		empty: html`<p>No node was seen in the last 30 s.</p>`,
	});
}
