import test from 'ava';
import {laneText} from '../../src/mail/route.ts';
import type {Grant} from '../../src/queue/grants.ts';
import {routeTo} from '../helpers/routes.ts';
import {at, brought, claimAll, grantsOf, key, lanesOf, own, settle, shared, silent, well} from './on-lanes.ts';

test('a site gets no more than its window, another one still gets its own', t => {
	const lanes = lanesOf();
	lanes.arrived(key('dead.test'), at(0));
	const [grant, ...others] = grantsOf(lanes) as [Grant];
	t.deepEqual([grant.lane.destination, grant.limit, others.length], ['dead.test', 5, 0]);
	lanes.claimed(grant, brought(5), at(0));
	t.deepEqual(grantsOf(lanes), [], 'its window is full');
	lanes.arrived(key('well.test'), at(0));
	t.deepEqual(
		grantsOf(lanes).map(one => [one.lane.destination, one.limit]),
		[['well.test', 5]],
	);
});

test('behind one smarthost workspaces take turns, and the destinations of each', t => {
	const lanes = lanesOf();
	for (const name of ['a.test', 'b.test', 'c.test']) {
		lanes.arrived(key(name, 'ws_big'), at(0));
	}
	lanes.arrived(key('a.test', 'ws_small'), at(0));
	const order: string[] = [];
	for (let turn = 0; turn < 8; turn++) {
		const [grant] = grantsOf(lanes, shared()) as [Grant];
		order.push(laneText(grant.lane));
		lanes.claimed(grant, brought(grant.limit), at(0));
		settle(lanes, grant, grant.limit);
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

test('many sites never have more in flight than allowed in all', t => {
	const lanes = lanesOf({maxInFlight: 50});
	for (let site = 0; site < 20; site++) {
		lanes.arrived(key(`site${site}.test`), at(0));
	}
	const granted = grantsOf(lanes).reduce((sum, grant) => sum + grant.limit, 0);
	t.true(granted <= 50 && granted >= 45, String(granted));
});

test('a site with a large window gets its turns among many small ones that keep all room taken', t => {
	const lanes = lanesOf({maxInFlight: 256});
	const route = (name: string) => routeTo(name, name === 'large.test' ? {connections: 20, startConnections: 20} : {});
	const running: Grant[] = [];
	const claims = (turn: number) => {
		for (const grant of grantsOf(lanes, route, turn)) {
			lanes.claimed(grant, brought(grant.limit), at(turn));
			running.push(...new Array<Grant>(grant.limit).fill(grant));
		}
	};
	lanes.arrived(key('large.test'), at(0));
	for (let site = 0; site < 60; site++) {
		lanes.arrived(key(`small${site}.test`), at(0));
	}
	let large = 0;
	for (let turn = 0; turn < 20_000; turn++) {
		claims(turn);
		const grant = running.shift() as Grant;
		lanes.done(grant, well, at(turn));
		large += grant.lane.destination === 'large.test' && turn > 5000 ? 1 : 0;
	}
	t.true(large > 100, String(large));
});

test('a site whose connections are more than all that may be unproven is claimed for all the same', t => {
	for (const rank of ['fresh', 'backlog'] as const) {
		const lanes = lanesOf({maxInFlight: 64, maxUnproven: 1});
		if (rank === 'fresh') {
			lanes.arrived(key('relay.test'), at(0));
		} else {
			lanes.due(key('relay.test'), 0, at(0));
		}
		t.deepEqual(
			grantsOf(lanes, own({connections: 20, startConnections: 10})).map(({limit}) => limit),
			[1],
			rank,
		);
	}
});

test('what was tried before takes no more than its part where nobody knows who answers, and leaves room for new mail', t => {
	const lanes = lanesOf({maxInFlight: 200, maxUnproven: 40});
	for (let site = 0; site < 100; site++) {
		lanes.found(key(`dead${site}.test`), 0, at(0));
	}
	claimAll(lanes);
	t.is(lanes.inFlight, 20);
	lanes.arrived(key('well.test'), at(0));
	t.deepEqual(
		claimAll(lanes).map(grant => grant.lane.destination),
		['well.test'],
	);
	for (let site = 0; site < 100; site++) {
		lanes.arrived(key(`new${site}.test`), at(0));
	}
	claimAll(lanes);
	t.is(lanes.inFlight, 40);
});

test('a site that answers gets its whole window, one that stops answering loses it', t => {
	const lanes = lanesOf({maxInFlight: 200, maxUnproven: 40});
	lanes.arrived(key('well.test'), at(0));
	const [first] = grantsOf(lanes) as [Grant];
	t.is(first.limit, 5);
	lanes.claimed(first, brought(5), at(0));
	settle(lanes, first, 1);
	claimAll(lanes, own(), 20);
	t.is(lanes.inFlight, 20);
	settle(lanes, first, 1, silent);
	t.is(first.site.state.answers, false);
	t.deepEqual(claimAll(lanes), []);
	settle(lanes, first, 18, null);
	claimAll(lanes);
	t.is(lanes.inFlight, 2, 'a connection for each copy, half as many as before');
});

test('new mail goes before a backlog that is due, and does not stop it', t => {
	const lanes = lanesOf({maxInFlight: 80});
	for (let site = 0; site < 100; site++) {
		lanes.found(key(`site${site}.test`), 0, at(0));
	}
	const claimed = claimAll(lanes);
	t.is(lanes.inFlight, 40, 'half is left to new mail');
	lanes.arrived(key('new.test'), at(0));
	t.deepEqual(
		claimAll(lanes).map(grant => grant.lane.destination),
		['new.test'],
	);
	for (let site = 0; site < 100; site++) {
		lanes.arrived(key(`new${site}.test`), at(0));
	}
	for (const grant of claimed) {
		settle(lanes, grant, 5);
	}
	const next = claimAll(lanes);
	const backlog = next.filter(grant => grant.rank === 'backlog');
	t.true(backlog.length >= 4 && backlog.length < next.length, `${backlog.length} of ${next.length}`);
});

test('new mail goes before a backlog of its own lane', t => {
	const lanes = lanesOf();
	lanes.found(key('a.test'), 0, at(0));
	lanes.arrived(key('a.test'), at(0));
	lanes.arrived(key('b.test'), at(0));
	t.deepEqual(
		grantsOf(lanes).map(grant => [grant.lane.destination, grant.rank, grant.newestFirst]),
		[
			['b.test', 'fresh', false],
			['a.test', 'mixed', true],
		],
	);
});

test('the destinations of one workspace do not keep another one’s from being looked up', t => {
	const lanes = lanesOf();
	for (let n = 0; n < 1000; n++) {
		lanes.arrived(key(`d${n}.test`, 'ws_big'), at(0));
	}
	lanes.arrived(key('a.test', 'ws_small'), at(0));
	t.deepEqual(
		[lanes.nextToFind(true), lanes.nextToFind(true), lanes.nextToFind(true)].map(lane => lane?.destination),
		['d0.test', 'a.test', 'd1.test'],
	);
});
