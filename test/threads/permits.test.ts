import test from 'ava';
import {createPermits} from '../../src/threads/permits.ts';

test('no more than so many are out at once; the first that waits goes first', async t => {
	const permits = createPermits(2);
	const order: string[] = [];
	const take = (id: string) => permits.take(id).then(() => order.push(id));
	await Promise.all([take('a'), take('b'), take('a')]);
	const waiting = [take('c'), take('d')];
	t.deepEqual(order, ['a', 'b', 'a'], 'one that has its permit does not wait for a second one');
	permits.giveBack('x');
	permits.giveBack('a');
	await waiting[0];
	t.is(order.at(-1), 'c');
	permits.giveBack('a');
	permits.giveBack('b');
	await waiting[1];
	t.is(order.at(-1), 'd');
});
