import {createServer, type IncomingHttpHeaders} from 'node:http';
import type {AddressInfo} from 'node:net';
import type {Teardown} from './fake-mx.ts';

type Asked = {readonly url: URL; readonly headers: IncomingHttpHeaders};
/** An object is sent as JSON; null: there is never an answer. */
type Answer = {
	readonly status?: number;
	readonly headers?: Readonly<Record<string, string>>;
	readonly body: object | string;
} | null;

/** The API of a provider, at `host:port` for MAILCTL_PROVIDER_HOSTS, and the paths and queries that were asked for. */
export async function startFakeProvider(t: Teardown, answer: (asked: Asked, n: number) => Answer) {
	const asked: string[] = [];
	const server = createServer((request, response) => {
		const url = new URL(request.url ?? '', `https://${request.headers.host}`);
		asked.push(url.pathname + url.search);
		const given = answer({url, headers: request.headers}, asked.length);
		if (given !== null) {
			const {status = 200, headers = {}, body} = given;
			response.writeHead(status, headers).end(typeof body === 'string' ? body : JSON.stringify(body));
		}
	});
	await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve));
	t.teardown(() => {
		server.closeAllConnections();
		server.close();
	});
	return {at: `127.0.0.1:${(server.address() as AddressInfo).port}`, asked};
}
