import type {FastifyRequest} from 'fastify';
import type {Static, TObject, TSchema} from 'typebox';
import type {Scope} from '../mail/api-key.ts';
import {type IdPrefix, isId} from '../mail/ids.ts';
import {type Context, type Given, type Operation, perform} from '../ops/operation.ts';
import type {ApiParts} from './api-parts.ts';
import {actAs, callerOf} from './auth.ts';
import type {Caller} from './caller.ts';
import {type Description, describe} from './describe.ts';
import {apiError} from './errors.ts';
import {noQuery, type Part, pageQuery, readPage} from './paging.ts';
import {idParams, pageOf} from './schemas/page.ts';
import type {Routes} from './server.ts';

type Method = 'POST' | 'PUT' | 'PATCH' | 'DELETE';

type RouteOptions<Result> = Description & {
	/** `POST /v1/unsubscribe-groups`. POST, PUT and PATCH take the operation's input as their body. */
	readonly at: `${Method} /v1/${string}`;
	/** Of which kind the `:id` of the path is. */
	readonly id?: IdPrefix;
	/** The body of the answer; absent: it has none. */
	readonly view?: (result: Result) => object;
	/** Whether the answer is `otherAnswer`. */
	readonly isOther?: (result: Result) => boolean;
};

type Parts = Pick<ApiParts, 'auth' | 'tools' | 'writer' | 'change'>;

/** The route of an operation: it needs the operation's scope and works in the workspace of the key. */
export function operationRoute<Input extends TSchema, Result>(
	parts: Parts,
	operation: Operation<Input, Result>,
	{at, id: kind, view, isOther, ...description}: RouteOptions<Result>,
): Routes {
	const [method, url] = at.split(' ') as [Method, string];
	const schema = {
		...describe({...description, errors: [...(kind ? (['not_found'] as const) : []), ...(description.errors ?? [])]}),
		querystring: noQuery,
		...(kind && {params: idParams(kind)}),
		...(method !== 'DELETE' && {body: operation.input}),
	};
	return api => {
		api.route<{Params: {id?: string}; Body: object | undefined}>({
			method,
			url,
			onRequest: parts.auth.needs(scopeOf(operation)),
			schema,
			async handler(request, reply) {
				const {params, body} = request;
				if (kind && !isId(kind, params.id ?? '')) {
					throw apiError('not_found');
				}
				const result = await perform(operation, contextOf(parts, request), {
					...(body as object),
					...params,
				} as Given<Input>);
				const {answer, otherAnswer = answer} = description;
				const [status] = isOther?.(result) ? otherAnswer : answer;
				return reply.code(status).send(view?.(result));
			},
		});
	};
}

/** Who calls, for an operation. */
export function contextOf({tools, writer, change}: Parts, request: FastifyRequest): Context {
	const {workspaceId, mode} = callerOf(request);
	return {face: 'api', workspaceId, mode, tools: actAs(tools, request), writer, change};
}

function scopeOf({name, scope}: Pick<Operation<TSchema, unknown>, 'name' | 'scope'>): Scope {
	if (scope === undefined) {
		throw new Error(`${name} has no scope, so that it has no route.`);
	}
	return scope;
}

type ListOptions<Query extends TObject, Row> = Omit<Description, 'answer'> & {
	readonly path: `/v1/${string}`;
	readonly scope: Scope;
	/** Of its cursors: they are good for no other list. */
	readonly name: string;
	/** Items of a page where the caller gives no `limit`. */
	readonly usualLimit: number;
	/** What the answer is, and one of its items. */
	readonly meaning: string;
	readonly item: TSchema;
	readonly view: (row: Row) => object;
	/** Absent: the list has no filters. */
	readonly query?: Query;
	readonly find: (
		caller: Caller,
		query: Static<Query>,
	) => {readonly filters?: Readonly<Record<string, string>>; readonly read: (part: Part) => Promise<readonly Row[]>};
};

/** The route of a list in pages. */
export function listRoute<Query extends TObject, Row extends {readonly id: string}>(
	{auth, cursors}: Pick<ApiParts, 'auth' | 'cursors'>,
	{path, scope, name, usualLimit, meaning, item, view, query, find, ...description}: ListOptions<Query, Row>,
): Routes {
	return api => {
		api.get<{Querystring: Static<typeof pageQuery>}>(
			path,
			{
				onRequest: auth.needs(scope),
				schema: {
					...describe({...description, answer: [200, meaning, pageOf(item)]}),
					querystring: query ?? pageQuery,
				},
			},
			async request => {
				const caller = callerOf(request);
				const {filters = {}, read} = find(caller, request.query as Static<Query>);
				const cursor = {workspaceId: caller.workspaceId, route: name, filters};
				const page = await readPage({query: request.query, usualLimit, cursors, scope: cursor, read});
				return {data: page.rows.map(row => view(row)), next_cursor: page.nextCursor};
			},
		);
	};
}
