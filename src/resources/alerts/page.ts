import type {CheckRunner} from '../../dashboard/health.ts';
import {incidentList, readVisible} from '../../dashboard/incidents.ts';
import {
	act,
	badge,
	checkbox,
	code,
	copyable,
	dangerItem,
	disclosure,
	facts,
	hidden,
	input,
	menu,
	nothing,
	section,
	select,
	table,
	time,
} from '../../dashboard/markup.ts';
import {operationForms, rejectForm} from '../../dashboard/operation-form.ts';
import type {DashboardParts} from '../../dashboard/parts.ts';
import {type Answer, go, page, type Route, type Visit} from '../../dashboard/route.ts';
import {type Html, html} from '../../hosted/html.ts';
import {type AlertChannel, alertChannels, alertKindNames, alertKinds} from '../../mail/alert.ts';
import {
	addAlert,
	checkTarget,
	muteAlert,
	type NewAlert,
	removeAlert,
	type ShownAlert,
	testAlert,
	withStatuses,
} from './rules.ts';
import {type Alert, listAlerts} from './store.ts';

const path = '/alerts';

/** The page of open incidents and of the recipients of alerts. */
export function alertPages(parts: DashboardParts, checks: CheckRunner): readonly Route[] {
	const {reader} = parts;

	async function list(visit: Visit, problem: string | null = null): Promise<Answer> {
		const {workspace, everywhere, form, now} = visit;
		const mayAct = visit.may('admin');
		const isVisible = ({workspace_id: id}: {readonly workspace_id: string | null}) =>
			id === workspace.id || (id === null && everywhere);
		const rows = await withStatuses(reader, (await listAlerts(reader, null)).filter(isVisible));
		const incidents = await readVisible(reader, visit, checks.newest());
		return {
			kind: 'page',
			problem,
			place: 'alerts',
			title: 'Alerts',
			actions: mayAct ? disclosure('New alert', addForm(form)) : nothing,
			content: html`${section('Open incidents', incidentList(incidents, now))}${section('Recipients', alertTable(rows, mayAct, now))}`,
		};
	}

	/** Returns the only page that shows the secret, or a notice if there is none. */
	function showNew({row, secret}: NewAlert): Answer | string {
		if (secret === null) {
			return row.status === 'unconfirmed'
				? `Alert added. ${row.target} first receives a link to confirm the address.`
				: `Added the alert to ${row.target}. Test it now.`;
		}
		const content = html`<p class="notice warn" role="status">Store the secret now: it is not shown again.</p>
<div class="card">${facts([
			['Posts to', code(row.target)],
			['Secret', copyable(secret, 'the secret')],
		])}</div>
<p class="more"><a href="${path}">Back to the alerts</a></p>`;
		return {kind: 'page', place: 'alerts', title: 'Your new alert', content};
	}

	async function test(alert: Alert): Promise<Answer> {
		const error = await parts.testAlert(alert);
		if (error !== null) {
			rejectForm(`The test was not sent: ${error}`);
		}
		return go(path, `Sent a test to ${alert.target}.`);
	}

	const form = operationForms(parts, {path, show: list});
	const read = ({form: sent}: Visit) => ({
		way: (sent.get('way') ?? '') as AlertChannel,
		target: sent.get('target')?.trim() ?? '',
		...(sent.has('on') && {on: alertKindNames.filter(kind => sent.getAll('on').includes(kind))}),
	});

	return [
		page(path, list),
		form(addAlert, path, showNew, {
			before: async visit => checkTarget(url => parts.webhooks.guard.urlProblem(url), read(visit)),
			read,
		}),
		form(muteAlert, `${path}/:id/mute`, ({target, muted_until: until}) =>
			until === null
				? `Unmuted alerts to ${target}.`
				: `Muted alerts to ${target} until ${until.slice(0, 16)} UTC.`,
		),
		form(removeAlert, `${path}/:id/remove`, ({target}) => `Removed the alert to ${target}.`),
		form(testAlert, `${path}/:id/test`, test),
	];
}

const alertTable = (rows: readonly ShownAlert[], mayAct: boolean, now: number): Html =>
	table({
		label: 'Alerts',
		columns: [
			{
				title: 'To',
				cell: alert =>
					html`${badge(alert.way, 'idle')} ${code(alert.target)}${isMuted(alert, now) ? html` ${badge('muted', 'busy')}` : nothing}${alert.status === 'active' ? nothing : html` ${badge(alert.status, 'busy')}`}<br><span class="soft">${describeTypes(alert)}</span>${alert.error === null ? nothing : html`<br>${badge('not sent', 'bad')} ${alert.error}`}`,
			},
			{
				title: 'Last message',
				wide: true,
				cell: ({sent_at: at}) => (at === null ? html`<span class="soft">none yet</span>` : time(at, now)),
			},
			...(mayAct ? [{title: '', cell: rowActs, right: true as const}] : []),
		],
		rows,
		empty: html`<p>No alerts yet.</p><p>Add an address to receive a message when a problem begins, and another when it clears.</p>`,
	});

const isMuted = ({muted_until: until}: Alert, now: number) => until !== null && Date.parse(until) > now;

const describeTypes = ({kinds, workspace_id: id}: Alert): string =>
	`${kinds === null ? 'everything' : kinds.map(kind => alertKinds[kind].title).join(', ')}${id === null ? ' of the installation' : ''}`;

function rowActs({id, workspace_id: workspaceId}: Alert): Html {
	return workspaceId === null
		? html`<span class="soft">mailctl alert</span>`
		: menu(
				[
					act({to: `${path}/${id}/test`, label: 'Send a test', look: 'quiet'}),
					act({
						to: `${path}/${id}/mute`,
						label: 'Mute for 2 hours',
						look: 'quiet',
						fields: hidden('for', '2h'),
					}),
					dangerItem({
						to: `${path}/${id}/remove`,
						label: 'Remove alert',
						about: 'It receives no more alerts.',
					}),
				],
				'Change',
			);
}

function addForm(form: URLSearchParams): Html {
	const choices = alertChannels.map(value => ({value, label: value}));
	const boxes = alertKindNames
		.filter(kind => alertKinds[kind].isPerWorkspace)
		.map(kind => checkbox('on', kind, alertKinds[kind].title, form.getAll('on').includes(kind)));
	const fields = html`${select({name: 'way', label: 'Send by', value: form.get('way') ?? 'mail'}, choices)}
${input({name: 'target', label: 'Address or URL', value: form.get('target') ?? '', required: true})}
<details><summary>Alert types (default: all)</summary><fieldset><legend class="soft">Types</legend>${boxes}</fieldset></details>`;
	return html`<div class="stack">${act({to: path, label: 'Add alert', fields})}</div>`;
}
