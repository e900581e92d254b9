import type {Knex} from 'knex';
import {pager, toPage} from '../../dashboard/lists.ts';
import {act, badge, input, join, opened, type Tone, table, time} from '../../dashboard/markup.ts';
import {pageForms, wrong} from '../../dashboard/operation-form.ts';
import type {DashboardParts} from '../../dashboard/parts.ts';
import {type Answer, go, page, type Route, type Visit} from '../../dashboard/route.ts';
import {type Html, html} from '../../hosted/html.ts';
import {parseDomain} from '../../mail/address.ts';
import {isId} from '../../mail/ids.ts';
import {notFound} from '../operation.ts';
import {addDomain, returnPathProblem, sampleDomain} from './domains.ts';
import {type Domain, type DomainState, findDomainById, pageDomains} from './store.ts';

const perPage = 100;

/** The domains of a workspace, and a form that adds one. */
export function domainListPages({reader, change, vault, domains: sending}: DashboardParts): readonly Route[] {
	async function list({query, form, workspace, may, now}: Visit, problem: string | null = null): Promise<Answer> {
		const found = await pageDomains(reader, workspace.id, {after: query.get('after'), limit: perPage + 1});
		const {rows, last} = toPage(found, perPage);
		const asksForOne = may('admin') && (rows.length === 0 || problem !== null);
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
				!asksForOne && {actions: opened('Add a domain', html`<div class="stack">${addForm(form)}</div>`)}),
			content: join([
				...(asksForOne
					? [html`<div class="card stack">${rows.length === 0 ? welcome : null}${addForm(form)}</div>`]
					: []),
				...(asksForOne && rows.length === 0 ? [] : [domains]),
				pager('/domains', query, last?.id ?? null),
			]),
		};
	}

	async function add({form, workspace, tools}: Visit): Promise<Answer> {
		const name = parseDomain(form.get('name')?.trim() ?? '');
		const own = form.get('return_path_domain')?.trim() ?? '';
		const returnPathDomain = own === '' ? null : (parseDomain(own) ?? '');
		if (name === null) {
			wrong('This is no domain: use a name such as shop.example.');
		}
		const fault = returnPathProblem(name, returnPathDomain);
		if (fault !== null) {
			wrong(`The return path ${fault}.`);
		}
		const keys = await sending.makeKeys(workspace.id);
		const links = parseLinks(form);
		const input = {
			workspaceId: workspace.id,
			name,
			returnPathDomain,
			keys,
			links: links === null ? null : {host: links, ownHosts: sending.ownHosts},
		};
		const added = await change(trx => addDomain(trx, tools, vault, input));
		return added
			? go(`/domains/${added.domain.id}`, `${name} is added. Publish its records below, then verify it.`)
			: wrong(`${name} is there already: open it in the list.`);
	}

	return [page('/domains', list), pageForms(list)('/domains', 'admin', add)];
}

/** The one that a path names. */
export async function chosenDomain(reader: Knex, {workspace, params: {id = ''}}: Visit): Promise<Domain> {
	const domain = isId('dom', id) ? await findDomainById(reader, workspace.id, id) : undefined;
	return domain ?? notFound('domain', id, {page: 'This workspace has no such domain.'});
}

/** The host of links that a form names; null: none. */
export function parseLinks(form: URLSearchParams): string | null {
	const typed = form.get('link_host')?.trim() ?? '';
	return typed === ''
		? null
		: (parseDomain(typed) ?? wrong('This is no host: use a name such as links.shop.example.'));
}

export const linksInput = (value: string): Html =>
	input({
		name: 'link_host',
		label: 'Link host (optional)',
		value,
		placeholder: 'links.shop.example',
		hint: 'The host of links in its mail, below the domain. Used once DNS leads it here.',
	});

const welcome = html`<p>No domains yet. Add the one that your mail comes from, then publish its DNS records.</p>`;

const tones: Readonly<Record<DomainState, Tone>> = {pending: 'busy', verified: 'good', degraded: 'warn', failed: 'bad'};

export const domainBadge = (state: DomainState): Html => badge(state, tones[state]);

const returnPathOf = ({return_path_at: since}: Domain) => (since === null ? 'the installation’s' : 'its own');

function addForm(typed: URLSearchParams): Html {
	const fields = join([
		input({
			name: 'name',
			label: 'Domain',
			required: true,
			value: typed.get('name') ?? '',
			placeholder: 'shop.example',
			hint: 'The part after the @ of your From addresses.',
		}),
		input({
			name: 'return_path_domain',
			label: 'Return path (optional)',
			value: typed.get('return_path_domain') ?? '',
			placeholder: 'bounce.shop.example',
			hint: 'Where its bounces go: a host below the domain.',
		}),
		linksInput(typed.get('link_host') ?? ''),
	]);
	return act({to: '/domains', label: 'Add the domain', fields});
}
