import type {ApiParts, Route} from '../../api/api-parts.ts';
import {apiRoute, listRoute} from '../../api/api-route.ts';
import {type Caller, visibleEndpoint, visibleMode} from '../../api/caller.ts';
import type {Part} from '../../api/paging.ts';
import {parseDuration, storeTime} from '../../kit/time.ts';
import {apiError} from '../../mail/api-error.ts';
import {defaultOverlap, maxEndpoints} from '../../mail/webhook.ts';
import {emptyBody} from '../validate.ts';
import {deliveryView, endpointView} from '../views.ts';
import {
	addEndpoint,
	changeEndpoint,
	removeEndpoint,
	replay,
	rotateSecret,
	setEndpointActive,
	signingSecret,
} from './rules.ts';
import {deliverySchema, endpointBody, endpointChanges, endpointSchema, rotationBody, testSchema} from './schema.ts';
import {type Endpoint, findEndpoint, listEndpoints, type StoredDelivery, scanDeliveries} from './store.ts';

const endpointsPerPage = 100;

const createEndpointRoute = apiRoute({
	endpoint: 'POST /v1/webhooks',
	scope: 'webhooks:manage',
	tag: 'Webhooks',
	summary: 'Register an endpoint',
	description: `The response and the list show the endpoint’s signing secret. A workspace may have at most ${maxEndpoints} endpoints.`,
	answer: [201, 'The endpoint. Events are posted to it from now on.', endpointSchema],
	errors: ['unprocessable_entity'],
	body: endpointBody,
	async handle({caller, body: {url, events, ...forms}, tools}, parts) {
		const {workspaceId, mode} = caller;
		refuseMail(caller, events);
		refuseBadUrl(parts, url);
		const input = {workspaceId, mode, url, events, ...forms};
		const added = await parts.change(trx => addEndpoint(trx, tools, parts.vault, input));
		if (!added) {
			const message = `A workspace may have at most ${maxEndpoints} webhook endpoints. Delete one first.`;
			throw apiError('unprocessable_entity', {message});
		}
		return toView(added, parts);
	},
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
	scope: 'webhooks:manage',
	id: 'whe',
	tag: 'Webhooks',
	summary: 'Update an endpoint',
	description:
		'Omitted fields stay unchanged. An inactive endpoint receives no new events, and its pending deliveries wait until it is active again. Pending deliveries are posted to the new URL. The secret does not change.',
	answer: [200, 'The changed endpoint.', endpointSchema],
	errors: ['unprocessable_entity'],
	body: endpointChanges,
	async handle({caller, workspaceId, id, body, tools}, parts) {
		const endpoint = await visibleEndpoint(parts.reader, caller, id);
		const {active, ...changes} = body;
		const {url, events = url === undefined ? [] : endpoint.events} = changes;
		refuseMail(caller, events);
		if (url !== undefined) {
			refuseBadUrl(parts, url);
		}
		const changed = await parts.change(async trx => {
			if (Object.values(changes).some(value => value !== undefined)) {
				await changeEndpoint(trx, tools, {workspaceId, id, ...changes});
			}
			return active === undefined
				? await findEndpoint(trx, workspaceId, id)
				: await setEndpointActive(trx, tools, workspaceId, id, active);
		});
		if (!changed) {
			throw apiError('not_found');
		}
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

const deleteEndpointRoute = apiRoute({
	endpoint: 'DELETE /v1/webhooks/:id',
	scope: 'webhooks:manage',
	id: 'whe',
	tag: 'Webhooks',
	summary: 'Delete an endpoint',
	description: 'Stops posting to the endpoint and deletes its deliveries.',
	answer: [204, 'The endpoint was deleted.', null],
	async handle({caller, workspaceId, id, tools}, {reader, change}) {
		await visibleEndpoint(reader, caller, id);
		if (!(await change(trx => removeEndpoint(trx, tools, workspaceId, id)))) {
			throw apiError('not_found');
		}
	},
});

const rotateEndpointSecretRoute = apiRoute({
	endpoint: 'POST /v1/webhooks/:id/rotate-secret',
	scope: 'webhooks:manage',
	id: 'whe',
	tag: 'Webhooks',
	summary: 'Rotate the secret of an endpoint',
	description:
		'During the `overlap` (24 hours by default, at most 30 days), requests carry two signatures: `X-Webhook-Signature` with the old secret and `X-Webhook-Signature-Next` with the new one. With an overlap of 0 the old secret expires at once. Rotating again during an overlap expires the oldest secret. The body may be omitted.',
	answer: [200, 'The endpoint with its new secret.', endpointSchema],
	body: rotationBody,
	isBodyOptional: true,
	async handle({caller, workspaceId, id, body, tools}, parts) {
		const overlap = toOverlap(body?.overlap ?? null);
		const input = {workspaceId, id, overlap};
		await visibleEndpoint(parts.reader, caller, id);
		const rotated = await parts.change(trx => rotateSecret(trx, tools, parts.vault, input));
		if (!rotated) {
			throw apiError('not_found');
		}
		return toView(rotated, parts);
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

function refuseBadUrl({webhooks}: ApiParts, url: string): void {
	const problem = webhooks.guard.urlProblem(url);
	if (problem !== null) {
		throw apiError('unprocessable_entity', {message: `The URL ${problem}.`});
	}
}

const readsMail = 'received:read';

/** Refuses the event `received` for keys without the scope: its payload is the received mail itself. */
function refuseMail({scopes}: Caller, events: readonly string[]): void {
	if (events.includes('received') && !scopes.includes(readsMail)) {
		throw apiError('insufficient_scope', {message: `The event received requires the scope ${readsMail}.`});
	}
}

/** Returns the delivery as the key may see it. Without the scope a received mail is reduced to its id. */
function visibleDelivery({scopes}: Caller, delivery: StoredDelivery): StoredDelivery {
	if (delivery.eventType !== 'received' || scopes.includes(readsMail)) {
		return delivery;
	}
	const payload = JSON.parse(Buffer.from(delivery.body).toString());
	return {...delivery, body: Buffer.from(JSON.stringify({...payload, detail: {id: payload.detail?.id}}))};
}

/** Converts a validated overlap to milliseconds. */
function toOverlap(duration: string | number | null): number {
	return duration === null ? defaultOverlap : (parseDuration(String(duration)) ?? defaultOverlap);
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
	scope: 'webhooks:manage',
	id: 'whd',
	tag: 'Webhooks',
	summary: 'Replay a delivery',
	description: 'Posts it again, whatever its status, with up to five attempts. The body may be omitted.',
	answer: [202, 'The delivery, pending.', deliverySchema],
	body: emptyBody,
	isBodyOptional: true,
	async handle({caller, workspaceId, id, tools}, {change, webhooks}) {
		const replayed = await change(trx => replay(trx, tools, workspaceId, id, visibleMode(caller)));
		if (!replayed) {
			throw apiError('not_found');
		}
		webhooks.reportDue([replayed.endpointId]);
		return deliveryView(visibleDelivery(caller, replayed));
	},
});

/** The routes that list deliveries to endpoints and replay them. */
export const webhookDeliveryRoutes: readonly Route[] = [listDeliveriesRoute, replayDeliveryRoute];
