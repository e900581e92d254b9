import {webhookEventTypes} from '../../mail/message.ts';
import {Type} from '../../mail/type.ts';
import {deliveryStates, maxOverlap} from '../../mail/webhook.ts';
import {textOrNull, time} from '../page-schema.ts';
import {endpointChanges, format, retry} from './rules.ts';

export const changesBody = Type.Object(
	{
		...endpointChanges,
		active: Type.Optional(Type.Boolean({description: '`false` stops events to the endpoint.'})),
	},
	{additionalProperties: false, examples: [{active: false}]},
);

export const rotationBody = Type.Object(
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
export const endpointSchema = Type.Object(
	{
		id: Type.String(),
		url: Type.String(),
		events: Type.Array(Type.Enum([...webhookEventTypes])),
		mode: Type.Enum(['live', 'test'], {
			description: '`test` endpoints, created by a test key, receive only events of test messages.',
		}),
		format,
		retry,
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

export const testSchema = Type.Object(
	{
		acknowledged: Type.Boolean(),
		status: Type.Union([Type.Integer(), Type.Null()], {description: 'The status of the response, or `null`.'}),
		error: textOrNull('A human-readable reason for the failure; `null` if it was acknowledged.'),
		ms: Type.Integer({description: 'The duration in milliseconds.'}),
	},
	{examples: [{acknowledged: false, status: 500, error: 'the server responded with 500', ms: 34}]},
);

/** A delivery of an event to an endpoint (docs/reference/interface.md, Webhook delivery). */
export const deliverySchema = Type.Object(
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
				last_error: 'the server responded with 503',
				next_attempt_at: '2026-06-09T10:16:31+00:00',
				message_id: 'msg_01kaxq7w0c8m2v5t9d3f6h1j4n',
				created_at: '2026-06-09T10:15:30+00:00',
			},
		],
	},
);
