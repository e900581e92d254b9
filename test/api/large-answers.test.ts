import {once} from 'node:events';
import {createReadStream} from 'node:fs';
import {connect, type Socket} from 'node:net';
import {Readable} from 'node:stream';
import test, {type ExecutionContext} from 'ava';
import {ResponseSeats} from '../../src/api/large-answers.ts';
import {createApi} from '../../src/api/server.ts';
import {apiError} from '../../src/mail/api-error.ts';
import {waitFor} from '../helpers/wait.ts';
import {newId} from '../helpers/workspace.ts';

const never = new AbortController().signal;

test('gives seats to an owner’s waiting requests in order, unless too many, too late or disconnected', async t => {
	const seats = new ResponseSeats({seats: 1, waiting: 2, waitMs: 50});
	const first = await seats.wait('a', never);
	t.truthy(first);
	t.is(seats.take('a'), undefined);
	const other = seats.take('b');
	t.truthy(other, 'another owner has seats of its own');
	other?.();

	const order: string[] = [];
	const second = seats.wait('a', never).then(leave => {
		order.push('second');
		return leave;
	});
	const gone = new AbortController();
	const third = seats.wait('a', gone.signal);
	t.is(await seats.wait('a', never), undefined, 'the line is full');
	gone.abort();
	t.is(await third, undefined);
	const fourth = seats.wait('a', never).then(leave => {
		order.push('fourth');
		return leave;
	});
	first?.();
	first?.();
	(await second)?.();
	t.truthy(await fourth);
	t.deepEqual(order, ['second', 'fourth']);
	t.is(await seats.wait('a', never), undefined, 'the fourth does not leave in time');
	(await fourth)?.();
	t.truthy(seats.take('a'));
});

// More than the system buffers for a connection that nobody reads.
const size = 16 * 1024 * 1024;

async function start(t: ExecutionContext) {
	let reads = 0;
	const api = createApi({
		...{newId, version: '0.0.0', pages: null, trustProxy: [], isUnavailable: () => false},
		report: (_request, error) => t.fail(String(error)),
		timeouts: {headers: 60_000, request: 60_000, check: 1000, drain: 1000, response: 60_000},
		routes: [
			scope => {
				const big = (url: string, config: object, body: () => unknown) =>
					scope.get(url, {config}, async () => {
						reads++;
						return body();
					});
				big('/v1/flagged', {isLarge: true}, () => 'x'.repeat(size));
				big('/v1/plain', {}, () => 'x'.repeat(size));
				big('/v1/stream', {}, () => Readable.from(pieces(), {objectMode: false}));
				big('/v1/file', {}, () => createReadStream(import.meta.filename));
				big('/v1/small', {isLarge: true}, () => 'small');
				big('/v1/broken', {isLarge: true}, () => Readable.from(failing(), {objectMode: false}));
				big('/v1/thrown', {isLarge: true}, () => Promise.reject(apiError('not_found')));
			},
		],
	});
	let taken = 0;
	async function* pieces() {
		for (let n = 0; n < 64; n++) {
			taken++;
			yield Buffer.alloc(1024 * 1024);
		}
	}
	async function* failing() {
		yield Buffer.alloc(1024);
		throw apiError('unavailable');
	}
	t.teardown(() => api.close());
	await api.listen({host: '127.0.0.1', port: 0});
	const {port} = api.server.address() as {port: number};
	const ask = async (path: string): Promise<Socket> => {
		const socket = connect(port, '127.0.0.1');
		t.teardown(() => socket.destroy());
		socket.on('error', () => undefined);
		socket.pause();
		await once(socket, 'connect');
		socket.write(`GET ${path} HTTP/1.1\r\nHost: x\r\n\r\n`);
		return socket;
	};
	const url = `http://127.0.0.1:${port}`;
	return {ask, url, reads: () => reads, taken: () => taken};
}

test('reads as many large responses as there are seats, and the next one when a seat is free', async t => {
	const {ask, url, reads} = await start(t);
	const sockets = await Promise.all(Array.from({length: 12}, () => ask('/v1/flagged')));
	await waitFor('four are read', () => reads() === 4);
	// A request that needs no seat shows that the others would have been read by now.
	t.is((await fetch(`${url}/v1/none`)).status, 404);
	t.is(reads(), 4);
	for (const [index, socket] of sockets.entries()) {
		socket.destroy();
		await waitFor('the next is read, if its client is still there', () => reads() >= Math.min(12, index + 2));
	}
	const small = await Promise.all(Array.from({length: 20}, () => fetch(`${url}/v1/small`)));
	t.true(small.every(({status}) => status === 200));
});

test('refuses an unexpectedly large response when its owner has too many', async t => {
	const {ask, url, reads} = await start(t);
	await Promise.all(Array.from({length: 4}, () => ask('/v1/plain')));
	await waitFor('four are read', () => reads() === 4);
	t.is((await fetch(`${url}/v1/file`)).status, 200, 'files take no seat');
	const refused = await fetch(`${url}/v1/plain`);
	t.is(refused.status, 429);
	t.is(refused.headers.get('retry-after'), '2');
	t.regex(refused.headers.get('content-type') ?? '', /^application\/json/);
	t.like(await refused.json(), {error: {code: 'rate_limited'}});
});

test('reads a stream no faster than its client does', async t => {
	const {ask, url, taken} = await start(t);
	const socket = await ask('/v1/stream');
	await waitFor('it begins', () => taken() > 0);
	t.is((await fetch(`${url}/v1/none`)).status, 404);
	t.true(taken() < 32, `${taken()} MiB`);
	socket.resume();
	await waitFor('all of it came', () => socket.bytesRead > 64 * 1024 * 1024);
	t.is(taken(), 64);
});

test('releases a seat after HEAD, an error response or a broken stream', async t => {
	const {url} = await start(t);
	for (let round = 0; round < 5; round++) {
		const head = await fetch(`${url}/v1/flagged`, {method: 'HEAD'});
		const thrown = await fetch(`${url}/v1/thrown`);
		t.deepEqual([head.status, thrown.status], [200, 404]);
		await thrown.text();
		await t.throwsAsync(async () => await (await fetch(`${url}/v1/broken`)).arrayBuffer());
	}
	t.is(await (await fetch(`${url}/v1/small`)).text(), 'small');
});
