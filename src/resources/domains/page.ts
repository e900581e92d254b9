import type {Knex} from 'knex';
import {pager, toPage} from '../../dashboard/lists.ts';
import {act, badge, disclosure, join, type Tone, table, time} from '../../dashboard/markup.ts';
import {fieldInputs, operationForms} from '../../dashboard/operation-form.ts';
import type {DashboardParts} from '../../dashboard/parts.ts';
import {type Answer, go, page, type Route, type Visit} from '../../dashboard/route.ts';
import {type Html, html} from '../../hosted/html.ts';
import {isId} from '../../mail/ids.ts';
import {listFields} from '../fields.ts';
import {addDomain, requireDomain, sampleDomain} from './rules.ts';
import {type Domain, type DomainState, pageDomains} from './store.ts';

const perPage = 100;

/** The list of a workspace's domains, with a form that adds one. */
export function domainListPages(parts: DashboardParts): readonly Route[] {
	const {reader, domains: domainParts} = parts;

	async function list({query, form, workspace, may, now}: Visit, problem: string | null = null): Promise<Answer> {
		const found = await pageDomains(reader, workspace.id, {after: query.get('after'), limit: perPage + 1});
		const {rows, last} = toPage(found, perPage);
		const shouldShowForm = may('admin') && (rows.length === 0 || problem !== null);
		const domains = table<Domain>({
			label: 'Domains',
			link: ({id}) => `/domains/${id}`,
			columns: [
				{title: 'Domain', cell: row => (row.name === sampleDomain ? `${row.name} (sample)` : row.name)},
				{title: 'State', cell: ({state}) => domainBadge(state)},
				{title: 'Return path', cell: returnPathOf, wide: true},
				{title: 'DNS checked', cell: row => time(row.checked_at, now), right: true},
				{title: 'Added', cell: row => time(row.created_at, now), right: true, wide: true},
			],
			rows,
			empty: html`<p>No domains yet.</p><p>An admin adds the domain that your mail comes from.</p>`,
		});
		return {
			kind: 'page',
			place: 'domains',
			title: 'Domains',
			problem,
			...(may('admin') &&
				!shouldShowForm && {
					actions: disclosure('Add a domain', html`<div class="stack">${addForm(form)}</div>`),
				}),
			content: join([
				...(shouldShowForm
					? [html`<div class="card stack">${rows.length === 0 ? welcome : null}${addForm(form)}</div>`]
					: []),
				...(shouldShowForm && rows.length === 0 ? [] : [domains]),
				pager('/domains', query, last?.id ?? null),
			]),
		};
	}

	const form = operationForms(parts, {path: '/domains', show: list});
	return [
		page('/domains', list),
		form(
			addDomain,
			'/domains',
			({domain: {id, name}}) =>
				go(`/domains/${id}`, `${name} is added. Publish its records below, then verify it.`),
			{
				prepare: async ({workspace}) => ({
					keys: await domainParts.makeKeys(workspace.id),
					ownHosts: domainParts.ownHosts,
				}),
			},
		),
	];
}

/** Returns the domain that a path names. */
export async function findChosenDomain(reader: Knex, {workspace, params: {id = ''}}: Visit): Promise<Domain> {
	return await requireDomain(reader, workspace.id, isId('dom', id) ? id : '');
}

const welcome = html`<p>No domains yet. Add the one that your mail comes from, then publish its DNS records.</p>`;

const tones: Readonly<Record<DomainState, Tone>> = {pending: 'busy', verified: 'good', degraded: 'warn', failed: 'bad'};

export const domainBadge = (state: DomainState): Html => badge(state, tones[state]);

const returnPathOf = ({return_path_at: since}: Domain) => (since === null ? 'the installation’s' : 'its own');

function addForm(typed: URLSearchParams): Html {
	return act({to: '/domains', label: 'Add the domain', fields: fieldInputs(listFields(addDomain.input), {typed})});
}
