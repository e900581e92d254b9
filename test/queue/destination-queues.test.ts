import test from 'ava';
import {queueKeyText} from '../../src/mail/route.ts';
import type {ClaimPermit} from '../../src/queue/claim-permit.ts';
import {routeTo} from '../helpers/routes.ts';
import {at, brought, claimAll, key, own, permitsOf, queuesOf, settle, shared, silent, well} from './on-queues.ts';

test('limits a provider to its window without limiting another one', t => {
	const queues = queuesOf();
	queues.arrived(key('dead.test'), at(0));
	const [permit, ...others] = permitsOf(queues) as [ClaimPermit];
	t.deepEqual([permit.queue.destination, permit.limit, others.length], ['dead.test', 5, 0]);
	queues.claimed(permit, brought(5), at(0));
	t.deepEqual(permitsOf(queues), [], 'its window is full');
	queues.arrived(key('well.test'), at(0));
	t.deepEqual(
		permitsOf(queues).map(one => [one.queue.destination, one.limit]),
		[['well.test', 5]],
	);
});

test('lets workspaces, and the destinations of each, take turns at a relay', t => {
	const queues = queuesOf();
	for (const name of ['a.test', 'b.test', 'c.test']) {
		queues.arrived(key(name, 'ws_big'), at(0));
	}
	queues.arrived(key('a.test', 'ws_small'), at(0));
	const order: string[] = [];
	for (let turn = 0; turn < 8; turn++) {
		const [permit] = permitsOf(queues, shared()) as [ClaimPermit];
		order.push(queueKeyText(permit.queue));
		queues.claimed(permit, brought(permit.limit), at(0));
		settle(queues, permit, permit.limit);
	}
	t.deepEqual(order, [
		'a.test ws_big',
		'a.test ws_small',
		'b.test ws_big',
		'a.test ws_small',
		'c.test ws_big',
		'a.test ws_small',
		'a.test ws_big',
		'a.test ws_small',
	]);
});

test('never exceeds the total in flight with many providers', t => {
	const queues = queuesOf({maxInFlight: 50});
	for (let site = 0; site < 20; site++) {
		queues.arrived(key(`site${site}.test`), at(0));
	}
	const granted = permitsOf(queues).reduce((sum, permit) => sum + permit.limit, 0);
	t.true(granted <= 50 && granted >= 45, String(granted));
});

test('gives a provider with a large window its turns among many small ones at full capacity', t => {
	const queues = queuesOf({maxInFlight: 256});
	const route = (name: string) => routeTo(name, name === 'large.test' ? {connections: 20, startConnections: 20} : {});
	const running: ClaimPermit[] = [];
	const claims = (turn: number) => {
		for (const permit of permitsOf(queues, route, turn)) {
			queues.claimed(permit, brought(permit.limit), at(turn));
			running.push(...new Array<ClaimPermit>(permit.limit).fill(permit));
		}
	};
	queues.arrived(key('large.test'), at(0));
	for (let site = 0; site < 60; site++) {
		queues.arrived(key(`small${site}.test`), at(0));
	}
	let large = 0;
	for (let turn = 0; turn < 20_000; turn++) {
		claims(turn);
		const permit = running.shift() as ClaimPermit;
		queues.done(permit, well, at(turn));
		large += permit.queue.destination === 'large.test' && turn > 5000 ? 1 : 0;
	}
	t.true(large > 100, String(large));
});

test('claims for a provider whose connections exceed the limit for unproven ones', t => {
	for (const rank of ['fresh', 'backlog'] as const) {
		const queues = queuesOf({maxInFlight: 64, maxUnproven: 1});
		if (rank === 'fresh') {
			queues.arrived(key('relay.test'), at(0));
		} else {
			queues.due(key('relay.test'), 0, at(0));
		}
		t.deepEqual(
			permitsOf(queues, own({connections: 20, startConnections: 10})).map(({limit}) => limit),
			[1],
			rank,
		);
	}
});

test('limits retries to unproven providers and leaves room for new mail', t => {
	const queues = queuesOf({maxInFlight: 200, maxUnproven: 40});
	for (let site = 0; site < 100; site++) {
		queues.scanned(key(`dead${site}.test`), 0, at(0));
	}
	claimAll(queues);
	t.is(queues.inFlight, 20);
	queues.arrived(key('well.test'), at(0));
	t.deepEqual(
		claimAll(queues).map(permit => permit.queue.destination),
		['well.test'],
	);
	for (let site = 0; site < 100; site++) {
		queues.arrived(key(`new${site}.test`), at(0));
	}
	claimAll(queues);
	t.is(queues.inFlight, 30, 'and of that a quarter to other workspaces');
});

test('gives a responding provider its whole window, and takes it away when it stops responding', t => {
	const queues = queuesOf({maxInFlight: 200, maxUnproven: 40});
	queues.arrived(key('well.test'), at(0));
	const [first] = permitsOf(queues) as [ClaimPermit];
	t.is(first.limit, 5);
	queues.claimed(first, brought(5), at(0));
	settle(queues, first, 1);
	claimAll(queues, own(), 20);
	t.is(queues.inFlight, 20);
	settle(queues, first, 1, silent);
	t.is(first.site.state.isResponding, false);
	t.deepEqual(claimAll(queues), []);
	settle(queues, first, 18, null);
	claimAll(queues);
	t.is(queues.inFlight, 2, 'a connection for each copy, half as many as before');
});

test('sends new mail before a due backlog without stopping the backlog', t => {
	const queues = queuesOf({maxInFlight: 80});
	for (let site = 0; site < 100; site++) {
		queues.scanned(key(`site${site}.test`), 0, at(0));
	}
	const claimed = claimAll(queues);
	t.is(queues.inFlight, 40, 'half is left to new mail');
	queues.arrived(key('new.test'), at(0));
	t.deepEqual(
		claimAll(queues).map(permit => permit.queue.destination),
		['new.test'],
	);
	for (let site = 0; site < 100; site++) {
		queues.arrived(key(`new${site}.test`), at(0));
	}
	for (const permit of claimed) {
		settle(queues, permit, 5);
	}
	const next = claimAll(queues);
	const backlog = next.filter(permit => permit.rank === 'backlog');
	t.true(backlog.length >= 4 && backlog.length < next.length, `${backlog.length} of ${next.length}`);
});

test('sends new mail before the backlog of its own queue', t => {
	const queues = queuesOf();
	queues.scanned(key('a.test'), 0, at(0));
	queues.arrived(key('a.test'), at(0));
	queues.arrived(key('b.test'), at(0));
	t.deepEqual(
		permitsOf(queues).map(permit => [permit.queue.destination, permit.rank, permit.newestFirst]),
		[
			['b.test', 'fresh', false],
			['a.test', 'mixed', true],
		],
	);
});

test('looks up the destinations of each workspace in turn', t => {
	const queues = queuesOf();
	for (let n = 0; n < 1000; n++) {
		queues.arrived(key(`d${n}.test`, 'ws_big'), at(0));
	}
	queues.arrived(key('a.test', 'ws_small'), at(0));
	t.deepEqual(
		[queues.nextToFind(true), queues.nextToFind(true), queues.nextToFind(true)].map(queue => queue?.destination),
		['d0.test', 'a.test', 'd1.test'],
	);
});
