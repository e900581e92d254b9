import type {Knex} from 'knex';
import {toPage} from '../../dashboard/lists.ts';
import {
	act,
	badge,
	dangerItem,
	disclosure,
	facts,
	join,
	menu,
	name,
	nothing,
	section,
	type Tone,
	table,
	time,
	toHref,
} from '../../dashboard/markup.ts';
import {checkTyped, fieldInputs, operationForms} from '../../dashboard/operation-form.ts';
import type {DashboardParts} from '../../dashboard/parts.ts';
import {type Answer, go, page, type Route, type Visit} from '../../dashboard/route.ts';
import {type Html, html} from '../../hosted/html.ts';
import {isId} from '../../mail/ids.ts';
import {listFields} from '../fields.ts';
import {notFound} from '../operation.ts';
import {sampleSender} from '../workspaces/sample.ts';
import {findChosenDomain} from './page.ts';
import {addSender, removeSender, senderState, updateSender, verifySender} from './senders-rules.ts';
import {type Domain, findSenderById, pageDomainSenders, type Sender} from './store.ts';

const perPage = 50;
const tones: Readonly<Record<ReturnType<typeof senderState>, Tone>> = {
	ready: 'good',
	unverified: 'busy',
	disabled: 'warn',
};

/** Lists the addresses that a domain's messages may come from. */
export async function sendersSection(reader: Knex, visit: Visit, domain: Domain): Promise<Html> {
	const {query, form, may, now} = visit;
	const found = await pageDomainSenders(reader, domain.id, {after: query.get('senders'), limit: perPage + 1});
	const {rows, last} = toPage(found, perPage);
	const to = `/domains/${domain.id}`;
	const list = table<Sender>({
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
		last && html`<p><a href="${toHref(to, query, {senders: last.address_key})}" rel="next">More senders</a></p>`;
	return section(
		'Senders',
		html`${list}${more ?? null}`,
		may('admin') && !hasSubmittedSender(visit)
			? html`<div class="actions">${disclosure('Add a sender', senderForm(domain, form))}</div>`
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

/** Whether the form was submitted but rejected, so that the page of the domain shows it first. */
export const hasSubmittedSender = ({form}: Visit): boolean => form.has('address');

export function senderForm({id}: Domain, typed: URLSearchParams): Html {
	const fields = fieldInputs(listFields(addSender.input), {typed});
	return html`<div class="stack">${act({to: `/domains/${id}/senders`, label: 'Add the sender', fields})}</div>`;
}

function actionsOf(to: string, sender: Sender, everywhere: boolean): Html {
	const state = senderState(sender);
	const about = 'Its queued messages end as errored.';
	return join([
		...(state === 'unverified' && everywhere ? [act({to: `${to}/verify`, label: 'Verify without DNS'})] : []),
		state === 'disabled'
			? act({to: `${to}/enable`, label: 'Enable', look: 'quiet'})
			: act({to: `${to}/disable`, label: 'Disable', look: 'quiet'}),
		menu([dangerItem({to: `${to}/remove`, label: 'Remove sender', about, typed: sender.address})]),
	]);
}

/** The page of one sender. */
export function senderPages(parts: DashboardParts): readonly Route[] {
	const {reader} = parts;

	/** Returns the sender that a path names, and its domain. */
	async function findChosen(visit: Visit): Promise<{readonly domain: Domain; readonly sender: Sender}> {
		const domain = await findChosenDomain(reader, visit);
		const {sender: id = ''} = visit.params;
		const sender = isId('snd', id) ? await findSenderById(reader, domain.workspace_id, id) : undefined;
		return sender?.domain_id === domain.id
			? {domain, sender}
			: notFound('sender', id, {page: 'This domain has no such sender.'});
	}

	async function show(visit: Visit, problem: string | null = null): Promise<Answer> {
		const {domain, sender} = await findChosen(visit);
		const to = `/domains/${domain.id}`;
		return {
			kind: 'page',
			problem,
			place: 'domains',
			title: sender.address,
			...(visit.may('admin') && {actions: actionsOf(`${to}/senders/${sender.id}`, sender, visit.everywhere)}),
			content: facts([
				['State', senderBadge(sender)],
				['Name in From', sender.name && name(sender.name)],
				['Domain', html`<a href="${to}">${domain.name}</a>`],
				['Added', time(sender.created_at, visit.now)],
			]),
		};
	}

	async function checkRemoval(visit: Visit): Promise<void> {
		const {address} = (await findChosen(visit)).sender;
		checkTyped(visit, address, `Nothing was removed: type ${address} to remove it.`);
	}

	const path = '/domains/:id/senders/:sender';
	const form = operationForms(parts, {path, show});
	const read = ({params: {sender = ''}}: Visit) => ({id: sender});
	/** Checks that the domain has the sender. */
	const before = async (visit: Visit) => void (await findChosen(visit));
	const switchForm = (verb: 'enable' | 'disable', notice: string) =>
		form(updateSender, `${path}/${verb}`, ({address}) => `${address} ${notice}.`, {
			before,
			read: visit => ({...read(visit), active: verb === 'enable'}),
		});
	return [
		page(path, show),
		form(verifySender, `${path}/verify`, ({address}) => `${address} is verified, regardless of DNS.`, {
			before,
			read,
		}),
		switchForm('enable', 'can send again'),
		switchForm('disable', 'can no longer send'),
		form(
			removeSender,
			`${path}/remove`,
			({address}, {params}) => go(`/domains/${params.id}`, `${address} is removed.`),
			{before: checkRemoval, read},
		),
	];
}
