import type {TypeBoxTypeProvider} from '@fastify/type-provider-typebox';
import type {Knex} from 'knex';
import type {Tools} from '../../admin/tools.ts';
import {addEndpoint, removeEndpoint} from '../../admin/webhooks.ts';
import {isId} from '../../mail/ids.ts';
import {storeTime} from '../../mail/time.ts';
import {mostEndpoints} from '../../mail/webhook.ts';
import type {Vault} from '../../store/sealed.ts';
import {listDeliveries, replayDelivery} from '../../store/webhook-deliveries.ts';
import {findEndpoint, listEndpoints} from '../../store/webhook-endpoints.ts';
import type {Guard} from '../../webhook/guard.ts';
import {type Auth, callerOf} from '../auth.ts';
import type {Cursors} from '../cursor.ts';
import {describe} from '../describe.ts';
import {apiError} from '../errors.ts';
import {noQuery, pageQuery, readPage} from '../paging.ts';
import {pageOf} from '../schemas/page.ts';
import {idParams} from '../schemas/params.ts';
import {deliverySchema, endpointBody, endpointSchema, replayBody} from '../schemas/webhook.ts';
import type {Routes} from '../server.ts';
import {deliveryView, endpointView} from '../webhook-views.ts';

export type WebhookRoutesOptions = {
	readonly auth: Auth;
	readonly reader: Knex;
	readonly change: <Result>(work: (trx: Knex.Transaction) => Promise<Result>) => Promise<Result>;
	readonly tools: Tools;
	readonly vault: Vault;
	readonly cursors: Cursors;
	readonly webhooks: {
		readonly guard: Guard;
		/** Something for these endpoints was committed and is due now. */
		readonly onDue: (endpointIds: readonly string[]) => void;
	};
};

const endpointsPerPage = 100;
const deliveriesPerPage = 25;

export function webhookRoutes(options: WebhookRoutesOptions): Routes {
	const {auth, reader, change, tools, vault, cursors, webhooks} = options;

	return api => {
		const routes = api.withTypeProvider<TypeBoxTypeProvider>();

		routes.post(
			'/v1/webhooks',
			{
				onRequest: auth.needs('webhooks:manage'),
				schema: {
					...describe({
						tag: 'Webhooks',
						summary: 'Register an endpoint',
						description: `The answer and the list show the endpoint’s signing secret. To change the secret delete the endpoint and register it again. At most ${mostEndpoints} in a workspace.`,
						answer: [201, 'The endpoint; events from now on are posted to it.', endpointSchema],
						errors: ['unprocessable_entity'],
					}),
					querystring: noQuery,
					body: endpointBody,
				},
			},
			async (request, reply) => {
				const {url, events} = request.body;
				const {workspaceId} = callerOf(request);
				const fault = webhooks.guard.urlFault(url);
				if (fault !== null) {
					throw apiError('unprocessable_entity', {message: `The url ${fault}.`});
				}
				const added = await change(trx => addEndpoint(trx, tools, vault, {workspaceId, url, events}));
				if (!added) {
					const message = `A workspace has at most ${mostEndpoints} webhook endpoints: delete one first.`;
					throw apiError('unprocessable_entity', {message});
				}
				return reply.code(201).send(endpointView(added, vault.open(added.id, added.secret)));
			},
		);

		routes.get(
			'/v1/webhooks',
			{
				onRequest: auth.needs('webhooks:read'),
				schema: {
					...describe({
						tag: 'Webhooks',
						summary: 'List endpoints',
						answer: [200, 'Endpoints, newest first.', pageOf(endpointSchema)],
					}),
					querystring: pageQuery,
				},
			},
			async request => {
				const {workspaceId} = callerOf(request);
				const page = await readPage({
					query: request.query,
					usualLimit: endpointsPerPage,
					cursors,
					scope: {workspaceId, route: 'webhooks', filters: {}},
					read: part => listEndpoints(reader, workspaceId, part),
				});
				const data = page.rows.map(endpoint => endpointView(endpoint, vault.open(endpoint.id, endpoint.secret)));
				return {data, next_cursor: page.nextCursor};
			},
		);

		routes.delete(
			'/v1/webhooks/:id',
			{
				onRequest: auth.needs('webhooks:manage'),
				schema: {
					...describe({
						tag: 'Webhooks',
						summary: 'Delete an endpoint',
						description: 'Nothing more is posted to it, and its deliveries are gone.',
						answer: [204, 'It is deleted.', null],
						errors: ['not_found'],
					}),
					querystring: noQuery,
					params: idParams('whe'),
				},
			},
			async (request, reply) => {
				const {id} = request.params;
				const {workspaceId} = callerOf(request);
				if (!isId('whe', id) || !(await change(trx => removeEndpoint(trx, tools, workspaceId, id)))) {
					throw apiError('not_found');
				}
				return reply.code(204).send();
			},
		);

		routes.get(
			'/v1/webhooks/:id/deliveries',
			{
				onRequest: auth.needs('webhooks:read'),
				schema: {
					...describe({
						tag: 'Webhooks',
						summary: 'List deliveries of an endpoint',
						answer: [200, 'Deliveries, newest first.', pageOf(deliverySchema)],
						errors: ['not_found'],
					}),
					querystring: pageQuery,
					params: idParams('whe'),
				},
			},
			async request => {
				const {id} = request.params;
				const {workspaceId} = callerOf(request);
				const page = await readPage({
					query: request.query,
					usualLimit: deliveriesPerPage,
					cursors,
					scope: {workspaceId, route: 'webhook_deliveries', filters: {endpoint: id}},
					async read(part) {
						if (!isId('whe', id) || !(await findEndpoint(reader, workspaceId, id))) {
							throw apiError('not_found');
						}
						return await listDeliveries(reader, id, part);
					},
				});
				return {data: page.rows.map(deliveryView), next_cursor: page.nextCursor};
			},
		);

		routes.post(
			'/v1/webhooks/deliveries/:id/replay',
			{
				onRequest: auth.needs('webhooks:manage'),
				schema: {
					...describe({
						tag: 'Webhooks',
						summary: 'Replay a delivery',
						description: 'Whatever became of it, it is posted again, up to five times.',
						answer: [202, 'The delivery, pending.', deliverySchema],
						errors: ['not_found'],
					}),
					querystring: noQuery,
					params: idParams('whd'),
					body: replayBody,
				},
			},
			async (request, reply) => {
				const {id} = request.params;
				const {workspaceId} = callerOf(request);
				const now = storeTime(tools.clock.now());
				const replayed = isId('whd', id) ? await change(trx => replayDelivery(trx, workspaceId, id, now)) : undefined;
				if (!replayed) {
					throw apiError('not_found');
				}
				webhooks.onDue([replayed.endpointId]);
				return reply.code(202).send(deliveryView(replayed));
			},
		);
	};
}
