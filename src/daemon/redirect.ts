import {createServer, type IncomingMessage, type Server, type ServerResponse} from 'node:http';
import {Connections} from '../net/connections.ts';

type RedirectOptions = {
	/** `https://` and the host of the public URL, with its port. */
	readonly publicUrl: string;
	/** Whether a host of ours is served by https. */
	readonly isOurs: (host: string) => boolean;
	/** What proves a name to a CA (RFC 8555 §8.3); undefined: the token is not known. */
	readonly proofOf: (token: string) => Promise<string | undefined>;
	readonly most?: number;
	/** Milliseconds for a whole request; less in tests. */
	readonly requestMs?: number;
};

const limitMs = 10_000;
const keepAliveTimeout = 5000;
const maxHeaderSize = 16 * 1024;
const proofPath = /^\/\.well-known\/acme-challenge\/([\w-]{1,128})$/;

/** The listener for plain HTTP: proofs for a CA, and redirects to the same place by https. */
export function createRedirect({publicUrl, isOurs, proofOf, most, requestMs = limitMs}: RedirectOptions): {
	readonly server: Server;
	readonly close: () => Promise<void>;
} {
	const connections = new Connections(most);

	async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
		connections.use(request.socket, request, response);
		const token = proofPath.exec(request.url ?? '')?.[1];
		if (token !== undefined) {
			const proof = await proofOf(token).catch(() => undefined);
			send(response, proof === undefined ? 404 : 200, proof ?? 'No such token.\n');
			return;
		}
		const location = redirectOf(request.headers.host, request.url ?? '', publicUrl, isOurs);
		if (location === null) {
			send(response, 421, 'This host is not served here.\n');
		} else {
			// 308: a POST stays one, as one-click unsubscribing needs (RFC 8058 §3.1).
			send(response, 308, '', {location});
		}
	}

	const server = createServer(
		{
			headersTimeout: requestMs,
			requestTimeout: requestMs,
			connectionsCheckingInterval: Math.min(1000, requestMs),
			keepAliveTimeout,
			maxHeaderSize,
			requireHostHeader: false,
		},
		(request, response) => void answer(request, response),
	);
	server.on('connection', socket => connections.add(socket));
	server.on('clientError', (_error, socket) => socket.destroy());

	return {server, close: () => connections.close(server)};
}

/** Node reads what there is of a body, and drops it. */
function send(response: ServerResponse, status: number, text: string, headers: Record<string, string> = {}): void {
	response.writeHead(status, {
		'content-type': 'text/plain; charset=utf-8',
		'content-length': Buffer.byteLength(text),
		...headers,
	});
	response.end(text);
}

/**
 * Where a request for a host and a path goes by https; null: the host is not ours, or it is no path. What a client writes
 * decides about nothing else, so that no link to here leads elsewhere.
 */
export function redirectOf(
	hostHeader: string | undefined,
	url: string,
	publicUrl: string,
	isOurs: (host: string) => boolean,
): string | null {
	const [, host = ''] = /^([a-z0-9](?:[a-z0-9.-]{0,252}))(?::\d{1,5})?$/i.exec(hostHeader ?? '') ?? [];
	const name = host.toLowerCase().replace(/\.$/, '');
	const target = new URL(publicUrl);
	if (name === '' || !(name === target.hostname || isOurs(name)) || !/^\/[\u0021-\u007E]*$/.test(url)) {
		return null;
	}
	return `https://${name}${target.port === '' ? '' : `:${target.port}`}${url}`;
}
