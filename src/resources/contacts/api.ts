import type {ApiParts, Route} from '../../api/api-parts.ts';
import {apiRoute, listRoute, operationRoute} from '../../api/api-route.ts';
import {type Part, pageQuery} from '../../api/paging.ts';
import {apiTime, storeTime} from '../../kit/time.ts';
import {apiError} from '../../mail/api-error.ts';
import {Type} from '../../mail/type.ts';
import {queryAddressKey} from '../formats.ts';
import {time} from '../page-schema.ts';
import {findContact, listContacts} from '../topics/store.ts';
import {contactView} from '../views.ts';
import {changeContact, findOwnContact, linkPreferences} from './rules.ts';

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
	async handle({workspaceId, id}, {reader, tools}) {
		const contact = await findContact(reader, workspaceId, id, nowOf(tools));
		if (!contact) {
			throw apiError('not_found');
		}
		return contactView(contact);
	},
});

const updateContactRoute = operationRoute(changeContact, {
	endpoint: 'PATCH /v1/contacts/:id',
	id: 'con',
	tag: 'Contacts',
	summary: 'Update a contact',
	description: 'A later send that sets a locale or a time zone changes it again.',
	answer: [200, 'The contact as it is now.', contactSchema],
	view: contact => contactView(contact),
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
	async handle({caller: {workspaceId, mode}, id, tools}, {reader, erase}) {
		const {addressKey} = await findOwnContact(reader, {workspaceId, mode, now: nowOf(tools)}, id);
		await erase({workspaceId, addressKey}, tools.operator);
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
