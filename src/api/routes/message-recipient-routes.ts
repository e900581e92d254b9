import type {TypeBoxTypeProvider} from '@fastify/type-provider-typebox';
import {listRecipients, pageAttempts} from '../../store/recipients.ts';
import type {ApiParts} from '../api-parts.ts';
import {callerOf} from '../auth.ts';
import {visibleMessage} from '../caller.ts';
import {describe} from '../describe.ts';
import {pageQuery, readPage} from '../paging.ts';
import {attemptSchema, recipientSchema} from '../schemas/message.ts';
import {idParams, pageOf} from '../schemas/page.ts';
import type {Routes} from '../server.ts';
import {attemptView, recipientView} from '../views.ts';

const rowsPerPage = 100;

/** The outcome for each recipient of a message, and what the hosts said. */
export function messageRecipientRoutes({auth, reader, cursors}: ApiParts): Routes {
	return api => {
		const routes = api.withTypeProvider<TypeBoxTypeProvider>();

		routes.get(
			'/v1/messages/:id/recipients',
			{
				onRequest: auth.needs('messages:read'),
				schema: {
					...describe({
						tag: 'Messages',
						summary: "List a message's recipients",
						description: 'One for each address, `to` first. Each has a copy of its own with a state of its own.',
						answer: [200, 'Recipients.', pageOf(recipientSchema)],
						errors: ['message_not_found'],
					}),
					querystring: pageQuery,
					params: idParams('msg'),
				},
			},
			async request => {
				const {id} = request.params;
				const caller = callerOf(request);
				const page = await readPage({
					query: request.query,
					usualLimit: rowsPerPage,
					cursors,
					scope: {workspaceId: caller.workspaceId, route: 'message_recipients', filters: {message: id}},
					async read({after, limit}) {
						await visibleMessage(reader, caller, id);
						const recipients = await listRecipients(reader, caller.workspaceId, id);
						const start = after === null ? 0 : recipients.findIndex(recipient => recipient.id === after) + 1;
						return recipients.slice(start, start + limit);
					},
				});
				return {data: page.rows.map(recipientView), next_cursor: page.nextCursor};
			},
		);

		routes.get(
			'/v1/messages/:id/attempts',
			{
				onRequest: auth.needs('messages:read'),
				schema: {
					...describe({
						tag: 'Messages',
						summary: "List a message's attempts",
						description:
							'Every conversation with a host, recipient by recipient, each in order. A try may take several, one for each host.',
						answer: [200, 'Attempts with the SMTP replies.', pageOf(attemptSchema)],
						errors: ['message_not_found'],
					}),
					querystring: pageQuery,
					params: idParams('msg'),
				},
			},
			async request => {
				const {id} = request.params;
				const caller = callerOf(request);
				const page = await readPage({
					query: request.query,
					usualLimit: rowsPerPage,
					cursors,
					scope: {workspaceId: caller.workspaceId, route: 'message_attempts', filters: {message: id}},
					async read(part) {
						await visibleMessage(reader, caller, id);
						return await pageAttempts(reader, await listRecipients(reader, caller.workspaceId, id), part);
					},
				});
				return {data: page.rows.map(attemptView), next_cursor: page.nextCursor};
			},
		);
	};
}
