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
import {createCheckRunner} from './health.ts';
import {IncidentCounter} from './incidents.ts';
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
import {csrfCookie, dropForeignCookies, findInPath, formOwner, readSignedIn, readWorkspaces} from './visitor.ts';
import {createWorkspacePaths, rootOf} from './workspace-paths.ts';

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
	const checks = createCheckRunner(parts);
	const incidents = new IncidentCounter(reader, tools.clock);
	const table = pages(parts, checks);
	const pageTools = {assets: readAssets(), random: tools.random, paths: createWorkspacePaths(table)};
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

	/**
	 * Sends the response if the visitor may not use the route; returns `null` if they may. The workspace of the path
	 * becomes theirs for this request.
	 */
	async function checkAccess(
		request: FastifyRequest,
		reply: FastifyReply,
		route: Route,
	): Promise<FastifyReply | null> {
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
		if (!route.withoutWorkspace) {
			const {workspace: named} = request.params as {readonly workspace: string};
			const workspace = await findInPath(reader, visitor.signedIn, named);
			if (!workspace) {
				return send(request, reply, missing(noPage));
			}
			request.visitor = {...visitor, workspace};
		}
		if (route.fresh && tools.clock.now() - Date.parse(confirmedAt) > freshMs) {
			return send(request, reply, go(`/confirm?to=${encodeURIComponent(toPage(request))}`));
		}
		return null;
	}

	/** Remembers the workspace of a page that was opened. A failed write is ignored, as when a session is touched. */
	async function remember(route: Route, {signedIn, workspace, request}: Visit, {kind}: Answer): Promise<void> {
		const isOpened = request.method === 'GET' && kind === 'page' && !isPart(request);
		if (isOpened && !route.withoutWorkspace && workspace.id !== signedIn.workspaceId) {
			await sessions.choose(signedIn.sessionId, workspace.id).catch(() => undefined);
		}
	}

	function serve(scope: FastifyInstance, route: Route): void {
		scope.route({
			method: route.method,
			url: route.withoutWorkspace ? route.path : `/w/:workspace${route.path}`,
			bodyLimit: route.file ? fileLimit : formLimit,
			async onRequest(request, reply) {
				request.visitor = await findVisitor(request);
				return (await checkAccess(request, reply, route)) ?? undefined;
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
					// Routes whose path names none read `workspaces` instead.
					workspace: (route.withoutWorkspace ? null : visitor.workspace) as Visit['workspace'],
					workspaces,
					may: role => mayActAs(signedIn.user.role, role),
					everywhere: signedIn.user.workspaceId === null,
					now: tools.clock.now(),
					tools: {...tools, operator: toOperator(signedIn.user, request.ip)},
					request,
				};
				const answer = await route.answer(visit).catch(toRefusal);
				await remember(route, visit, answer);
				if (answer.kind === 'page' && !isPart(request)) {
					const counted = await incidents.count(visit, checks.newest());
					request.visitor = {...visitor, incidents: counted};
				}
				return send(request, reply, answer);
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
			serve(scope, {method: 'GET', path: '', role: 'viewer', answer: async () => go('/messages')});
			for (const route of table) {
				serve(scope, route);
				if (!route.withoutWorkspace) {
					serve(scope, {...route, withoutWorkspace: true, answer: answerOldPath});
				}
			}
		});
	};
}

/**
 * Answers at the path that a route had before paths named their workspace. A form that was opened then may be about
 * another workspace than the one visited last, so it does nothing.
 */
async function answerOldPath({request}: Visit): Promise<Answer> {
	const workspace = request.visitor?.workspace ?? null;
	if (isPart(request)) {
		return reload(request, 409, 'This page is out of date: reload it.');
	}
	if (request.method === 'POST') {
		const why =
			'mailctl was upgraded after you opened the page. Nothing was changed: go back, reload it, and try again.';
		const content = html`<p>${why}</p>`;
		return {kind: 'page', status: 409, place: null, title: 'This form is out of date', content};
	}
	return go(workspace === null ? '/workspaces' : `${rootOf(workspace)}${request.url}`);
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

const noPage = 'This page does not exist.';

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
	const {workspace: _, ...others} = request.params as Record<string, string>;
	for (const [name, text] of Object.entries(others)) {
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
		return missing(noPage);
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
const sessionEnded = (request: FastifyRequest): Answer =>
	reload(request, 401, 'Your session has ended: sign in again.');

/** Makes an open page reload, unless a form was submitted. */
const reload = ({method}: FastifyRequest, status: number, why: string): Answer => ({
	kind: 'content',
	status,
	type: 'text/plain; charset=utf-8',
	body: `${why}\n`,
	headers: method === 'GET' ? {'hx-refresh': 'true'} : {},
});

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
