import {setImmediate} from 'node:timers/promises';
import test from 'ava';
import {inSlice} from '../../src/kit/turns.ts';

test('runs one piece of work per turn of the event loop, in order', async t => {
	const done: string[] = [];
	const work = (name: string) => inSlice(() => done.push(name));
	const all = [work('a'), work('b'), work('c')];
	for (let n = 0; n < 3; n++) {
		const before = done.length;
		await setImmediate();
		t.true(done.length <= before + 1);
	}
	await Promise.all(all);
	t.deepEqual(done, ['a', 'b', 'c']);
	t.is(await inSlice(() => 7), 7);
});

test('a failing piece of work does not affect the next one', async t => {
	const failing = inSlice(() => {
		throw new Error('no');
	});
	const next = inSlice(() => 'next');
	await t.throwsAsync(failing, {message: 'no'});
	t.is(await next, 'next');
});
