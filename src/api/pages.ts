import {isIP} from 'node:net';
import type {TLSSocket} from 'node:tls';
import type {
	FastifyInstance,
	FastifyReply,
	FastifyRequest,
	FastifySchema,
	onRequestHookHandler,
	RouteOptions,
} from 'fastify';
import {apiError} from '../mail/api-error.ts';

declare module 'fastify' {
	interface FastifyInstance {
		/** Returns an internal server, without a port, that renders the API description: call its `inject`. */
		pages: () => Promise<FastifyInstance>;
	}
}

/** How the API description is served. */
export type PagesOptions = {
	/** Refuses clients that may not read it. */
	readonly guard: onRequestHookHandler;
	/** The server whose routes are described; this one by default. */
	readonly describedServer?: FastifyInstance;
};

/**
 * Records the routes to describe. Must be called before any route is added. The description is created when it is first
 * requested: creating it earlier would slow down startup by a tenth, and most daemons never get such a request.
 */
export function describeApi(api: FastifyInstance, version: string): void {
	const routes: RouteOptions[] = [];
	api.addHook('onRoute', route => {
		// Fastify adds a HEAD route to each GET.
		if (route.schema?.answer !== undefined && route.method !== 'HEAD') {
			routes.push(route);
		}
	});
	let instance: Promise<FastifyInstance> | undefined;
	api.decorate('pages', () => {
		instance ??= import('./openapi.ts').then(({createDocsServer}) => createDocsServer(routes, version));
		return instance;
	});
}

/** Serves the API description at /openapi.json and its pages at /docs. */
export function servePages(api: FastifyInstance, {guard, describedServer = api}: PagesOptions): void {
	async function serve(request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> {
		const pages = await describedServer.pages();
		const {statusCode, headers, rawPayload} = await pages.inject({url: request.url, headers: request.headers});
		if (statusCode === 404) {
			throw apiError('not_found');
		}
		const {connection: _, date: __, ...otherHeaders} = headers;
		return reply
			.code(statusCode)
			.headers(otherHeaders)
			.send(rawPayload.length === 0 ? undefined : rawPayload);
	}

	for (const url of ['/openapi.json', '/docs', '/docs/*']) {
		api.get(url, {onRequest: guard, schema: {hide: true} as FastifySchema}, serve);
	}
}

/**
 * Returns a hook that lets requests through if their Host is an IP address, `localhost`, `name` or `publicName`. Others
 * get 404. This prevents DNS rebinding: a malicious page could point its own name to 127.0.0.1 and make a browser on
 * this machine read what is served here. Strangers can reach the TLS listener and send any Host, so only `publicName`
 * is allowed there.
 */
export function localHostGuard(name: string, publicName = ''): onRequestHookHandler {
	const [localName, publicHost] = [name.toLowerCase(), publicName.toLowerCase()];
	return ({headers, raw}, _reply, done) => {
		const host = hostOf(headers.host ?? '');
		const isLocal = host === '' || isIP(host) !== 0 || host === 'localhost' || host === localName;
		const isAllowed =
			(host !== '' && host === publicHost) || (isLocal && !(raw.socket as Partial<TLSSocket>).encrypted);
		done(
			isAllowed
				? undefined
				: apiError('not_found', {message: 'Use the address of the admin listener, or localhost.'}),
		);
	};
}

/** Returns the host without port and brackets. HTTP/1.0 clients may omit the header. */
function hostOf(header: string): string {
	return header
		.toLowerCase()
		.replace(/:\d*$/, '')
		.replace(/^\[(.*)\]$/, '$1')
		.replace(/\.$/, '');
}
