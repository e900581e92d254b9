import swagger from '@fastify/swagger';
import swaggerUi from '@fastify/swagger-ui';
import type {FastifyInstance, FastifySchema, RouteOptions} from 'fastify';
import Fastify from 'fastify';
import type {TSchema} from 'typebox';
import {type ApiErrorCode, apiErrors} from '../mail/api-error.ts';
import {webhookEventTypes} from '../mail/message.ts';
import {Type} from '../mail/type.ts';
import type {Answer, Description} from './describe.ts';
import {formExpected} from './errors.ts';

/** What decides which answers a route can give in addition to its own. */
type RouteKind = Pick<Description, 'pages' | 'csv' | 'media'> & {
	readonly answers: readonly Answer[];
	readonly errors: readonly ApiErrorCode[];
	/** Whether a key is needed. */
	readonly keyed: boolean;
	/** Whether a body is looked at, wanted or not. */
	readonly hasBody: boolean;
	readonly hasQuery: boolean;
};

const requestId = {
	'X-Request-Id': {type: 'string', description: 'Names this request in logs, `req_…`.', example: 'req_01j0…'},
};
const rateLimit = {
	'RateLimit-Limit': {type: 'integer', description: 'Sends permitted in the window, for this key.'},
	'RateLimit-Remaining': {type: 'integer', description: 'Sends left in the window.'},
	'RateLimit-Reset': {type: 'integer', description: 'When the window refills, Unix seconds.'},
};

const retryAfter = {'Retry-After': {type: 'integer', description: 'Seconds after which to try again.'}};
const retried: ReadonlySet<number> = new Set([429, 503]);

/** The answers of a route by status, with the headers that they carry and an example for each error code. */
export function responsesOf(route: RouteKind): Record<string, unknown> {
	const headers = {...requestId, ...(route.keyed && rateLimit)};
	const responses: Record<string, unknown> = {};
	const {pages, csv, media = pages && 'text/html'} = route;
	const asCsv = csv && {
		'text/csv': {schema: Type.String({description: `All rows, with the columns ${csv.join(', ')}.`})},
	};
	for (const [status, meaning, body] of route.answers) {
		const own = body
			? {[media ?? 'application/json']: {schema: body}}
			: media && {[media]: {schema: Type.String()}};
		responses[status] = {description: meaning, headers, ...(own ? {content: {...own, ...asCsv}} : {type: 'null'})};
	}
	for (const [status, description] of Object.entries(pages ?? {})) {
		responses[status] = {description, headers, content: {'text/html': {schema: Type.String()}}};
	}
	for (const [errorStatus, codes] of byStatus([...route.errors, ...generalErrors(route)])) {
		responses[errorStatus] = {
			description: codes.map(code => `\`${code}\`: ${messageOf(code, route)}`).join('\n\n'),
			headers: {...headers, ...(retried.has(errorStatus) && retryAfter)},
			content: content(errorEnvelope, examplesOf(codes, route)),
		};
	}
	if (route.keyed) {
		const description = 'The key is missing, unknown, revoked or expired.';
		responses[401] = {description, headers: requestId, content: content(unauthorized)};
	}
	return responses;
}

/**
 * What any route of the kind can answer: 400 also for a path that cannot be decoded. 408 and 431 come before a route is
 * known.
 */
function generalErrors({keyed, hasBody, hasQuery, pages}: RouteKind): ApiErrorCode[] {
	return [
		...(keyed ? (['insufficient_scope', 'rate_limited'] as const) : []),
		...((hasBody || keyed) && !pages ? (['bad_request'] as const) : []),
		...(hasBody ? (['payload_too_large', 'unsupported_media_type'] as const) : []),
		...((hasBody || hasQuery) && !pages ? (['validation_failed'] as const) : []),
		'internal_error',
		'unavailable',
	];
}

function byStatus(codes: readonly ApiErrorCode[]): Map<number, ApiErrorCode[]> {
	const groups = new Map<number, ApiErrorCode[]>();
	for (const code of new Set(codes)) {
		const {status} = apiErrors[code];
		groups.set(status, [...(groups.get(status) ?? []), code]);
	}
	return groups;
}

const unauthorized = Type.Object({error: Type.Enum(['Unauthorized'])}, {examples: [{error: 'Unauthorized'}]});

/** The body of every failure but 401 (docs/reference/errors.md). */
const errorEnvelope = Type.Object({
	error: Type.Object({
		code: Type.String({description: 'Stable; switch on this.'}),
		message: Type.String({description: 'For people.'}),
		request_id: Type.String({description: 'Also in the header X-Request-Id.'}),
		violations: Type.Optional(
			Type.Array(Type.Object({field: Type.String(), message: Type.String()}), {
				description:
					'Only with `validation_failed`: every fault, at most twenty. `field` is a path such as `cc[3]`.',
			}),
		),
	}),
});

function messageOf(code: ApiErrorCode, {pages}: RouteKind): string {
	return pages && code === 'unsupported_media_type' ? formExpected : apiErrors[code].message;
}

function examplesOf(codes: readonly ApiErrorCode[], route: RouteKind): Record<string, {value: unknown}> {
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

function content(schema: TSchema, examples?: Record<string, {value: unknown}>): object {
	return {'application/json': {schema, ...(examples && {examples})}};
}

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

const textOrNull = {anyOf: [{type: 'string'}, {type: 'null'}]};

const eventBody = {
	type: 'object',
	required: ['type', 'message_id', 'recipient', 'occurred_at', 'metadata'],
	properties: {
		type: {type: 'string', enum: [...webhookEventTypes]},
		message_id: textOrNull,
		recipient: {...textOrNull, description: 'The address that the event is about; null: none.'},
		occurred_at: {type: 'string', description: 'UTC.'},
		metadata: {
			type: 'object',
			additionalProperties: {type: 'string'},
			description: 'As given at the send; empty if none.',
		},
		detail: {type: 'object', additionalProperties: true, description: 'What else there is to say, by type.'},
		event_id: {type: 'string', description: 'This and what follows: of the format `full`.'},
		workspace: {type: 'string'},
		subject: textOrNull,
		template_id: textOrNull,
		tags: {type: 'array', items: {type: 'string'}},
		role: textOrNull,
	},
};

// Formats and keywords of our own mean nothing to others; the descriptions explain them.
const ownKeywords = new Set(['variables', 'contentEncoding']);
const knownFormats = new Set(['email', 'uri', 'date-time']);
const emailFormats = new Set(['email', 'recipient-email', 'query-email', 'query-recipient-email']);

/** A copy of a schema with nothing but standard JSON Schema in it. */
export function plainSchema(schema: unknown): unknown {
	if (Array.isArray(schema)) {
		return schema.map(plainSchema);
	}
	if (typeof schema !== 'object' || schema === null) {
		return schema;
	}
	return Object.fromEntries(
		Object.entries(schema).flatMap(([name, value]) => {
			if (ownKeywords.has(name) && typeof value !== 'object') {
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

const about = `Transactional email: a send names a stored template and its variables, and is answered at once; rendering and
delivery follow.

- **Keys**: \`Authorization: Bearer key_live_…\`. A key belongs to one workspace; ids of others answer as unknown ones.
- **Times** are UTC (\`2026-06-09T10:15:30+00:00\`); those in queries may be RFC 3339 dates or date-times.
- **Lists** are newest first unless they say otherwise: pass \`next_cursor\` as \`cursor\`, with the same filters, until it is null.
- \`null\` for an optional field is the same as leaving it out. Unknown fields and query parameters are refused.
- **Errors** have one envelope; clients switch on \`error.code\`. \`error.request_id\` is also the header \`X-Request-Id\`.
- Mail to \`simulator.test\` never leaves the machine, and all mail of test keys: \`bounced+x@simulator.test\` bounces,
  \`complained@\`, \`deferred@\`, \`soft-bounced@\`, \`opened@\`, \`clicked@\` do what they say.`;

const tags = [
	{name: 'Messages', description: 'Send, and see what became of it.'},
	{name: 'Events', description: 'What happens, as it happens.'},
	{name: 'Suppressions', description: 'Addresses that get no mail of this workspace at all.'},
	{name: 'Topics', description: 'Groups of mail that a recipient can opt out of.'},
	{name: 'Webhooks', description: 'Events posted to your endpoints, signed.'},
	{name: 'Contacts', description: 'What is known of recipients, and its erasure.'},
	{name: 'Templates', description: 'Sources of mail, in immutable versions.'},
	{name: 'Domains', description: 'Where senders are: DNS records to publish, and keys that sign.'},
	{name: 'Senders', description: 'Addresses that mail may come from.'},
	{name: 'Usage', description: 'What was sent, and the monthly quota.'},
	{name: 'Hosted pages', description: 'What the links in mail lead to; no key, a signed token.'},
	{name: 'Operation', description: 'For process supervisors and load balancers.'},
];

/**
 * Makes a server that listens nowhere: it has the description of the API (OpenAPI 3.1) at /openapi.json, made from the
 * schemas of these routes, and pages of it at /docs, which load nothing from elsewhere.
 */
export async function makePages(routes: readonly RouteOptions[], version: string): Promise<FastifyInstance> {
	const api = Fastify({pluginTimeout: 0});
	api.setValidatorCompiler(() => () => true);
	api.register(swagger, {
		hideUntagged: true,
		openapi: {
			openapi: '3.1.0',
			info: {title: 'mailctl', version, description: about},
			servers: [{url: '/'}],
			tags,
			components: {
				securitySchemes: {key: {type: 'http', scheme: 'bearer', description: '`key_live_…` or `key_test_…`'}},
			},
		},
		transform: ({schema, url, route}) => ({schema: described(schema, route), url}),
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

/** A route's schema with what holds for every route of its kind: its scope, its errors, its headers. */
function described(schema: FastifySchema | undefined, route: RouteOptions): FastifySchema {
	if (schema?.answer === undefined) {
		return {hide: true};
	}
	const {answer, otherAnswer, errors = [], summary = '', description, tags, consumes, ...others} = schema;
	const {pages: _pages, csv: _csv, media: _media, ...parts} = others;
	const scope = scopeOf(route);
	return {
		...(plainSchema(parts) as FastifySchema),
		...(tags && {tags}),
		...(consumes && {consumes}),
		summary,
		operationId: operationId(summary),
		description: [description, scope && `Needs the scope \`${scope}\`.`].filter(Boolean).join('\n\n'),
		...(scope !== undefined && {security: [{key: []}]}),
		response: responsesOf({
			...others,
			answers: otherAnswer ? [answer, otherAnswer] : [answer],
			errors,
			keyed: scope !== undefined,
			// The body of a GET is not read.
			hasBody: route.method !== 'GET',
			hasQuery: schema.querystring !== undefined,
		}),
	};
}

/** The scope that the route's hook asks for (`auth.needs`). */
function scopeOf({onRequest}: RouteOptions): string | undefined {
	return [onRequest].flat().flatMap(hook => (hook && 'scope' in hook ? [String(hook.scope)] : []))[0];
}

/** `Read a message's timeline` → `readMessageTimeline`. */
function operationId(summary: string): string {
	const words = summary
		.replaceAll("'s", '')
		.split(/\W+/)
		.filter(word => !/^(?:an?|the|of|)$/i.test(word));
	return words
		.map((word, index) => (index === 0 ? word.toLowerCase() : word[0]?.toUpperCase() + word.slice(1)))
		.join('');
}
