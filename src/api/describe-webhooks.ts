import {webhookEventTypes} from '../mail/event.ts';

const example = {
	type: 'delivered',
	message_id: 'msg_01kaxq7w0c8m2v5t9d3f6h1j4n',
	recipient: 'user@example.org',
	occurred_at: '2026-06-09T10:15:30+00:00',
	metadata: {order_id: '1042'},
};

/** Adds the request that endpoints get to the description of the API (OpenAPI 3.1, `webhooks`). */
export function describeWebhooks<Document extends object>(document: Document): Document {
	const header = (name: string, description: string, schema: object, required = true) => ({
		name,
		in: 'header',
		required,
		description,
		schema,
	});
	return {
		...document,
		webhooks: {
			event: {
				post: {
					tags: ['Webhooks'],
					operationId: 'receiveEvent',
					summary: 'Receive an event',
					description:
						'Posted to every endpoint that is subscribed to the event. Any 2xx acknowledges it; anything else, a redirect or no answer in time is a failure and is tried again, five times in all. Compute the signature over the received bytes, compare in constant time, and refuse a timestamp more than 300 seconds off.',
					parameters: [
						header('X-Webhook-Timestamp', 'Unix seconds at signing.', {type: 'string'}),
						header(
							'X-Webhook-Signature',
							'`sha256=` and the lower-case hex HMAC-SHA256 of `<timestamp>.<raw body>`, keyed by the endpoint’s `signing_secret`.',
							{type: 'string', pattern: '^sha256=[0-9a-f]{64}$'},
						),
						header(
							'X-Webhook-Signature-Next',
							'The same, keyed by the new secret, during the overlap of a rotation. Take the request if either signature is right.',
							{type: 'string', pattern: '^sha256=[0-9a-f]{64}$'},
							false,
						),
						header('X-Webhook-Id', 'The delivery, `whd_…`; the same at every attempt.', {type: 'string'}),
					],
					requestBody: {required: true, content: {'application/json': {schema: eventBody, example}}},
					responses: {'2XX': {description: 'Acknowledged.'}},
				},
			},
		},
	};
}

const eventBody = {
	type: 'object',
	required: ['type', 'message_id', 'recipient', 'occurred_at', 'metadata'],
	properties: {
		type: {type: 'string', enum: [...webhookEventTypes]},
		message_id: {type: 'string'},
		recipient: {type: 'string', description: 'The address that the event is about.'},
		occurred_at: {type: 'string', description: 'UTC.'},
		metadata: {
			type: 'object',
			additionalProperties: {type: 'string'},
			description: 'As given at the send; empty if none.',
		},
	},
};
