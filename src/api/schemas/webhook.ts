import {webhookEventTypes} from '../../mail/message.ts';
import {Type} from '../../mail/type.ts';
import {deliveryStates, longestOverlap} from '../../mail/webhook.ts';

const time = Type.String({description: 'UTC, `2026-06-09T10:15:30+00:00`'});
const timeOrNull = (description: string) => Type.Union([Type.String(), Type.Null()], {description});

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

/** The body that registers an endpoint. */
export const endpointBody = Type.Object(
	{url, events},
	{
		additionalProperties: false,
		examples: [{url: 'https://shop.example/hooks/mail', events: ['delivered', 'bounced']}],
	},
);

/** What may be changed of an endpoint. */
export const endpointChanges = Type.Object(
	{
		url: Type.Optional(url),
		events: Type.Optional(events),
		active: Type.Optional(Type.Boolean({description: 'False: it gets no events.'})),
	},
	{additionalProperties: false, examples: [{active: false}]},
);

/** The body of a rotation. */
export const rotationBody = Type.Object(
	{
		overlap: Type.Optional(
			Type.Union(
				[
					Type.String({format: 'overlap', description: 'As `90s`, `5m`, `24h` or `7d`; a plain number is seconds.'}),
					Type.Integer({minimum: 0, maximum: longestOverlap / 1000, description: 'Seconds.'}),
					Type.Null(),
				],
				{description: 'How long the old secret goes on to sign; 24 hours by default, at most 30 days.'},
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
			description: '`test`: a test key made it, and it gets events of test mail alone; `live`: it gets all.',
		}),
		active: Type.Boolean({description: 'False: it was switched off, and gets no events.'}),
		signing_secret: Type.Union([Type.String(), Type.Null()], {
			description:
				'Keys the signature of each request. During the overlap of a rotation it is the new one, which keys `X-Webhook-Signature-Next`. Null: what is stored is damaged, so nothing is posted until you rotate it.',
		}),
		previous_secret_expires_at: timeOrNull(
			'Until then the secret before it keys `X-Webhook-Signature`; null: it is the only one.',
		),
		failing_since: timeOrNull('Since when every attempt has failed; null: the last one was acknowledged.'),
		created_at: time,
	},
	{
		examples: [
			{
				id: 'whe_01kaxq7w0c8m2v5t9d3f6h1j4n',
				url: 'https://shop.example/hooks/mail',
				events: ['delivered', 'bounced'],
				mode: 'live',
				active: true,
				signing_secret: 'whsec_3q2-7wXyZ0aBcDeFgHiJkLmNoPqRsTuVwXyZ0123456',
				previous_secret_expires_at: null,
				failing_since: null,
				created_at: '2026-06-09T10:15:30+00:00',
			},
		],
	},
);

/** The result of a test. */
export const testSchema = Type.Object(
	{
		acknowledged: Type.Boolean(),
		status: Type.Union([Type.Integer(), Type.Null()], {description: 'What the endpoint answered; null: nothing.'}),
		error: timeOrNull('Why it failed, for people; null: it was acknowledged.'),
		ms: Type.Integer({description: 'How long it took, milliseconds.'}),
	},
	{examples: [{acknowledged: false, status: 500, error: 'it answered 500', ms: 34}]},
);

/** A delivery of an event to an endpoint (docs/reference/interface.md, Webhook delivery). */
export const deliverySchema = Type.Object(
	{
		id: Type.String(),
		event_type: Type.Enum([...webhookEventTypes]),
		status: Type.Enum([...deliveryStates], {
			description: '`failed` is tried again, `exhausted` is not: replay it.',
		}),
		attempts: Type.Integer({description: 'Attempts made since the event, or since the last replay.'}),
		payload: Type.Object({}, {description: 'The exact body that is posted.'}),
		last_attempt_at: timeOrNull('When the last attempt began; null: none was made.'),
		last_status: Type.Union([Type.Integer(), Type.Null()], {description: 'What the endpoint answered to it.'}),
		last_error: timeOrNull('Why it failed, for people; null: it was acknowledged.'),
		next_attempt_at: timeOrNull('When the next attempt is due; null: none is.'),
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
