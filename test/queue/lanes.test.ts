import test from 'ava';
import type {SavedSite} from '../../src/mail/saved-site.ts';
import type {Pace, Way} from '../../src/mail/way.ts';
import {laneText} from '../../src/mail/way.ts';
import type {SiteEnd} from '../../src/pace/site.ts';
import type {Grant} from '../../src/queue/grant.ts';
import {createLanes, type Lanes, type LanesOptions} from '../../src/queue/lanes.ts';
import {wayTo} from '../helpers/ways.ts';

const minute = 60_000;
const at = (ms: number) => ({now: ms, monotonic: ms});
const key = (destination: string, workspaceId = 'ws_1') => ({destination, workspaceId});
const well: SiteEnd = {kind: 'answered', spoke: true, replies: [], reason: ''};
const silent: SiteEnd = {kind: 'failed', spoke: false, replies: [], reason: 'connect ETIMEDOUT'};

const lanesOf = (more: Partial<LanesOptions> = {}) =>
	createLanes({
		maxInFlight: 1000,
		maxUnproven: 1000,
		longestWait: () => 240 * minute,
		remembered: () => undefined,
		onSite: () => undefined,
		...more,
	});

/** A site of its own for every destination. */
const own =
	(pace: Partial<Pace> = {}) =>
	(destination: string) =>
		wayTo(destination, pace);
const shared = (pace: Partial<Pace> = {}) => {
	const way = wayTo('relay', pace);
	return () => way;
};

function place(lanes: Lanes, way: (destination: string) => Way, now = 0): void {
	for (let lane = lanes.nextToFind(true); lane; lane = lanes.nextToFind(true)) {
		lanes.placed(lane, way(lane.destination), at(now));
	}
}

function grantsOf(lanes: Lanes, way: (destination: string) => Way = own(), now = 0): Grant[] {
	place(lanes, way, now);
	return lanes.grants(at(now));
}

/** Claims `count` copies of each grant until there are no more grants. */
function claimAll(lanes: Lanes, way: (destination: string) => Way = own(), count = 5, now = 0): Grant[] {
	const claimed: Grant[] = [];
	for (let grants = grantsOf(lanes, way, now); grants.length > 0; grants = grantsOf(lanes, way, now)) {
		for (const grant of grants) {
			lanes.claimed(grant, {count: Math.min(count, grant.limit), nextDue: null, warmedUp: null}, at(now));
			claimed.push(grant);
		}
	}
	return claimed;
}

const brought = (count: number, nextDue: number | null = null) => ({count, nextDue, warmedUp: null});

function settle(lanes: Lanes, grant: Grant, copies: number, end: SiteEnd | null = well, now = 0): void {
	for (let copy = 0; copy < copies; copy++) {
		lanes.settled(grant, end, at(now));
	}
}

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
	const way = (name: string) => wayTo(name, name === 'large.test' ? {connections: 20, startConnections: 20} : {});
	const running: Grant[] = [];
	const claims = (turn: number) => {
		for (const grant of grantsOf(lanes, way, turn)) {
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
		lanes.settled(grant, well, at(turn));
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

test('a suspended site is left alone, then probed by one copy, whose success ends it', t => {
	const lanes = lanesOf();
	const way = own({failures: 3});
	lanes.found(key('dead.test'), 0, at(0));
	const [grant] = grantsOf(lanes, way) as [Grant];
	lanes.claimed(grant, brought(5), at(0));
	settle(lanes, grant, 5, silent);
	t.deepEqual(grantsOf(lanes, way), []);
	t.is(lanes.lend(grant, at(minute - 1)), null, 'what was claimed before is not tried now');

	lanes.advance(at(minute));
	const [probe, ...others] = grantsOf(lanes, way, minute) as [Grant];
	t.deepEqual([probe.limit, others.length], [1, 0]);
	lanes.claimed(probe, brought(1), at(minute));
	t.deepEqual(grantsOf(lanes, way, minute), []);
	settle(lanes, probe, 1, silent, minute);
	lanes.advance(at(2 * minute));
	t.deepEqual(grantsOf(lanes, way, 2 * minute), [], 'two minutes the second time');

	lanes.advance(at(3 * minute));
	const [second] = grantsOf(lanes, way, 3 * minute) as [Grant];
	lanes.claimed(second, brought(1), at(3 * minute));
	settle(lanes, second, 1, well, 3 * minute);
	t.is(grantsOf(lanes, way, 3 * minute)[0]?.limit, 20);
});

test('a site that an operator resumes is probed at once, and left alone again if it fails', t => {
	const lanes = lanesOf();
	const way = own({failures: 3});
	lanes.found(key('dead.test'), 0, at(0));
	const [grant] = grantsOf(lanes, way) as [Grant];
	lanes.claimed(grant, brought(5), at(0));
	settle(lanes, grant, 5, silent);
	lanes.probe(['other.test'], at(1000));
	t.deepEqual(grantsOf(lanes, way, 1000), []);
	lanes.probe([grant.site.name], at(1000));
	const [probe, ...others] = grantsOf(lanes, way, 1000) as [Grant];
	t.deepEqual([probe.limit, others.length], [1, 0]);
	lanes.claimed(probe, brought(1), at(1000));
	settle(lanes, probe, 1, silent, 1000);
	lanes.advance(at(1000 + 2 * minute - 1));
	t.deepEqual(grantsOf(lanes, way, 1000 + 2 * minute - 1), []);
	lanes.advance(at(1000 + 2 * minute));
	t.is(grantsOf(lanes, way, 1000 + 2 * minute)[0]?.limit, 1);
});

test('mail for a destination that an operator suspended waits until it is resumed', t => {
	const lanes = lanesOf();
	lanes.suspend(new Set(['a.test']), at(0));
	lanes.arrived(key('a.test'), at(0));
	lanes.arrived(key('b.test'), at(0));
	t.deepEqual(
		claimAll(lanes, own(), 1).map(grant => grant.lane.destination),
		['b.test'],
	);
	t.deepEqual(
		[...lanes.waiting(at(0))].map(lane => lane.state),
		['suspended'],
	);
	lanes.suspend(new Set(), at(0));
	t.deepEqual(
		claimAll(lanes, own(), 1).map(grant => grant.lane.destination),
		['a.test'],
	);
});

test('no more mails go than the rate allows, and none is held back for ever', t => {
	const lanes = lanesOf();
	const way = own({perMinute: 60});
	lanes.found(key('slow.test'), 0, at(0));
	const times: number[] = [];
	for (let now = 0; now < 3 * minute; now += 100) {
		lanes.advance(at(now));
		for (const grant of grantsOf(lanes, way, now)) {
			lanes.claimed(grant, brought(grant.limit), at(now));
			settle(lanes, grant, grant.limit, well, now);
			times.push(...new Array(grant.limit).fill(now));
		}
	}
	const inMinute = times.map(from => times.filter(time => time >= from && time < from + minute).length);
	t.true(Math.max(...inMinute) <= 60, String(Math.max(...inMinute)));
	t.true(times.length > 170, String(times.length));
});

test('what a new source may not send today goes another way, or waits for tomorrow', t => {
	const overflow = wayTo('relay');
	const warm = (more: Way['warmUp']) => ({...wayTo('mx.test'), warmUp: more});
	const limited = {source: '192.0.2.1', group: 'big', perDay: 3};
	const noon = 12 * 60 * minute;
	for (const elsewhere of [overflow, null]) {
		const lanes = lanesOf();
		const way = () => warm({...limited, overflow: elsewhere});
		lanes.found(key('a.test'), 0, at(noon));
		const [first] = grantsOf(lanes, way, noon) as [Grant];
		t.deepEqual([first.site.name, first.limit], ['mx.test', 3]);
		t.like(first.warmUp, {source: '192.0.2.1', group: 'big', day: '1970-01-01', perDay: 3});
		lanes.claimed(first, {count: 3, nextDue: null, warmedUp: 3}, at(noon));
		settle(lanes, first, 3, well, noon);
		t.deepEqual(grantsOf(lanes, way, noon), [], 'it changes its place');
		const [second] = grantsOf(lanes, way, noon);
		if (elsewhere) {
			t.deepEqual([second?.site.name, second?.warmUp], ['relay', null]);
			continue;
		}
		t.is(second, undefined);
		t.deepEqual(
			[...lanes.waiting(at(noon))].map(lane => lane.state),
			['spent'],
		);
		lanes.advance(at(24 * 60 * minute));
		t.is(grantsOf(lanes, way, 24 * 60 * minute)[0]?.site.name, 'mx.test');
	}
});

test('mail moves to another site when its hosts change', t => {
	const lanes = lanesOf();
	lanes.arrived(key('a.test'), at(0));
	const [first] = grantsOf(lanes) as [Grant];
	lanes.claimed(first, brought(5), at(0));
	settle(lanes, first, 1, well, 2 * minute);
	const [later] = grantsOf(lanes, () => wayTo('elsewhere.test'), 2 * minute) as [Grant];
	t.is(later.site.name, 'a.test', 'a lane goes on while its way is found anew');
	lanes.claimed(later, brought(later.limit), at(2 * minute));
	t.is(grantsOf(lanes, () => wayTo('elsewhere.test'), 2 * minute)[0]?.site.name, 'elsewhere.test');
	settle(lanes, later, 2);
	t.is(first.site.inFlight.fresh, later.limit + 5 - 3);
});

test('a way that leads elsewhere holds at once, also for what waits at a site that is left alone', t => {
	const lanes = lanesOf();
	lanes.arrived(key('a.test'), at(0));
	const [grant] = grantsOf(lanes, () => wayTo('dead.test', {failures: 1})) as [Grant];
	lanes.claimed(grant, brought(1), at(0));
	settle(lanes, grant, 1, silent);
	lanes.due(key('a.test'), 0, at(0));
	t.deepEqual(
		grantsOf(lanes, () => wayTo('dead.test', {failures: 1})),
		[],
		'its site is left alone',
	);
	t.deepEqual(
		grantsOf(lanes, () => wayTo('relay')),
		[],
		'its way is known',
	);
	lanes.renew(at(0));
	t.deepEqual(
		grantsOf(lanes, () => wayTo('relay')).map(({site}) => site.name),
		['relay'],
	);
});

test('what a new source may not send today goes on when its way gets an overflow', t => {
	const lanes = lanesOf();
	const warmUp = {source: '192.0.2.1', group: 'default', perDay: 0, overflow: null};
	lanes.arrived(key('a.test'), at(0));
	t.deepEqual(
		grantsOf(lanes, () => ({...wayTo('a.test'), warmUp})),
		[],
	);
	lanes.renew(at(0));
	const grants = grantsOf(lanes, () => ({...wayTo('a.test'), warmUp: {...warmUp, overflow: wayTo('relay')}}));
	t.deepEqual(
		grants.map(({site}) => site.name),
		['relay'],
	);
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

test('a site that is left alone stays so, however many others had mail since', t => {
	const lanes = lanesOf();
	const once = (name: string, end: SiteEnd, now: number) => {
		lanes.arrived(key(name), at(now));
		for (const grant of grantsOf(lanes, own({failures: 1}), now)) {
			lanes.claimed(grant, brought(1), at(now));
			lanes.settled(grant, end, at(now));
		}
	};
	once('dead.test', silent, 0);
	for (let n = 0; n <= 10_000; n++) {
		once(`site${n}.test`, well, 1);
	}
	lanes.arrived(key('dead.test'), at(2));
	t.deepEqual(grantsOf(lanes, own({failures: 1}), 2), []);
});

test('a site that an operator resumes before any of its mail is due is probed when it is', t => {
	const saved: SavedSite = {
		...{suspendedUntil: 60 * minute, reason: 'no', step: 6, window: 1},
		waitsFor: 'suspension',
		...{slowUntil: null, slowPerMinute: null, slowConnections: null, mailsPerSession: null},
	};
	const lanes = lanesOf({remembered: () => saved});
	lanes.probe(['a.test'], at(0));
	lanes.arrived(key('a.test'), at(minute));
	lanes.arrived(key('b.test'), at(minute));
	t.deepEqual(
		grantsOf(lanes, own(), minute).map(({lane, limit}) => [lane.destination, limit]),
		[['a.test', 1]],
	);
});

test('lanes whose mail is due later wait too while their site is left alone', t => {
	const lanes = lanesOf();
	const way = () => wayTo('mx.test', {failures: 2, startConnections: 4});
	const waiting = (now: number) => [...lanes.waiting(at(now))].map(lane => lane.destination).sort();
	const fail = (destination: string, now: number) => {
		lanes.arrived(key(destination), at(now));
		for (const grant of grantsOf(lanes, way, now)) {
			lanes.claimed(grant, brought(1), at(now));
			lanes.due(grant.lane, now + 60 * minute, at(now));
			lanes.settled(grant, silent, at(now));
		}
	};
	fail('a.test', 0);
	t.deepEqual(waiting(0), []);
	fail('b.test', 1000);
	t.deepEqual(waiting(1000), ['a.test', 'b.test'], 'also what rested before the site was left alone');
	t.deepEqual(waiting(1000 + minute), [], 'one copy may try it now');

	fail('c.test', 1000 + minute);
	t.deepEqual(waiting(1000 + minute), ['a.test', 'b.test', 'c.test']);
	lanes.arrived(key('a.test'), at(1000 + minute));
	t.deepEqual(waiting(1000 + minute), ['a.test', 'b.test', 'c.test'], 'each once');
	lanes.renew(at(1000 + minute));
	t.deepEqual(waiting(1000 + minute), ['a.test', 'c.test'], 'the others may go elsewhere');
});
