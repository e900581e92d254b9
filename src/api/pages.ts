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
import {apiError} from './errors.ts';

declare module 'fastify' {
	interface FastifyInstance {
		/** The description of the server's routes, and pages of it: a server that listens nowhere. */
		pages: () => Promise<FastifyInstance>;
	}
}

/** Where the description of the API is served. */
export type Pages = {
	/** Who may read them. */
	readonly guard: onRequestHookHandler;
	/** The server with the routes to describe; absent: this one. */
	readonly of?: FastifyInstance;
};

/**
 * Remembers the routes that are to be described; to be called before any is added. The description is made when it is
 * first asked for: a start would take a tenth longer for what few daemons are ever asked.
 */
export function describeApi(api: FastifyInstance, version: string): void {
	const routes: RouteOptions[] = [];
	api.addHook('onRoute', route => {
		// Fastify adds one for HEAD to each GET.
		if (route.schema?.answer !== undefined && route.method !== 'HEAD') {
			routes.push(route);
		}
	});
	let made: Promise<FastifyInstance> | undefined;
	api.decorate('pages', () => {
		made ??= import('./openapi.ts').then(({makePages}) => makePages(routes, version));
		return made;
	});
}

/** Serves the description at /openapi.json and as pages at /docs. */
export function servePages(api: FastifyInstance, {guard, of = api}: Pages): void {
	async function hand(request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> {
		const pages = await of.pages();
		const {statusCode, headers, rawPayload} = await pages.inject({url: request.url, headers: request.headers});
		if (statusCode === 404) {
			throw apiError('not_found');
		}
		const {connection: _, date: __, ...own} = headers;
		return reply
			.code(statusCode)
			.headers(own)
			.send(rawPayload.length === 0 ? undefined : rawPayload);
	}

	for (const url of ['/openapi.json', '/docs', '/docs/*']) {
		api.get(url, {onRequest: guard, schema: {hide: true} as FastifySchema}, hand);
	}
}

/**
 * Lets requests pass that name the server by an address, `localhost`, `name` or `publicName`; others get 404. A page
 * elsewhere may let its own name point to 127.0.0.1 (DNS rebinding), and a browser on this machine then reads for it
 * what is behind that name. Over TLS of ours strangers come, who name whatever they like: there only `publicName`
 * passes.
 */
export function localHostGuard(name: string, publicName = ''): onRequestHookHandler {
	const [own, open] = [name.toLowerCase(), publicName.toLowerCase()];
	return ({headers, raw}, _reply, done) => {
		const host = hostOf(headers.host ?? '');
		const isLocal = host === '' || isIP(host) !== 0 || host === 'localhost' || host === own;
		const isOurs = (host !== '' && host === open) || (isLocal && !(raw.socket as Partial<TLSSocket>).encrypted);
		done(
			isOurs
				? undefined
				: apiError('not_found', {message: 'Use the address of the admin listener, or localhost.'}),
		);
	};
}

/** Without port and brackets; a client of HTTP/1.0 may name none. */
function hostOf(header: string): string {
	return header
		.toLowerCase()
		.replace(/:\d*$/, '')
		.replace(/^\[(.*)\]$/, '$1')
		.replace(/\.$/, '');
}
