import test from 'ava';
import {Seats} from '../../src/api/turns.ts';

test('each owner has so many seats, and gives each back once', t => {
	const seats = new Seats(2);
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
