import type {Static} from 'typebox';
import type {ApiParts, Route} from '../../api/api-parts.ts';
import {apiRoute, listRoute, operationRoute} from '../../api/api-route.ts';
import type {Caller} from '../../api/caller.ts';
import {type Part, pageQuery} from '../../api/paging.ts';
import {apiTime, storeTime} from '../../kit/time.ts';
import {apiError} from '../../mail/api-error.ts';
import {Type} from '../../mail/type.ts';
import {canonicalLocale, queryAddressKey} from '../formats.ts';
import {time} from '../page-schema.ts';
import {type Contact, findContact, listContacts, type Preferences} from '../topics/store.ts';
import {contactView} from '../views.ts';
import {changeContact} from './find-contact.ts';
import {linkPreferences} from './rules.ts';

const strict = {additionalProperties: false} as const;
const contactExample = {
	id: 'con_01kaxq7w0c8m2v5t9d3f6h1j4n',
	email: 'user@example.org',
	locale: 'de-AT',
	timezone: 'Europe/Vienna',
	created_at: '2026-06-09T10:15:30+00:00',
	updated_at: '2026-06-09T10:15:30+00:00',
	topics: ['newsletter'],
	suppressed: false,
};

/** A contact in responses. */
const contactSchema = Type.Object(
	{
		id: Type.String(),
		email: Type.String({description: 'The address as written in the first send.'}),
		locale: Type.Union([Type.String(), Type.Null()], {description: 'Used for sends without a locale.'}),
		timezone: Type.Union([Type.String(), Type.Null()], {description: 'Used for sends without a time zone.'}),
		created_at: time,
		updated_at: time,
		topics: Type.Array(Type.String(), {description: 'The codes of the topics that the person opted out of.'}),
		suppressed: Type.Boolean({description: 'Whether the address is on the suppression list.'}),
		paused_until: Type.Optional(
			Type.String({description: 'When a requested pause ends. `topics` includes the paused topics.'}),
		),
	},
	{examples: [contactExample]},
);

const linkSchema = Type.Object(
	{url: Type.String(), expires_at: time},
	{
		examples: [{url: 'https://mail.shop.example/preferences?token=AQE…', expires_at: '2027-07-14T10:15:30+00:00'}],
	},
);

const clearingNote = '`null` or an empty text removes it. Unchanged if omitted.';

/** The body of a change. */
const contactChanges = Type.Object(
	{
		locale: Type.Optional(
			Type.Union([Type.String({format: 'locale'}), Type.Literal(''), Type.Null()], {
				description: `BCP-47 tag, such as \`de-AT\`. ${clearingNote}`,
			}),
		),
		timezone: Type.Optional(
			Type.Union([Type.String({format: 'timezone'}), Type.Literal(''), Type.Null()], {
				description: `IANA time zone, such as \`Europe/Vienna\`. ${clearingNote}`,
			}),
		),
	},
	{...strict, examples: [{locale: 'de-AT', timezone: null}]},
);

const contactQuery = Type.Object(
	{
		...pageQuery.properties,
		email: Type.Optional(
			Type.String({
				format: 'query-recipient-email',
				description: 'The contact with this address, regardless of spelling.',
			}),
		),
	},
	{additionalProperties: false},
);

const listContactsRoute = listRoute({
	path: '/v1/contacts',
	scope: 'contacts:read',
	name: 'contacts',
	tag: 'Contacts',
	summary: 'List contacts',
	description: 'The first live send to an address creates its contact.',
	meaning: 'A page of contacts, newest first.',
	defaultLimit: 25,
	item: contactSchema,
	query: contactQuery,
	find({workspaceId, query: {email}}, {reader, tools}) {
		const key = email === undefined ? undefined : queryAddressKey(email);
		const read = (part: Part) => listContacts(reader, workspaceId, {...part, addressKey: key, now: nowOf(tools)});
		return {filters: key === undefined ? {} : {email: key}, read};
	},
	view: contact => contactView(contact),
});

const getContactRoute = apiRoute({
	endpoint: 'GET /v1/contacts/:id',
	scope: 'contacts:read',
	id: 'con',
	tag: 'Contacts',
	summary: 'Get a contact',
	answer: [200, 'The contact.', contactSchema],
	handle: async ({workspaceId, id}, parts) => contactView(await requireContact(parts, workspaceId, id)),
});

const updateContactRoute = apiRoute({
	endpoint: 'PATCH /v1/contacts/:id',
	scope: 'contacts:manage',
	id: 'con',
	tag: 'Contacts',
	summary: 'Update a contact',
	description: 'A later send that sets a locale or a time zone changes it again.',
	answer: [200, 'The contact as it is now.', contactSchema],
	body: contactChanges,
	async handle({caller, workspaceId, id, body, tools}, parts) {
		await refuseTestKey(parts, caller, id);
		const changed = await parts.change(trx => changeContact(trx, tools, {workspaceId, id}, toChanges(body)));
		return contactView(changed ?? missing());
	},
});

const createPreferencesLinkRoute = operationRoute(linkPreferences, {
	endpoint: 'POST /v1/contacts/:id/preferences-link',
	id: 'con',
	isBodyOptional: true,
	tag: 'Contacts',
	summary: 'Create a preference page link',
	description:
		'For a page of your site where the person is signed in. Show the link only to this person: anyone who has it can change their preferences.',
	answer: [201, 'The link. It is valid for MAILCTL_TOKEN_LIFETIME.', linkSchema],
	errors: ['insufficient_scope'],
	async view(person, {preferencesLink}) {
		const {url, expiresAt} = await preferencesLink(person);
		return {url, expires_at: apiTime(storeTime(expiresAt))};
	},
});

const eraseContactRoute = apiRoute({
	endpoint: 'DELETE /v1/contacts/:id',
	scope: 'contacts:manage',
	id: 'con',
	tag: 'Contacts',
	summary: 'Erase a person',
	description:
		'Removes the contact. In all messages it replaces the address with `erased@erased.invalid` and removes variables, metadata, subject, attachments, event details and captured content. Queued messages to the person become `suppressed`. Suppressions and opt-outs remain, so that the person receives no further messages.',
	answer: [
		204,
		'Responses no longer contain data of the person. If there are many messages, removing all of it takes minutes.',
		null,
	],
	async handle({caller, workspaceId, id, tools}, parts) {
		await refuseTestKey(parts, caller, id);
		const contact = await requireContact(parts, workspaceId, id);
		await parts.erase({workspaceId, addressKey: contact.addressKey}, tools.operator);
	},
});

/** The routes that read, change and erase contacts, which are what a workspace knows about its recipients. */
export const contactRoutes: readonly Route[] = [
	listContactsRoute,
	getContactRoute,
	updateContactRoute,
	createPreferencesLinkRoute,
	eraseContactRoute,
];

function nowOf({clock}: ApiParts['tools']): string {
	return storeTime(clock.now());
}

async function requireContact({reader, tools}: ApiParts, workspaceId: string, id: string): Promise<Contact> {
	return (await findContact(reader, workspaceId, id, nowOf(tools))) ?? missing();
}

/**
 * Refuses test keys: only live messages create contacts, so a test key may not change or erase one. An unknown contact
 * is `not_found` for them, too.
 */
async function refuseTestKey(parts: ApiParts, {workspaceId, mode}: Caller, id: string): Promise<void> {
	if (mode === 'test') {
		await requireContact(parts, workspaceId, id);
		throw apiError('insufficient_scope', {message: 'A test key cannot change contacts.'});
	}
}

function missing(): never {
	throw apiError('not_found');
}

function toChanges({locale, timezone}: Static<typeof contactChanges>): Partial<Preferences> {
	return {
		...(locale !== undefined && {locale: canonicalLocale(locale ?? '')}),
		...(timezone !== undefined && {timezone: timezone || null}),
	};
}
