import type {Knex} from 'knex';
import {sampleSender} from '../../admin/sample.ts';
import {readAddress} from '../../api/schemas/formats.ts';
import {addSender, changeSender, prepareKeys, removeSender, senderState} from '../../domains/senders.ts';
import {type Html, html} from '../../hosted/html.ts';
import {labelFault} from '../../kit/text.ts';
import {isId} from '../../mail/ids.ts';
import {type Domain, findSenderById, pageDomainSenders, type Sender} from '../../store/domains.ts';
import {
	act,
	badge,
	facts,
	hrefOf,
	input,
	join,
	name,
	nothing,
	opened,
	section,
	type Tone,
	table,
	time,
} from '../markup.ts';
import type {DashboardParts} from '../parts.ts';
import {type Answer, go, missing, type Route, type Visit} from '../route.ts';
import type {DomainPage} from './domain.ts';

const perPage = 50;
const tones: Readonly<Record<ReturnType<typeof senderState>, Tone>> = {
	ready: 'good',
	unverified: 'busy',
	disabled: 'warn',
};

/** The addresses that mail from a domain may come from. */
export async function sendersSection(reader: Knex, visit: Visit, domain: Domain): Promise<Html> {
	const {query, form, may, now} = visit;
	const found = await pageDomainSenders(reader, domain.id, {after: query.get('senders'), limit: perPage + 1});
	const rows = found.slice(0, perPage);
	const last = found.length > perPage ? rows.at(-1) : undefined;
	const to = `/domains/${domain.id}`;
	const shown = table<Sender>({
		label: 'Senders',
		link: ({id}) => `${to}/senders/${id}`,
		columns: [
			{title: 'Address', cell: row => name(row.address)},
			{title: 'Name', cell: nameOf, cut: true, wide: true},
			{title: 'State', cell: senderBadge},
			{title: 'Added', cell: row => time(row.created_at, now), right: true, wide: true},
		],
		rows,
		empty: html`<p>No senders yet.</p><p>Add the addresses that mail comes from, such as no-reply@${domain.name}.</p>`,
	});
	const more =
		last && html`<p><a href="${hrefOf(to, query, {senders: last.address_key})}" rel="next">More senders</a></p>`;
	return section(
		'Senders',
		html`${shown}${more ?? null}`,
		may('admin') && !isSenderAsked(visit)
			? html`<div class="actions">${opened('Add a sender', senderForm(domain, form))}</div>`
			: nothing,
	);
}

function senderBadge(row: Sender): Html {
	const state = senderState(row);
	return badge(state, tones[state]);
}

function nameOf(row: Sender): Html | string {
	return row.name === null ? (row.address === sampleSender ? '(sample)' : '') : name(row.name);
}

/** What was typed into the form was wrong: then it stands above all. */
export const isSenderAsked = ({form}: Visit): boolean => form.has('address');

export function senderForm({id, name: domain}: Domain, typed: URLSearchParams): Html {
	const fields = join([
		input({
			name: 'address',
			label: 'Address',
			type: 'email',
			required: true,
			value: typed.get('address') ?? '',
			placeholder: `no-reply@${domain}`,
		}),
		input({name: 'name', label: 'Name in From (optional)', value: typed.get('name') ?? '', placeholder: 'Shop'}),
	]);
	return html`<div class="stack">${act({to: `/domains/${id}/senders`, label: 'Add the sender', fields})}</div>`;
}

const changeNotices = {
	verify: 'is verified, whatever DNS says',
	enable: 'may send again',
	disable: 'may not send any more',
} as const;

function actionsOf(to: string, sender: Sender, everywhere: boolean): Html {
	const state = senderState(sender);
	const removal = html`<p>Its queued mail ends as errored.</p>${act({
		to: `${to}/remove`,
		label: 'Remove the sender',
		look: 'danger',
		typed: sender.address,
	})}`;
	return join([
		...(state === 'unverified' && everywhere ? [act({to: `${to}/verify`, label: 'Verify without DNS'})] : []),
		state === 'disabled'
			? act({to: `${to}/enable`, label: 'Enable', look: 'quiet'})
			: act({to: `${to}/disable`, label: 'Disable', look: 'quiet'}),
		opened('Remove', removal),
	]);
}

export function senderPages(
	{reader, change, vault, domains}: DashboardParts,
	{show, about}: DomainPage,
): readonly Route[] {
	async function add(visit: Visit, domain: Domain): Promise<Answer> {
		const {form, workspace, tools} = visit;
		const address = readAddress(form.get('address')?.trim() ?? '');
		const name = form.get('name')?.trim() || null;
		const fault = name === null ? null : labelFault(name);
		if (address === null || address.domain !== domain.name) {
			return await show(visit, domain, `The address of a sender of this domain ends with @${domain.name}.`);
		}
		if (fault !== null) {
			return await show(visit, domain, `The name ${fault}.`);
		}
		const newKeys = await prepareKeys(reader, workspace.id, address.domain, domains.makeKeys);
		const input = {workspaceId: workspace.id, address, name, verified: false, newKeys};
		const added = await change(trx => addSender(trx, tools, vault, input));
		return added
			? go(`/domains/${domain.id}`, `${added.address} is added.`)
			: await show(visit, domain, `The sender ${address.spelling} is there already.`);
	}

	/** An answer about a sender of the domain. */
	const aboutSender = (work: (visit: Visit, domain: Domain, sender: Sender) => Promise<Answer>) =>
		about(async (visit, domain) => {
			const {sender: id = ''} = visit.params;
			const sender = isId('snd', id) ? await findSenderById(reader, domain.workspace_id, id) : undefined;
			return sender?.domain_id === domain.id
				? await work(visit, domain, sender)
				: missing('This domain has no such sender.');
		});

	async function look(
		{may, everywhere, now}: Visit,
		{id, name: domain}: Domain,
		sender: Sender,
		problem?: string,
	): Promise<Answer> {
		const to = `/domains/${id}/senders/${sender.id}`;
		return {
			kind: 'page',
			...(problem !== undefined && {status: 422, problem}),
			place: 'domains',
			title: sender.address,
			...(may('admin') && {actions: actionsOf(to, sender, everywhere)}),
			content: facts([
				['State', senderBadge(sender)],
				['Name in From', sender.name && name(sender.name)],
				['Domain', html`<a href="/domains/${id}">${domain}</a>`],
				['Added', time(sender.created_at, now)],
			]),
		};
	}

	async function remove(visit: Visit, domain: Domain, sender: Sender): Promise<Answer> {
		const {id, address} = sender;
		if (visit.form.get('typed') !== address) {
			return await look(visit, domain, sender, `Nothing was removed: type ${address} to remove it.`);
		}
		await change(trx => removeSender(trx, visit.tools, domain.workspace_id, {id}));
		return go(`/domains/${domain.id}`, `${address} is removed.`);
	}

	return [
		{method: 'POST', path: '/domains/:id/senders', role: 'admin', answer: about(add)},
		{
			method: 'GET',
			path: '/domains/:id/senders/:sender',
			role: 'viewer',
			answer: aboutSender((visit, domain, sender) => look(visit, domain, sender)),
		},
		...(['verify', 'enable', 'disable'] as const).map(
			(step): Route => ({
				method: 'POST',
				path: `/domains/:id/senders/:sender/${step}`,
				role: 'admin',
				// Vouching for a sender is the installation's: it lets mail go out in the name of a domain that DNS has not proved.
				...(step === 'verify' && {everywhere: true as const}),
				answer: aboutSender(async ({tools}, domain, {id, address, address_key: key}) => {
					await change(trx => changeSender(trx, tools, domain.workspace_id, key, step));
					return go(`/domains/${domain.id}/senders/${id}`, `${address} ${changeNotices[step]}.`);
				}),
			}),
		),
		{
			method: 'POST',
			path: '/domains/:id/senders/:sender/remove',
			role: 'admin',
			fresh: true,
			answer: aboutSender(remove),
		},
	];
}
