import {randomBytes} from 'node:crypto';
import {count, address as parseAddress} from '../../cli/options.ts';
import type {CliCommand} from '../../cli/program.ts';
import {readDaemons, type Session} from '../../cli/session.ts';
import {fields, type Noun, shortTime} from '../../cli/terminal-text.ts';
import {operationVerb} from '../../cli/verbs.ts';
import {createLinks} from '../../compose/links/links.ts';
import {linkBase, servesHttps} from '../../config/derive.ts';
import {capturedFolder, removeCaptured} from '../../deliver/local-delivery.ts';
import {storeTime} from '../../kit/time.ts';
import {Eraser, erasureWaitMs} from '../../outcome/erase.ts';
import {liveDaemon} from '../../store/data-folder/daemon-file.ts';
import {findLinkHost} from '../domains/store.ts';
import {notFound} from '../operation.ts';
import {type Contact, findContact, listContacts} from '../topics/store.ts';
import {contactView} from '../views.ts';
import {changeContact, linkPreferences, type Person} from './rules.ts';

export function contactCommands(contact: CliCommand): void {
	contact
		.verb('list', 'List contacts, newest first')
		.sample('mailctl contact list --limit 100')
		.option('--limit <n>', 'at most this many', count('--limit', 1, 10_000), 25)
		.does<{limit: number}>(async (session, {limit}) => {
			const {reader, workspaceId} = await session.inWorkspace();
			session.list(contacts, await listContacts(reader, workspaceId, {after: null, limit, now: nowOf(session)}));
		});

	contact
		.verb('show <contact>', 'Show a contact, by id or address')
		.sample('mailctl contact show user@example.org')
		.does<object, [string]>(async (session, _options, text) =>
			session.printRow(contacts, await chosen(session, text)),
		);

	const byContact = {
		by: 'contact',
		find: async (session: Session, text: string) => ({id: (await chosen(session, text)).id}),
	};

	operationVerb(contact, changeContact, {
		...byContact,
		sample: 'mailctl contact update user@example.org --locale de-AT --timezone Europe/Vienna',
		shows: contacts,
	});
	operationVerb(contact, linkPreferences, {
		...byContact,
		sample: 'mailctl contact preferences-link user@example.org',
		shows: showLink,
	});

	contact
		.verb('erase <contact>', 'Erase a person from contacts and messages, by id or address')
		.sample('mailctl contact erase user@example.org --yes')
		.yesOption()
		.does<{yes?: boolean}, [string]>(erase);
}

async function showLink(session: Session, {workspaceId, address}: Person): Promise<void> {
	const settings = session.settings();
	const now = session.tools.clock.now();
	const host = await findLinkHost(await session.reader(), workspaceId, storeTime(now), servesHttps(settings));
	const publicUrl = linkBase(settings, liveDaemon(settings.dataDir)?.http);
	const links = createLinks({keys: await session.secrets(), publicUrl, random: randomBytes});
	const expiresAt = now + settings.tokenLifetime;
	const url = links.under(host).personUrl({workspaceId, address, expiresAt});
	session.show({url, expires_at: storeTime(expiresAt)}, () => [url]);
}

/** Erases a person. One without a contact, who was only in the `cc` of messages, can be erased by address. */
async function erase(session: Session, {yes}: {yes?: boolean}, text: string): Promise<void> {
	const isId = text.startsWith('con_') && !text.includes('@');
	const {address, key} = isId
		? await chosen(session, text).then(match => ({address: match.address, key: match.addressKey}))
		: {address: text, key: parseAddress(text, true).key};
	const {id: workspaceId} = await session.workspace();
	await session.confirm(`Erase ${address} and the content of all messages to it?`, yes);
	const {clock, newId} = session.tools;
	const folder = capturedFolder(session.settings().dataDir);
	const {isRunning} = await readDaemons(session);
	const eraser = new Eraser({
		store: await session.store(),
		clock,
		// A running daemon finds due messages by itself.
		eventWriter: {newId, onDue: () => undefined},
		removeCaptured: recipientIds => removeCaptured(folder, recipientIds),
		...(isRunning && {waitLimitMs: erasureWaitMs}),
	});
	const erased = await eraser.erase({workspaceId, addressKey: key}, session.tools.operator);
	const {contact, messages, recipients, received = 0, isLeft} = erased;
	if (!contact && messages + recipients + received === 0) {
		notFound('contact', text);
	}
	session.show(
		{email: address, erased: true, messages, cc_messages: recipients, ...(received > 0 && {received})},
		() =>
			fields([
				['erased', address],
				['messages to it', messages],
				['with it in cc', recipients],
				...(received > 0 ? ([['received', received]] as const) : []),
				...(isLeft ? ([['remaining', 'already hidden; the daemon removes it from the store']] as const) : []),
			]),
	);
}

const nowOf = ({tools}: Session) => storeTime(tools.clock.now());

/** Finds a contact by id or address. Throws bad data (65) if it does not exist. */
async function chosen(session: Session, text: string): Promise<Contact> {
	const id = await session.idOf('con', text);
	const {reader, workspaceId} = await session.inWorkspace();
	if (id !== undefined) {
		return (await findContact(reader, workspaceId, id, nowOf(session))) ?? notFound('contact', text);
	}
	if (text.startsWith('con_') && !text.includes('@')) {
		notFound('contact', text);
	}
	const {key} = parseAddress(text, true);
	const [contact] = await listContacts(reader, workspaceId, {
		addressKey: key,
		after: null,
		limit: 1,
		now: nowOf(session),
	});
	return contact ?? notFound('contact', text);
}

const optOuts = ({topics, leftOther}: Contact) =>
	[...topics, ...(leftOther ? ['mail without a topic'] : [])].join(', ');

const contacts: Noun<Contact> = {
	none: 'no contacts; the first message to an address creates one',
	json: contactView,
	fields: [
		// The id is not in the list, where it would leave too little room for the address, which every verb accepts.
		{name: 'id', cell: row => row.id},
		{title: 'EMAIL', name: 'email', cell: row => row.address, cut: true},
		{title: 'LOCALE', name: 'locale', cell: row => row.locale},
		{title: 'TIMEZONE', name: 'timezone', cell: row => row.timezone, cut: true},
		{title: 'BLOCKED', cell: row => (row.suppressed ? 'mail' : optOuts(row) || null), cut: true},
		{name: 'opted out of', cell: row => optOuts(row) || null},
		{
			name: 'paused until',
			cell: row => (row.pausedUntil === null ? undefined : `${shortTime(row.pausedUntil)} UTC`),
		},
		{name: 'suppressed', cell: row => (row.suppressed ? 'yes' : 'no')},
		{name: 'created', cell: row => `${shortTime(row.createdAt)} UTC`},
		{name: 'updated', cell: row => `${shortTime(row.updatedAt)} UTC`},
	],
};
