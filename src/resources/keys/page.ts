import {linkBase} from '../../config/derive.ts';
import {
	act,
	badge,
	code,
	copyable,
	dangerItem,
	disclosure,
	facts,
	menu,
	name,
	nothing,
	select,
	table,
	time,
} from '../../dashboard/markup.ts';
import {fieldInputs, operationForms, readFields, rejectForm} from '../../dashboard/operation-form.ts';
import type {DashboardParts} from '../../dashboard/parts.ts';
import {type Answer, page, type Route, type Visit} from '../../dashboard/route.ts';
import {type Html, html} from '../../hosted/html.ts';
import {dayMs, storeTime} from '../../kit/time.ts';
import {defaultScopes, isWithin, readRateLimit} from '../../mail/api-key.ts';
import {listFields} from '../fields.ts';
import {type InputOf, Refused} from '../operation.ts';
import {type CreatedKey, createKey, revokeKey, rotateKey} from './rules.ts';
import {type ApiKey, listApiKeys} from './store.ts';

const path = '/keys';
/** The maximum lifetime of a key that expires. */
const maxDays = 3650;

const lifetimes = [
	{value: '', label: 'never'},
	{value: '30', label: 'in 30 days'},
	{value: '90', label: 'in 90 days'},
	{value: '365', label: 'in a year'},
];
const overlaps = [
	{value: '24h', label: 'in 24 hours'},
	{value: '7d', label: 'in 7 days'},
	{value: '0', label: 'at once'},
];

type KeyInput = InputOf<typeof createKey.input>;

/** The fields except for the expiry, which is chosen from a list. */
const textFields = listFields(createKey.input).filter(({name}) => name !== 'expires_at');
const scopeField = textFields.filter(({isList}) => isList);
const shownFields = textFields.filter(({isList}) => !isList);

/** Creates, replaces and revokes the keys of the API. A key is shown once. */
export function keyPages(parts: DashboardParts): readonly Route[] {
	const {reader, settings, live} = parts;

	async function list(visit: Visit, problem: string | null = null): Promise<Answer> {
		const {workspace, now, form} = visit;
		const mayAct = visit.may('admin');
		return {
			kind: 'page',
			problem,
			place: 'keys',
			title: 'Keys',
			actions: mayAct ? disclosure('New key', keyForm(form)) : nothing,
			content: table({
				label: 'API keys',
				columns: [
					{title: 'Name', cell: row => name(row.name), cut: true},
					{title: 'Key', cell: row => code(`${row.hint}…`), cut: true},
					{title: 'State', cell: row => stateBadge(row, storeTime(now))},
					{title: 'Scopes', cell: row => scopeText(row), wide: true},
					{title: 'Last used', cell: row => time(row.last_used_at, now), right: true, wide: true},
					{title: 'Expires', cell: row => time(row.expires_at, now), right: true, wide: true},
					...(mayAct
						? [
								{
									title: '',
									cell: (row: ApiKey) => (isInactive(row, storeTime(now)) ? nothing : keyActs(row)),
									right: true as const,
								},
							]
						: []),
				],
				rows: await listApiKeys(reader, workspace.id),
				empty: html`<p>No keys yet.</p><p>Your application needs a key to send. Create one here, or with <code>mailctl key create --name app</code>.</p>`,
			}),
		};
	}

	function readKey({form, now, everywhere}: Visit): KeyInput {
		const input = readFields<KeyInput>(textFields, form);
		const limit = readRateLimit(input.rate_limit ?? '');
		if (limit !== undefined && !everywhere && !isWithin(limit, live().rateLimit)) {
			const page = 'Only users of all workspaces can set a rate limit above that of the installation.';
			throw new Refused('insufficient_scope', {wrong: page, next: '', page});
		}
		const days = Number(form.get('expires') ?? '');
		if (!(days >= 0 && days <= maxDays)) {
			rejectForm('Choose when the key expires.');
		}
		return {...input, expires_at: days > 0 ? storeTime(now + days * dayMs) : null};
	}

	/** Returns the only page that shows the key itself. */
	function showNew({row, key}: CreatedKey, {request: {protocol, host}}: Visit): Answer {
		// If one listener serves everything, API clients can use the address that the browser used.
		const base = settings.adminListen === 'shared' ? `${protocol}://${host}` : linkBase(settings);
		const command = `curl -sS ${base}/v1/messages -H 'Authorization: Bearer ${key}'`;
		const content = html`<p class="notice warn" role="status">Store the key now: it is not shown again.</p>
<div class="card">${facts([
			['Name', name(row.name)],
			['Key', copyable(key, 'the key')],
			['Scopes', scopeText(row)],
		])}</div>
<section><h2>Try it</h2><pre>${command}</pre></section>
<p class="more"><a href="${path}">Back to the keys</a></p>`;
		return {kind: 'page', place: 'keys', title: 'Your new key', content};
	}

	const form = operationForms(parts, {path, show: list});

	return [
		page(path, list),
		form(createKey, path, showNew, {read: readKey}),
		form(revokeKey, `${path}/:id/revoke`, ({name: revoked}) => `Revoked ${revoked}.`),
		form(rotateKey, `${path}/:id/rotate`, showNew),
	];
}

const isInactive = ({revoked_at: revoked, expires_at: expires}: ApiKey, now: string): boolean =>
	revoked !== null || (expires !== null && expires <= now);

function stateBadge(row: ApiKey, now: string): Html {
	return isInactive(row, now)
		? badge(row.revoked_at === null ? 'expired' : 'revoked', 'idle')
		: badge(row.mode, row.mode === 'live' ? 'good' : 'busy');
}

/** Lists the scopes of a key, but only summarizes the default ones, because there are many. */
function scopeText({scopes, mode}: ApiKey): Html {
	const defaults = defaultScopes(mode);
	const isDefault = scopes.length === defaults.length && defaults.every(scope => scopes.includes(scope));
	const summary = mode === 'live' ? 'all but messages:submit' : 'send and read';
	return html`${isDefault ? summary : scopes.join(', ')}`;
}

function keyActs({id}: ApiKey): Html {
	const overlap = select({name: 'overlap', label: 'The old key expires', value: '24h'}, overlaps);
	const replace = act({to: `${path}/${id}/rotate`, label: 'Replace', fields: overlap});
	const about = 'Requests with this key are then refused.';
	return menu([replace, dangerItem({to: `${path}/${id}/revoke`, label: 'Revoke now', about})], 'Change');
}

function keyForm(form: URLSearchParams): Html {
	const expiry = select({name: 'expires', label: 'Expires', value: form.get('expires') ?? ''}, lifetimes);
	const fields = html`${fieldInputs(shownFields, {typed: form})}${expiry}
<details><summary>Scopes (default: all but messages:submit)</summary>${fieldInputs(scopeField, {typed: form})}</details>`;
	return html`<div class="stack">${act({to: path, label: 'Create key', fields})}</div>`;
}
