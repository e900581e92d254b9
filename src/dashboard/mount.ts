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

/** How long a login counts as recent, for routes that require a recent one. */
const freshMs = 15 * 60_000;

declare module 'fastify' {
	interface FastifyRequest {
		visitor: Visitor | null;
	}
}

/**
 * Serves the pages. Every request passes the same checks, in this order: its host, the origin of a form, the session,
 * the role, the age of the login, the token of the form. `guard` decides who may reach the admin listener at all.
 */
export function dashboardRoutes(parts: DashboardParts, guard: onRequestHookHandler): Routes {
	const {reader, sessions, tools} = parts;
	const pageTools = {assets: readAssets(), random: tools.random};
	const table = pages(parts);
	const placeRoutes = table.filter(
		({method, path}) => method === 'GET' && places.some(place => path === `/${place}`),
	);

	/** Returns who is signed in by the session of `token`, or of the request. */
	async function findVisitor(request: FastifyRequest, token?: string): Promise<Visitor | null> {
		const signedIn = token === undefined ? await readSignedIn(sessions, request) : await sessions.find(token);
		return (
			signedIn && {
				signedIn,
				...(await readWorkspaces(reader, signedIn)),
				places: places.filter(place =>
					placeRoutes.some(route => route.path === `/${place}` && mayRequest(signedIn, route)),
				),
			}
		);
	}

	function send(request: FastifyRequest, reply: FastifyReply, answer: OpenAnswer): FastifyReply {
		return sendAnswer(request, reply, answer, {...pageTools, visitor: request.visitor});
	}

	function refuse(request: FastifyRequest, reply: FastifyReply, page: Pick<Page, 'status' | 'title'>, why: string) {
		return send(request, reply, {kind: 'page', place: null, ...page, content: html`<p>${why}</p>`});
	}

	/** Sends the response if the visitor may not use the route; returns `null` if they may. */
	function checkAccess(request: FastifyRequest, reply: FastifyReply, route: Route): FastifyReply | null {
		const {visitor} = request;
		if (visitor === null) {
			return send(request, reply, isPart(request) ? sessionEnded(request) : toLogIn(request));
		}
		const {user, confirmedAt} = visitor.signedIn;
		if (!mayRequest(visitor.signedIn, route)) {
			const needed = route.everywhere ? `${route.role} of all workspaces` : route.role;
			const why = `This requires the role ${needed}; your role is ${user.role}. An admin can change it at Users.`;
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
				request.visitor = await findVisitor(request);
				return checkAccess(request, reply, route) ?? undefined;
			},
			...(route.method === 'POST' && {preHandler: scope.csrfProtection}),
			async handler(request, reply) {
				const visitor = request.visitor as Visitor;
				const {signedIn, workspaces} = visitor;
				const parsed = parseRequest(request);
				if ('kind' in parsed) {
					return send(request, reply, parsed);
				}
				const visit: Visit = {
					...parsed,
					file: fileOf(request.body),
					signedIn,
					// It is null only on routes that work without one: they read `workspaces` instead.
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
				request.visitor = await findVisitor(request);
			},
			async handler(request, reply) {
				const signedIn: SignedIn | null = request.visitor?.signedIn ?? null;
				const parsed = parseRequest(request);
				if ('kind' in parsed) {
					return send(request, reply, parsed);
				}
				const result = await answer({...parsed, now: tools.clock.now(), request, signedIn});
				if (result.session !== undefined) {
					// The page in the response belongs to the new session, or to none.
					request.visitor = result.session === null ? null : await findVisitor(request, result.session);
				}
				return send(request, reply, result);
			},
		});
	}

	return api => {
		api.register(async scope => {
			scope.decorateRequest('visitor', null);
			// Must run before the cookies are parsed.
			scope.addHook('onRequest', dropForeignCookies);
			await scope.register(cookie);
			scope.addHook('onRequest', setStrictPolicy);
			scope.addHook('onRequest', guard);
			scope.addHook('onRequest', checkHost(parts.settings.publicUrl));
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
						{status: 403, title: 'This form has expired'},
						'Go back, reload the page, and try again.',
					);
				}
				const apiFailure = toApiError(error, parts.store.dialect.isUnavailable);
				const {status, message, headers} = apiFailure;
				// An API error that a page itself throws is not a bug, such as 503 for too many uploads at once.
				if (status >= 500 && apiFailure !== error) {
					throw error;
				}
				reply.headers(headers);
				if ((request.cookies as object | null) === null) {
					// Refused before the session was read, such as a path that ends with a slash.
					return reply.code(status).type('text/plain; charset=utf-8').send(message);
				}
				return refuse(request, reply, {status, title: 'Request failed'}, message);
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

/** Converts an error of a page or form: the object does not exist, or the visitor may not change it. */
function toRefusal(error: unknown): Answer {
	if (error instanceof Refused && error.code === 'not_found') {
		return missing(error.page);
	}
	if (error instanceof Refused && error.code === 'insufficient_scope') {
		return notAllowed(error.page);
	}
	throw error;
}

/** Reports whether the role and the workspaces of a user allow them to request a route. */
function mayRequest({user}: SignedIn, {role, everywhere}: Route): boolean {
	return mayActAs(user.role, role) && !(everywhere && user.workspaceId !== null);
}

const id = (text: string) => (/^[\w-]{1,80}$/.test(text) ? text : null);

/**
 * The parsers of path parameters, by name; they return `null` if the text is not valid. They keep the path of a form on
 * its route: `/queue/..%2Fkeys` would be another one.
 */
const paramParsers: Readonly<Record<string, (text: string) => string | null>> = {
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
		const value = paramParsers[name]?.(text) ?? null;
		if (value === null) {
			return null;
		}
		params[name] = value;
	}
	return params;
}

/** Returns the parameters, query and form of a request, or the page to show if they are not valid. */
function parseRequest(request: FastifyRequest): Pick<Visit, 'params' | 'query' | 'form'> | Page | Missing {
	const params = parseParams(request);
	if (params === null) {
		return missing('This page does not exist.');
	}
	const [query, form] = [parseQuery(request), toForm(request.body)];
	// Other text can neither be stored nor searched for in PostgreSQL.
	if (![...query.values(), ...form.values()].every(isStorable)) {
		const content = html`<p>The request contains invalid text: a NUL or an incomplete character.</p>`;
		return {kind: 'page', status: 400, place: null, title: 'Request failed', content};
	}
	return {params, query, form};
}

/** After signing in, the user returns to the page, not to the path of its form. */
function toLogIn(request: FastifyRequest): OpenAnswer {
	const page = toPage(request);
	return go(page === '/' ? '/login' : `/login?to=${encodeURIComponent(page)}`);
}

/** Reports whether an open page requests a part of itself. */
const isPart = ({headers}: FastifyRequest) => headers['hx-request'] !== undefined;

/**
 * Returns the answer to an open page after its session ended. It would follow a redirect and insert that page, and a
 * stream would reconnect at once, forever. Instead, the page reloads, which shows the login, unless a form was
 * submitted.
 */
function sessionEnded({method}: FastifyRequest): OpenAnswer {
	return {
		kind: 'content',
		status: 401,
		type: 'text/plain; charset=utf-8',
		body: 'Your session has ended: sign in again.\n',
		headers: method === 'GET' ? {'hx-refresh': 'true'} : {},
	};
}

/** Returns the page of a request: its own path, or that of the page with the form. */
function toPage({method, headers, url, host}: FastifyRequest): string {
	if (method === 'GET') {
		return url;
	}
	const referer = toUrl(headers.referer);
	return referer?.host === host ? `${referer.pathname}${referer.search}` : '/';
}

/**
 * Makes links use the host that the guard has checked, never the one of X-Forwarded-Host. An https proxy that passes an
 * address in `Host` stands for MAILCTL_PUBLIC_URL, unless the browser itself uses that address.
 */
function checkHost(publicUrl: string | null): onRequestHookHandler {
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

/** Rejects forms of other sites. Browsers send the origin of a form; programs need not. */
function checkOrigin(request: FastifyRequest, _reply: FastifyReply, done: (error?: Error) => void): void {
	const {origin} = request.headers;
	const isOurs = origin === undefined || request.method === 'GET' || toUrl(origin)?.host === request.host;
	done(
		isOurs
			? undefined
			: apiError('bad_request', {status: 403, message: 'The form was submitted from another site.'}),
	);
}

/** Derives the key of form tokens from the master key, so that forms survive a restart and any node accepts them. */
function formKey({keys, current}: MasterKeys): string {
	return Buffer.from(hkdfSync('sha256', keys[current] as Uint8Array, '', 'form', 32)).toString('base64');
}

/** Sets the policy of responses that are not pages, such as errors in JSON or text; pages have their own. */
function setStrictPolicy(_request: FastifyRequest, reply: FastifyReply, done: () => void): void {
	reply.header('content-security-policy', "default-src 'none'");
	done();
}

/** Rejects a request with an API key, which is meant for the API: `/messages` without `/v1` gets a JSON error. */
function leaveToApi({headers}: FastifyRequest, _reply: FastifyReply, done: (error?: Error) => void): void {
	done(headers.authorization === undefined ? undefined : apiError('not_found'));
}

function toUrl(text = ''): URL | null {
	return URL.canParse(text) ? new URL(text) : null;
}
