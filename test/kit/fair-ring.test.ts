import test from 'ava';
import {
	addTurn,
	endTurn,
	type FairRing,
	firstTurn,
	hasTurn,
	removeTurn,
	takeTurn,
	UrgentRing,
} from '../../src/kit/fair-ring.ts';

/** A ring with these items waiting, each named after its group and a number. */
function ringOf(...items: string[]): FairRing<string> {
	const ring: FairRing<string> = new Map();
	for (const item of items) {
		addTurn(ring, item.charAt(0), item);
	}
	return ring;
}

function takeAll(ring: FairRing<string>): string[] {
	const taken: string[] = [];
	for (let item = takeTurn(ring); item !== undefined; item = takeTurn(ring)) {
		taken.push(item);
	}
	return taken;
}

test('groups take turns, and so do the items within a group', t => {
	t.deepEqual(takeAll(ringOf('a1', 'a2', 'a3', 'b1', 'c1', 'c2')), ['a1', 'b1', 'c1', 'a2', 'c2', 'a3']);
});

test('an item that is already waiting keeps its place', t => {
	t.deepEqual(takeAll(ringOf('a1', 'b1', 'a2', 'a1')), ['a1', 'b1', 'a2']);
});

test('a removed item has no turn, and an empty group disappears', t => {
	const ring = ringOf('a1', 'b1', 'b2');
	removeTurn(ring, 'a', 'a1');
	removeTurn(ring, 'b', 'b1');
	t.false(hasTurn(ring, 'b', 'b1'));
	t.true(hasTurn(ring, 'b', 'b2'));
	t.is(ring.size, 1);
	t.deepEqual(takeAll(ring), ['b2']);
	t.is(ring.size, 0);
});

test('urgent items go first within their group, but do not advance the group’s turn', t => {
	const ring = new UrgentRing<string>();
	for (const item of ['a1', 'b1', 'a2', 'b2', 'c1']) {
		ring.add(item.slice(0, 1), item, item === 'b2' || item === 'c1');
	}
	t.is(
		ring.take(group => group !== 'a'),
		'b2',
	);
	t.true(ring.has('b', 'b1'));
	const taken = [ring.take(), ring.take(), ring.take()];
	t.deepEqual(taken, ['a1', 'c1', 'b1']);
	t.true(ring.isOnly('a'));
	ring.remove('a', 'a2');
	t.is(ring.take(), undefined);
});

test('ending a turn after its item was removed does not skip another item', t => {
	const ring = ringOf('a1', 'a2', 'b1');
	const turn = firstTurn(ring) ?? t.fail();
	t.deepEqual(turn, {group: 'a', item: 'a1'});
	if (turn) {
		removeTurn(ring, 'a', 'a1');
		endTurn(ring, turn);
	}
	t.deepEqual(takeAll(ring), ['b1', 'a2']);
});
