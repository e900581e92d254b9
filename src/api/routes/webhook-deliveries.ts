import type {TypeBoxTypeProvider} from '@fastify/type-provider-typebox';
import {replay} from '../../admin/webhooks.ts';
import {isId} from '../../mail/ids.ts';
import {scanDeliveries} from '../../store/webhooks.ts';
import type {ApiParts} from '../api-parts.ts';
import {actAs, callerOf} from '../auth.ts';
import {visibleEndpoint, visibleMode} from '../caller.ts';
import {describe} from '../describe.ts';
import {apiError} from '../errors.ts';
import {checkBody, emptyBody, optionalBody} from '../optional-body.ts';
import {noQuery, pageQuery, scanPage} from '../paging.ts';
import {idParams, pageOf} from '../schemas/page.ts';
import {deliverySchema} from '../schemas/webhook.ts';
import type {Routes} from '../server.ts';
import {createChecks} from '../validate.ts';
import {deliveryView} from '../views.ts';

const deliveriesPerPage = 25;

/** What was posted to endpoints, and its replay. */
export function webhookDeliveryRoutes({auth, reader, change, tools, cursors, webhooks}: ApiParts): Routes {
	return api => {
		const routes = api.withTypeProvider<TypeBoxTypeProvider>();

		routes.get(
			'/v1/webhooks/:id/deliveries',
			{
				onRequest: auth.needs('webhooks:read'),
				schema: {
					...describe({
						tag: 'Webhooks',
						summary: 'List deliveries of an endpoint',
						description:
							'A page ends early where its payloads have more than 1 MiB; it then holds fewer deliveries than `limit`.',
						answer: [200, 'Deliveries, newest first.', pageOf(deliverySchema)],
						errors: ['not_found'],
					}),
					querystring: pageQuery,
					params: idParams('whe'),
				},
			},
			async request => {
				const {id} = request.params;
				const caller = callerOf(request);
				const page = await scanPage({
					query: request.query,
					usualLimit: deliveriesPerPage,
					cursors,
					scope: {workspaceId: caller.workspaceId, route: 'webhook_deliveries', filters: {endpoint: id}},
					async scan(part) {
						await visibleEndpoint(reader, caller, id);
						return await scanDeliveries(reader, id, part);
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
						description: 'Posts it again whatever its state, up to five times; the body may be left out.',
						answer: [202, 'The delivery, pending.', deliverySchema],
						errors: ['not_found'],
					}),
					querystring: noQuery,
					params: idParams('whd'),
					body: emptyBody,
				},
				validatorCompiler: optionalBody(createChecks()),
			},
			async (request, reply) => {
				checkBody(request);
				const {id} = request.params;
				const caller = callerOf(request);
				const {workspaceId} = caller;
				const only = visibleMode(caller);
				const replayed = isId('whd', id)
					? await change(trx => replay(trx, actAs(tools, request), workspaceId, id, only))
					: undefined;
				if (!replayed) {
					throw apiError('not_found');
				}
				webhooks.onDue([replayed.endpointId]);
				return reply.code(202).send(deliveryView(replayed));
			},
		);
	};
}
