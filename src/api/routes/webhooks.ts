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
/** Of one workspace, at once. */
const maxTests = 4;

export function webhookRoutes(parts: ApiParts): readonly Routes[] {
	const {reader, change, tools, vault, webhooks} = parts;

	const shown = (endpoint: Endpoint) =>
		endpointView(endpoint, signingSecret(vault, endpoint), storeTime(tools.clock.now()));

	const seats = new Seats(maxTests);

	function refuseBadUrl(url: string): void {
		const fault = webhooks.guard.urlFault(url);
		if (fault !== null) {
			throw apiError('unprocessable_entity', {message: `The url ${fault}.`});
		}
	}

	return [
		apiRoute(parts, {
			at: 'POST /v1/webhooks',
			scope: 'webhooks:manage',
			tag: 'Webhooks',
			summary: 'Register an endpoint',
			description: `The answer and the list show the endpoint’s signing secret. At most ${maxEndpoints} in a workspace.`,
			answer: [201, 'The endpoint; events from now on are posted to it.', endpointSchema],
			errors: ['unprocessable_entity'],
			body: endpointBody,
			handle: async ({caller, body: {url, events, ...forms}, tools}) => {
				const {workspaceId, mode} = caller;
				refuseMail(caller, events);
				refuseBadUrl(url);
				const input = {workspaceId, mode, url, events, ...forms};
				const added = await change(trx => addEndpoint(trx, tools, vault, input));
				if (!added) {
					const message = `A workspace has at most ${maxEndpoints} webhook endpoints: delete one first.`;
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
			summary: 'Change an endpoint',
			description:
				'What is left out stays as it is. An endpoint that is not active gets no events; what waits for it goes on waiting until it is active again. What waits is posted to a new url. Its secret stays.',
			answer: [200, 'The endpoint as it is now.', endpointSchema],
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
				'Posts a signed example event now and waits for what comes back; nothing is stored. The body may be left out.',
			answer: [200, 'How it ended, acknowledged or not.', testSchema],
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
			description: 'Nothing more is posted to it, and its deliveries are gone.',
			answer: [204, 'It is deleted.', null],
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
				'Until the `overlap` (24 hours by default, at most 30 days) ends, requests carry two signatures: `X-Webhook-Signature` by the old secret, `X-Webhook-Signature-Next` by the new one. With an overlap of 0 the old secret ends at once. Rotating again during an overlap ends the oldest secret. The body may be left out.',
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

/** What is posted of mail that comes in is the mail. */
function refuseMail({scopes}: Caller, events: readonly string[]): void {
	if (events.includes('received') && !scopes.includes(readsMail)) {
		throw apiError('insufficient_scope', {message: `For the event received the key needs the scope ${readsMail}.`});
	}
}

/** Of a mail that came in a key without the scope sees the id. */
function visibleDelivery({scopes}: Caller, delivery: StoredDelivery): StoredDelivery {
	if (delivery.eventType !== 'received' || scopes.includes(readsMail)) {
		return delivery;
	}
	const payload = JSON.parse(Buffer.from(delivery.body).toString());
	return {...delivery, body: Buffer.from(JSON.stringify({...payload, detail: {id: payload.detail?.id}}))};
}

/** Milliseconds of what the schema let pass. */
function overlapOf(given: string | number | null): number {
	return given === null ? defaultOverlap : (parseDuration(String(given)) ?? defaultOverlap);
}

/** What was posted to endpoints, and its replay. */
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
			description:
				'A page ends early where its payloads have more than 1 MiB; it then holds fewer deliveries than `limit`.',
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
			description: 'Posts it again whatever its state, up to five times; the body may be left out.',
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
		'A public https URL. The host must not be local; the port must be 80, 443 or above 1023, and not the usual one of a database.',
});
const events = Type.Array(Type.Enum([...webhookEventTypes]), {
	minItems: 1,
	maxItems: webhookEventTypes.length,
	uniqueItems: true,
	description: 'The events to be posted there.',
});

const format = {description: '`full`: bodies have more than the five fields; `default`: those alone.'};
const retry = {description: '`long`: what fails is tried for three days, then it is disabled; `default`: five times.'};
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

/** What may be changed of an endpoint. */
const endpointChanges = Type.Object(
	{
		url: Type.Optional(url),
		events: Type.Optional(events),
		...forms,
		active: Type.Optional(Type.Boolean({description: 'False: it gets no events.'})),
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
						description: 'As `90s`, `5m`, `24h` or `7d`; a plain number is seconds.',
					}),
					Type.Integer({minimum: 0, maximum: maxOverlap / 1000, description: 'Seconds.'}),
					Type.Null(),
				],
				{description: 'How long the old secret goes on to sign; 24 hours by default, at most 30 days.'},
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
			description: '`test`: a test key made it, and it gets events of test mail alone; `live`: it gets all.',
		}),
		format: Type.Enum([...webhookFormats], format),
		retry: Type.Enum([...webhookRetries], retry),
		active: Type.Boolean({description: 'False: it was switched off, and gets no events.'}),
		disabled_reason: textOrNull(
			'Why the program switched it off: `gone` (it answered 410) or `failing`; null: it did not.',
		),
		signing_secret: Type.Union([Type.String(), Type.Null()], {
			description:
				'Keys the signature of each request. During the overlap of a rotation it is the new one, which keys `X-Webhook-Signature-Next`. Null: what is stored is damaged, so nothing is posted until you rotate it.',
		}),
		previous_secret_expires_at: textOrNull(
			'Until then the secret before it keys `X-Webhook-Signature`; null: it is the only one.',
		),
		failing_since: textOrNull('Since when every attempt has failed; null: the last one was acknowledged.'),
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
		status: Type.Union([Type.Integer(), Type.Null()], {description: 'What the endpoint answered; null: nothing.'}),
		error: textOrNull('Why it failed, for people; null: it was acknowledged.'),
		ms: Type.Integer({description: 'How long it took, milliseconds.'}),
	},
	{examples: [{acknowledged: false, status: 500, error: 'it answered 500', ms: 34}]},
);

/** A delivery of an event to an endpoint (docs/reference/interface.md, Webhook delivery). */
const deliverySchema = Type.Object(
	{
		id: Type.String(),
		event_type: Type.Enum([...webhookEventTypes]),
		status: Type.Enum([...deliveryStates], {
			description: '`failed` is tried again, `exhausted` is not: replay it.',
		}),
		attempts: Type.Integer({description: 'Attempts made since the event, or since the last replay.'}),
		payload: Type.Object({}, {description: 'The body that is posted; a received mail needs `received:read`.'}),
		last_attempt_at: textOrNull('When the last attempt began; null: none was made.'),
		last_status: Type.Union([Type.Integer(), Type.Null()], {description: 'What the endpoint answered to it.'}),
		last_error: textOrNull('Why it failed, for people; null: it was acknowledged.'),
		next_attempt_at: textOrNull('When the next attempt is due; null: none is.'),
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
