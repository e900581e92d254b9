import {createHmac, timingSafeEqual} from 'node:crypto';
import {once} from 'node:events';
import {writeFile} from 'node:fs/promises';
import type {IncomingHttpHeaders, IncomingMessage, ServerResponse} from 'node:http';
import {createServer} from 'node:https';
import type {AddressInfo} from 'node:net';
import {join} from 'node:path';
import type {Duplex} from 'node:stream';
import {buffer} from 'node:stream/consumers';
import {makeCertificate} from './certificate.ts';
import type {Scope, Settings} from './daemon.ts';
import {startFakeDns, type Zone} from './fake-dns.ts';

export type Post = {
	readonly path: string;
	readonly method: string;
	readonly headers: IncomingHttpHeaders;
	/** The bytes as they came. */
	readonly body: Buffer;
	/** When it had come in full, milliseconds. */
	readonly at: number;
};

/** What the receiver does with a request; nothing: answers 200. */
export type Behaviour = (post: Post, response: ServerResponse, request: IncomingMessage) => unknown;

export type Receiver = {
	/** The URL of a path, on any of the receiver's host names. */
	readonly url: (path: string, host?: string) => string;
	readonly posts: readonly Post[];
	/** Those at a path, about one message if it is given. */
	readonly postsTo: (path: string, messageId?: string) => readonly Post[];
	/** From now on, at this path. */
	readonly behave: (path: string, behaviour: Behaviour) => void;
	/** TCP connections so far. */
	readonly connections: () => number;
	readonly zone: Zone;
	/** What the daemon needs to reach it. */
	readonly settings: Settings;
};

/** A receiver of webhooks with a certificate of its own authority, and the DNS server that knows its names. */
export async function startReceiver(scope: Scope, folder: string, hosts: readonly string[]): Promise<Receiver> {
	const certificate = makeCertificate(...hosts);
	const caFile = join(folder, 'webhook-ca.pem');
	await writeFile(caFile, certificate.cert);
	const posts: Post[] = [];
	const behaviours = new Map<string, Behaviour>();
	const sockets = new Set<Duplex>();
	let connections = 0;
	const server = createServer(certificate, async (request, response) => {
		const body = await buffer(request).catch(() => null);
		if (body === null) {
			return;
		}

		const path = request.url ?? '';
		const post = {path, method: request.method ?? '', headers: request.headers, body, at: Date.now()};
		posts.push(post);
		await behaviours.get(path)?.(post, response, request);
		if (!response.headersSent && !response.destroyed && !behaviours.has(path)) {
			response.end();
		}
	});
	server.on('connection', socket => {
		connections += 1;
		sockets.add(socket);
		socket.on('error', () => undefined);
		socket.on('close', () => sockets.delete(socket));
	});
	server.on('tlsClientError', () => undefined);
	// Where the machine stands still, a server must not close a connection that is about to be used again.
	server.keepAliveTimeout = 600_000;
	server.listen(0, '127.0.0.1');
	await once(server, 'listening');
	scope.teardown(async () => {
		for (const socket of sockets) {
			socket.destroy();
		}
		server.close();
		await once(server, 'close');
	});
	const {port} = server.address() as AddressInfo;
	const zone: Zone = Object.fromEntries(hosts.map(host => [host, {a: ['127.0.0.1'], ttl: 0}]));
	const dns = await startFakeDns(scope, zone);
	return {
		url: (path, host = hosts[0] as string) => `https://${host}:${port}${path}`,
		posts,
		postsTo: (path, messageId = '') => posts.filter(post => post.path === path && post.body.includes(messageId)),
		behave: (path, behaviour) => void behaviours.set(path, behaviour),
		connections: () => connections,
		zone,
		settings: {
			MAILCTL_WEBHOOK_ALLOW_CIDRS: '127.0.0.0/8',
			MAILCTL_WEBHOOK_CA_FILE: caFile,
			MAILCTL_DNS_SERVERS: dns.server,
		},
	};
}

/** What is wrong with a request by the rules for receivers; null if it may be trusted. */
export function distrust({headers, body}: Post, secret: string, now: number): string | null {
	const timestamp = String(headers['x-webhook-timestamp'] ?? '');
	if (!/^\d{10}$/.test(timestamp) || Math.abs(now / 1000 - Number(timestamp)) > 300) {
		return `X-Webhook-Timestamp is ${timestamp}`;
	}

	const expected = createHmac('sha256', secret).update(`${timestamp}.`).update(body).digest('hex');
	const given = Buffer.from(String(headers['x-webhook-signature'] ?? ''));
	const wanted = Buffer.from(`sha256=${expected}`);
	return given.length === wanted.length && timingSafeEqual(given, wanted) ? null : `X-Webhook-Signature is ${given}`;
}
