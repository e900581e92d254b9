import type {Knex} from 'knex';
import {storeTime} from '../../kit/time.ts';
import type {Mode} from '../../mail/message.ts';
import {Type} from '../../mail/type.ts';
import {field} from '../fields.ts';
import {canonicalLocale} from '../formats.ts';
import {notFound, operation, Refused} from '../operation.ts';
import {type Contact, findContact, type Preferences, updateContact} from '../topics/store.ts';

const manages = {
	scope: 'contacts:manage',
	role: 'operator',
	without: {apply: 'a file has no people'},
	refreshes: false,
} as const;

type Caller = {readonly workspaceId: string; readonly mode: Mode; readonly now: string};

/**
 * Finds a contact that is to be changed. Throws `Refused` if it does not exist, or if the caller uses a test key, since
 * only live messages create contacts.
 */
export async function findOwnContact(reader: Knex, {workspaceId, mode, now}: Caller, id: string): Promise<Contact> {
	const contact = (await findContact(reader, workspaceId, id, now)) ?? notFound('contact', id);
	if (mode === 'test') {
		throw new Refused('insufficient_scope', {
			wrong: 'a test key cannot change contacts',
			next: 'use a live key',
			api: 'A test key cannot change contacts.',
		});
	}
	return contact;
}

const clearingNote = '`null` or an empty text removes it. Unchanged if omitted.';

/** Changes the given preferences of a contact. A later send that sets them changes them again. */
export const changeContact = operation({
	...manages,
	name: 'contact update',
	summary: 'Change the defaults of a contact; the value none clears one',
	input: Type.Object(
		{
			id: Type.String(),
			locale: field(Type.Optional(Type.Union([Type.String({format: 'locale'}), Type.Literal(''), Type.Null()])), {
				label: 'Language',
				option: 'locale <tag>',
				description: `BCP-47 tag, such as \`de-AT\`. ${clearingNote}`,
				help: 'Language of messages whose send sets none: a tag such as de-AT.',
			}),
			timezone: field(
				Type.Optional(Type.Union([Type.String({format: 'timezone'}), Type.Literal(''), Type.Null()])),
				{
					label: 'Time zone',
					option: 'timezone <zone>',
					description: `IANA time zone, such as \`Europe/Vienna\`. ${clearingNote}`,
					help: 'Time zone of messages whose send sets none, such as Europe/Vienna.',
				},
			),
		},
		{additionalProperties: false, examples: [{locale: 'de-AT', timezone: null}]},
	),
	async run({trx, tools, workspaceId, mode}, {id, ...input}): Promise<Contact> {
		const now = storeTime(tools.clock.now());
		const contact = await findOwnContact(trx, {workspaceId, mode, now}, id);
		const changes = toChanges(input);
		if (Object.keys(changes).length === 0) {
			return contact;
		}
		const isChanged = await updateContact(trx, workspaceId, id, {...changes, updated_at: now});
		return isChanged ? {...contact, ...changes, updatedAt: now} : notFound('contact', id);
	},
	audit: 'contact.updated',
	entry({id}, {id: _, ...input}) {
		const changed = Object.keys(toChanges(input));
		return changed.length === 0 ? [] : {target: id, detail: {changed}};
	},
});

function toChanges({locale, timezone}: Partial<Preferences>): Partial<Preferences> {
	return {
		...(locale !== undefined && {locale: canonicalLocale(locale ?? '')}),
		...(timezone !== undefined && {timezone: timezone || null}),
	};
}

/** The person whose preference page the link opens. */
export type Person = {readonly id: string; readonly workspaceId: string; readonly address: string};

/** Creates a link to a person's preference page. Anyone who has it can change their preferences, so this is audited. */
export const linkPreferences = operation({
	...manages,
	name: 'contact preferences-link',
	summary: 'Create a link to a person’s preference page, by id or address',
	input: Type.Object({id: Type.String()}, {additionalProperties: false, examples: [{}]}),
	async run({trx, tools, workspaceId, mode}, {id}): Promise<Person> {
		const now = storeTime(tools.clock.now());
		const {address} = await findOwnContact(trx, {workspaceId, mode, now}, id);
		return {id, workspaceId, address};
	},
	audit: 'contact.linked',
	entry: ({id}) => ({target: id}),
});
