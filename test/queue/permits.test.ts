import test from 'ava';
import {Permits} from '../../src/queue/smtp-workers.ts';

test('limits permits and grants them to waiters in order', async t => {
	const permits = new Permits(2);
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

test('grants units in the order of requests, and runs a request over the total alone', async t => {
	const permits = new Permits(10);
	const gone: string[] = [];
	const take = (id: string, units: number) => permits.take(id, units).then(() => gone.push(id));
	const all = [take('a', 6), take('b', 6), take('c', 1), take('large', 100), take('d', 1)];
	await all[0];
	t.deepEqual(gone, ['a']);
	permits.giveBack('a');
	await all[2];
	t.deepEqual(gone, ['a', 'b', 'c']);
	permits.giveBack('b');
	permits.giveBack('nobody');
	permits.giveBack('c');
	await all[3];
	t.deepEqual(gone, ['a', 'b', 'c', 'large']);
	permits.giveBack('large');
	await Promise.all(all);
	t.is(gone.at(-1), 'd');
});
