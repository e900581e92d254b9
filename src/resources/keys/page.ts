import {linkBase} from '../../config/derive.ts';
import {act, badge, code, copyable, facts, name, nothing, opened, select, table, time} from '../../dashboard/markup.ts';
import {fieldInputs, operationForms, readFields, wrong} from '../../dashboard/operation-form.ts';
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
/** Of a key that ends. */
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

/** Lifetimes are chosen from a list. */
const textFields = listFields(createKey.input).filter(({name}) => name !== 'expires_at');
const scopeField = textFields.filter(({isList}) => isList);
const shownFields = textFields.filter(({isList}) => !isList);

/** Keys of the API: made, replaced and ended. A key is shown once. */
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
			actions: mayAct ? opened('New key', keyForm(form)) : nothing,
			content: table({
				label: 'API keys',
				columns: [
					{title: 'Name', cell: row => name(row.name), cut: true},
					{title: 'Key', cell: row => code(`${row.hint}…`), cut: true},
					{title: 'State', cell: row => stateBadge(row, storeTime(now))},
					{title: 'Scopes', cell: row => scopeText(row), wide: true},
					{title: 'Last used', cell: row => time(row.last_used_at, now), right: true, wide: true},
					{title: 'Ends', cell: row => time(row.expires_at, now), right: true, wide: true},
					...(mayAct
						? [
								{
									title: '',
									cell: (row: ApiKey) => (hasEnded(row, storeTime(now)) ? nothing : keyActs(row)),
									right: true as const,
								},
							]
						: []),
				],
				rows: await listApiKeys(reader, workspace.id),
				empty: html`<p>No keys yet.</p><p>A program needs one to send: make it here or with <code>mailctl key create --name app</code>.</p>`,
			}),
		};
	}

	function readKey({form, now, everywhere}: Visit): KeyInput {
		const input = readFields<KeyInput>(textFields, form);
		const limit = readRateLimit(input.rate_limit ?? '');
		if (limit !== undefined && !everywhere && !isWithin(limit, live().rateLimit)) {
			const page = 'A rate limit above the usual one is the installation’s: only users of all workspaces set it.';
			throw new Refused('insufficient_scope', {wrong: page, next: '', page});
		}
		const days = Number(form.get('expires') ?? '');
		if (!(days >= 0 && days <= maxDays)) {
			wrong('Choose when the key ends.');
		}
		return {...input, expires_at: days > 0 ? storeTime(now + days * dayMs) : null};
	}

	/** The only page that has the key itself. */
	function shown({row, key}: CreatedKey, {request: {protocol, host}}: Visit): Answer {
		// Where one listener serves all, what the browser reached others on this machine reach too.
		const base = settings.adminListen === 'shared' ? `${protocol}://${host}` : linkBase(settings);
		const call = `curl -sS ${base}/v1/messages -H 'Authorization: Bearer ${key}'`;
		const content = html`<p class="notice warn" role="status">Keep it now: nobody can read it again.</p>
<div class="card">${facts([
			['Name', name(row.name)],
			['Key', copyable(key, 'the key')],
			['May', scopeText(row)],
		])}</div>
<section><h2>Try it</h2><pre>${call}</pre></section>
<p class="more"><a href="${path}">To the keys</a></p>`;
		return {kind: 'page', place: 'keys', title: 'Your new key', content};
	}

	const form = operationForms(parts, {path, show: list});

	return [
		page(path, list),
		form(createKey, path, shown, {read: readKey}),
		form(revokeKey, `${path}/:id/revoke`, ({name: ended}) => `${ended} is ended.`),
		form(rotateKey, `${path}/:id/rotate`, shown),
	];
}

const hasEnded = ({revoked_at: revoked, expires_at: expires}: ApiKey, now: string): boolean =>
	revoked !== null || (expires !== null && expires <= now);

function stateBadge(row: ApiKey, now: string): Html {
	return hasEnded(row, now)
		? badge(row.revoked_at === null ? 'expired' : 'ended', 'idle')
		: badge(row.mode, row.mode === 'live' ? 'good' : 'busy');
}

/** Few want to read nineteen of them. */
function scopeText({scopes: own, mode}: ApiKey): Html {
	const isUsual =
		defaultScopes(mode).every(scope => own.includes(scope)) && own.length === defaultScopes(mode).length;
	return isUsual ? html`${mode === 'live' ? 'all but messages:submit' : 'send and read'}` : html`${own.join(', ')}`;
}

function keyActs({id}: ApiKey): Html {
	const when = select({name: 'overlap', label: 'The old one ends', value: '24h'}, overlaps);
	return opened(
		'Change',
		html`${act({to: `${path}/${id}/rotate`, label: 'Replace', fields: when})}${act({to: `${path}/${id}/revoke`, label: 'End it now', look: 'danger'})}`,
	);
}

function keyForm(form: URLSearchParams): Html {
	const ends = select({name: 'expires', label: 'Ends', value: form.get('expires') ?? ''}, lifetimes);
	const fields = html`${fieldInputs(shownFields, {typed: form})}${ends}
<details><summary>What it may do (none chosen: all but messages:submit)</summary>${fieldInputs(scopeField, {typed: form})}</details>`;
	return html`<div class="stack">${act({to: path, label: 'Make the key', fields})}</div>`;
}
