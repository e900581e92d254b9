import type {IncomingMessage, ServerResponse} from 'node:http';
import {setImmediate as nextTurn} from 'node:timers/promises';
import test from 'ava';
import {startKeylessInTurn} from '../../src/api/in-turn.ts';
import {createTurns} from '../../src/kit/turns.ts';

function gate() {
	const open: Array<() => void> = [];
	return {work: () => new Promise<void>(resolve => open.push(resolve)), open};
}

test('runs one piece of work at a time, and owners take turns', async t => {
	const turns = createTurns();
	const {work, open} = gate();
	const done: string[] = [];
	const start = (name: string) => turns(name[0] as string, work).then(() => done.push(name));
	const all = ['a1', 'a2', 'a3', 'b1', 'c1', 'b2'].map(start);
	for (const [index, expected] of ['a1', 'a2', 'b1', 'c1', 'a3', 'b2'].entries()) {
		t.is(open.length, index + 1, 'one under way');
		open[index]?.();
		await new Promise(resolve => setImmediate(resolve));
		t.is(done.at(-1), expected);
	}
	await Promise.all(all);
	t.is(await turns('a', async () => 7), 7, 'and goes on when all is done');
});

test('a failing piece of work affects no other', async t => {
	const turns = createTurns();
	const results = await Promise.allSettled([
		turns('a', async () => 1),
		turns('a', async () => Promise.reject(new Error('x'))),
		turns('a', async () => 3),
	]);
	t.deepEqual(
		results.map(({status}) => status),
		['fulfilled', 'rejected', 'fulfilled'],
	);
});

test('refuses more work of an owner with too much waiting, but not of others', async t => {
	const turns = createTurns(2);
	const {work, open} = gate();
	const pieces = ['a', 'a', 'a'].map(owner => turns(owner, work));
	await t.throwsAsync(turns('a', work), {message: /cannot accept this request now/});
	const other = turns('b', work);
	for (let count = 0; count < 4; count++) {
		open[count]?.();
		await new Promise(resolve => setImmediate(resolve));
	}
	await Promise.all([...pieces, other]);
	const again = turns('a', work);
	open.at(-1)?.();
	await again;
	t.pass();
});

test('starts one request without a key per turn of the event loop, and others at once', async t => {
	const started: string[] = [];
	const listener = startKeylessInTurn(({url = ''}) => void started.push(url));
	const request = (url: string, authorization?: string) =>
		listener({url, headers: {authorization}} as IncomingMessage, {} as ServerResponse<IncomingMessage>);
	for (const url of ['/1', '/2', '/3']) {
		request(url);
	}
	request('/v1/messages', 'Bearer x');
	request('/healthz');
	t.deepEqual(started, ['/1', '/v1/messages', '/healthz']);
	await nextTurn();
	t.deepEqual(started.slice(3), ['/2']);
	await nextTurn();
	t.deepEqual(started.slice(3), ['/2', '/3']);
	await nextTurn();
	request('/4');
	t.is(started.at(-1), '/4');
});
