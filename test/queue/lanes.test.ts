import test from 'ava';
import {createLanes, type Grant} from '../../src/queue/lanes.ts';

const own = (connections: number, window: number) => (destination: string) => ({
	name: destination,
	limits: {connections, window},
});
const shared = (window: number) => () => ({name: 'relay', limits: {connections: 20, window}});

test('a destination gets no more than its window, another one still gets its own', t => {
	const lanes = createLanes({siteOf: own(20, 20), maxInFlight: 1000, maxUnproven: 1000});
	lanes.due('dead.test', 0, 0);
	const [grant, ...others] = lanes.grants();
	t.deepEqual([grant?.lane.destination, grant?.limit, others.length], ['dead.test', 20, 0]);
	lanes.claimed(grant as NonNullable<typeof grant>, {count: 20, nextDue: null});
	t.deepEqual(lanes.grants(), [], 'its window is full');
	lanes.due('well.test', 0, 0);
	t.deepEqual(
		lanes.grants().map(one => [one.lane.destination, one.limit]),
		[['well.test', 20]],
	);
});

test('destinations behind one smarthost take turns', t => {
	const lanes = createLanes({siteOf: shared(8), maxInFlight: 8, maxUnproven: 8});
	for (const name of ['a.test', 'b.test', 'c.test']) {
		lanes.due(name, 0, 0);
	}
	const order: string[] = [];
	for (let turn = 0; turn < 6; turn++) {
		const [grant] = lanes.grants();
		if (!grant) {
			break;
		}
		order.push(grant.lane.destination);
		lanes.claimed(grant, {count: grant.limit, nextDue: null});
		for (let copy = 0; copy < grant.limit; copy++) {
			lanes.settled(grant.lane);
		}
	}
	t.deepEqual(order, ['a.test', 'b.test', 'c.test', 'a.test', 'b.test', 'c.test']);
});

test('many sites never have more in flight than allowed in all', t => {
	const lanes = createLanes({siteOf: own(20, 20), maxInFlight: 50, maxUnproven: 50});
	for (let site = 0; site < 10; site++) {
		lanes.due(`site${site}.test`, 0, 0);
	}
	const granted = lanes.grants().reduce((sum, grant) => sum + grant.limit, 0);
	t.true(granted <= 50 && granted >= 40, String(granted));
});

test('what is due later becomes ready at its time, the earliest first known wins', t => {
	const lanes = createLanes({siteOf: own(20, 20), maxInFlight: 100, maxUnproven: 100});
	lanes.due('a.test', 5000, 0);
	lanes.due('a.test', 9000, 0);
	lanes.advance(4999);
	t.is(lanes.grants().length, 0);
	lanes.advance(5000);
	t.is(lanes.grants().length, 1);
});

test('work that arrives while a claim is under way is claimed after it', t => {
	const lanes = createLanes({siteOf: own(20, 20), maxInFlight: 100, maxUnproven: 100});
	lanes.due('a.test', 0, 0);
	const [grant] = lanes.grants();
	lanes.due('a.test', 0, 0);
	t.is(lanes.grants().length, 0, 'one claim of a destination at a time');
	lanes.claimed(grant as NonNullable<typeof grant>, {count: 0, nextDue: null});
	t.is(lanes.grants().length, 1);
	t.is(lanes.inFlight, 20);
});

test('mail that arrives makes nobody forget what is due later', t => {
	const lanes = createLanes({siteOf: own(20, 20), maxInFlight: 100, maxUnproven: 100});
	lanes.due('a.test', 5000, 0);
	lanes.due('a.test', 0, 0);
	for (const grant of lanes.grants()) {
		lanes.claimed(grant, {count: 0, nextDue: null});
	}
	lanes.advance(5000);
	t.is(lanes.grants().length, 1);
});

test('after one copy came due the claim asks for the next, until all have had their turn', t => {
	const lanes = createLanes({siteOf: own(20, 20), maxInFlight: 100, maxUnproven: 100});
	lanes.due('a.test', 5000, 0);
	lanes.due('a.test', 9000, 0);
	lanes.advance(5000);
	const [first] = lanes.grants();
	t.true(first?.asksNext);
	lanes.claimed(first as NonNullable<typeof first>, {count: 1, nextDue: 9000});
	lanes.settled((first as NonNullable<typeof first>).lane);
	lanes.advance(9000);
	t.is(lanes.grants().length, 1);

	lanes.found('b.test', 0, 9000);
	t.true(lanes.grants()[0]?.asksNext, 'others may wait behind the first one found in the store');
	lanes.due('c.test', 9000, 9000);
	t.false(lanes.grants()[0]?.asksNext, 'nothing else is known of a destination that mail was just accepted for');
});

test('a full claim leaves the question for the next due copy to the claim after it', t => {
	const lanes = createLanes({siteOf: own(20, 20), maxInFlight: 100, maxUnproven: 100});
	lanes.found('a.test', 0, 0);
	const [full] = lanes.grants() as [Grant];
	lanes.claimed(full, {count: full.limit, nextDue: null});
	for (let copy = 0; copy < full.limit; copy++) {
		lanes.settled(full.lane);
	}
	t.true(lanes.grants()[0]?.asksNext);
});

test('the end of a slow copy makes nobody forget what came and was deferred meanwhile', t => {
	const lanes = createLanes({siteOf: own(20, 20), maxInFlight: 100, maxUnproven: 100});
	lanes.due('a.test', 0, 0);
	const [slow] = lanes.grants() as [Grant];
	lanes.claimed(slow, {count: 1, nextDue: null});
	lanes.due('a.test', 0, 0);
	const [none] = lanes.grants() as [Grant];
	lanes.claimed(none, {count: 0, nextDue: null});
	lanes.due('a.test', 5000, 0);
	lanes.settled(slow.lane);
	lanes.advance(5000);
	t.is(lanes.grants().length, 1);
	t.is(lanes.inFlight, 20);
});

test('a smarthost keeps its limits while one of its destinations waits', t => {
	const lanes = createLanes({siteOf: shared(8), maxInFlight: 100, maxUnproven: 100});
	lanes.due('later.test', 5000, 0);
	lanes.due('now.test', 0, 0);
	const [grant] = lanes.grants() as [Grant];
	lanes.claimed(grant, {count: 0, nextDue: null});
	lanes.due('more.test', 0, 0);
	lanes.advance(5000);
	t.is(
		lanes.grants().reduce((sum, one) => sum + one.limit, 0),
		8,
	);
});

const deadSites = (lanes: ReturnType<typeof createLanes>, due: 'due' | 'found') => {
	for (let site = 0; site < 100; site++) {
		lanes[due](`dead${site}.test`, 0, 0);
	}
};

const claimAll = (lanes: ReturnType<typeof createLanes>, count = 5) => {
	const claimed: Grant[] = [];
	for (let grants = lanes.grants(); grants.length > 0; grants = lanes.grants()) {
		for (const grant of grants) {
			lanes.claimed(grant, {count: Math.min(count, grant.limit), nextDue: null});
			claimed.push(grant);
		}
	}
	return claimed;
};

test('sites of which nobody knows whether they answer take no more than their part, and leave room for new ones', t => {
	const lanes = createLanes({siteOf: own(5, 20), maxInFlight: 200, maxUnproven: 40});
	deadSites(lanes, 'found');
	claimAll(lanes);
	t.is(lanes.inFlight, 20);
	lanes.due('well.test', 0, 0);
	t.deepEqual(
		claimAll(lanes).map(grant => grant.lane.destination),
		['well.test'],
	);
	deadSites(lanes, 'due');
	claimAll(lanes);
	t.true(lanes.inFlight <= 40);
});

test('a site that answers gets its whole window, one that stops answering loses it', t => {
	const lanes = createLanes({siteOf: own(5, 20), maxInFlight: 200, maxUnproven: 40});
	lanes.due('well.test', 0, 0);
	const [first] = lanes.grants() as [Grant];
	t.is(first.limit, 5);
	lanes.claimed(first, {count: 5, nextDue: null});
	lanes.settled(first.lane, true);
	deadSites(lanes, 'due');
	claimAll(lanes, 20);
	t.is(first.lane.inFlight, 20);
	t.is(lanes.inFlight, 20 + 40);
	lanes.settled(first.lane, false);
	t.is(first.lane.site.trust, 'doubtful');
	for (let copy = 0; copy < 19; copy++) {
		lanes.settled(first.lane);
	}
	claimAll(lanes);
	t.is(lanes.inFlight, 40);
});
