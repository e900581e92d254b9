import type {TypeBoxTypeProvider} from '@fastify/type-provider-typebox';
import type {Knex} from 'knex';
import {addEndpoint, removeEndpoint, replay, rotateSecret} from '../../admin/webhooks.ts';
import {isId} from '../../mail/ids.ts';
import type {Tools} from '../../mail/operator.ts';
import {parseDuration, storeTime} from '../../mail/time.ts';
import {mostEndpoints, usualOverlap} from '../../mail/webhook.ts';
import type {Vault} from '../../store/sealed.ts';
import {scanDeliveries} from '../../store/webhooks/webhook-deliveries.ts';
import {type Endpoint, findEndpoint, listEndpoints} from '../../store/webhooks/webhook-endpoints.ts';
import type {Guard} from '../../webhook/guard.ts';
import {type Auth, actAs, callerOf} from '../auth.ts';
import {type Caller, visibleMode} from '../caller.ts';
import {describe} from '../describe.ts';
import {apiError} from '../errors.ts';
import {checkBody, emptyBody, optionalBody} from '../optional-body.ts';
import {type Cursors, noQuery, pageQuery, readPage, scanPage} from '../paging.ts';
import {idParams, pageOf} from '../schemas/page.ts';
import {deliverySchema, endpointBody, endpointSchema, rotationBody} from '../schemas/webhook.ts';
import type {Routes} from '../server.ts';
import {createChecks} from '../validate.ts';
import {deliveryView, endpointView} from '../views.ts';

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
	const checks = createChecks();

	const shown = (endpoint: Endpoint) =>
		endpointView(endpoint, vault.open(endpoint.id, endpoint.secret), storeTime(tools.clock.now()));

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
						description: `The answer and the list show the endpoint’s signing secret. At most ${mostEndpoints} in a workspace.`,
						answer: [201, 'The endpoint; events from now on are posted to it.', endpointSchema],
						errors: ['unprocessable_entity'],
					}),
					querystring: noQuery,
					body: endpointBody,
				},
			},
			async (request, reply) => {
				const {url, events} = request.body;
				const {workspaceId, mode} = callerOf(request);
				const fault = webhooks.guard.urlFault(url);
				if (fault !== null) {
					throw apiError('unprocessable_entity', {message: `The url ${fault}.`});
				}
				const input = {workspaceId, mode, url, events};
				const added = await change(trx => addEndpoint(trx, actAs(tools, request), vault, input));
				if (!added) {
					const message = `A workspace has at most ${mostEndpoints} webhook endpoints: delete one first.`;
					throw apiError('unprocessable_entity', {message});
				}
				return reply.code(201).send(shown(added));
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
				const caller = callerOf(request);
				const {workspaceId} = caller;
				const mode = visibleMode(caller);
				const page = await readPage({
					query: request.query,
					usualLimit: endpointsPerPage,
					cursors,
					scope: {workspaceId, route: 'webhooks', filters: mode === undefined ? {} : {mode}},
					read: part => listEndpoints(reader, workspaceId, {...part, mode}),
				});
				return {data: page.rows.map(shown), next_cursor: page.nextCursor};
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
				const caller = callerOf(request);
				if (
					!(await isVisible(reader, caller, id)) ||
					!(await change(trx => removeEndpoint(trx, actAs(tools, request), caller.workspaceId, id)))
				) {
					throw apiError('not_found');
				}
				return reply.code(204).send();
			},
		);

		routes.post(
			'/v1/webhooks/:id/rotate-secret',
			{
				onRequest: auth.needs('webhooks:manage'),
				schema: {
					...describe({
						tag: 'Webhooks',
						summary: 'Rotate the secret of an endpoint',
						description:
							'Until the `overlap` (24 hours by default, at most 30 days) ends, requests carry two signatures: `X-Webhook-Signature` by the old secret, `X-Webhook-Signature-Next` by the new one. With an overlap of 0 the old secret ends at once. Rotating again during an overlap ends the oldest secret. The body may be left out.',
						answer: [200, 'The endpoint with its new secret.', endpointSchema],
						errors: ['not_found'],
					}),
					querystring: noQuery,
					params: idParams('whe'),
					body: rotationBody,
				},
				validatorCompiler: optionalBody(checks),
			},
			async request => {
				checkBody(request);
				const {id} = request.params;
				const caller = callerOf(request);
				const overlap = overlapOf(request.body?.overlap ?? null);
				const input = {workspaceId: caller.workspaceId, id, overlap};
				const rotated = (await isVisible(reader, caller, id))
					? await change(trx => rotateSecret(trx, actAs(tools, request), vault, input))
					: undefined;
				if (!rotated) {
					throw apiError('not_found');
				}
				return shown(rotated);
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
						if (!(await isVisible(reader, caller, id))) {
							throw apiError('not_found');
						}
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
				validatorCompiler: optionalBody(checks),
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

/** A test key sees no endpoint of live keys: its secret would let the key forge what live mail is said to have done. */
async function isVisible(reader: Knex, caller: Caller, id: string): Promise<boolean> {
	const endpoint = isId('whe', id) ? await findEndpoint(reader, caller.workspaceId, id) : undefined;
	return endpoint !== undefined && endpoint.mode === (visibleMode(caller) ?? endpoint.mode);
}

/** Milliseconds of what the schema let pass. */
function overlapOf(given: string | number | null): number {
	return given === null ? usualOverlap : (parseDuration(String(given)) ?? usualOverlap);
}
