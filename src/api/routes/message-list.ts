import type {TypeBoxTypeProvider} from '@fastify/type-provider-typebox';
import type {Static} from 'typebox';
import {isTemplateId} from '../../mail/ids.ts';
import {recipientStates} from '../../mail/recipient-state.ts';
import {parseQueryTime} from '../../mail/time.ts';
import {firstThatFit} from '../../store/engine/along-index.ts';
import {type MessageFilter, scanMessages} from '../../store/message-scan.ts';
import {readMessages} from '../../store/messages.ts';
import type {ApiParts} from '../api-parts.ts';
import {callerOf} from '../auth.ts';
import {type Caller, visibleMode} from '../caller.ts';
import {describe} from '../describe.ts';
import {pageQuery, scanPage} from '../paging.ts';
import {queryAddressKey} from '../schemas/formats.ts';
import {messageSchema} from '../schemas/message.ts';
import {pageOf} from '../schemas/page.ts';
import {Type} from '../schemas/type.ts';
import type {Routes} from '../server.ts';
import {messageView} from '../views.ts';

const messagesPerPage = 25;

const messageQuery = Type.Object(
	{
		...pageQuery.properties,
		status: Type.Optional(Type.Enum(recipientStates, {description: 'Messages in this state.'})),
		recipient: Type.Optional(
			Type.String({format: 'query-recipient-email', description: 'Messages to this address, however it is spelled.'}),
		),
		from: Type.Optional(Type.String({format: 'query-email', description: 'Messages from this address.'})),
		templateId: Type.Optional(Type.String({description: 'Messages of this template, whatever its version.'})),
		mode: Type.Optional(
			Type.Enum(['live', 'test'], {
				description: 'Only messages of live keys, or of test keys; a test key lists its own kind alone.',
			}),
		),
		createdAfter: Type.Optional(
			Type.String({format: 'time', description: 'Accepted then or later; RFC 3339 date or date-time, UTC by default.'}),
		),
		createdBefore: Type.Optional(
			Type.String({format: 'time', description: 'Accepted before then; RFC 3339 date or date-time, UTC by default.'}),
		),
	},
	{additionalProperties: false},
);

/** The list of messages. */
export function messageListRoutes({auth, reader, cursors}: ApiParts): Routes {
	return api => {
		api.withTypeProvider<TypeBoxTypeProvider>().get(
			'/v1/messages',
			{
				onRequest: auth.needs('messages:read'),
				schema: {
					...describe({
						tag: 'Messages',
						summary: 'List messages',
						description:
							'Newest first; all filters given must match. A page ends early where its messages have more than 1 MiB of `data` and `metadata`. With several filters it may hold fewer messages than `limit`, or none, and still have a `next_cursor`.',
						answer: [200, 'A page of messages.', pageOf(messageSchema)],
					}),
					querystring: messageQuery,
				},
			},
			async request => {
				const caller = callerOf(request);
				const {workspaceId} = caller;
				const filter = filterOf(request.query, caller);
				const page = await scanPage({
					query: request.query,
					usualLimit: messagesPerPage,
					cursors,
					scope: {workspaceId, route: 'messages', filters: textsOf(filter)},
					async scan(part) {
						// No template has such an id, and PostgreSQL would refuse some texts. A test key sees no live message.
						const isUnknown = filter.templateId !== undefined && !isTemplateId(filter.templateId);
						if (isUnknown || filter.mode !== (visibleMode(caller) ?? filter.mode)) {
							return {rows: [], next: null};
						}
						const {ids, next} = await scanMessages(reader, {...filter, workspaceId}, part);
						const fitting = await firstThatFit(reader, 'messages', ids);
						const rows = await readMessages(reader, workspaceId, fitting);
						return {rows, next: fitting.length < ids.length ? (fitting.at(-1) ?? null) : next};
					},
				});
				return {data: page.rows.map(messageView), next_cursor: page.nextCursor};
			},
		);
	};
}

type Filter = Omit<MessageFilter, 'workspaceId'>;

function filterOf(query: Static<typeof messageQuery>, caller: Caller): Filter {
	return {
		mode: query.mode ?? visibleMode(caller),
		status: query.status,
		toKey: query.recipient === undefined ? undefined : queryAddressKey(query.recipient),
		fromKey: query.from === undefined ? undefined : queryAddressKey(query.from),
		templateId: query.templateId,
		since: query.createdAfter === undefined ? undefined : parseQueryTime(query.createdAfter),
		until: query.createdBefore === undefined ? undefined : parseQueryTime(query.createdBefore),
	};
}

function textsOf(filter: Filter): Record<string, string> {
	return Object.fromEntries(
		Object.entries(filter).flatMap(([name, value]) => (value === undefined ? [] : [[name, String(value)]])),
	);
}
