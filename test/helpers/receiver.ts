import {once} from 'node:events';
import type {IncomingHttpHeaders, IncomingMessage, ServerResponse} from 'node:http';
import {createServer as createPlainServer} from 'node:http';
import {createServer} from 'node:https';
import type {AddressInfo, Socket} from 'node:net';
import {buffer} from 'node:stream/consumers';
import {createServer as createTlsServer, type TLSSocket, type TlsOptions} from 'node:tls';
import type {ExecutionContext} from 'ava';
import type {Certificate} from './certificate.ts';
import {waitFor} from './wait.ts';

/** A request as it came, with the exact bytes of its body. */
export type Received = {
	readonly method: string;
	readonly path: string;
	readonly headers: IncomingHttpHeaders;
	readonly body: Buffer;
	/** The socket's other end, from the server's side: where it was connected to. */
	readonly at: string;
};

export type Receiver = {
	readonly port: number;
	readonly received: Received[];
	/** Connections so far, and open now. */
	readonly connections: () => number;
	readonly open: () => number;
	/** Resolves when so many requests have come. */
	readonly count: (n: number) => Promise<void>;
};

export type Answer = (received: Received, response: ServerResponse, request: IncomingMessage) => void;

/**
 * A webhook endpoint on a loopback address, HTTPS unless it has no certificate; answers 204 unless told otherwise;
 * closed after the test.
 */
export async function startReceiver(
	t: ExecutionContext,
	certificate: Certificate | null,
	{
		answer = (_received, response) => void response.writeHead(204).end(),
		host = '127.0.0.1',
		port = 0,
		tls = {},
	}: {answer?: Answer; host?: string; port?: number; tls?: TlsOptions} = {},
): Promise<Receiver> {
	const received: Received[] = [];
	const sockets = new Set<Socket>();
	let connections = 0;
	const onRequest = (request: IncomingMessage, response: ServerResponse) => {
		response.on('error', () => undefined);
		void buffer(request).then(
			body => {
				const one = {
					method: request.method ?? '',
					path: request.url ?? '',
					headers: request.headers,
					body,
					at: request.socket.localAddress ?? '',
				};
				received.push(one);
				answer(one, response, request);
			},
			() => undefined,
		);
	};
	const server = certificate ? createServer({...certificate, ...tls}, onRequest) : createPlainServer(onRequest);
	server.on(certificate ? 'secureConnection' : 'connection', (socket: Socket) => {
		connections++;
		sockets.add(socket);
		socket.on('error', () => undefined);
		socket.on('close', () => sockets.delete(socket));
	});
	server.on('tlsClientError', () => undefined);
	// Where the machine stands still, a server must not close a connection that is about to be used again.
	server.keepAliveTimeout = 600_000;
	server.listen(port, host);
	await once(server, 'listening');
	t.teardown(async () => {
		server.closeAllConnections();
		server.close();
		await once(server, 'close');
	});
	return {
		port: (server.address() as AddressInfo).port,
		received,
		connections: () => connections,
		open: () => sockets.size,
		count: async n => void (await waitFor(`${n} requests`, () => received.length >= n)),
	};
}

/** A TLS server that does with each connection whatever the test says; answers its port. */
export async function startTls(
	t: ExecutionContext,
	options: TlsOptions,
	talk: (socket: TLSSocket) => void,
): Promise<number> {
	const sockets = new Set<TLSSocket>();
	const server = createTlsServer(options, socket => {
		sockets.add(socket);
		socket.on('error', () => undefined);
		socket.on('close', () => sockets.delete(socket));
		talk(socket);
	});
	server.on('tlsClientError', () => undefined);
	server.listen(0, '127.0.0.1');
	await once(server, 'listening');
	t.teardown(() => {
		for (const socket of sockets) {
			socket.destroy();
		}
		server.close();
	});
	return (server.address() as AddressInfo).port;
}
