import {pager, searchForm, toPage} from '../../dashboard/lists.ts';
import {
	act,
	badge,
	copyable,
	dangerItem,
	facts,
	menu,
	name,
	nothing,
	section,
	table,
	time,
	toHref,
} from '../../dashboard/markup.ts';
import {checkTyped, fieldInputs, operationForms, pageForms} from '../../dashboard/operation-form.ts';
import type {DashboardParts} from '../../dashboard/parts.ts';
import {type Answer, go, page, type Route, type Visit} from '../../dashboard/route.ts';
import {type Html, html} from '../../hosted/html.ts';
import {storeTime} from '../../kit/time.ts';
import {isId} from '../../mail/ids.ts';
import {readLines, scanMessages} from '../../store/message-scan.ts';
import {listFields} from '../fields.ts';
import {readAddress} from '../formats.ts';
import {messageTable} from '../messages/page.ts';
import {notFound} from '../operation.ts';
import {findSuppression} from '../suppressions/store.ts';
import {type Contact, findContact, listContacts} from '../topics/store.ts';
import {changeContact, linkPreferences} from './rules.ts';

const path = '/contacts';
const perPage = 50;
const maxMessages = 10;

/** The people to whom a workspace has sent messages. */
export function contactPages(parts: DashboardParts): readonly Route[] {
	const {reader, erase, preferencesLink} = parts;

	/** Returns the contact that the path names. */
	async function chosen({params: {id = ''}, workspace, now}: Visit): Promise<Contact> {
		const contact = isId('con', id) ? await findContact(reader, workspace.id, id, storeTime(now)) : undefined;
		return contact ?? notFound('contact', id);
	}

	async function list({query, workspace, now}: Visit): Promise<Answer> {
		const search = query.get('q')?.trim() ?? '';
		const address = search === '' ? null : readAddress(search);
		const part = {addressKey: address?.key, after: query.get('after'), limit: perPage + 1, now: storeTime(now)};
		const contacts = search !== '' && address === null ? [] : await listContacts(reader, workspace.id, part);
		const {rows, last} = toPage(contacts, perPage);
		const content = html`${searchForm({to: path, query, placeholder: 'user@example.com'})}${table({
			label: 'Contacts',
			link: row => `${path}/${row.id}`,
			columns: [
				{title: 'Address', cell: row => name(row.address), cut: true},
				{title: 'Mail', cell: status},
				{title: 'Language', cell: row => row.locale ?? '–', wide: true},
				{title: 'Time zone', cell: row => row.timezone ?? '–', wide: true},
				{title: 'First message', cell: row => time(row.createdAt, now), right: true},
			],
			rows,
			empty:
				search === ''
					? html`<p>No contacts yet.</p><p>The first message to an address creates one.</p>`
					: html`<p>${address === null ? 'Enter a full address, such as user@example.com.' : 'No contact has this address.'}</p><p><a href="${path}">Show all</a></p>`,
		})}${pager(path, query, last?.id ?? null)}`;
		return {kind: 'page', place: 'contacts', title: 'Contacts', content};
	}

	async function show(visit: Visit, problem: string | null = null): Promise<Answer> {
		const contact = await chosen(visit);
		const {workspace, now, form} = visit;
		const filter = {workspaceId: workspace.id, toKey: contact.addressKey};
		const {ids} = await scanMessages(reader, filter, {after: null, limit: maxMessages});
		const suppression = await findSuppression(reader, workspace.id, {addressKey: contact.addressKey});
		const summary = facts([
			['Address', name(contact.address)],
			['Mail', status(contact)],
			[
				'Suppressed',
				suppression
					? html`<a href="${toHref('/suppressions', new URLSearchParams({q: contact.address}))}">${suppression.reason.replace('_', ' ')}</a>, ${time(suppression.created_at, now)}`
					: 'no',
			],
			['Opted out of', listOptOuts(contact).join(', ') || 'nothing'],
			['Paused', contact.pausedUntil && html`ends ${time(contact.pausedUntil, now)}`],
			['Language', contact.locale ?? 'unknown'],
			['Time zone', contact.timezone ?? 'unknown'],
			['First message', time(contact.createdAt, now)],
			['Changed', time(contact.updatedAt, now)],
		]);
		const messages = table({
			...messageTable(now),
			rows: await readLines(reader, ids),
			empty: html`<p>No messages are retained.</p>`,
		});
		const allMessages = html`<a href="${toHref('/messages', new URLSearchParams({q: contact.address}))}">All messages to this address</a>`;
		const content = html`<div class="card">${summary}</div>${section('Newest messages', messages, allMessages)}${
			visit.may('operator')
				? html`${section('Preferences', preferencesForm(contact, form), act({to: `${path}/${contact.id}/link`, label: 'Link to their page', look: 'quiet'}))}`
				: null
		}`;
		return {
			kind: 'page',
			problem,
			place: 'contacts',
			title: contact.address,
			actions: visit.may('operator') ? menu([eraseItem(contact)]) : nothing,
			content,
		};
	}

	async function eraseContact(visit: Visit): Promise<Answer> {
		const contact = await chosen(visit);
		checkTyped(visit, contact.address, `Nothing was erased: type ${contact.address} to erase it.`);
		const person = {workspaceId: visit.workspace.id, addressKey: contact.addressKey};
		const {messages, recipients} = await erase(person, visit.tools.operator);
		return go(
			path,
			`Erased the contact, the content of ${messages} messages to it, and the address in ${recipients} other messages.`,
		);
	}

	const form = operationForms(parts, {path, show});
	return [
		page(path, list),
		page(`${path}/:id`, show),
		form(changeContact, `${path}/:id`, ({id}) =>
			go(`${path}/${id}`, 'Saved. New messages use these preferences, unless the send sets others.'),
		),
		form(linkPreferences, `${path}/:id/link`, async person => {
			const {url} = await preferencesLink(person);
			const content = html`<div class="card"><p>Give this link only to this person: anyone who has it can change their preferences.</p>${copyable(url, 'the link')}<p><a href="${path}/${person.id}">Back to the contact</a></p></div>`;
			return {kind: 'page', place: 'contacts', title: 'Link to the preference page', content};
		}),
		pageForms(show)(`${path}/:id/erase`, 'operator', eraseContact, {fresh: true}),
	];
}

const listOptOuts = ({topics, leftOther}: Contact) => [...topics, ...(leftOther ? ['mail without a topic'] : [])];

function status(contact: Contact): Html {
	const codes = listOptOuts(contact);
	if (contact.suppressed) {
		return badge('suppressed', 'bad');
	}
	if (contact.pausedUntil) {
		return badge('paused', 'warn');
	}
	return codes.length > 0 ? badge(`not ${codes.join(', ')}`, 'warn') : badge('subscribed', 'good');
}

const preferenceFields = listFields(changeContact.input).filter(({name}) => name !== 'id');

function preferencesForm(contact: Contact, typed: URLSearchParams): Html {
	const fields = fieldInputs(preferenceFields, {values: contact, typed});
	return html`<div class="card">${act({to: `${path}/${contact.id}`, label: 'Save', fields})}</div>`;
}

function eraseItem({id, address}: Contact): Html {
	const about =
		'Removes the contact, the content of all messages to it, and the address wherever it appears. Suppressions and opt-outs remain, so that no further messages are sent to it.';
	return dangerItem({to: `${path}/${id}/erase`, label: 'Erase contact', about, typed: address});
}
