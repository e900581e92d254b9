import type {RunningSetting} from '../../config/settings.ts';
import {type Html, html} from '../../hosted/html.ts';
import {searchForm} from '../lists.ts';
import {badge, chips, code, table} from '../markup.ts';
import type {DashboardParts} from '../parts.ts';
import type {Answer, Route, Visit} from '../route.ts';
import {healthPage, healthPath} from './frame.ts';

const path = `${healthPath}/settings`;

const kinds = [
	{value: '', label: 'All'},
	{value: 'set', label: 'Set by you'},
];

/** The settings that this process works by, where each comes from, and which wait for a restart. */
export function settingsPages({process: {shown}}: DashboardParts): readonly Route[] {
	async function show({query}: Visit): Promise<Answer> {
		const part = (query.get('q') ?? '').trim().toUpperCase().replaceAll(' ', '_');
		const isAll = query.get('only') !== 'set';
		const rows = shown().filter(row => row.name.includes(part) && (isAll || row.source !== 'default'));
		return healthPage(
			'/settings',
			html`${searchForm({to: path, query, placeholder: 'retention', kept: ['only']})}${chips('Which', query, 'only', kinds, path)}${settings(rows)}`,
		);
	}

	return [{method: 'GET', path, role: 'admin', everywhere: true, answer: show}];
}

function settings(rows: readonly RunningSetting[]): Html {
	return table<RunningSetting>({
		label: 'Settings',
		columns: [
			{title: 'Setting', cell: row => settingName(row.name)},
			{title: 'Value', cell: row => (row.value === null ? html`<span class="soft">not set</span>` : code(row.value))},
			{
				title: 'From',
				cell: row => html`${row.source}${row.waits ? html` ${badge('changed, restart', 'warn')}` : null}`,
			},
			{title: 'Changes', cell: row => (row.live ? 'with SIGHUP' : 'with a restart'), wide: true, cut: true},
		],
		rows,
		empty: html`<p>No setting matches.</p><p><a href="${path}">Show all settings</a></p>`,
	});
}

/** It may be broken behind each underscore, where the window is narrow. */
function settingName(text: string): Html {
	const [first = '', ...rest] = text.split('_');
	return html`<code>${first}${rest.map(part => html`_<wbr>${part}`)}</code>`;
}
