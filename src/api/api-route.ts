import type {FastifyReply, FastifyRequest} from 'fastify';
import type {Static, TObject, TSchema} from 'typebox';
import type {ApiErrorCode} from '../mail/api-error.ts';
import {apiError} from '../mail/api-error.ts';
import type {Scope} from '../mail/api-key.ts';
import {type IdPrefix, isId, isTemplateId} from '../mail/ids.ts';
import type {ActTools} from '../mail/operator.ts';
import {csvFile, readPages, streamCsv} from '../resources/csv-lists.ts';
import {type Context, type InputOf, type Operation, type OperationHead, perform} from '../resources/operation.ts';
import {idParams, pageSchema} from '../resources/page-schema.ts';
import {checkBody, emptyBody, optionalBody} from '../resources/validate.ts';
import type {ApiParts, Route} from './api-parts.ts';
import {requireCaller, withOperator} from './auth.ts';
import type {Caller} from './caller.ts';
import {type Description, describe} from './describe.ts';
import {noQuery, type Part, pageQuery, readCursor, readPage, type Scan, scanPage, toScan} from './paging.ts';

declare module 'fastify' {
	interface FastifyContextConfig {
		/** The operations that the route performs. */
		operations?: readonly OperationHead[];
	}
}

type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';

/** A request from a caller that has the scope. */
type Call<Body extends TSchema, Query extends TObject> = {
	readonly caller: Caller;
	readonly workspaceId: string;
	/** The `:id` of the path, which is well-formed. */
	readonly id: string;
	readonly body: Static<Body>;
	readonly query: Static<Query>;
	/** Tools that record the caller in the audit log. */
	readonly tools: ActTools;
	readonly request: FastifyRequest;
	/** Already has the status of `answer`. */
	readonly reply: FastifyReply;
};

type RouteOptions<Body extends TSchema, Query extends TObject> = Description & {
	readonly endpoint: `${Method} /v1/${string}`;
	readonly scope: Scope;
	/** The prefix that `:id` in the path must have. An id of another kind gets the same response as an unknown one. */
	readonly id?: IdPrefix;
	/** The schema of the path parameters, if they are more than `:id`. */
	readonly params?: TObject;
	/** The error code for an unknown id; `not_found` by default. */
	readonly missing?: ApiErrorCode;
	/** The schema of the query. Without it no parameter is accepted. */
	readonly query?: Query;
	readonly body?: Body;
	/** Whether the body may be omitted. */
	readonly isBodyOptional?: true;
	/** Responses may be large, so a workspace may have only a few in progress (large-answers.ts). */
	readonly isLarge?: true;
	/** The operations that it performs. */
	readonly operations?: readonly OperationHead[];
	/** Returns the response body, or `undefined` for a response without one. */
	readonly handle: (call: Call<Body, Query>, parts: ApiParts) => Promise<unknown>;
};

/** Declares a route of the API that requires a key with the scope. */
export function apiRoute<Body extends TSchema, Query extends TObject>({
	endpoint,
	scope,
	id: idPrefix,
	params,
	missing = 'not_found',
	query,
	body,
	isBodyOptional,
	isLarge,
	operations,
	handle,
	...description
}: RouteOptions<Body, Query>): Route {
	const [method, url] = endpoint.split(' ') as [Method, string];
	const errors = [...(idPrefix ? [missing] : []), ...(description.errors ?? [])];
	const isValidId = (text: string) => (idPrefix === 'tpl' ? isTemplateId(text) : !idPrefix || isId(idPrefix, text));
	const options = {
		method,
		url,
		schema: {
			...describe({...description, errors}),
			querystring: query ?? noQuery,
			...(params && {params}),
			...(idPrefix && {params: idParams(idPrefix)}),
			...(body && {body}),
		},
		...(isBodyOptional && {validatorCompiler: optionalBody}),
		config: {...(isLarge && {isLarge}), ...(operations && {operations})},
	};
	return parts => api => {
		api.route<{Params: {id?: string}; Body: Static<Body>; Querystring: Static<Query>}>({
			...options,
			onRequest: parts.auth.needs(scope),
			async handler(request, reply) {
				const {id = ''} = request.params;
				if (isBodyOptional) {
					checkBody(request);
				}
				if (!isValidId(id)) {
					throw apiError(missing);
				}
				const caller = requireCaller(request);
				const call = {
					caller,
					workspaceId: caller.workspaceId,
					id,
					body: request.body as Static<Body>,
					query: request.query as Static<Query>,
					tools: withOperator(parts.tools, request),
					request,
					reply,
				};
				reply.code(description.answer[0]);
				return reply.send(await handle(call, parts));
			},
		});
	};
}

type OperationRouteOptions<Input, Result, Extra> = Omit<
	RouteOptions<TSchema, TObject>,
	'scope' | 'query' | 'body' | 'operations' | 'handle'
> & {
	/** Formats the response body. Without it the response has no body. */
	readonly view?: (result: Result, parts: ApiParts) => object | Promise<object>;
	/** Throws `Refused` if this installation cannot do what is requested, or the caller may not request it. */
	readonly check?: (input: unknown, parts: ApiParts, caller: Caller) => void;
	/** Returns what the operation needs besides its input, before its transaction begins. */
	readonly prepare?: (input: Input, parts: ApiParts, workspaceId: string) => Promise<Extra>;
	/** Whether to respond with `otherAnswer`. */
	readonly isOther?: (result: Result) => boolean;
};

/** Declares the route of an operation. Its input is the body, plus what the path has: `id`, or its `params`. */
export function operationRoute<Input extends TSchema, Result, Extra>(
	operation: Operation<Input, Result, string, Extra>,
	{view, isOther, check, prepare, ...options}: OperationRouteOptions<InputOf<Input>, Result, Extra>,
): Route {
	const {name, scope, input} = operation;
	if (scope === undefined) {
		throw new Error(`The operation ${name} has no scope, so it cannot have a route.`);
	}
	return apiRoute({
		...options,
		scope,
		operations: [operation],
		...(!options.endpoint.startsWith('DELETE ') && {body: options.id ? withoutId(input) : input}),
		async handle(call, parts) {
			const pathArgs = options.params ? (call.request.params as object) : options.id && {id: call.id};
			const args = {...(call.body as object), ...pathArgs} as InputOf<Input>;
			check?.(args, parts, call.caller);
			const extra = await prepare?.(args, parts, call.caller.workspaceId);
			const allArgs = {...args, ...extra} as InputOf<Input> & Extra;
			const result = await perform(operation, toContext(call, parts), allArgs);
			if (options.otherAnswer && isOther?.(result)) {
				call.reply.code(options.otherAnswer[0]);
			}
			return await view?.(result, parts);
		},
	});
}

/** Returns the context of an operation that a request performs. */
export function toContext(
	{caller: {workspaceId, mode}, tools}: {readonly caller: Caller; readonly tools: ActTools},
	{writer, change, vault}: ApiParts,
): Context {
	return {face: 'api', workspaceId, mode, tools, writer, change, vault: async () => vault};
}

/** Returns the schema of an input without its id, which is in the path. */
function withoutId(input: TSchema): TSchema {
	const {
		properties: {id: _, ...properties},
		required = [],
		...rest
	} = input as TObject;
	const otherRequired = required.filter(name => name !== 'id');
	if (Object.keys(properties).length === 0) {
		return emptyBody;
	}
	return {...rest, ...(otherRequired.length > 0 && {required: otherRequired}), properties};
}

/** A request for a page of a list. */
type ListCall<Query extends TObject> = Omit<Call<TSchema, Query>, 'body' | 'tools' | 'request' | 'reply'>;

type ListOptions<Query extends TObject, Row> = Omit<Description, 'answer'> & {
	readonly path: `/v1/${string}`;
	readonly scope: Scope;
	/** The prefix of `:id` in the path. */
	readonly id?: IdPrefix;
	/** Binds cursors to this list: other lists reject them. */
	readonly name: string;
	/** The page size if the caller sets no `limit`. */
	readonly defaultLimit: number;
	/** The description of the response. `item` is the schema of one row. */
	readonly meaning: string;
	readonly item: TSchema;
	readonly view: (row: Row, parts: ApiParts) => object;
	/** The schema of the query. Without it the list has no filters. */
	readonly query?: Query;
	readonly find: (
		call: ListCall<Query>,
		parts: ApiParts,
	) => {readonly filters?: Readonly<Record<string, string>>} & (
		| {readonly read: (part: Part) => Promise<readonly Row[]>}
		/** For lists whose pages may end before they are full. */
		| {readonly scan: Scan<Row>}
	);
};

/** Whether the caller prefers rows as CSV: `Accept: text/csv` (RFC 9110 §12.5.1). */
export function prefersCsv({headers: {accept = ''}}: FastifyRequest): boolean {
	const ranges = accept.toLowerCase().split(',');
	const qualities = new Map(
		ranges.map(range => {
			const [type = '', ...parameters] = range.split(';').map(part => part.trim());
			const quality = parameters.find(parameter => parameter.startsWith('q='))?.slice(2) ?? 1;
			return [type, Number(quality) || 0];
		}),
	);
	const [csv = 0, json = 0, stream = 0] = ['text/csv', 'application/json', 'text/event-stream'].map(type =>
		qualities.get(type),
	);
	return csv > Math.max(json, stream);
}

/** Sends all rows of a list as a CSV file. */
export async function sendCsv(reply: FastifyReply, name: string, text: AsyncGenerator<string>): Promise<FastifyReply> {
	reply.type('text/csv; charset=utf-8').header('content-disposition', `attachment; filename="${name}.csv"`);
	return reply.send(reply.request.method === 'HEAD' ? undefined : await csvFile(text));
}

/** Declares the route of a paginated list. */
export function listRoute<Query extends TObject, Row extends {readonly id: string}>({
	path,
	scope,
	id: idPrefix,
	name,
	defaultLimit,
	meaning,
	item,
	view,
	csv,
	query,
	find,
	...description
}: ListOptions<Query, Row>): Route {
	return parts => api => {
		const {auth, cursors} = parts;
		const toView = (row: Row) => view(row, parts);
		api.get<{Params: {id?: string}; Querystring: Static<typeof pageQuery>}>(
			path,
			{
				onRequest: auth.needs(scope),
				config: {isLarge: true},
				schema: {
					...describe({...description, ...(csv && {csv}), answer: [200, meaning, pageSchema(item)]}),
					querystring: query ?? pageQuery,
					...(idPrefix && {params: idParams(idPrefix)}),
				},
			},
			async (request, reply) => {
				const caller = requireCaller(request);
				const {workspaceId} = caller;
				const {id = ''} = request.params;
				const call = {caller, workspaceId, id, query: request.query as Static<Query>};
				const {filters = {}, ...source} = find(call, parts);
				const cursorScope = {workspaceId, route: name, filters};
				const list = {query: request.query, defaultLimit, cursors, scope: cursorScope};
				if (csv && prefersCsv(request)) {
					const {limit} = request.query;
					const part = {after: readCursor(list), ...(limit !== undefined && {max: Number(limit)})};
					const rows = readPages('scan' in source ? source.scan : toScan(source.read), part);
					return await sendCsv(reply, name, streamCsv(csv, rows, toView));
				}
				const page = await ('scan' in source ? scanPage({...list, ...source}) : readPage({...list, ...source}));
				return {data: page.rows.map(toView), next_cursor: page.nextCursor};
			},
		);
	};
}
