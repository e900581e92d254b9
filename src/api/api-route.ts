import type {FastifyReply, FastifyRequest} from 'fastify';
import type {Static, TObject, TSchema} from 'typebox';
import {csvFile, csvOf, pagesOf} from '../admin/csv-lists.ts';
import type {ApiErrorCode} from '../mail/api-error.ts';
import type {Scope} from '../mail/api-key.ts';
import {type IdPrefix, isId, isTemplateId} from '../mail/ids.ts';
import type {ActTools} from '../mail/operator.ts';
import {type Given, type Operation, perform} from '../ops/operation.ts';
import type {ApiParts, Routes} from './api-parts.ts';
import {actAs, callerOf} from './auth.ts';
import type {Caller} from './caller.ts';
import {type Description, describe} from './describe.ts';
import {apiError} from './errors.ts';
import {noQuery, type Part, pageQuery, readCursor, readPage, type Scan, scanOf, scanPage} from './paging.ts';
import {idParams, pageOf} from './schemas/page.ts';
import {checkBody, emptyBody, optionalBody} from './validate.ts';

type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';

/** A request of a caller who has the scope. */
type Call<Body extends TSchema, Query extends TObject> = {
	readonly caller: Caller;
	readonly workspaceId: string;
	/** The `:id` of the path, which has the form of one. */
	readonly id: string;
	readonly body: Static<Body>;
	readonly query: Static<Query>;
	/** With the caller, whom the audit trail names. */
	readonly tools: ActTools;
	readonly request: FastifyRequest;
	/** Has the status of `answer`. */
	readonly reply: FastifyReply;
};

type RouteOptions<Body extends TSchema, Query extends TObject> = Description & {
	readonly at: `${Method} /v1/${string}`;
	readonly scope: Scope;
	/** The kind of id that `:id` in the path must have: another kind answers as an unknown id. */
	readonly id?: IdPrefix;
	/** Of a path that names something by other parameters. */
	readonly params?: TObject;
	/** The code of that answer; `not_found` if absent. */
	readonly missing?: ApiErrorCode;
	/** Absent: no parameter is taken. */
	readonly query?: Query;
	readonly body?: Body;
	/** Whether the body may be left out. */
	readonly isBodyOptional?: true;
	/** Responses may be large: a workspace may have few of them in progress (large-answers.ts). */
	readonly isLarge?: true;
	/** Gives what is sent; nothing where the answer has no body. */
	readonly handle: (call: Call<Body, Query>) => Promise<unknown>;
};

/** A route of the API: it needs a key with the scope. */
export function apiRoute<Body extends TSchema, Query extends TObject>(
	{auth, tools}: Pick<ApiParts, 'auth' | 'tools'>,
	{
		at,
		scope,
		id: kind,
		params,
		missing = 'not_found',
		query,
		body,
		isBodyOptional,
		isLarge,
		handle,
		...description
	}: RouteOptions<Body, Query>,
): Routes {
	const [method, url] = at.split(' ') as [Method, string];
	const errors = [...(kind ? [missing] : []), ...(description.errors ?? [])];
	const isOfKind = (text: string) => (kind === 'tpl' ? isTemplateId(text) : !kind || isId(kind, text));
	const options = {
		method,
		url,
		onRequest: auth.needs(scope),
		schema: {
			...describe({...description, errors}),
			querystring: query ?? noQuery,
			...(params && {params}),
			...(kind && {params: idParams(kind)}),
			...(body && {body}),
		},
		...(isBodyOptional && {validatorCompiler: optionalBody}),
		...(isLarge && {config: {isLarge}}),
	};
	return api => {
		api.route<{Params: {id?: string}; Body: Static<Body>; Querystring: Static<Query>}>({
			...options,
			async handler(request, reply) {
				const {id = ''} = request.params;
				if (isBodyOptional) {
					checkBody(request);
				}
				if (!isOfKind(id)) {
					throw apiError(missing);
				}
				const caller = callerOf(request);
				const acting = {caller, workspaceId: caller.workspaceId, tools: actAs(tools, request)};
				const {body: given, query: asked} = request;
				reply.code(description.answer[0]);
				const sent = await handle({
					...acting,
					id,
					body: given as Static<Body>,
					query: asked as Static<Query>,
					request,
					reply,
				});
				return reply.send(sent);
			},
		});
	};
}

type FaceOptions<Result> = Omit<RouteOptions<TSchema, TObject>, 'scope' | 'query' | 'body' | 'handle'> & {
	/** The body of the answer; absent: no body. */
	readonly view?: (result: Result) => object | Promise<object>;
	/** Throws `Refused` where this installation cannot do what is asked for. */
	readonly check?: (given: unknown) => void;
	/** Whether the answer is `otherAnswer`. */
	readonly isOther?: (result: Result) => boolean;
};

/** The route of an operation: the body is its input; an id in the path is the input's `id`. */
export function operationRoute<Input extends TSchema, Result>(
	parts: Pick<ApiParts, 'auth' | 'tools' | 'writer' | 'change' | 'vault'>,
	operation: Operation<Input, Result>,
	{view, isOther, check, ...options}: FaceOptions<Result>,
): Routes {
	const {name, scope, input} = operation;
	if (scope === undefined) {
		throw new Error(`${name} has no scope, so that it has no route.`);
	}
	const {writer, change, vault} = parts;
	return apiRoute(parts, {
		...options,
		scope,
		...(!options.at.startsWith('DELETE ') && {body: options.id ? withoutId(input) : input}),
		async handle({caller: {workspaceId, mode}, id, body, tools, reply}) {
			const context = {face: 'api', workspaceId, mode, tools, writer, change, vault: async () => vault} as const;
			const given = {...(body as object), ...(options.id && {id})} as Given<Input>;
			check?.(given);
			const result = await perform(operation, context, given);
			if (options.otherAnswer && isOther?.(result)) {
				reply.code(options.otherAnswer[0]);
			}
			return await view?.(result);
		},
	});
}

/** The body of a request that has the id in its path. */
function withoutId(input: TSchema): TSchema {
	const {
		properties: {id: _, ...properties},
		required = [],
		...rest
	} = input as TObject;
	const others = required.filter(name => name !== 'id');
	if (Object.keys(properties).length === 0) {
		return emptyBody;
	}
	return {...rest, ...(others.length > 0 && {required: others}), properties};
}

type ListOptions<Query extends TObject, Row> = Omit<Description, 'answer'> & {
	readonly path: `/v1/${string}`;
	readonly scope: Scope;
	/** The kind of id that `:id` in the path has. */
	readonly id?: IdPrefix;
	/** Of its cursors: they are good for no other list. */
	readonly name: string;
	/** Items of a page where the caller gives no `limit`. */
	readonly defaultLimit: number;
	/** What the answer is, and one of its items. */
	readonly meaning: string;
	readonly item: TSchema;
	readonly view: (row: Row) => object;
	/** Absent: the list has no filters. */
	readonly query?: Query;
	readonly find: (
		caller: Caller,
		query: Static<Query>,
		id: string,
	) => {readonly filters?: Readonly<Record<string, string>>} & (
		| {readonly read: (part: Part) => Promise<readonly Row[]>}
		/** For a page that may end before it is full. */
		| {readonly scan: Scan<Row>}
	);
};

/** Whether the caller would rather have rows as CSV: `Accept: text/csv` (RFC 9110 §12.5.1). */
export function asksForCsv({headers: {accept = ''}}: FastifyRequest): boolean {
	const ranges = accept.toLowerCase().split(',');
	const qualities = new Map(
		ranges.map(range => {
			const [type = '', ...parameters] = range.split(';').map(part => part.trim());
			const quality = parameters.find(one => one.startsWith('q='))?.slice(2) ?? 1;
			return [type, Number(quality) || 0];
		}),
	);
	const [csv = 0, json = 0, stream = 0] = ['text/csv', 'application/json', 'text/event-stream'].map(type =>
		qualities.get(type),
	);
	return csv > Math.max(json, stream);
}

/** Answers with all rows of a list as a CSV file. */
export async function sendCsv(reply: FastifyReply, name: string, text: AsyncGenerator<string>): Promise<FastifyReply> {
	reply.type('text/csv; charset=utf-8').header('content-disposition', `attachment; filename="${name}.csv"`);
	return reply.send(reply.request.method === 'HEAD' ? undefined : await csvFile(text));
}

/** The route of a list in pages. */
export function listRoute<Query extends TObject, Row extends {readonly id: string}>(
	{auth, cursors}: Pick<ApiParts, 'auth' | 'cursors'>,
	{
		path,
		scope,
		id: kind,
		name,
		defaultLimit,
		meaning,
		item,
		view,
		csv,
		query,
		find,
		...description
	}: ListOptions<Query, Row>,
): Routes {
	return api => {
		api.get<{Params: {id?: string}; Querystring: Static<typeof pageQuery>}>(
			path,
			{
				onRequest: auth.needs(scope),
				config: {isLarge: true},
				schema: {
					...describe({...description, ...(csv && {csv}), answer: [200, meaning, pageOf(item)]}),
					querystring: query ?? pageQuery,
					...(kind && {params: idParams(kind)}),
				},
			},
			async (request, reply) => {
				const caller = callerOf(request);
				const {filters = {}, ...found} = find(caller, request.query as Static<Query>, request.params.id ?? '');
				const cursor = {workspaceId: caller.workspaceId, route: name, filters};
				const list = {query: request.query, defaultLimit, cursors, scope: cursor};
				if (csv && asksForCsv(request)) {
					const {limit} = request.query;
					const part = {after: readCursor(list), ...(limit !== undefined && {most: Number(limit)})};
					const rows = pagesOf('scan' in found ? found.scan : scanOf(found.read), part);
					return await sendCsv(reply, name, csvOf(csv, rows, view));
				}
				const page = await ('scan' in found ? scanPage({...list, ...found}) : readPage({...list, ...found}));
				return {data: page.rows.map(row => view(row)), next_cursor: page.nextCursor};
			},
		);
	};
}
