import type {TypeBoxTypeProvider} from '@fastify/type-provider-typebox';
import type {Knex} from 'knex';
import {
	addEndpoint,
	changeEndpoint,
	removeEndpoint,
	rotateSecret,
	setEndpointActive,
	signingSecret,
} from '../../admin/webhooks.ts';
import {parseDuration, storeTime} from '../../kit/time.ts';
import type {Tools} from '../../mail/operator.ts';
import {mostEndpoints, usualOverlap} from '../../mail/webhook.ts';
import type {Vault} from '../../store/sealed.ts';
import {type Endpoint, findEndpoint, listEndpoints} from '../../store/webhooks.ts';
import type {Guard} from '../../webhook/guard.ts';
import type {PostEnd} from '../../webhook/post.ts';
import {type Auth, actAs, callerOf} from '../auth.ts';
import {visibleEndpoint, visibleMode} from '../caller.ts';
import {describe} from '../describe.ts';
import {apiError, unavailable} from '../errors.ts';
import {listRoute} from '../operation-route.ts';
import {checkBody, emptyBody, optionalBody} from '../optional-body.ts';
import {type Cursors, noQuery, type Part} from '../paging.ts';
import {idParams} from '../schemas/page.ts';
import {endpointBody, endpointChanges, endpointSchema, rotationBody, testSchema} from '../schemas/webhook.ts';
import {createSeats} from '../seats.ts';
import type {Routes} from '../server.ts';
import {createChecks} from '../validate.ts';
import {endpointView} from '../views.ts';

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
		/** Posts an example event now, and stores nothing of it. */
		readonly postExample: (endpoint: Endpoint) => Promise<Pick<PostEnd, 'status' | 'error' | 'ms'>>;
	};
};

const endpointsPerPage = 100;
/** Of one workspace, at once. */
const mostTests = 4;

export function webhookRoutes(options: WebhookRoutesOptions): Routes {
	const {auth, reader, change, tools, vault, cursors, webhooks} = options;
	const checks = createChecks();

	const shown = (endpoint: Endpoint) =>
		endpointView(endpoint, signingSecret(vault, endpoint), storeTime(tools.clock.now()));

	const takeSeat = createSeats(mostTests);

	function refuseBadUrl(url: string): void {
		const fault = webhooks.guard.urlFault(url);
		if (fault !== null) {
			throw apiError('unprocessable_entity', {message: `The url ${fault}.`});
		}
	}

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
				refuseBadUrl(url);
				const input = {workspaceId, mode, url, events};
				const added = await change(trx => addEndpoint(trx, actAs(tools, request), vault, input));
				if (!added) {
					const message = `A workspace has at most ${mostEndpoints} webhook endpoints: delete one first.`;
					throw apiError('unprocessable_entity', {message});
				}
				return reply.code(201).send(shown(added));
			},
		);

		listRoute(
			{auth, cursors},
			{
				path: '/v1/webhooks',
				scope: 'webhooks:read',
				name: 'webhooks',
				tag: 'Webhooks',
				summary: 'List endpoints',
				meaning: 'Endpoints, newest first.',
				usualLimit: endpointsPerPage,
				item: endpointSchema,
				find(caller) {
					const mode = visibleMode(caller);
					const read = (part: Part) => listEndpoints(reader, caller.workspaceId, {...part, mode});
					return {filters: mode === undefined ? {} : {mode}, read};
				},
				view: shown,
			},
		)(api);

		routes.patch(
			'/v1/webhooks/:id',
			{
				onRequest: auth.needs('webhooks:manage'),
				schema: {
					...describe({
						tag: 'Webhooks',
						summary: 'Change an endpoint',
						description:
							'What is left out stays as it is. An endpoint that is not active gets no events; what waits for it goes on waiting until it is active again. What waits is posted to a new url. Its secret stays.',
						answer: [200, 'The endpoint as it is now.', endpointSchema],
						errors: ['not_found', 'unprocessable_entity'],
					}),
					querystring: noQuery,
					params: idParams('whe'),
					body: endpointChanges,
				},
			},
			async request => {
				const caller = callerOf(request);
				const {workspaceId} = caller;
				const {id} = await visibleEndpoint(reader, caller, request.params.id);
				const {url, events, active} = request.body;
				if (url !== undefined) {
					refuseBadUrl(url);
				}
				const acting = actAs(tools, request);
				const changed = await change(async trx => {
					if (url !== undefined || events) {
						const input = {workspaceId, id, ...(url !== undefined && {url}), ...(events && {events})};
						await changeEndpoint(trx, acting, input);
					}
					return active === undefined
						? await findEndpoint(trx, workspaceId, id)
						: await setEndpointActive(trx, acting, workspaceId, id, active);
				});
				if (!changed) {
					throw apiError('not_found');
				}
				return shown(changed);
			},
		);

		routes.post(
			'/v1/webhooks/:id/test',
			{
				onRequest: auth.needs('webhooks:manage'),
				schema: {
					...describe({
						tag: 'Webhooks',
						summary: 'Test an endpoint',
						description:
							'Posts a signed example event now and waits for what comes back; nothing is stored. The body may be left out.',
						answer: [200, 'How it ended, acknowledged or not.', testSchema],
						errors: ['not_found'],
					}),
					querystring: noQuery,
					params: idParams('whe'),
					body: emptyBody,
				},
				validatorCompiler: optionalBody(checks),
			},
			async request => {
				checkBody(request);
				const caller = callerOf(request);
				const endpoint = await visibleEndpoint(reader, caller, request.params.id);
				const leave = takeSeat(caller.workspaceId);
				if (leave === undefined) {
					throw unavailable();
				}
				try {
					const {status, error, ms} = await webhooks.postExample(endpoint);
					return {acknowledged: error === null, status, error, ms: Math.round(ms)};
				} finally {
					leave();
				}
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
				await visibleEndpoint(reader, caller, id);
				if (!(await change(trx => removeEndpoint(trx, actAs(tools, request), caller.workspaceId, id)))) {
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
				await visibleEndpoint(reader, caller, id);
				const rotated = await change(trx => rotateSecret(trx, actAs(tools, request), vault, input));
				if (!rotated) {
					throw apiError('not_found');
				}
				return shown(rotated);
			},
		);
	};
}

/** Milliseconds of what the schema let pass. */
function overlapOf(given: string | number | null): number {
	return given === null ? usualOverlap : (parseDuration(String(given)) ?? usualOverlap);
}
