import type {ApiParts, Route} from '../../api/api-parts.ts';
import {apiRoute, listRoute, operationRoute} from '../../api/api-route.ts';
import {eventsUrl} from '../../inbound/providers/providers.ts';
import {apiError} from '../../mail/api-error.ts';
import {optionalEvents, providerNames} from '../../mail/provider.ts';
import {Type} from '../../mail/type.ts';
import {textOrNull, time} from '../page-schema.ts';
import {smarthostView} from '../views.ts';
import {addSmarthost, type NewSmarthost, removeSmarthost, rotateSmarthost} from './rules.ts';
import {findSmarthost, listSmarthosts, type Smarthost} from './store.ts';

const fields = {
	id: Type.String(),
	provider: Type.Enum([...providerNames]),
	takes: Type.Array(Type.Enum([...optionalEvents]), {
		description: 'The events that are processed in addition to deliveries, bounces, complaints and delays.',
	}),
	has_secret: Type.Boolean({description: '`false` if the provider signs its requests, or its key is not known yet.'}),
	last_event_at: Type.Union([time, Type.Null()]),
	created_at: time,
};
const example = {
	id: 'smh_01kaxq7w0c8m2v5t9d3f6h1j4n',
	provider: 'postmark',
	takes: [],
	has_secret: true,
	last_event_at: '2026-06-09T10:15:30+00:00',
	created_at: '2026-06-09T10:15:30+00:00',
};
const smarthostSchema = Type.Object(fields, {examples: [example]});
const secrets = {
	url: textOrNull('The URL that the provider must post its events to; `null` if it has not changed.'),
	secret: textOrNull('Proves that a request is from the provider; `null` if it signs with its own keys.'),
};
const newSmarthostSchema = Type.Object(
	{...fields, ...secrets},
	{
		examples: [
			{
				...example,
				url: 'https://mail.shop.example/v1/provider-events/postmark/3q2-7wXyZ0aBcDeFgHiJkLmNoPqRsTuV',
				secret: '3q2-7wXyZ0aBcDeFgHiJkLmNoPqRsTuVwXyZ0123456',
			},
		],
	},
);

const toNewView = ({row, token, secret}: NewSmarthost, {publicUrl}: ApiParts) => ({
	...smarthostView(row),
	url: token === null ? null : eventsUrl(publicUrl(), row.provider, token),
	secret,
});

const createSmarthostRoute = operationRoute(addSmarthost, {
	endpoint: 'POST /v1/smarthosts',
	tag: 'Smarthosts',
	summary: 'Add a smarthost',
	description: 'The URL and secret are shown only in this response. A workspace may have at most 50.',
	answer: [201, 'The smarthost, with the URL that its provider must post events to.', newSmarthostSchema],
	errors: ['conflict', 'unprocessable_entity'],
	view: toNewView,
});

const listSmarthostsRoute = listRoute({
	path: '/v1/smarthosts',
	scope: 'smarthosts:manage',
	name: 'smarthosts',
	tag: 'Smarthosts',
	summary: 'List smarthosts',
	description: 'Lists the smarthosts of the workspace. The installation may have others.',
	meaning: 'Smarthosts, newest first.',
	defaultLimit: 100,
	item: smarthostSchema,
	find: ({workspaceId}, {reader}) => ({
		read: async ({after, limit}) =>
			(await listSmarthosts(reader, workspaceId)).filter(({id}) => after === null || id < after).slice(0, limit),
	}),
	view: smarthost => smarthostView(smarthost),
});

const getSmarthostRoute = apiRoute({
	endpoint: 'GET /v1/smarthosts/:id',
	id: 'smh',
	scope: 'smarthosts:manage',
	tag: 'Smarthosts',
	summary: 'Get a smarthost',
	answer: [200, 'The smarthost.', smarthostSchema],
	handle: async ({workspaceId, id}, parts) => smarthostView(await requireSmarthost(parts, workspaceId, id)),
});

const rotateSmarthostRoute = operationRoute(rotateSmarthost, {
	endpoint: 'POST /v1/smarthosts/:id/rotate',
	id: 'smh',
	isBodyOptional: true,
	tag: 'Smarthosts',
	summary: 'Rotate URL and secret',
	description: 'The previous URL and secret stop working at once.',
	answer: [200, 'The smarthost with its new URL and secret.', newSmarthostSchema],
	errors: ['unprocessable_entity'],
	view: toNewView,
});

const deleteSmarthostRoute = operationRoute(removeSmarthost, {
	endpoint: 'DELETE /v1/smarthosts/:id',
	id: 'smh',
	tag: 'Smarthosts',
	summary: 'Remove a smarthost',
	description: 'Events from its provider are rejected from now on.',
	answer: [204, 'The smarthost was removed.', null],
});

/** The routes of /v1/smarthosts: providers that send the workspace's mail and report its events. */
export const smarthostRoutes: readonly Route[] = [
	createSmarthostRoute,
	listSmarthostsRoute,
	getSmarthostRoute,
	rotateSmarthostRoute,
	deleteSmarthostRoute,
];

async function requireSmarthost({reader}: ApiParts, workspaceId: string, id: string): Promise<Smarthost> {
	const smarthost = await findSmarthost(reader, workspaceId, id);
	if (!smarthost) {
		throw apiError('not_found');
	}
	return smarthost;
}
