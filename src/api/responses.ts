import type {TSchema} from 'typebox';
import {type ApiErrorCode, apiErrors} from '../mail/api-error.ts';
import {Type} from '../mail/type.ts';
import type {Answer} from './describe.ts';
import {formExpected} from './errors.ts';

/** What decides which answers a route can give in addition to its own. */
type RouteKind = {
	readonly answers: readonly Answer[];
	readonly errors: readonly ApiErrorCode[];
	/** For routes that answer with pages: their statuses other than the answer's, with what they mean. */
	readonly pages?: Readonly<Record<number, string>>;
	/** Of the answer, where it is no JSON, nor a page; null: it has no body. */
	readonly media?: string | null;
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
	const {pages, media = pages && 'text/html'} = route;
	for (const [status, meaning, body] of route.answers) {
		const own = body ? {[media ?? 'application/json']: {schema: body}} : media && {[media]: {schema: Type.String()}};
		responses[status] = {description: meaning, headers, ...(own ? {content: own} : {type: 'null'})};
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

/** What any route of the kind can answer: 400 also for a path that cannot be decoded. 408 and 431 come before a route is known. */
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
				description: 'Only with `validation_failed`: every fault, at most twenty. `field` is a path such as `cc[3]`.',
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
