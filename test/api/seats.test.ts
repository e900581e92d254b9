import test from 'ava';
import {ConcurrencyLimit} from '../../src/kit/turns.ts';

test('each owner has a fixed number of seats and releases each only once', t => {
	const seats = new ConcurrencyLimit(2);
	const take = (owner: string) => seats.take(owner);
	const [first, second] = [take('a'), take('a')];
	t.truthy(first && second);
	t.is(take('a'), undefined);
	t.truthy(take('b'), 'another owner has seats of its own');
	first?.();
	first?.();
	t.truthy(take('a'));
	t.is(take('a'), undefined, 'what was given back twice counts once');
});

test('releases a seat whether its work succeeds, rejects or throws synchronously', async t => {
	const seats = new ConcurrencyLimit(1);
	t.is(await seats.hold('a', async () => 7), 7);
	await t.throwsAsync(
		seats.hold('a', async () => Promise.reject(new Error('x'))),
		{message: 'x'},
	);
	const atOnce = () => {
		throw new Error('y');
	};
	await t.throwsAsync(seats.hold('a', atOnce), {message: 'y'});
	const leave = seats.take('a');
	await t.throwsAsync(
		seats.hold('a', async () => 7),
		{message: /cannot accept this request now/},
	);
	leave?.();
	t.is(await seats.hold('a', async () => 8), 8);
});
