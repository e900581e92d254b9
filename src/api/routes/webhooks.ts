import {
	addEndpoint,
	changeEndpoint,
	removeEndpoint,
	replay,
	rotateSecret,
	setEndpointActive,
	signingSecret,
} from '../../admin/webhooks.ts';
import {parseDuration, storeTime} from '../../kit/time.ts';
import {webhookEventTypes} from '../../mail/message.ts';
import {Type} from '../../mail/type.ts';
import {
	defaultOverlap,
	deliveryStates,
	maxEndpoints,
	maxOverlap,
	webhookFormats,
	webhookRetries,
} from '../../mail/webhook.ts';
import {type Endpoint, findEndpoint, listEndpoints, type StoredDelivery, scanDeliveries} from '../../store/webhooks.ts';
import type {ApiParts, Routes} from '../api-parts.ts';
import {apiRoute, listRoute} from '../api-route.ts';
import {type Caller, visibleEndpoint, visibleMode} from '../caller.ts';
import {apiError} from '../errors.ts';
import type {Part} from '../paging.ts';
import {textOrNull, time} from '../schemas/page.ts';
import {Seats} from '../turns.ts';
import {emptyBody} from '../validate.ts';
import {deliveryView, endpointView} from '../views.ts';

const endpointsPerPage = 100;
/** The maximum number of concurrent tests per workspace. */
const maxTests = 4;

export function webhookRoutes(parts: ApiParts): readonly Routes[] {
	const {reader, change, tools, vault, webhooks} = parts;

	const shown = (endpoint: Endpoint) =>
		endpointView(endpoint, signingSecret(vault, endpoint), storeTime(tools.clock.now()));

	const seats = new Seats(maxTests);

	function refuseBadUrl(url: string): void {
		const fault = webhooks.guard.urlFault(url);
		if (fault !== null) {
			throw apiError('unprocessable_entity', {message: `The URL ${fault}.`});
		}
	}

	return [
		apiRoute(parts, {
			at: 'POST /v1/webhooks',
			scope: 'webhooks:manage',
			tag: 'Webhooks',
			summary: 'Register an endpoint',
			description: `The response and the list show the endpoint’s signing secret. A workspace may have at most ${maxEndpoints} endpoints.`,
			answer: [201, 'The endpoint. Events are posted to it from now on.', endpointSchema],
			errors: ['unprocessable_entity'],
			body: endpointBody,
			handle: async ({caller, body: {url, events, ...forms}, tools}) => {
				const {workspaceId, mode} = caller;
				refuseMail(caller, events);
				refuseBadUrl(url);
				const input = {workspaceId, mode, url, events, ...forms};
				const added = await change(trx => addEndpoint(trx, tools, vault, input));
				if (!added) {
					const message = `A workspace may have at most ${maxEndpoints} webhook endpoints. Delete one first.`;
					throw apiError('unprocessable_entity', {message});
				}
				return shown(added);
			},
		}),

		listRoute(parts, {
			path: '/v1/webhooks',
			scope: 'webhooks:read',
			name: 'webhooks',
			tag: 'Webhooks',
			summary: 'List endpoints',
			meaning: 'Endpoints, newest first.',
			defaultLimit: endpointsPerPage,
			item: endpointSchema,
			find(caller) {
				const mode = visibleMode(caller);
				const read = (part: Part) => listEndpoints(reader, caller.workspaceId, {...part, mode});
				return {filters: mode === undefined ? {} : {mode}, read};
			},
			view: shown,
		}),

		apiRoute(parts, {
			at: 'PATCH /v1/webhooks/:id',
			scope: 'webhooks:manage',
			id: 'whe',
			tag: 'Webhooks',
			summary: 'Update an endpoint',
			description:
				'Omitted fields stay unchanged. An inactive endpoint receives no new events, and its pending deliveries wait until it is active again. Pending deliveries are posted to the new URL. The secret does not change.',
			answer: [200, 'The changed endpoint.', endpointSchema],
			errors: ['unprocessable_entity'],
			body: endpointChanges,
			async handle({caller, workspaceId, id, body, tools}) {
				const endpoint = await visibleEndpoint(reader, caller, id);
				const {active, ...changes} = body;
				const {url, events = url === undefined ? [] : endpoint.events} = changes;
				refuseMail(caller, events);
				if (url !== undefined) {
					refuseBadUrl(url);
				}
				const changed = await change(async trx => {
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
				return shown(changed);
			},
		}),

		apiRoute(parts, {
			at: 'POST /v1/webhooks/:id/test',
			scope: 'webhooks:manage',
			id: 'whe',
			tag: 'Webhooks',
			summary: 'Test an endpoint',
			description:
				'Posts a signed example event now and waits for the response. Nothing is stored. The body may be omitted.',
			answer: [200, 'The result, acknowledged or not.', testSchema],
			body: emptyBody,
			isBodyOptional: true,
			async handle({caller, workspaceId, id}) {
				const endpoint = await visibleEndpoint(reader, caller, id);
				const {status, error, ms} = await seats.hold(workspaceId, () => webhooks.postExample(endpoint));
				return {acknowledged: error === null, status, error, ms: Math.round(ms)};
			},
		}),

		apiRoute(parts, {
			at: 'DELETE /v1/webhooks/:id',
			scope: 'webhooks:manage',
			id: 'whe',
			tag: 'Webhooks',
			summary: 'Delete an endpoint',
			description: 'Stops posting to the endpoint and deletes its deliveries.',
			answer: [204, 'The endpoint was deleted.', null],
			async handle({caller, workspaceId, id, tools}) {
				await visibleEndpoint(reader, caller, id);
				if (!(await change(trx => removeEndpoint(trx, tools, workspaceId, id)))) {
					throw apiError('not_found');
				}
			},
		}),

		apiRoute(parts, {
			at: 'POST /v1/webhooks/:id/rotate-secret',
			scope: 'webhooks:manage',
			id: 'whe',
			tag: 'Webhooks',
			summary: 'Rotate the secret of an endpoint',
			description:
				'During the `overlap` (24 hours by default, at most 30 days), requests carry two signatures: `X-Webhook-Signature` with the old secret and `X-Webhook-Signature-Next` with the new one. With an overlap of 0 the old secret expires at once. Rotating again during an overlap expires the oldest secret. The body may be omitted.',
			answer: [200, 'The endpoint with its new secret.', endpointSchema],
			body: rotationBody,
			isBodyOptional: true,
			async handle({caller, workspaceId, id, body, tools}) {
				const overlap = overlapOf(body?.overlap ?? null);
				const input = {workspaceId, id, overlap};
				await visibleEndpoint(reader, caller, id);
				const rotated = await change(trx => rotateSecret(trx, tools, vault, input));
				if (!rotated) {
					throw apiError('not_found');
				}
				return shown(rotated);
			},
		}),
	];
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
function overlapOf(given: string | number | null): number {
	return given === null ? defaultOverlap : (parseDuration(String(given)) ?? defaultOverlap);
}

/** Returns the routes that list deliveries to endpoints and replay them. */
export function webhookDeliveryRoutes(parts: ApiParts): readonly Routes[] {
	const {reader, change, webhooks} = parts;
	return [
		listRoute(parts, {
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
			find: (caller, _query, id) => ({
				filters: {endpoint: id},
				async scan(part) {
					await visibleEndpoint(reader, caller, id);
					const {rows, next} = await scanDeliveries(reader, id, part);
					return {rows: rows.map(row => visibleDelivery(caller, row)), next};
				},
			}),
			view: deliveryView,
		}),

		apiRoute(parts, {
			at: 'POST /v1/webhooks/deliveries/:id/replay',
			scope: 'webhooks:manage',
			id: 'whd',
			tag: 'Webhooks',
			summary: 'Replay a delivery',
			description: 'Posts it again, whatever its status, with up to five attempts. The body may be omitted.',
			answer: [202, 'The delivery, pending.', deliverySchema],
			body: emptyBody,
			isBodyOptional: true,
			async handle({caller, workspaceId, id, tools}) {
				const replayed = await change(trx => replay(trx, tools, workspaceId, id, visibleMode(caller)));
				if (!replayed) {
					throw apiError('not_found');
				}
				webhooks.onDue([replayed.endpointId]);
				return deliveryView(visibleDelivery(caller, replayed));
			},
		}),
	];
}

const url = Type.String({
	maxLength: 2000,
	description:
		'A public https URL. The host must not be local. The port must be 80, 443 or above 1023, and not the default port of a database.',
});
const events = Type.Array(Type.Enum([...webhookEventTypes]), {
	minItems: 1,
	maxItems: webhookEventTypes.length,
	uniqueItems: true,
	description: 'The events to post to this endpoint.',
});

const format = {description: '`full` adds fields to the five of the `default` format.'};
const retry = {description: '`default`: five attempts. `long`: three days, then the endpoint is disabled.'};
const forms = {
	format: Type.Optional(Type.Enum([...webhookFormats], format)),
	retry: Type.Optional(Type.Enum([...webhookRetries], retry)),
};

/** The body that registers an endpoint. */
const endpointBody = Type.Object(
	{url, events, ...forms},
	{
		additionalProperties: false,
		examples: [{url: 'https://shop.example/hooks/mail', events: ['delivered', 'bounced']}],
	},
);

/** The body that changes an endpoint. */
const endpointChanges = Type.Object(
	{
		url: Type.Optional(url),
		events: Type.Optional(events),
		...forms,
		active: Type.Optional(Type.Boolean({description: '`false` stops events to the endpoint.'})),
	},
	{additionalProperties: false, examples: [{active: false}]},
);

/** The body of a rotation. */
const rotationBody = Type.Object(
	{
		overlap: Type.Optional(
			Type.Union(
				[
					Type.String({
						format: 'overlap',
						description: 'A duration such as `90s`, `5m`, `24h` or `7d`. A plain number means seconds.',
					}),
					Type.Integer({minimum: 0, maximum: maxOverlap / 1000, description: 'The overlap in seconds.'}),
					Type.Null(),
				],
				{description: 'How long the old secret continues to sign: 24 hours by default, at most 30 days.'},
			),
		),
	},
	{additionalProperties: false, examples: [{overlap: '24h'}]},
);

/** A webhook endpoint (docs/reference/interface.md, Webhook endpoint). */
const endpointSchema = Type.Object(
	{
		id: Type.String(),
		url: Type.String(),
		events: Type.Array(Type.Enum([...webhookEventTypes])),
		mode: Type.Enum(['live', 'test'], {
			description: '`test` endpoints, created by a test key, receive only events of test messages.',
		}),
		format: Type.Enum([...webhookFormats], format),
		retry: Type.Enum([...webhookRetries], retry),
		active: Type.Boolean({description: '`false` if the endpoint is disabled and receives no events.'}),
		disabled_reason: textOrNull(
			'Why mailctl disabled the endpoint: `gone` (it responded with 410) or `failing`; `null` otherwise.',
		),
		signing_secret: Type.Union([Type.String(), Type.Null()], {
			description:
				'The key of the request signatures. During the overlap of a rotation it is the new secret, used for `X-Webhook-Signature-Next`. `null` if the stored secret is damaged: nothing is posted until you rotate it.',
		}),
		previous_secret_expires_at: textOrNull(
			'When the previous secret, the key of `X-Webhook-Signature`, expires; or `null`.',
		),
		failing_since: textOrNull('When attempts began to fail; `null` if the last one was acknowledged.'),
		created_at: time,
	},
	{
		examples: [
			{
				id: 'whe_01kaxq7w0c8m2v5t9d3f6h1j4n',
				url: 'https://shop.example/hooks/mail',
				events: ['delivered', 'bounced'],
				mode: 'live',
				format: 'default',
				retry: 'default',
				active: true,
				disabled_reason: null,
				signing_secret: 'whsec_3q2-7wXyZ0aBcDeFgHiJkLmNoPqRsTuVwXyZ0123456',
				previous_secret_expires_at: null,
				failing_since: null,
				created_at: '2026-06-09T10:15:30+00:00',
			},
		],
	},
);

/** The result of a test. */
const testSchema = Type.Object(
	{
		acknowledged: Type.Boolean(),
		status: Type.Union([Type.Integer(), Type.Null()], {description: 'The status of the response, or `null`.'}),
		error: textOrNull('A human-readable reason for the failure; `null` if it was acknowledged.'),
		ms: Type.Integer({description: 'The duration in milliseconds.'}),
	},
	{examples: [{acknowledged: false, status: 500, error: 'it answered 500', ms: 34}]},
);

/** A delivery of an event to an endpoint (docs/reference/interface.md, Webhook delivery). */
const deliverySchema = Type.Object(
	{
		id: Type.String(),
		event_type: Type.Enum([...webhookEventTypes]),
		status: Type.Enum([...deliveryStates], {
			description: '`failed` will be retried, `exhausted` will not: replay it.',
		}),
		attempts: Type.Integer({description: 'The number of attempts since the event or the last replay.'}),
		payload: Type.Object({}, {description: 'The posted body. A received mail requires `received:read`.'}),
		last_attempt_at: textOrNull('When the last attempt started; `null` if there was none.'),
		last_status: Type.Union([Type.Integer(), Type.Null()], {description: 'The status of its response.'}),
		last_error: textOrNull('A human-readable reason for the failure; `null` if it was acknowledged.'),
		next_attempt_at: textOrNull('When the next attempt is due; `null` if none is.'),
		message_id: Type.Union([Type.String(), Type.Null()]),
		created_at: time,
	},
	{
		examples: [
			{
				id: 'whd_01kaxq7w0c8m2v5t9d3f6h1j4n',
				event_type: 'delivered',
				status: 'failed',
				attempts: 1,
				payload: {
					type: 'delivered',
					message_id: 'msg_01kaxq7w0c8m2v5t9d3f6h1j4n',
					recipient: 'user@example.org',
					occurred_at: '2026-06-09T10:15:30+00:00',
					metadata: {order_id: '1042'},
				},
				last_attempt_at: '2026-06-09T10:15:31+00:00',
				last_status: 503,
				last_error: 'it answered 503',
				next_attempt_at: '2026-06-09T10:16:31+00:00',
				message_id: 'msg_01kaxq7w0c8m2v5t9d3f6h1j4n',
				created_at: '2026-06-09T10:15:30+00:00',
			},
		],
	},
);
