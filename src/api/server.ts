import {createServer, type IncomingMessage, type ServerResponse} from 'node:http';
import type {Socket} from 'node:net';
import {finished} from 'node:stream';
import type {DoneFuncWithErrOrRes, FastifyReply, FastifyRequest} from 'fastify';
import Fastify from 'fastify';
import {writeExact} from '../kit/exact-json.ts';
import {createGarbage} from '../kit/memory.ts';
import {ApiError, apiError} from '../mail/api-error.ts';
import type {NewId} from '../mail/ids.ts';
import {alertRoutes} from '../resources/alerts/api.ts';
import {contactRoutes} from '../resources/contacts/api.ts';
import {domainRoutes} from '../resources/domains/api.ts';
import {senderRoutes} from '../resources/domains/senders-api.ts';
import {
	messageContentRoutes,
	messageEventsRoute,
	messageRecipientRoutes,
	messageRoute,
	resendMessageRoute,
	sendMessageRoute,
	waitingMessageRoutes,
} from '../resources/messages/api.ts';
import {sendBatchRoute} from '../resources/messages/batch-api.ts';
import {eventStreamRoute} from '../resources/messages/events-api.ts';
import {messageListRoute} from '../resources/messages/list-api.ts';
import {statsRoute, usageRoute} from '../resources/messages/usage-api.ts';
import {receivedRoutes} from '../resources/received/api.ts';
import {smarthostRoutes} from '../resources/smarthosts/api.ts';
import {suppressionFileRoutes, suppressionRoutes} from '../resources/suppressions/api.ts';
import {templateRoutes, versionRoutes} from '../resources/templates/api.ts';
import {layoutRoutes} from '../resources/templates/layouts-api.ts';
import {topicRoutes} from '../resources/topics/api.ts';
import {createValidator} from '../resources/validate.ts';
import {webhookDeliveryRoutes, webhookRoutes} from '../resources/webhooks/api.ts';
import {type Api, type ApiParts, isPlain, type Route, type Routes, refuseOtherBodies} from './api-parts.ts';
import {createUnreadLimit, type ErrorReport, sendClientError, sendError, toApiError} from './errors.ts';
import {inTurn, startKeylessInTurn} from './in-turn.ts';
import {createResponseLimits} from './large-answers.ts';
import {describeApi, type PagesOptions, servePages} from './pages.ts';
import {createReadBody} from './read-body.ts';

export type ApiOptions = {
	readonly newId: NewId;
	/** The version of the program, shown in the API description. */
	readonly version: string;
	readonly routes: readonly Routes[];
	/** Serves the API description; `null` if another server does. */
	readonly pages: PagesOptions | null;
	/** CIDR ranges of proxies whose X-Forwarded-For is trusted. */
	readonly trustProxy: readonly string[];
	/** Whether an error means that the store is unavailable (503), as opposed to a bug (500). */
	readonly isUnavailable: (error: unknown) => boolean;
	/** Receives the errors behind 500 and 503 responses, to be logged with the request's id. */
	readonly report: ErrorReport;
	/** Called after each response. `route` is the pattern of the path, or `none` if the path is unknown. */
	readonly onAnswered?: (method: string, route: string, status: number, milliseconds: number) => void;
	/** Time limits in milliseconds, shorter in tests. */
	readonly timeouts?: {
		readonly headers: number;
		readonly request: number;
		readonly check: number;
		/** How long the client may pause within a rejected body before its connection is closed. */
		readonly drain: number;
		/** How long a client may take to read its response. */
		readonly response: number;
		/** How long shutdown waits for incomplete requests, whose bodies may never end. */
		readonly stop?: number;
	};
};

const bodyLimit = 256 * 1024;
const maxHeaderSize = 16 * 1024;
// As long as a request line can be: the id pattern rejects malformed ids of any length.
const maxParamLength = maxHeaderSize;
const keepAliveTimeout = 15_000;
const defaultTimeouts = {headers: 10_000, request: 30_000, check: 1000, drain: 1000, response: 30_000, stop: 2000};

/**
 * Creates the HTTP server of the API. This folder validates requests, authenticates keys, describes the routes and
 * formats the responses. It relies on src/resources for changes, on src/send for sends and on src/store for reads. It
 * never delivers a message and never decides what an operation does.
 *
 * The server is hardened: even errors that Node detects itself are reported in the API's error format, and every
 * response has an X-Request-Id.
 */
export function createApi({version, routes, pages, timeouts = defaultTimeouts, ...options}: ApiOptions): Api {
	const api = createFastify({...options, timeouts});
	// Node would respond with 417 and no body. RFC 9110 §10.1.1 lets a server ignore unknown expectations.
	api.server.on('checkExpectation', (request, response) => api.server.emit('request', request, response));
	closeConnectionsAtStop(api, timeouts.stop ?? defaultTimeouts.stop);
	addHooks(api, timeouts, options.onAnswered);
	handleErrors(api, options);
	acceptJsonOnly(api);
	api.setReplySerializer(payload => writeExact(payload));
	api.setValidatorCompiler(({schema, httpPart}) => createValidator(schema, httpPart));
	treatUnknownMethodsAsTrace(api);

	const paths = collectPaths(api);
	describeApi(api, version);
	api.register(async scope => {
		if (pages !== null) {
			servePages(scope, pages);
		}
		for (const addRoutes of routes) {
			addRoutes(scope);
		}
	});
	// Registered last, when all paths are known.
	api.register(async scope => addOtherMethods(scope, paths));
	return api;
}

type Timeouts = NonNullable<ApiOptions['timeouts']>;

function createFastify({
	newId,
	trustProxy,
	timeouts,
}: Pick<ApiOptions, 'newId' | 'trustProxy'> & {readonly timeouts: Timeouts}): Api {
	return Fastify({
		bodyLimit,
		// No timeout: loading plugins on a slow machine is not an error.
		pluginTimeout: 0,
		trustProxy: trustProxy.length > 0 ? [...trustProxy] : false,
		genReqId: () => newId('req'),
		requestIdHeader: false,
		// Requests that arrive while the server is draining are still processed.
		return503OnClosing: false,
		routerOptions: {maxParamLength},
		serverFactory: listener =>
			createServer(
				{
					keepAliveTimeout,
					headersTimeout: timeouts.headers,
					requestTimeout: timeouts.request,
					connectionsCheckingInterval: timeouts.check,
					maxHeaderSize,
					requireHostHeader: false,
				},
				startKeylessInTurn(listener),
			),
		clientErrorHandler: (error, socket) => sendClientError(newId, error, socket as Socket),
		frameworkErrors: (_error, request, reply) => {
			reply.header('x-request-id', request.id);
			sendError(reply as FastifyReply, apiError('bad_request'));
		},
	});
}

/** Adds the hooks of all requests, in the order in which they run. */
function addHooks(api: Api, timeouts: Timeouts, onAnswered: ApiOptions['onAnswered']): void {
	api.decorateRequest('caller', null);
	api.addHook('onRequest', inTurn);
	api.addHook('onRequest', admit);
	const bounds = createResponseLimits();
	api.decorateRequest('leaveSeat', null);
	api.addHook('preHandler', bounds.enter);
	api.addHook('onSend', bounds.send);
	api.addHook('onSend', createRestReader(timeouts.drain));
	api.addHook('onSend', createUnreadLimit(timeouts.response));
	api.addHook('onResponse', ({method, routeOptions}, {statusCode, elapsedTime}, done) => {
		onAnswered?.(method, routeOptions.url ?? 'none', statusCode, elapsedTime);
		done();
	});
}

function handleErrors(api: Api, {isUnavailable, report}: Pick<ApiOptions, 'isUnavailable' | 'report'>): void {
	api.setErrorHandler((error, request, reply) => {
		const failure = toApiError(error, isUnavailable);
		if (failure.status >= 500 && !(error instanceof ApiError)) {
			report(request, error);
		}
		// Fastify would close the connection after rejecting a body, and a client that is still sending would never see
		// the error. Node reads and discards the rest, within the time limit of the request.
		if (reply.raw.shouldKeepAlive) {
			reply.removeHeader('connection');
		}
		return sendError(reply, failure);
	});
	api.setNotFoundHandler((_request, reply) => sendError(reply, apiError('not_found')));
}

// The first check of every request, before the key, the body and the query are read.
function admit(request: FastifyRequest, reply: FastifyReply, done: (error?: Error) => void): void {
	reply.header('x-request-id', request.id);
	const {headers, httpVersion, url = '/'} = request.raw;
	const repeated = repeatedHeader(request.raw);
	if (repeated !== null) {
		done(apiError('bad_request', {message: `The header ${repeated} may appear only once.`}));
	} else if (headers.host === undefined && httpVersion === '1.1') {
		done(apiError('bad_request', {message: 'A Host header is required.'}));
	} else if (request.is404 || hasEmptySegment(url)) {
		done(apiError('not_found'));
	} else {
		done();
	}
}

// If the connection is closed after the response, a response sent before the end of the body may be lost: the system
// resets a connection that has unread input, and the client fails while sending. So the rest is read and discarded
// first. If the client pauses, the response is sent without waiting any longer.
function createRestReader(maxPauseMs: number) {
	return ({raw}: FastifyRequest, reply: FastifyReply, payload: unknown, done: DoneFuncWithErrOrRes): void => {
		if (reply.raw.shouldKeepAlive || raw.complete) {
			done(null, payload);
			return;
		}
		const controller = new AbortController();
		const timer = setTimeout(() => controller.abort(), maxPauseMs);
		finished(raw, {signal: controller.signal}, () => {
			clearTimeout(timer);
			// If a hook has responded and the client has left, Fastify resumes the request and would respond again.
			if (!reply.raw.headersSent) {
				done(null, payload);
			}
		});
		raw.on('data', () => timer.refresh());
	};
}

// Without this check a parameter would match the empty text in `/v1/messages/`.
function hasEmptySegment(url: string): boolean {
	const query = url.indexOf('?');
	const path = query === -1 ? url : url.slice(0, query);
	return path !== '/' && (path.endsWith('/') || path.includes('//'));
}

function acceptJsonOnly(api: Api): void {
	const readBody = createReadBody();
	api.decorateRequest('isHeavy', false);
	api.decorateRequest('reservation', null);
	const countGarbage = createGarbage();
	api.addHook('onSend', ({reservation}, _reply, payload, done) => {
		if (reservation) {
			reservation.leave();
			countGarbage(reservation.bytes());
		}
		done(null, payload);
	});
	api.removeAllContentTypeParsers();
	api.addContentTypeParser('application/json', (request, payload, done) => {
		if (isPlain(request)) {
			readBody(request, payload, done);
		} else {
			done(apiError('unsupported_media_type'));
		}
	});
	refuseOtherBodies(api);
}

function collectPaths(api: Api): Map<string, Set<string>> {
	const paths = new Map<string, Set<string>>();
	api.addHook('onRoute', ({url, method}) => {
		if (url.endsWith('/')) {
			return; // Unreachable: `admit` rejects such paths.
		}
		const methods = paths.get(url) ?? new Set();
		paths.set(url, methods);
		for (const name of [method].flat()) {
			methods.add(name);
		}
	});
	return paths;
}

/**
 * Treats methods that Fastify does not know (such as PROPFIND) as TRACE, so that they get the same 405 on every path.
 * Registering each as a method would take a thousand routes and a tenth of the startup time.
 */
function treatUnknownMethodsAsTrace(api: Api): void {
	api.server.prependListener('request', request => {
		if (!api.supportedMethods.includes(request.method ?? '')) {
			request.method = 'TRACE';
		}
	});
}

// OPTIONS and the methods that a path does not support are registered as routes too. Otherwise `/v1/messages/batch`
// would match the route with an id.
function addOtherMethods(api: Api, paths: ReadonlyMap<string, ReadonlySet<string>>): void {
	for (const [url, methods] of [...paths]) {
		const allow = [...methods, 'OPTIONS'].sort().join(', ');
		const unsupported = api.supportedMethods.filter(method => !methods.has(method) && method !== 'OPTIONS');
		api.route({
			method: 'OPTIONS',
			url,
			handler: (_request, reply) => reply.code(204).header('allow', allow).send(),
		});
		api.route({
			method: unsupported,
			url,
			exposeHeadRoute: false,
			onRequest: (_request, _reply, done) => done(apiError('method_not_allowed', {headers: {allow}})),
			handler: () => undefined,
		});
	}
}

/**
 * Closes connections at shutdown. Node waits for connections without any request, which browsers open in advance: those
 * are closed at once. It also waits for connections that stay open, so from then on every response closes its own. A
 * connection whose request is still incomplete after `incompleteMs` is closed; complete requests get their response.
 */
function closeConnectionsAtStop(api: Api, incompleteMs: number): void {
	/** The last response on each connection; `null` before the first request. */
	const connections = new Map<Socket, ServerResponse | null>();
	let isClosing = false;
	api.server.on('connection', socket => {
		if (isClosing) {
			socket.destroy();
			return;
		}
		connections.set(socket, null);
		socket.once('close', () => connections.delete(socket));
	});
	api.server.on('request', ({socket}, response) => connections.set(socket, response));
	api.addHook('onSend', (_request, reply, payload, done) => {
		if (isClosing) {
			reply.header('connection', 'close');
			// Makes `createRestReader` read the rest of the body first.
			reply.raw.shouldKeepAlive = false;
		}
		done(null, payload);
	});
	api.addHook('preClose', async () => {
		isClosing = true;
		const end = (shouldEnd: (response: ServerResponse | null) => boolean) => {
			for (const [socket, response] of connections) {
				if (shouldEnd(response)) {
					socket.destroy();
				}
			}
		};
		end(response => response === null);
		// A connection that is still open after its response has received the beginning of another request.
		const endIncomplete = () => end(response => !response?.req.complete || response.writableFinished);
		setTimeout(endIncomplete, incompleteMs).unref();
	});
}

/** All routes under /v1. */
const declaredRoutes: readonly Route[] = [
	sendMessageRoute,
	messageRoute,
	messageEventsRoute,
	sendBatchRoute,
	usageRoute,
	statsRoute,
	messageListRoute,
	...messageRecipientRoutes,
	...messageContentRoutes,
	resendMessageRoute,
	...waitingMessageRoutes,
	eventStreamRoute,
	...suppressionRoutes,
	...suppressionFileRoutes,
	...topicRoutes,
	...smarthostRoutes,
	...receivedRoutes,
	...alertRoutes,
	...contactRoutes,
	...templateRoutes,
	...versionRoutes,
	...layoutRoutes,
	...domainRoutes,
	...senderRoutes,
	...webhookRoutes,
	...webhookDeliveryRoutes,
];

/** Returns all routes under /v1. */
export function apiRoutes(parts: ApiParts): Routes[] {
	return declaredRoutes.map(route => route(parts));
}

// These headers decide who makes a request, where it ends and what it does. If one appears twice, a proxy may use the
// first and another program the second. Node retains the first of some and joins others with commas.
const singleHeaders: ReadonlySet<string> = new Set([
	'authorization',
	'content-encoding',
	'content-length',
	'content-type',
	'expect',
	'host',
	'idempotency-key',
	'transfer-encoding',
]);

/** Returns the name of a header that appears more than once and must not (RFC 9110 §5.3), or `null`. */
function repeatedHeader({headers, rawHeaders}: IncomingMessage): string | null {
	// The common case: all header names differ.
	if (Object.keys(headers).length * 2 === rawHeaders.length) {
		return null;
	}
	const seen = new Set<string>();
	for (let index = 0; index < rawHeaders.length; index += 2) {
		const name = rawHeaders[index]?.toLowerCase() as string;
		if (seen.has(name) && singleHeaders.has(name)) {
			return name;
		}
		seen.add(name);
	}
	return null;
}
