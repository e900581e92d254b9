import {linkBase} from '../../config/derive.ts';
import {
	act,
	badge,
	code,
	copyable,
	facts,
	input,
	name,
	nothing,
	opened,
	select,
	table,
	time,
} from '../../dashboard/markup.ts';
import {operationForms, wrong} from '../../dashboard/operation-form.ts';
import type {DashboardParts} from '../../dashboard/parts.ts';
import {type Answer, page, type Route, type Visit} from '../../dashboard/route.ts';
import {type Html, html} from '../../hosted/html.ts';
import {dayMs, storeTime} from '../../kit/time.ts';
import {defaultScopes, isWithin, readRateLimit, type Scope, scopes} from '../../mail/api-key.ts';
import {notFound, Refused} from '../operation.ts';
import {type CreatedKey, createKey, revokeKey, rotateKey} from './rules.ts';
import {type ApiKey, listApiKeys} from './store.ts';

const path = '/keys';
/** Of a key that ends. */
const maxDays = 3650;
const gone = 'There is no such key, or it has ended.';

const lifetimes = [
	{value: '', label: 'never'},
	{value: '30', label: 'in 30 days'},
	{value: '90', label: 'in 90 days'},
	{value: '365', label: 'in a year'},
];
const overlaps = [
	{value: '24', label: 'in 24 hours'},
	{value: '168', label: 'in 7 days'},
	{value: '0', label: 'at once'},
];

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

	/** What a form asks for. */
	function asked({form, now, everywhere}: Visit) {
		const rateLimit = form.get('rate_limit')?.trim() ?? '';
		const mode = form.get('mode') === 'test' ? ('test' as const) : ('live' as const);
		const named = form.getAll('scope');
		const chosen = scopes.filter(scope => named.includes(scope));
		// Without a scope the key gets the usual ones: a misspelt one must not.
		if (named.length > chosen.length) {
			wrong('Unknown scope: choose from the scopes in the form.');
		}
		const limit = readRateLimit(rateLimit);
		if (rateLimit !== '' && limit === undefined) {
			wrong('The rate limit must be requests per seconds, as 6000/60, or 0 for none.');
		}
		if (limit !== undefined && !everywhere && !isWithin(limit, live().rateLimit)) {
			const page = 'A rate limit above the usual one is the installation’s: only users of all workspaces set it.';
			throw new Refused('insufficient_scope', {wrong: page, next: '', page});
		}
		const days = Number(form.get('expires') ?? '');
		if (!(days >= 0 && days <= maxDays)) {
			wrong('Choose when the key ends.');
		}
		return {
			name: form.get('name')?.trim() ?? '',
			mode,
			...(chosen.length > 0 && {scopes: chosen}),
			rate_limit: rateLimit === '' ? null : rateLimit,
			expires_at: days > 0 ? storeTime(now + days * dayMs) : null,
		};
	}

	function rotation({params: {id = ''}, form}: Visit) {
		const overlap = Math.round(Math.max(0, Number(form.get('overlap') ?? 24)) * 3_600_000);
		return overlap <= 30 * dayMs ? {id, overlap} : notFound('key', id, {page: gone});
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
		form(createKey, path, shown, {read: asked}),
		form(revokeKey, `${path}/:id/revoke`, ({name: ended}) => `${ended} is ended.`),
		form(rotateKey, `${path}/:id/rotate`, shown, {read: rotation}),
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
	const when = select({name: 'overlap', label: 'The old one ends', value: '24'}, overlaps);
	return opened(
		'Change',
		html`${act({to: `${path}/${id}/rotate`, label: 'Replace', fields: when})}${act({to: `${path}/${id}/revoke`, label: 'End it now', look: 'danger'})}`,
	);
}

function keyForm(form: URLSearchParams): Html {
	const kept = (field: string) => form.get(field) ?? '';
	const modes = [
		{value: 'live', label: 'live: mail leaves'},
		{value: 'test', label: 'test: nothing leaves'},
	];
	const fields = html`${input({name: 'name', label: 'Name', required: true, value: kept('name'), placeholder: 'shop-backend'})}
${select({name: 'mode', label: 'Mode', value: kept('mode') || 'live'}, modes)}
${select({name: 'expires', label: 'Ends', value: kept('expires')}, lifetimes)}
${input({name: 'rate_limit', label: 'Rate limit', value: kept('rate_limit'), placeholder: '6000/60', hint: 'Requests per seconds; empty: the usual one'})}
<details><summary>What it may do (none chosen: all but messages:submit)</summary><fieldset><legend class="soft">Scopes</legend>${scopes.map(
		scope => scopeBox(scope, form.getAll('scope').includes(scope)),
	)}</fieldset></details>`;
	return html`<div class="stack">${act({to: path, label: 'Make the key', fields})}</div>`;
}

function scopeBox(scope: Scope, isChosen: boolean): Html {
	return html`<label class="field check"><input type="checkbox" name="scope" value="${scope}"${isChosen ? html` checked` : nothing}><span>${scope}</span></label>`;
}
