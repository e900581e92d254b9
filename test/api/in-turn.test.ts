import {once} from 'node:events';
import {connect, type Socket} from 'node:net';
import test, {type ExecutionContext} from 'ava';
import {createApi} from '../../src/api/server.ts';
import {waitFor} from '../helpers/wait.ts';
import {newId} from '../helpers/workspace.ts';

const asking = 'GET /v1/big HTTP/1.1\r\nHost: x\r\n\r\n';

/** Starts an API with one route that counts the requests it has started and responds only when told to. */
async function start(t: ExecutionContext, answer: string) {
	const waiting: Array<() => void> = [];
	let begun = 0;
	const api = createApi({
		newId,
		version: '0.0.0',
		pages: null,
		trustProxy: [],
		isUnavailable: () => false,
		report: (_request, error) => t.fail(String(error)),
		routes: [
			scope => {
				scope.get('/v1/big', async () => {
					begun++;
					await new Promise<void>(resolve => waiting.push(resolve));
					return answer;
				});
			},
		],
	});
	t.teardown(() => api.close());
	await api.listen({host: '127.0.0.1', port: 0});
	const {port} = api.server.address() as {port: number};
	const client = async (): Promise<Socket> => {
		const socket = connect(port, '127.0.0.1');
		t.teardown(() => socket.destroy());
		socket.on('error', () => undefined);
		await once(socket, 'connect');
		return socket;
	};
	return {client, waiting, begun: () => begun};
}

test('starts a pipelined request only after the previous response was sent', async t => {
	const {client, waiting, begun} = await start(t, 'x');
	const socket = await client();
	let received = '';
	socket.on('data', chunk => {
		received += chunk.toString();
	});
	socket.write(asking.repeat(10));
	for (let answered = 0; answered < 10; answered++) {
		const go = await waitFor('the next one is begun', async () => waiting.shift() ?? null);
		t.is(begun(), answered + 1);
		go();
	}
	await waitFor('all are answered', async () => received.match(/HTTP\/1\.1 200/g)?.length === 10);
});

test('does not prepare a second response for a client that has not read the first', async t => {
	const {client, waiting, begun} = await start(t, 'x'.repeat(16 * 1024 * 1024));
	const [deaf, other] = [await client(), await client()];
	deaf.pause();
	deaf.write(asking.repeat(10));
	const go = await waitFor('the first is begun', async () => waiting.shift() ?? null);
	go();
	for (let turn = 0; turn < 3; turn++) {
		other.write(asking);
		const next = await waitFor('another client is served', async () => waiting.shift() ?? null);
		next();
		const [chunk] = await once(other, 'data');
		t.true(chunk.length > 0);
		await waitFor('it has all', async () => other.bytesRead > (turn + 1) * 16 * 1024 * 1024);
	}
	t.is(begun(), 4);
});

test('closes a connection that pipelines too many requests', async t => {
	const {client, begun} = await start(t, 'x');
	const socket = await client();
	const closed = once(socket, 'close');
	socket.resume();
	socket.write(asking.repeat(200));
	await closed;
	t.is(begun(), 1);
});
