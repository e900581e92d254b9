import type {Static} from 'typebox';
import {changeContact} from '../../admin/contacts.ts';
import {apiTime, storeTime} from '../../kit/time.ts';
import {Type} from '../../mail/type.ts';
import {linkPreferences} from '../../ops/contacts.ts';
import {type Contact, findContact, listContacts, type Preferences} from '../../store/topics.ts';
import type {ApiParts, Routes} from '../api-parts.ts';
import {apiRoute, listRoute, operationRoute} from '../api-route.ts';
import type {Caller} from '../caller.ts';
import {apiError} from '../errors.ts';
import {type Part, pageQuery} from '../paging.ts';
import {canonicalLocale, queryAddressKey} from '../schemas/formats.ts';
import {time} from '../schemas/page.ts';
import {contactView} from '../views.ts';

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

/** A contact as it is read. */
const contactSchema = Type.Object(
	{
		id: Type.String(),
		email: Type.String({description: 'The address as the first send spelled it.'}),
		locale: Type.Union([Type.String(), Type.Null()], {description: 'For sends that name no locale.'}),
		timezone: Type.Union([Type.String(), Type.Null()], {description: 'For sends that name no timezone.'}),
		created_at: time,
		updated_at: time,
		topics: Type.Array(Type.String(), {description: 'Codes of the topics that the address opted out of.'}),
		suppressed: Type.Boolean({description: 'Whether the address is on the suppression list.'}),
		paused_until: Type.Optional(
			Type.String({description: 'The person asked for a pause that ends then; `topics` has what it stops.'}),
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

const cleared = 'Null or an empty text: none; left out: as it is.';

/** What may be changed of a contact. */
const contactChanges = Type.Object(
	{
		locale: Type.Optional(
			Type.Union([Type.String({format: 'locale'}), Type.Literal(''), Type.Null()], {
				description: `BCP-47 tag, such as \`de-AT\`. ${cleared}`,
			}),
		),
		timezone: Type.Optional(
			Type.Union([Type.String({format: 'timezone'}), Type.Literal(''), Type.Null()], {
				description: `IANA time zone, such as \`Europe/Vienna\`. ${cleared}`,
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
				description: 'The contact of this address, however it is spelled.',
			}),
		),
	},
	{additionalProperties: false},
);

/** Contacts: what is known of recipients, and their erasure. */
export function contactRoutes(parts: ApiParts): readonly Routes[] {
	const {reader, change, erase, tools, preferencesLink} = parts;
	const now = () => storeTime(tools.clock.now());

	async function chosen(workspaceId: string, id: string): Promise<Contact> {
		return (await findContact(reader, workspaceId, id, now())) ?? missing();
	}

	/** Live mail alone makes contacts, so that no test key changes or erases one. */
	async function mayChange({workspaceId, mode}: Caller, id: string): Promise<void> {
		if (mode === 'test') {
			await chosen(workspaceId, id);
			throw apiError('insufficient_scope', {message: 'A test key cannot change a contact of live mail.'});
		}
	}

	return [
		listRoute(parts, {
			path: '/v1/contacts',
			scope: 'contacts:read',
			name: 'contacts',
			tag: 'Contacts',
			summary: 'List contacts',
			description: 'A contact is made by the first live send to an address.',
			meaning: 'A page of contacts, newest first.',
			defaultLimit: 25,
			item: contactSchema,
			query: contactQuery,
			find({workspaceId}, {email}) {
				const key = email === undefined ? undefined : queryAddressKey(email);
				const read = (part: Part) => listContacts(reader, workspaceId, {...part, addressKey: key, now: now()});
				return {filters: key === undefined ? {} : {email: key}, read};
			},
			view: contactView,
		}),

		apiRoute(parts, {
			at: 'GET /v1/contacts/:id',
			scope: 'contacts:read',
			id: 'con',
			tag: 'Contacts',
			summary: 'Read a contact',
			answer: [200, 'The contact.', contactSchema],
			handle: async ({workspaceId, id}) => contactView(await chosen(workspaceId, id)),
		}),

		apiRoute(parts, {
			at: 'PATCH /v1/contacts/:id',
			scope: 'contacts:manage',
			id: 'con',
			tag: 'Contacts',
			summary: 'Change a contact',
			description: 'A later send that names a locale or a timezone changes it again.',
			answer: [200, 'The contact as it is now.', contactSchema],
			body: contactChanges,
			async handle({caller, workspaceId, id, body, tools}) {
				await mayChange(caller, id);
				const changed = await change(trx => changeContact(trx, tools, {workspaceId, id}, changesOf(body)));
				return contactView(changed ?? missing());
			},
		}),

		operationRoute(parts, linkPreferences, {
			at: 'POST /v1/contacts/:id/preferences-link',
			id: 'con',
			isBodyOptional: true,
			tag: 'Contacts',
			summary: 'Make a link to the preference page',
			description:
				'For a page of your own where the person is logged in. Give it to this person only: who has the link chooses for them.',
			answer: [201, 'The link; it holds for MAILCTL_TOKEN_LIFETIME.', linkSchema],
			errors: ['insufficient_scope'],
			async view(person) {
				const {url, expiresAt} = await preferencesLink(person);
				return {url, expires_at: apiTime(storeTime(expiresAt))};
			},
		}),

		apiRoute(parts, {
			at: 'DELETE /v1/contacts/:id',
			scope: 'contacts:manage',
			id: 'con',
			tag: 'Contacts',
			summary: 'Erase a person',
			description:
				'Removes the contact, and from all messages the address (`erased@erased.invalid` stands in its place), variables, metadata, subject, attachments, details of events, captured mails; mail to it that waits ends `suppressed`. Suppressions and opt-outs stay: they keep the person from being mailed.',
			answer: [
				204,
				'No response contains data of the person any more. If there are many messages, it takes minutes until all of it is removed.',
				null,
			],
			async handle({caller, workspaceId, id, tools}) {
				await mayChange(caller, id);
				const contact = await chosen(workspaceId, id);
				await erase({workspaceId, addressKey: contact.addressKey}, tools.operator);
			},
		}),
	];
}

function missing(): never {
	throw apiError('not_found');
}

function changesOf({locale, timezone}: Static<typeof contactChanges>): Partial<Preferences> {
	return {
		...(locale !== undefined && {locale: canonicalLocale(locale ?? '')}),
		...(timezone !== undefined && {timezone: timezone || null}),
	};
}
