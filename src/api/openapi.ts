import swagger from '@fastify/swagger';
import swaggerUi from '@fastify/swagger-ui';
import type {FastifyInstance, FastifySchema, RouteOptions} from 'fastify';
import Fastify from 'fastify';
import type {TSchema} from 'typebox';
import {type ApiErrorCode, apiErrors, formExpected} from '../mail/api-error.ts';
import {webhookEventTypes} from '../mail/message.ts';
import {Type} from '../mail/type.ts';
import type {Description, SuccessResponse} from './describe.ts';

/** The properties of a route that determine its common responses. */
type RouteKind = Pick<Description, 'pages' | 'csv' | 'media'> & {
	readonly responses: readonly SuccessResponse[];
	readonly errors: readonly ApiErrorCode[];
	/** Whether the route requires a key. */
	readonly needsKey: boolean;
	/** Whether the route reads a body, required or not. */
	readonly hasBody: boolean;
	readonly hasQuery: boolean;
};

const requestId = {
	'X-Request-Id': {type: 'string', description: 'Identifies this request in the log, `req_…`.', example: 'req_01j0…'},
};
const rateLimit = {
	'RateLimit-Limit': {type: 'integer', description: 'Sends allowed per window for this key.'},
	'RateLimit-Remaining': {type: 'integer', description: 'Sends left in the window.'},
	'RateLimit-Reset': {type: 'integer', description: 'When the window is reset, in Unix seconds.'},
};

const retryAfter = {'Retry-After': {type: 'integer', description: 'Seconds to wait before trying again.'}};
const retryableStatuses: ReadonlySet<number> = new Set([429, 503]);

/** Returns the responses of a route by status, with their headers and an example for each error code. */
export function toResponses(route: RouteKind): Record<string, unknown> {
	const headers = {...requestId, ...(route.needsKey && rateLimit)};
	const responses: Record<string, unknown> = {};
	const {pages, csv, media = pages && 'text/html'} = route;
	const asCsv = csv && {
		'text/csv': {schema: Type.String({description: `All rows, with the columns ${csv.join(', ')}.`})},
	};
	for (const [status, meaning, body] of route.responses) {
		const bodies = body
			? {[media ?? 'application/json']: {schema: body}}
			: media && {[media]: {schema: Type.String()}};
		responses[status] = {
			description: meaning,
			headers,
			...(bodies ? {content: {...bodies, ...asCsv}} : {type: 'null'}),
		};
	}
	for (const [status, description] of Object.entries(pages ?? {})) {
		responses[status] = {description, headers, content: {'text/html': {schema: Type.String()}}};
	}
	for (const [errorStatus, codes] of groupByStatus([...route.errors, ...generalErrors(route)])) {
		responses[errorStatus] = {
			description: codes.map(code => `\`${code}\`: ${messageOf(code, route)}`).join('\n\n'),
			headers: {...headers, ...(retryableStatuses.has(errorStatus) && retryAfter)},
			content: jsonContent(errorEnvelope, toExamples(codes, route)),
		};
	}
	if (route.needsKey) {
		const description = 'The key is missing, unknown, revoked or expired.';
		responses[401] = {description, headers: requestId, content: jsonContent(unauthorized)};
	}
	return responses;
}

/**
 * Returns the errors that every route of this kind may return. 400 also covers paths that cannot be decoded. 408 and
 * 431 happen before a route is known, so they are not listed.
 */
function generalErrors({needsKey, hasBody, hasQuery, pages}: RouteKind): ApiErrorCode[] {
	return [
		...(needsKey ? (['insufficient_scope', 'rate_limited'] as const) : []),
		...((hasBody || needsKey) && !pages ? (['bad_request'] as const) : []),
		...(hasBody ? (['payload_too_large', 'unsupported_media_type'] as const) : []),
		...((hasBody || hasQuery) && !pages ? (['validation_failed'] as const) : []),
		'internal_error',
		'unavailable',
	];
}

function groupByStatus(codes: readonly ApiErrorCode[]): Map<number, ApiErrorCode[]> {
	const groups = new Map<number, ApiErrorCode[]>();
	for (const code of new Set(codes)) {
		const {status} = apiErrors[code];
		groups.set(status, [...(groups.get(status) ?? []), code]);
	}
	return groups;
}

const unauthorized = Type.Object({error: Type.Enum(['Unauthorized'])}, {examples: [{error: 'Unauthorized'}]});

/** The body of every error except 401 (docs/reference/errors.md). */
const errorEnvelope = Type.Object({
	error: Type.Object({
		code: Type.String({description: 'The error code. It does not change, so programs should rely on it.'}),
		message: Type.String({description: 'A human-readable message, which may change.'}),
		request_id: Type.String({description: 'The id of the request, also in the header X-Request-Id.'}),
		violations: Type.Optional(
			Type.Array(Type.Object({field: Type.String(), message: Type.String()}), {
				description:
					'Present only with `validation_failed`: all invalid fields, at most twenty. `field` is a path such as `cc[3]`.',
			}),
		),
	}),
});

function messageOf(code: ApiErrorCode, {pages}: RouteKind): string {
	return pages && code === 'unsupported_media_type' ? formExpected : apiErrors[code].message;
}

function toExamples(codes: readonly ApiErrorCode[], route: RouteKind): Record<string, {value: unknown}> {
	return Object.fromEntries(
		codes.map(code => {
			const violations = code === 'validation_failed' && {violations: [{field: 'to', message: 'is required'}]};
			const error = {
				code,
				message: messageOf(code, route),
				request_id: 'req_01kaxq7w0c8m2v5t9d3f6h1j4n',
				...violations,
			};
			return [code, {value: {error}}];
		}),
	);
}

function jsonContent(schema: TSchema, examples?: Record<string, {value: unknown}>): object {
	return {'application/json': {schema, ...(examples && {examples})}};
}

const example = {
	type: 'delivered',
	message_id: 'msg_01kaxq7w0c8m2v5t9d3f6h1j4n',
	recipient: 'user@example.org',
	occurred_at: '2026-06-09T10:15:30+00:00',
	metadata: {order_id: '1042'},
};

/** Adds the request that webhook endpoints receive to the OpenAPI document (`webhooks` of OpenAPI 3.1). */
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
						'Posted to every endpoint that is subscribed to the event. A 2xx response acknowledges it. Any other status, a redirect or a timeout is a failure and is retried, with five attempts in total. Compute the signature over the bytes as received, compare it in constant time, and reject timestamps that are more than 300 seconds off.',
					parameters: [
						header('X-Webhook-Timestamp', 'The time of signing, in Unix seconds.', {type: 'string'}),
						header(
							'X-Webhook-Signature',
							'`sha256=` and the lowercase hex HMAC-SHA256 of `<timestamp>.<raw body>`, keyed with the endpoint’s `signing_secret`.',
							{type: 'string', pattern: '^sha256=[0-9a-f]{64}$'},
						),
						header(
							'X-Webhook-Signature-Next',
							'The same, keyed with the new secret, during the overlap of a rotation. Accept the request if either signature is valid.',
							{type: 'string', pattern: '^sha256=[0-9a-f]{64}$'},
							false,
						),
						header('X-Webhook-Id', 'The delivery, `whd_…`; the same for every attempt.', {type: 'string'}),
					],
					requestBody: {required: true, content: {'application/json': {schema: eventBody, example}}},
					responses: {'2XX': {description: 'Acknowledged.'}},
				},
			},
		},
	};
}

const textOrNull = {anyOf: [{type: 'string'}, {type: 'null'}]};

const eventBody = {
	type: 'object',
	required: ['type', 'message_id', 'recipient', 'occurred_at', 'metadata'],
	properties: {
		type: {type: 'string', enum: [...webhookEventTypes]},
		message_id: textOrNull,
		recipient: {...textOrNull, description: 'The address that the event is about, or `null`.'},
		occurred_at: {type: 'string', description: 'The time of the event, in UTC.'},
		metadata: {
			type: 'object',
			additionalProperties: {type: 'string'},
			description: 'The metadata of the send; empty if it had none.',
		},
		detail: {type: 'object', additionalProperties: true, description: 'Details that depend on the type.'},
		event_id: {type: 'string', description: 'This and the following fields: only in the format `full`.'},
		workspace: {type: 'string'},
		subject: textOrNull,
		template_id: textOrNull,
		tags: {type: 'array', items: {type: 'string'}},
		role: textOrNull,
	},
};

// Custom formats and keywords mean nothing to other programs, so they are removed. The descriptions explain them.
const customKeywords = new Set(['variables', 'contentEncoding']);
const knownFormats = new Set(['email', 'uri', 'date-time']);
const emailFormats = new Set(['email', 'recipient-email', 'query-email', 'query-recipient-email']);

/** Returns a copy of a schema that contains only standard JSON Schema. */
export function plainSchema(schema: unknown): unknown {
	if (Array.isArray(schema)) {
		return schema.map(plainSchema);
	}
	if (typeof schema !== 'object' || schema === null) {
		return schema;
	}
	return Object.fromEntries(
		Object.entries(schema).flatMap(([name, value]) => {
			// An object is not the keyword, but the schema of a property with the same name.
			if (customKeywords.has(name) && typeof value !== 'object') {
				return [];
			}
			if (name === 'format' && typeof value === 'string') {
				const format = emailFormats.has(value) ? 'email' : value;
				return knownFormats.has(format) ? [[name, format]] : [];
			}
			return [[name, plainSchema(value)]];
		}),
	);
}

const introduction = `Transactional email: a send refers to a stored template and supplies its variables. The response comes at once;
rendering and delivery follow.

- **Keys**: \`Authorization: Bearer key_live_…\`. A key belongs to one workspace; ids of other workspaces are not found.
- **Times** are UTC (\`2026-06-09T10:15:30+00:00\`). Queries accept RFC 3339 dates and date-times.
- **Lists** are newest first unless documented otherwise. For the next page, pass \`next_cursor\` as \`cursor\` with the
  same filters, until it is \`null\`.
- \`null\` in an optional field is the same as omitting it. Unknown fields and query parameters are rejected.
- **Errors** have a common format. Rely on \`error.code\`. \`error.request_id\` is also in the header \`X-Request-Id\`.
- Messages to \`simulator.test\` and all messages of test keys never leave the machine. \`bounced+x@simulator.test\`
  bounces; \`complained@\`, \`deferred@\`, \`soft-bounced@\`, \`opened@\` and \`clicked@\` cause the event they name.`;

const tags = [
	{name: 'Messages', description: 'Send messages and follow their delivery.'},
	{name: 'Events', description: 'Events of messages, as they happen.'},
	{name: 'Suppressions', description: 'Addresses that receive no mail from this workspace.'},
	{name: 'Topics', description: 'Kinds of mail that recipients can opt out of.'},
	{name: 'Webhooks', description: 'Signed events, posted to your endpoints.'},
	{name: 'Contacts', description: 'Data stored about recipients, and its erasure.'},
	{name: 'Templates', description: 'Message templates, stored as immutable versions.'},
	{name: 'Domains', description: 'Domains of senders, with their DNS records and signing keys.'},
	{name: 'Senders', description: 'Addresses that messages may be sent from.'},
	{name: 'Usage', description: 'Message counts and the monthly quota.'},
	{name: 'Hosted pages', description: 'Pages that links in messages open. They need a signed token, not a key.'},
	{name: 'Operation', description: 'For process supervisors and load balancers.'},
];

/**
 * Creates a server that does not listen. It serves the OpenAPI 3.1 document of these routes at /openapi.json and the
 * documentation pages at /docs, which load nothing from other hosts.
 */
export async function createDocsServer(routes: readonly RouteOptions[], version: string): Promise<FastifyInstance> {
	const api = Fastify({pluginTimeout: 0});
	api.setValidatorCompiler(() => () => true);
	api.register(swagger, {
		hideUntagged: true,
		openapi: {
			openapi: '3.1.0',
			info: {title: 'mailctl', version, description: introduction},
			servers: [{url: '/'}],
			tags,
			components: {
				securitySchemes: {key: {type: 'http', scheme: 'bearer', description: '`key_live_…` or `key_test_…`'}},
			},
		},
		transform: ({schema, url, route}) => ({schema: describeRoute(schema, route), url}),
		transformObject: document =>
			'openapiObject' in document ? describeWebhooks(document.openapiObject) : document.swaggerObject,
	});
	api.register(swaggerUi, {
		routePrefix: '/docs',
		staticCSP:
			"default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; frame-ancestors 'none'",
		theme: {
			title: 'mailctl API',
			css: [{filename: 'ours.css', content: 'body .swagger-ui .markdown code{padding:0 2px;background:none}'}],
		},
		uiConfig: {
			url: '/openapi.json',
			layout: 'BaseLayout',
			docExpansion: 'list',
			deepLinking: true,
			defaultModelsExpandDepth: -1,
			tryItOutEnabled: false,
		},
	});
	api.register(async scope => {
		scope.get('/openapi.json', {schema: {hide: true} as FastifySchema}, async () => api.swagger());
		for (const {method, url, schema, onRequest} of routes) {
			scope.route({
				method,
				url,
				...(schema && {schema}),
				...(onRequest && {onRequest}),
				handler: () => undefined,
			});
		}
	});
	await api.ready();
	return api;
}

/** Adds to a route's schema what all routes of its kind share: the scope, errors and headers. */
function describeRoute(schema: FastifySchema | undefined, route: RouteOptions): FastifySchema {
	if (schema?.answer === undefined) {
		return {hide: true};
	}
	const {answer, otherAnswer, errors = [], summary = '', description, tags, consumes, ...rest} = schema;
	const {pages: _pages, csv: _csv, media: _media, ...requestSchemas} = rest;
	const scope = scopeOf(route);
	return {
		...(plainSchema(requestSchemas) as FastifySchema),
		...(tags && {tags}),
		...(consumes && {consumes}),
		summary,
		operationId: operationId(summary),
		description: [description, scope && `Needs the scope \`${scope}\`.`].filter(Boolean).join('\n\n'),
		...(scope !== undefined && {security: [{key: []}]}),
		response: toResponses({
			...rest,
			responses: otherAnswer ? [answer, otherAnswer] : [answer],
			errors,
			needsKey: scope !== undefined,
			// The body of a GET is ignored.
			hasBody: route.method !== 'GET',
			hasQuery: schema.querystring !== undefined,
		}),
	};
}

/** Returns the scope that the route's hook requires (`auth.needs`). */
function scopeOf({onRequest}: RouteOptions): string | undefined {
	return [onRequest].flat().flatMap(hook => (hook && 'scope' in hook ? [String(hook.scope)] : []))[0];
}

/** Converts a summary to an operation id: `Get a message's timeline` → `getMessageTimeline`. */
function operationId(summary: string): string {
	const words = summary
		.replaceAll("'s", '')
		.split(/\W+/)
		.filter(word => !/^(?:an?|the|of|)$/i.test(word));
	return words
		.map((word, index) => (index === 0 ? word.toLowerCase() : word[0]?.toUpperCase() + word.slice(1)))
		.join('');
}
