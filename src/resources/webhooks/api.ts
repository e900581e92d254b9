import type {ApiParts, Route} from '../../api/api-parts.ts';
import {apiRoute, listRoute, operationRoute, toContext} from '../../api/api-route.ts';
import {type Caller, visibleEndpoint, visibleMode} from '../../api/caller.ts';
import type {Part} from '../../api/paging.ts';
import {parseDuration, storeTime} from '../../kit/time.ts';
import {apiError} from '../../mail/api-error.ts';
import {maxEndpoints} from '../../mail/webhook.ts';
import {type InputOf, perform, performIn} from '../operation.ts';
import {emptyBody} from '../validate.ts';
import {deliveryView, endpointView} from '../views.ts';
import {
	addEndpoint,
	changeEndpoint,
	checkUrl,
	disableEndpoint,
	enableEndpoint,
	removeEndpoint,
	replay,
	rotateSecret,
	signingSecret,
} from './rules.ts';
import {changesBody, deliverySchema, endpointSchema, rotationBody, testSchema} from './schema.ts';
import {type Endpoint, listEndpoints, type StoredDelivery, scanDeliveries} from './store.ts';

const endpointsPerPage = 100;

const createEndpointRoute = operationRoute(addEndpoint, {
	endpoint: 'POST /v1/webhooks',
	tag: 'Webhooks',
	summary: 'Register an endpoint',
	description: `The response and the list show the endpoint’s signing secret. A workspace may have at most ${maxEndpoints} endpoints.`,
	answer: [201, 'The endpoint. Events are posted to it from now on.', endpointSchema],
	errors: ['unprocessable_entity'],
	check(input, {webhooks}, caller) {
		const {url, events} = input as InputOf<typeof addEndpoint.input>;
		checkMailScope(caller, events);
		checkUrl(webhooks.guard, url);
	},
	view: toView,
});

const listEndpointsRoute = listRoute({
	path: '/v1/webhooks',
	scope: 'webhooks:read',
	name: 'webhooks',
	tag: 'Webhooks',
	summary: 'List endpoints',
	meaning: 'Endpoints, newest first.',
	defaultLimit: endpointsPerPage,
	item: endpointSchema,
	find({caller}, {reader}) {
		const mode = visibleMode(caller);
		const read = (part: Part) => listEndpoints(reader, caller.workspaceId, {...part, mode});
		return {filters: mode === undefined ? {} : {mode}, read};
	},
	view: toView,
});

const updateEndpointRoute = apiRoute({
	endpoint: 'PATCH /v1/webhooks/:id',
	operations: [changeEndpoint, enableEndpoint, disableEndpoint],
	scope: 'webhooks:manage',
	id: 'whe',
	tag: 'Webhooks',
	summary: 'Update an endpoint',
	description:
		'Omitted fields stay unchanged. An inactive endpoint receives no new events, and its pending deliveries wait until it is active again. Pending deliveries are posted to the new URL. The secret does not change.',
	answer: [200, 'The changed endpoint.', endpointSchema],
	errors: ['unprocessable_entity'],
	body: changesBody,
	async handle(call, parts) {
		const {caller, id, body} = call;
		const {active, ...changes} = body;
		const endpoint = await visibleEndpoint(parts.reader, caller, id);
		const {url, events = url === undefined ? [] : endpoint.events} = changes;
		checkMailScope(caller, events);
		if (url !== undefined) {
			checkUrl(parts.webhooks.guard, url);
		}
		const changed = await parts.change(async trx => {
			const context = {...toContext(call, parts), trx};
			const isChanged = Object.values(changes).some(value => value !== undefined);
			const after = isChanged ? await performIn(changeEndpoint, context, {id, ...changes}) : endpoint;
			return active === undefined
				? after
				: await performIn(active ? enableEndpoint : disableEndpoint, context, {id});
		});
		return toView(changed, parts);
	},
});

const testEndpointRoute = apiRoute({
	endpoint: 'POST /v1/webhooks/:id/test',
	scope: 'webhooks:manage',
	id: 'whe',
	tag: 'Webhooks',
	summary: 'Test an endpoint',
	description:
		'Posts a signed example event now and waits for the response. Nothing is stored. The body may be omitted.',
	answer: [200, 'The result, acknowledged or not.', testSchema],
	body: emptyBody,
	isBodyOptional: true,
	async handle({caller, workspaceId, id}, {reader, webhooks, work}) {
		const endpoint = await visibleEndpoint(reader, caller, id);
		const {status, error, ms} = await work.webhookTests.hold(workspaceId, () => webhooks.postExample(endpoint));
		return {acknowledged: error === null, status, error, ms: Math.round(ms)};
	},
});

const deleteEndpointRoute = operationRoute(removeEndpoint, {
	endpoint: 'DELETE /v1/webhooks/:id',
	id: 'whe',
	tag: 'Webhooks',
	summary: 'Delete an endpoint',
	description: 'Stops posting to the endpoint and deletes its deliveries.',
	answer: [204, 'The endpoint was deleted.', null],
});

const rotateEndpointSecretRoute = apiRoute({
	endpoint: 'POST /v1/webhooks/:id/rotate-secret',
	operations: [rotateSecret],
	scope: 'webhooks:manage',
	id: 'whe',
	tag: 'Webhooks',
	summary: 'Rotate the secret of an endpoint',
	description:
		'During the `overlap` (24 hours by default, at most 30 days), requests carry two signatures: `X-Webhook-Signature` with the old secret and `X-Webhook-Signature-Next` with the new one. With an overlap of 0 the old secret expires at once. Rotating again during an overlap expires the oldest secret. The body may be omitted.',
	answer: [200, 'The endpoint with its new secret.', endpointSchema],
	body: rotationBody,
	isBodyOptional: true,
	async handle(call, parts) {
		const input = {id: call.id, ...readOverlap(call.body?.overlap ?? null)};
		return toView(await perform(rotateSecret, toContext(call, parts), input), parts);
	},
});

export const webhookRoutes: readonly Route[] = [
	createEndpointRoute,
	listEndpointsRoute,
	updateEndpointRoute,
	testEndpointRoute,
	deleteEndpointRoute,
	rotateEndpointSecretRoute,
];

function toView(endpoint: Endpoint, {vault, tools}: ApiParts) {
	return endpointView(endpoint, signingSecret(vault, endpoint), storeTime(tools.clock.now()));
}

const mailScope = 'received:read';

/** Refuses the event `received` for keys without the scope: its payload is the received mail itself. */
function checkMailScope({scopes}: Caller, events: readonly string[]): void {
	if (events.includes('received') && !scopes.includes(mailScope)) {
		throw apiError('insufficient_scope', {message: `The event received requires the scope ${mailScope}.`});
	}
}

/** Returns the delivery as the key may see it. Without the scope a received mail is reduced to its id. */
function visibleDelivery({scopes}: Caller, delivery: StoredDelivery): StoredDelivery {
	if (delivery.eventType !== 'received' || scopes.includes(mailScope)) {
		return delivery;
	}
	const payload = JSON.parse(Buffer.from(delivery.body).toString());
	return {...delivery, body: Buffer.from(JSON.stringify({...payload, detail: {id: payload.detail?.id}}))};
}

/** Converts a validated overlap, a text or a number of seconds. */
function readOverlap(duration: string | number | null): {readonly overlap?: number} {
	return duration === null ? {} : {overlap: Math.ceil((parseDuration(String(duration)) ?? 0) / 1000)};
}

const listDeliveriesRoute = listRoute({
	path: '/v1/webhooks/:id/deliveries',
	scope: 'webhooks:read',
	id: 'whe',
	name: 'webhook_deliveries',
	tag: 'Webhooks',
	summary: 'List deliveries of an endpoint',
	description: 'A page ends early, with fewer deliveries than `limit`, once its payloads exceed 1 MiB.',
	meaning: 'Deliveries, newest first.',
	defaultLimit: 25,
	item: deliverySchema,
	errors: ['not_found'],
	find: ({caller, id}, {reader}) => ({
		filters: {endpoint: id},
		async scan(part) {
			await visibleEndpoint(reader, caller, id);
			const {rows, next} = await scanDeliveries(reader, id, part);
			return {rows: rows.map(row => visibleDelivery(caller, row)), next};
		},
	}),
	view: delivery => deliveryView(delivery),
});

const replayDeliveryRoute = apiRoute({
	endpoint: 'POST /v1/webhooks/deliveries/:id/replay',
	operations: [replay],
	scope: 'webhooks:manage',
	id: 'whd',
	tag: 'Webhooks',
	summary: 'Replay a delivery',
	description: 'Posts it again, whatever its status, with up to five attempts. The body may be omitted.',
	answer: [202, 'The delivery, pending.', deliverySchema],
	body: emptyBody,
	isBodyOptional: true,
	async handle(call, parts) {
		const replayed = await perform(replay, toContext(call, parts), {id: call.id});
		parts.webhooks.reportDue([replayed.endpointId]);
		return deliveryView(visibleDelivery(call.caller, replayed));
	},
});

/** The routes that list deliveries to endpoints and replay them. */
export const webhookDeliveryRoutes: readonly Route[] = [listDeliveriesRoute, replayDeliveryRoute];
