import {
	act,
	badge,
	code,
	copyable,
	dangerItem,
	disclosure,
	facts,
	input,
	menu,
	nothing,
	select,
	table,
	time,
} from '../../dashboard/markup.ts';
import {operationForms} from '../../dashboard/operation-form.ts';
import type {DashboardParts} from '../../dashboard/parts.ts';
import {type Answer, page, type Route, type Visit} from '../../dashboard/route.ts';
import {type Html, html} from '../../hosted/html.ts';
import {eventsUrl, setups} from '../../inbound/providers/providers.ts';
import {optionalEvents, providerNames} from '../../mail/provider.ts';
import {addSmarthost, type NewSmarthost, removeSmarthost, rotateSmarthost} from './rules.ts';
import {listSmarthosts, type Smarthost} from './store.ts';

const path = '/smarthosts';

/** The providers that send the workspace's mail and post its events. The URL and secret are shown once. */
export function smarthostPages(parts: DashboardParts): readonly Route[] {
	async function list(visit: Visit, problem: string | null = null): Promise<Answer> {
		const {workspace, everywhere, form, now} = visit;
		const mayAct = visit.may('admin');
		const all = await listSmarthosts(parts.reader, null);
		const rows = all.filter(({workspace_id: id}) => id === workspace.id || (id === null && everywhere));
		return {
			kind: 'page',
			problem,
			place: 'smarthosts',
			title: 'Smarthosts',
			actions: mayAct ? disclosure('New smarthost', addForm(form)) : nothing,
			content: table({
				label: 'Smarthosts',
				columns: [
					{title: 'Provider', cell: row => code(row.provider)},
					{
						title: 'Sends for',
						wide: true,
						cell: row =>
							row.workspace_id === null ? badge('all workspaces', 'idle') : html`this workspace`,
					},
					{
						title: 'Last event',
						cell: row => (row.last_event_at ? time(row.last_event_at, now) : badge('none yet', 'busy')),
					},
					{title: 'Added', cell: row => time(row.created_at, now), right: true, wide: true},
					...(mayAct ? [{title: '', cell: rowActs, right: true as const}] : []),
				],
				rows,
				empty: html`<p>No smarthosts yet.</p><p>If a provider such as SES or Postmark sends your mail, add it here to receive its events: deliveries, bounces and complaints then update your messages and the suppression list.</p>`,
			}),
		};
	}

	/** Returns the only page that shows the URL and secret. */
	function showNew({row, token, secret}: NewSmarthost): Answer {
		const url = eventsUrl(parts.apiUrl(), row.provider, token ?? '');
		const steps = setups[row.provider](url, secret).map(line => line.replace('ID', row.id));
		const content = html`<p class="notice warn" role="status">Store the URL and secret now: they are not shown again.</p>
<div class="card">${facts([
			['Provider', code(row.provider)],
			['URL', copyable(url, 'the URL')],
			...(secret === null ? [] : ([['Secret', copyable(secret, 'the secret')]] as const)),
		])}</div>
<section><h2>At the provider</h2><pre>${steps.join('\n')}</pre></section>
<p class="more"><a href="${path}">Back to the smarthosts</a></p>`;
		return {kind: 'page', place: 'smarthosts', title: 'Your new smarthost', content};
	}

	const form = operationForms(parts, {path, show: list});

	return [
		page(path, list),
		form(addSmarthost, path, showNew, {
			read: ({form: sent}) => ({
				provider: (sent.get('provider') ?? '') as Smarthost['provider'],
				...parseSecret(sent),
				takes: optionalEvents.filter(event => sent.getAll('takes').includes(event)),
			}),
		}),
		form(rotateSmarthost, `${path}/:id/rotate`, showNew, {
			read: ({params: {id = ''}, form: sent}) => ({id, ...parseSecret(sent)}),
		}),
		form(removeSmarthost, `${path}/:id/remove`, ({provider}) => `Removed ${provider}. Its events are now refused.`),
	];
}

function parseSecret(form: URLSearchParams): {readonly secret?: string} {
	const secret = form.get('key')?.trim() ?? '';
	return secret === '' ? {} : {secret};
}

const secretField = (value: string): Html =>
	input({
		name: 'key',
		label: 'Key',
		value,
		hint: 'Mailgun’s signing key or SendGrid’s public key. If empty, one is generated where needed.',
	});

function rowActs({id, workspace_id: workspaceId}: Smarthost): Html {
	const rotate = act({to: `${path}/${id}/rotate`, label: 'Rotate URL and secret', fields: secretField('')});
	const about = 'Its events are then refused.';
	return workspaceId === null
		? html`<span class="soft">mailctl smarthost</span>`
		: menu([rotate, dangerItem({to: `${path}/${id}/remove`, label: 'Remove smarthost', about})], 'Change');
}

function addForm(form: URLSearchParams): Html {
	const choices = providerNames.map(value => ({value, label: value}));
	const boxes = optionalEvents.map(
		event =>
			html`<label class="field check"><input type="checkbox" name="takes" value="${event}"${form.getAll('takes').includes(event) ? html` checked` : nothing}><span>${event}</span></label>`,
	);
	const fields = html`${select({name: 'provider', label: 'Provider', value: form.get('provider') ?? 'ses'}, choices)}
${secretField(form.get('key') ?? '')}
<details><summary>Events besides deliveries, bounces and complaints</summary><fieldset><legend class="soft">Events</legend>${boxes}</fieldset></details>`;
	return html`<div class="stack">${act({to: path, label: 'Add smarthost', fields})}</div>`;
}
