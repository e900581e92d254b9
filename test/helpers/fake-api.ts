import {createHash, createHmac} from 'node:crypto';
import {createServer, type IncomingMessage} from 'node:http';
import type {AddressInfo, Socket} from 'node:net';
import type {Teardown} from './fake-mx.ts';

export type ApiRequest = {
	readonly method: string;
	readonly path: string;
	readonly headers: IncomingMessage['headers'];
	readonly body: Buffer;
};
/** `reset`: the connection breaks when the request has come; an object is sent as JSON. */
export type ApiAnswer =
	| 'reset'
	| {readonly status: number; readonly body: object | string; readonly headers?: Readonly<Record<string, string>>};

/**
 * The sending API of a provider, at `host:port` for MAILCTL_PROVIDER_HOSTS; `connections`: those that asked for
 * something.
 */
export async function startFakeApi(t: Teardown, answer: (request: ApiRequest, n: number) => ApiAnswer) {
	const requests: ApiRequest[] = [];
	const connections = new Set<Socket>();
	const server = createServer(async (incoming, response) => {
		const chunks: Buffer[] = [];
		for await (const chunk of incoming) {
			chunks.push(chunk as Buffer);
		}
		connections.add(incoming.socket);
		const {method = '', url: path = '', headers} = incoming;
		const request = {method, path, headers, body: Buffer.concat(chunks)};
		requests.push(request);
		const given = answer(request, requests.length);
		if (given === 'reset') {
			incoming.socket.resetAndDestroy();
			return;
		}
		const {status, body, headers: more} = given;
		response.writeHead(status, more).end(typeof body === 'string' ? body : JSON.stringify(body));
	});
	await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve));
	t.teardown(() => {
		server.closeAllConnections();
		server.close();
	});
	return {at: `127.0.0.1:${(server.address() as AddressInfo).port}`, requests, connections};
}

const hmac = (key: string | Buffer, text: string) => createHmac('sha256', key).update(text).digest();
const hash = (data: string | Buffer) => createHash('sha256').update(data).digest('hex');

/** Whether a request to SES is signed by the secret, worked out from what it says itself, as Amazon documents it. */
export function isSignedForSes({method, path, headers, body}: ApiRequest, secret: string): boolean {
	const [, scope = '', names = '', signature] =
		/^AWS4-HMAC-SHA256 Credential=[^/]+\/(\S+), SignedHeaders=(\S+), Signature=(\w{64})$/.exec(
			headers.authorization ?? '',
		) ?? [];
	const time = String(headers['x-amz-date']);
	const fields = names.split(';').map(name => `${name}:${String(headers[name]).trim()}\n`);
	const canonical = `${method}\n${path}\n\n${fields.join('')}\n${names}\n${hash(body)}`;
	const [day = '', region = '', service = '', end = ''] = scope.split('/');
	const key = hmac(hmac(hmac(hmac(`AWS4${secret}`, day), region), service), end);
	const fits = `${day} ${service} ${end}` === `${time.slice(0, 8)} ses aws4_request` && names.includes('host');
	return fits && hmac(key, `AWS4-HMAC-SHA256\n${time}\n${scope}\n${hash(canonical)}`).toString('hex') === signature;
}

/** The parts of a `multipart/form-data` by their names. */
export function formOf({headers, body}: ApiRequest): Readonly<Record<string, string>> {
	const [, boundary = ''] = /boundary=(\S+)$/.exec(headers['content-type'] ?? '') ?? [];
	const parts = body.toString('latin1').split(`--${boundary}`).slice(1, -1);
	return Object.fromEntries(
		parts.map(part => {
			const [, name = '', value = ''] = /name="(\w+)".*?\r\n\r\n(.*)\r\n$/s.exec(part) ?? [];
			return [name, value];
		}),
	);
}
