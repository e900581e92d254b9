import {once} from 'node:events';
import {connect, type Socket} from 'node:net';
import test, {type ExecutionContext} from 'ava';
import {createApi} from '../../src/api/server.ts';
import {waitFor} from '../helpers/wait.ts';
import {newId} from '../helpers/workspace.ts';

// More than the system buffers for a connection that nobody reads.
const size = 32 * 1024 * 1024;

async function start(t: ExecutionContext, answer: number) {
	const api = createApi({
		newId,
		version: '0.0.0',
		pages: null,
		trustProxy: [],
		isUnavailable: () => false,
		report: (_request, error) => t.fail(String(error)),
		timeouts: {headers: 60_000, request: 60_000, check: 1000, drain: 1000, response: answer},
		routes: [scope => scope.get('/v1/big', async () => 'x'.repeat(size))],
	});
	t.teardown(() => api.close());
	await api.listen({host: '127.0.0.1', port: 0});
	const {port} = api.server.address() as {port: number};
	const connections = () =>
		new Promise<number>(resolve => api.server.getConnections((_error, count) => resolve(count)));
	const ask = async (): Promise<Socket> => {
		const socket = connect(port, '127.0.0.1');
		t.teardown(() => socket.destroy());
		socket.on('error', () => undefined);
		socket.pause();
		await once(socket, 'connect');
		socket.write('GET /v1/big HTTP/1.1\r\nHost: x\r\n\r\n');
		return socket;
	};
	return {ask, connections};
}

test('closes the connection of a client that does not read its response', async t => {
	const {ask, connections} = await start(t, 200);
	await ask();
	await waitFor('it is connected', async () => (await connections()) === 1);
	await waitFor('it is not any more', async () => (await connections()) === 0);
	t.pass();
});

test('a client that reads late but in time gets the whole response and can reuse the connection', async t => {
	const {ask} = await start(t, 60_000);
	const socket = await ask();
	socket.resume();
	await waitFor('the first answer', () => socket.bytesRead > size);
	socket.write('GET /v1/big HTTP/1.1\r\nHost: x\r\n\r\n');
	await waitFor('the second answer', () => socket.bytesRead > 2 * size);
	t.pass();
});
