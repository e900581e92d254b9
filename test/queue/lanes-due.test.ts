import test from 'ava';
import type {Grant} from '../../src/queue/grants.ts';
import {at, brought, grantsOf, key, lanesOf, own, settle, well} from './on-lanes.ts';

test('what is due later becomes ready at its time, the earliest first known wins', t => {
	const lanes = lanesOf();
	lanes.due(key('a.test'), 5000, at(0));
	lanes.due(key('a.test'), 9000, at(0));
	lanes.advance(at(4999));
	t.is(grantsOf(lanes).length, 0);
	lanes.advance(at(5000));
	t.is(grantsOf(lanes, own(), 5000).length, 1);
});

test('work that arrives while a claim is under way is claimed after it', t => {
	const lanes = lanesOf();
	lanes.arrived(key('a.test'), at(0));
	const [grant] = grantsOf(lanes) as [Grant];
	lanes.arrived(key('a.test'), at(0));
	t.is(grantsOf(lanes).length, 0, 'one claim of a lane at a time');
	lanes.claimed(grant, brought(0), at(0));
	t.is(grantsOf(lanes).length, 1);
	t.is(lanes.inFlight, 5);
});

test('mail that arrives makes nobody forget what is due later', t => {
	const lanes = lanesOf();
	lanes.due(key('a.test'), 5000, at(0));
	lanes.arrived(key('a.test'), at(0));
	for (const grant of grantsOf(lanes)) {
		lanes.claimed(grant, brought(0), at(0));
	}
	lanes.advance(at(5000));
	t.is(grantsOf(lanes, own(), 5000).length, 1);
});

test('after one copy came due the claim asks for the next, until all have had their turn', t => {
	const lanes = lanesOf();
	lanes.due(key('a.test'), 5000, at(0));
	lanes.due(key('a.test'), 9000, at(0));
	lanes.advance(at(5000));
	const [first] = grantsOf(lanes, own(), 5000) as [Grant];
	t.true(first.asksNext);
	lanes.claimed(first, brought(1, 9000), at(5000));
	settle(lanes, first, 1, well, 5000);
	lanes.advance(at(9000));
	t.is(grantsOf(lanes, own(), 9000).length, 1);

	lanes.found(key('b.test'), 0, at(9000));
	t.true(grantsOf(lanes, own(), 9000)[0]?.asksNext, 'others may wait behind the first one found in the store');
	lanes.arrived(key('c.test'), at(9000));
	t.false(grantsOf(lanes, own(), 9000)[0]?.asksNext, 'nothing else is known where mail was just accepted');
});

test('a full claim leaves the question for the next due copy to the claim after it', t => {
	const lanes = lanesOf();
	lanes.found(key('a.test'), 0, at(0));
	const [full] = grantsOf(lanes) as [Grant];
	lanes.claimed(full, brought(full.limit), at(0));
	settle(lanes, full, full.limit);
	t.true(grantsOf(lanes)[0]?.asksNext);
});

test('the end of a slow copy makes nobody forget what came and was deferred meanwhile', t => {
	const lanes = lanesOf();
	lanes.arrived(key('a.test'), at(0));
	const [slow] = grantsOf(lanes) as [Grant];
	lanes.claimed(slow, brought(1), at(0));
	lanes.arrived(key('a.test'), at(0));
	const [none] = grantsOf(lanes) as [Grant];
	lanes.claimed(none, brought(0), at(0));
	lanes.due(key('a.test'), 5000, at(0));
	settle(lanes, slow, 1);
	lanes.advance(at(5000));
	t.is(grantsOf(lanes, own(), 5000).length, 1);
});
