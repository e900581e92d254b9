import {createServer, type IncomingMessage, type Server, type ServerResponse} from 'node:http';
import {errorBody} from '../api/errors.ts';
import {apiError} from '../mail/api-error.ts';
import type {NewId} from '../mail/ids.ts';
import {Connections} from '../net/connections.ts';

type RedirectOptions = {
	/** `https://` and the host of the public URL, with its port. */
	readonly publicUrl: string;
	/** Whether we serve this host over https. */
	readonly isOurs: (host: string) => boolean;
	/** Returns the text that proves control of a name to a CA (RFC 8555 §8.3), if the token is known. */
	readonly proofOf: (token: string) => Promise<string | undefined>;
	readonly newId: NewId;
	readonly max?: number;
	/** How long a whole request may take, in milliseconds; less in tests. */
	readonly requestMs?: number;
};

const maxMs = 10_000;
const keepAliveTimeout = 5000;
const maxHeaderSize = 16 * 1024;
const absoluteForm = /^http:\/\/([^/?#]*)(.*)$/i;
const proofPath = /^\/\.well-known\/acme-challenge\/([\w-]{1,128})$/;

/** Creates the listener for plain HTTP, which answers a CA's validation and redirects everything else to https. */
export function createRedirect({publicUrl, isOurs, proofOf, newId, max, requestMs = maxMs}: RedirectOptions): {
	readonly server: Server;
	readonly close: () => Promise<void>;
} {
	const connections = new Connections(max);

	async function handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
		connections.use(request.socket, request, response);
		const {host, path} = readTarget(request);
		const token = proofPath.exec(path)?.[1];
		if (token !== undefined) {
			const proof = await proofOf(token).catch(() => undefined);
			send(response, proof === undefined ? 404 : 200, proof ?? 'No such token.\n');
			return;
		}
		if (request.headers.authorization !== undefined) {
			refuseKey(response, publicUrl, newId('req'));
			return;
		}
		const location = toRedirect(host, path, publicUrl, isOurs);
		if (location === null) {
			send(response, 421, 'This host is not served here.\n');
		} else {
			// 308 preserves the method, as one-click unsubscribe needs (RFC 8058 §3.1).
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
		(request, response) => void handle(request, response),
	);
	server.on('connection', socket => connections.add(socket));
	server.on('clientError', (_error, socket) => socket.destroy());

	return {server, close: () => connections.close(server)};
}

/** Sends a response. Node reads and discards any request body. */
function send(response: ServerResponse, status: number, text: string, headers: Record<string, string> = {}): void {
	response.writeHead(status, {
		'content-type': 'text/plain; charset=utf-8',
		'content-length': Buffer.byteLength(text),
		...headers,
	});
	response.end(text);
}

/** Returns the host and path of a request. An absolute URL takes precedence over the Host field (RFC 9112 §3.2.2). */
function readTarget({url = '', headers}: IncomingMessage): {readonly host: string | undefined; readonly path: string} {
	const [, host, rest = ''] = absoluteForm.exec(url) ?? [];
	return host === undefined
		? {host: headers.host, path: url}
		: {host, path: rest.startsWith('/') ? rest : `/${rest}`};
}

/** Rejects the request. With a redirect, the client would not notice that it exposes its key to the network. */
function refuseKey(response: ServerResponse, publicUrl: string, requestId: string): void {
	const message =
		'The request came over plain HTTP, so anyone on the network path could have read the key. ' +
		`The request was not processed. Send requests to ${publicUrl}, and replace the key: mailctl key rotate.`;
	const error = apiError('https_required', {message});
	const body = JSON.stringify(errorBody(error, requestId));
	const headers = {'content-type': 'application/json; charset=utf-8', 'x-request-id': requestId};
	send(response, error.status, body, {...headers, 'cache-control': 'no-store'});
}

/**
 * Returns the https URL for a host and path, or `null` if the host is not ours or the path is invalid. Nothing else
 * from the client is used, so that no link to this listener redirects to another site.
 */
export function toRedirect(
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
