import test from 'ava';
import type {ClaimPermit} from '../../src/queue/claim-permit.ts';
import {at, brought, key, own, permitsOf, queuesOf, settle, well} from './on-queues.ts';

test('makes a queue ready at the earliest known due time', t => {
	const queues = queuesOf();
	queues.due(key('a.test'), 5000, at(0));
	queues.due(key('a.test'), 9000, at(0));
	queues.advance(at(4999));
	t.is(permitsOf(queues).length, 0);
	queues.advance(at(5000));
	t.is(permitsOf(queues, own(), 5000).length, 1);
});

test('claims work that arrives during a claim once the claim has ended', t => {
	const queues = queuesOf();
	queues.arrived(key('a.test'), at(0));
	const [permit] = permitsOf(queues) as [ClaimPermit];
	queues.arrived(key('a.test'), at(0));
	t.is(permitsOf(queues).length, 0, 'one claim of a lane at a time');
	queues.claimed(permit, brought(0), at(0));
	t.is(permitsOf(queues).length, 1);
	t.is(queues.inFlight, 5);
});

test('remembers what is due later when new mail arrives', t => {
	const queues = queuesOf();
	queues.due(key('a.test'), 5000, at(0));
	queues.arrived(key('a.test'), at(0));
	for (const permit of permitsOf(queues)) {
		queues.claimed(permit, brought(0), at(0));
	}
	queues.advance(at(5000));
	t.is(permitsOf(queues, own(), 5000).length, 1);
});

test('asks for the next due recipient after each claim, until all have had their turn', t => {
	const queues = queuesOf();
	queues.due(key('a.test'), 5000, at(0));
	queues.due(key('a.test'), 9000, at(0));
	queues.advance(at(5000));
	const [first] = permitsOf(queues, own(), 5000) as [ClaimPermit];
	t.true(first.asksNext);
	queues.claimed(first, brought(1, 9000), at(5000));
	settle(queues, first, 1, well, 5000);
	queues.advance(at(9000));
	t.is(permitsOf(queues, own(), 9000).length, 1);

	queues.scanned(key('b.test'), 0, at(9000));
	t.true(permitsOf(queues, own(), 9000)[0]?.asksNext, 'others may wait behind the first one found in the store');
	queues.arrived(key('c.test'), at(9000));
	t.false(permitsOf(queues, own(), 9000)[0]?.asksNext, 'nothing else is known where mail was just accepted');
});

test('leaves asking for the next due recipient to the claim after a full one', t => {
	const queues = queuesOf();
	queues.scanned(key('a.test'), 0, at(0));
	const [full] = permitsOf(queues) as [ClaimPermit];
	queues.claimed(full, brought(full.limit), at(0));
	settle(queues, full, full.limit);
	t.true(permitsOf(queues)[0]?.asksNext);
});

test('remembers what arrived and was deferred while a slow attempt was running', t => {
	const queues = queuesOf();
	queues.arrived(key('a.test'), at(0));
	const [slow] = permitsOf(queues) as [ClaimPermit];
	queues.claimed(slow, brought(1), at(0));
	queues.arrived(key('a.test'), at(0));
	const [none] = permitsOf(queues) as [ClaimPermit];
	queues.claimed(none, brought(0), at(0));
	queues.due(key('a.test'), 5000, at(0));
	settle(queues, slow, 1);
	queues.advance(at(5000));
	t.is(permitsOf(queues, own(), 5000).length, 1);
});
