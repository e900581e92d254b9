import {hkdfSync} from 'node:crypto';
import {isIP} from 'node:net';
import cookie from '@fastify/cookie';
import csrf from '@fastify/csrf-protection';
import type {FastifyInstance, FastifyReply, FastifyRequest, onRequestHookHandler} from 'fastify';
import type {Routes} from '../api/api-parts.ts';
import {sendError, toApiError} from '../api/errors.ts';
import {layoutName} from '../compose/render/layouts.ts';
import {html} from '../hosted/html.ts';
import {parseDomain} from '../mail/address.ts';
import {apiError} from '../mail/api-error.ts';
import {isTopicCode} from '../mail/message.ts';
import {mayActAs} from '../mail/operator.ts';
import {isStorable} from '../resources/formats.ts';
import {Refused} from '../resources/operation.ts';
import {toOperator} from '../resources/users/rules.ts';
import type {SignedIn} from '../resources/users/sessions.ts';
import type {MasterKeys} from '../store/sealed.ts';
import {sendAnswer} from './answers.ts';
import {readAssets, serveAssets} from './assets.ts';
import {fileLimit, fileOf, formLimit, openFormLimit, parseQuery, readForms, toForm} from './forms.ts';
import type {Visitor} from './layout.ts';
import {openPages, pages} from './pages.ts';
import type {DashboardParts} from './parts.ts';
import {places} from './places.ts';
import {
	type Answer,
	go,
	type Missing,
	missing,
	notAllowed,
	type OpenAnswer,
	type OpenRoute,
	type Page,
	type Route,
	type Visit,
} from './route.ts';
import {csrfCookie, dropForeignCookies, formOwner, readSignedIn, readWorkspaces} from './visitor.ts';

/** How long after a log-in one may do what wants a fresh one. */
const freshMs = 15 * 60_000;

declare module 'fastify' {
	interface FastifyRequest {
		visitor: Visitor | null;
	}
}

/**
 * Serves the pages. Every route passes the same checks, in this order: the host that was asked for, the origin of a
 * form, the session, the role, how fresh the log-in is, the token of the form. `guard`: who may reach the admin
 * listener at all.
 */
export function dashboardRoutes(parts: DashboardParts, guard: onRequestHookHandler): Routes {
	const {reader, sessions, tools} = parts;
	const answering = {assets: readAssets(), random: tools.random};
	const table = pages(parts);
	const placeRoutes = table.filter(
		({method, path}) => method === 'GET' && places.some(place => path === `/${place}`),
	);

	/** `token`: of a session that has just begun; absent: the one that the request has. */
	async function known(request: FastifyRequest, token?: string): Promise<Visitor | null> {
		const signedIn = token === undefined ? await readSignedIn(sessions, request) : await sessions.find(token);
		return (
			signedIn && {
				signedIn,
				...(await readWorkspaces(reader, signedIn)),
				places: places.filter(place =>
					placeRoutes.some(route => route.path === `/${place}` && mayAsk(signedIn, route)),
				),
			}
		);
	}

	function send(request: FastifyRequest, reply: FastifyReply, answer: OpenAnswer): FastifyReply {
		return sendAnswer(request, reply, answer, {...answering, visitor: request.visitor});
	}

	function refuse(request: FastifyRequest, reply: FastifyReply, page: Pick<Page, 'status' | 'title'>, why: string) {
		return send(request, reply, {kind: 'page', place: null, ...page, content: html`<p>${why}</p>`});
	}

	/** Null: the visitor may go on. */
	function stopped(request: FastifyRequest, reply: FastifyReply, route: Route): FastifyReply | null {
		const {visitor} = request;
		if (visitor === null) {
			return send(request, reply, isPart(request) ? ended(request) : toLogIn(request));
		}
		const {user, confirmedAt} = visitor.signedIn;
		if (!mayAsk(visitor.signedIn, route)) {
			const needed = route.everywhere ? `${route.role} of all workspaces` : route.role;
			const why = `You are ${user.role} here; this needs the role ${needed}. An admin can change yours at Users.`;
			return send(request, reply, notAllowed(why));
		}
		if (route.fresh && tools.clock.now() - Date.parse(confirmedAt) > freshMs) {
			return send(request, reply, go(`/confirm?to=${encodeURIComponent(toPage(request))}`));
		}
		if (visitor.workspace === null && !(route.everywhere || route.withoutWorkspace)) {
			return send(request, reply, go('/workspaces'));
		}
		return null;
	}

	function serve(scope: FastifyInstance, route: Route): void {
		scope.route({
			method: route.method,
			url: route.path,
			bodyLimit: route.file ? fileLimit : formLimit,
			async onRequest(request, reply) {
				request.visitor = await known(request);
				return stopped(request, reply, route) ?? undefined;
			},
			...(route.method === 'POST' && {preHandler: scope.csrfProtection}),
			async handler(request, reply) {
				const visitor = request.visitor as Visitor;
				const {signedIn, workspaces} = visitor;
				const asked = parseRequest(request);
				if ('kind' in asked) {
					return send(request, reply, asked);
				}
				const visit: Visit = {
					...asked,
					file: fileOf(request.body),
					signedIn,
					// A route that needs none is `everywhere`, and reads `workspaces` instead.
					workspace: visitor.workspace as Visit['workspace'],
					workspaces,
					may: role => mayActAs(signedIn.user.role, role),
					everywhere: signedIn.user.workspaceId === null,
					now: tools.clock.now(),
					tools: {...tools, operator: toOperator(signedIn.user, request.ip)},
					request,
				};
				return send(request, reply, await route.answer(visit).catch(toRefusal));
			},
		});
	}

	function serveOpen(scope: FastifyInstance, {method, path, answer}: OpenRoute): void {
		scope.route({
			method,
			url: path,
			bodyLimit: openFormLimit,
			...(method === 'POST' && {preHandler: scope.csrfProtection}),
			async onRequest(request) {
				request.visitor = await known(request);
			},
			async handler(request, reply) {
				const signedIn: SignedIn | null = request.visitor?.signedIn ?? null;
				const asked = parseRequest(request);
				if ('kind' in asked) {
					return send(request, reply, asked);
				}
				const answered = await answer({...asked, now: tools.clock.now(), request, signedIn});
				if (answered.session !== undefined) {
					// The page that follows belongs to the new session or to none.
					request.visitor = answered.session === null ? null : await known(request, answered.session);
				}
				return send(request, reply, answered);
			},
		});
	}

	return api => {
		api.register(async scope => {
			scope.decorateRequest('visitor', null);
			// Before the cookies are parsed.
			scope.addHook('onRequest', dropForeignCookies);
			await scope.register(cookie);
			scope.addHook('onRequest', beStrict);
			scope.addHook('onRequest', guard);
			scope.addHook('onRequest', checkedHost(parts.settings.publicUrl));
			scope.addHook('onRequest', checkOrigin);
			scope.addHook('onRequest', leaveToApi);
			await scope.register(csrf, {
				cookieKey: csrfCookie,
				cookieOpts: {path: '/', httpOnly: true, sameSite: 'strict'},
				getUserInfo: request => formOwner(request.visitor),
				getToken: request => toForm(request.body).get('_csrf') ?? '',
				csrfOpts: {hmacKey: formKey(parts.secrets)},
			});
			await readForms(scope);
			scope.setErrorHandler((error, request, reply) => {
				if (request.headers.authorization !== undefined) {
					return sendError(reply, toApiError(error, parts.store.dialect.isUnavailable));
				}
				if ((error as {code?: string}).code?.startsWith('FST_CSRF')) {
					return refuse(
						request,
						reply,
						{status: 403, title: 'This form is too old'},
						'Go back, load the page again, and repeat.',
					);
				}
				const told = toApiError(error, parts.store.dialect.isUnavailable);
				const {status, message, headers} = told;
				// What a page itself throws is no fault: too much is under way.
				if (status >= 500 && told !== error) {
					throw error;
				}
				reply.headers(headers);
				if ((request.cookies as object | null) === null) {
					// Refused before anybody asked who it is, as a path that ends with a slash.
					return reply.code(status).type('text/plain; charset=utf-8').send(message);
				}
				return refuse(request, reply, {status, title: 'That did not work'}, message);
			});
			await serveAssets(scope);
			for (const route of openPages(parts)) {
				serveOpen(scope, route);
			}
			for (const route of table) {
				serve(scope, route);
			}
		});
	};
}

/** The answer where a page or form throws that a thing does not exist, or is not the visitor's to change. */
function toRefusal(error: unknown): Answer {
	if (error instanceof Refused && error.code === 'not_found') {
		return missing(error.page);
	}
	if (error instanceof Refused && error.code === 'insufficient_scope') {
		return notAllowed(error.page);
	}
	throw error;
}

/** Whether the role and the workspaces of a user let them ask for a route. */
function mayAsk({user}: SignedIn, {role, everywhere}: Route): boolean {
	return mayActAs(user.role, role) && !(everywhere && user.workspaceId !== null);
}

const id = (text: string) => (/^[\w-]{1,80}$/.test(text) ? text : null);

/**
 * Reads the parameters of paths by their names; null: not valid. This keeps the path of a form on its route:
 * `/queue/..%2Fkeys` would be another one.
 */
const readers: Readonly<Record<string, (text: string) => string | null>> = {
	id,
	sender: id,
	delivery: id,
	token: id,
	code: text => (isTopicCode(text) ? text : null),
	n: text => (/^\d{1,9}$/.test(text) ? text : null),
	destination: parseDomain,
	kind: text => (layoutName.test(text) ? text : null),
	name: text => (layoutName.test(text) ? text : null),
};

function parseParams(request: FastifyRequest): Visit['params'] | null {
	const params: Record<string, string> = {};
	for (const [name, text] of Object.entries(request.params as Record<string, string>)) {
		const value = readers[name]?.(text) ?? null;
		if (value === null) {
			return null;
		}
		params[name] = value;
	}
	return params;
}

/** What was asked for, or why nothing can be. */
function parseRequest(request: FastifyRequest): Pick<Visit, 'params' | 'query' | 'form'> | Page | Missing {
	const params = parseParams(request);
	if (params === null) {
		return missing('There is no such page.');
	}
	const [query, form] = [parseQuery(request), toForm(request.body)];
	// Nothing else can be stored, nor looked for in PostgreSQL.
	if (![...query.values(), ...form.values()].every(isStorable)) {
		const content = html`<p>Something in it is no text: it holds NUL or half a character.</p>`;
		return {kind: 'page', status: 400, place: null, title: 'That did not work', content};
	}
	return {params, query, form};
}

/** After the log-in one comes back to the page, not to what its form did. */
function toLogIn(request: FastifyRequest): OpenAnswer {
	const page = toPage(request);
	return go(page === '/' ? '/login' : `/login?to=${encodeURIComponent(page)}`);
}

/** Whether a page that is open asks, for a part of itself. */
const isPart = ({headers}: FastifyRequest) => headers['hx-request'] !== undefined;

/**
 * For an open page after the end of its session. It would follow a redirect and insert that page; a stream would
 * reconnect at once, for ever. Instead the page reloads, which shows the log-in, unless something was typed in it.
 */
function ended({method}: FastifyRequest): OpenAnswer {
	return {
		kind: 'content',
		status: 401,
		type: 'text/plain; charset=utf-8',
		body: 'Your session has ended: log in again.\n',
		headers: method === 'GET' ? {'hx-refresh': 'true'} : {},
	};
}

/** The page of a request: itself, or the one that has the form. */
function toPage({method, headers, url, host}: FastifyRequest): string {
	if (method === 'GET') {
		return url;
	}
	const referer = toUrl(headers.referer);
	return referer?.host === host ? `${referer.pathname}${referer.search}` : '/';
}

/**
 * Links name the host that the guard has checked, never the one that a proxy says the client asked for. A proxy with
 * https that passes an address in `Host` stands for MAILCTL_PUBLIC_URL, unless the browser is at that address itself.
 */
function checkedHost(publicUrl: string | null): onRequestHookHandler {
	const site = publicUrl?.startsWith('https:') ? new URL(publicUrl).host : null;
	return (request, _reply, done) => {
		const {headers} = request.raw;
		delete headers['x-forwarded-host'];
		const isAddress = isIP(request.hostname.replace(/^\[|\]$/g, '')) !== 0 || request.hostname === 'localhost';
		if (
			site !== null &&
			isAddress &&
			request.protocol === 'https' &&
			toUrl(headers.origin ?? headers.referer)?.host !== request.host
		) {
			headers.host = site;
		}
		done();
	};
}

/** Only our own pages may send forms. Browsers say where a form comes from; programs need not. */
function checkOrigin(request: FastifyRequest, _reply: FastifyReply, done: (error?: Error) => void): void {
	const {origin} = request.headers;
	const isOurs = origin === undefined || request.method === 'GET' || toUrl(origin)?.host === request.host;
	done(
		isOurs
			? undefined
			: apiError('bad_request', {status: 403, message: 'The form was sent by a page of another host.'}),
	);
}

/** Forms outlive a restart, and any node takes them. */
function formKey({keys, current}: MasterKeys): string {
	return Buffer.from(hkdfSync('sha256', keys[current] as Uint8Array, '', 'form', 32)).toString('base64');
}

/** For answers that are not pages, such as errors in JSON or text; pages have their own policy. */
function beStrict(_request: FastifyRequest, reply: FastifyReply, done: () => void): void {
	reply.header('content-security-policy', "default-src 'none'");
	done();
}

/**
 * A request with a key is meant for the API, which has no such path: `/messages` without `/v1` gets an error that says
 * so.
 */
function leaveToApi({headers}: FastifyRequest, _reply: FastifyReply, done: (error?: Error) => void): void {
	done(headers.authorization === undefined ? undefined : apiError('not_found'));
}

function toUrl(text = ''): URL | null {
	return URL.canParse(text) ? new URL(text) : null;
}
