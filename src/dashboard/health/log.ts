import {type Html, html} from '../../hosted/html.ts';
import {type ReadLine, readLine} from '../../log/pretty.ts';
import {live} from '../live.ts';
import {badge, chips, hrefOf, name, type Tone, table, time} from '../markup.ts';
import type {DashboardParts} from '../parts.ts';
import type {Answer, Route, Visit} from '../route.ts';
import {healthPage, healthPath} from './frame.ts';

const path = `${healthPath}/log`;

const levels = [
	{value: '', label: 'All'},
	{value: 'warn', label: 'Warnings and errors'},
];

/** The newest lines of this process' log. */
export function logPages({process: {recentLines}}: DashboardParts): readonly Route[] {
	async function show({query, now}: Visit): Promise<Answer> {
		const isAll = query.get('level') !== 'warn';
		const lines = isAll ? recentLines.all() : recentLines.warnings();
		const shown = logTable(lines, now, isAll ? 'Nothing was logged yet.' : 'No warning since the daemon started.');
		return healthPage(
			'/log',
			html`${chips('Level', query, 'level', levels, path)}${live('log', hrefOf(path, query), shown)}`,
		);
	}

	return [{method: 'GET', path, role: 'admin', everywhere: true, answer: show}];
}

/** The newest first. */
export function logTable(lines: readonly string[], now: number, empty: string): Html {
	return table<ReadLine>({
		label: 'Log',
		columns: [
			{title: 'When', cell: line => time(line.time === '' ? null : line.time, now)},
			{title: 'Level', cell: ({level}) => badge(level || '–', tones[level] ?? 'idle')},
			{title: 'Event', cell: ({event}) => event ?? '–', wide: true},
			{title: 'Line', cell: text},
		],
		rows: lines.toReversed().map(readLine),
		empty: html`<p>${empty}</p>`,
	});
}

const tones: Readonly<Record<string, Tone>> = {warn: 'warn', error: 'bad', fatal: 'bad'};

function text({event, texts, fields, error}: ReadLine): Html {
	const said = texts.length === 0 ? [event ?? ''] : texts;
	const pairs = fields.map(([key, value]) => html` <span class="soft">${key}</span> ${name(value)}`);
	const stack = error.length === 0 ? null : html`<pre>${error.join('\n')}</pre>`;
	return html`<div class="told">${name(said.join(' '))}${pairs}${stack}</div>`;
}
