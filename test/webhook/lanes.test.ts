import test from 'ava';
import fc from 'fast-check';
import {createLanes, type Grant} from '../../src/webhook/lanes.ts';

const at = {now: 1000, monotonic: 0};

/** Lanes with these endpoints due. */
function lanesOf(perEndpoint: number, total: number, endpoints: readonly string[]) {
	const lanes = createLanes({perEndpoint, total});
	for (const endpoint of endpoints) {
		lanes.due(endpoint, 0, at.now);
	}
	return lanes;
}

const named = (grants: readonly Grant[]) => Object.fromEntries(grants.map(({lane, limit}) => [lane.endpointId, limit]));
const many = (n: number, prefix = 'e') => Array.from({length: n}, (_, index) => `${prefix}${index}`);

/** Everything that was granted is there, and more. */
function begin(lanes: ReturnType<typeof createLanes>, grants: readonly Grant[], monotonic = 0): void {
	for (const grant of grants) {
		lanes.claimed(grant, new Array(grant.limit).fill(monotonic), at.now, {...at, monotonic});
	}
}

test('an endpoint has so many attempts at once, one after a failure until it succeeds', t => {
	const lanes = lanesOf(4, 256, ['a']);
	begin(lanes, lanes.grants());
	t.is(lanes.inFlight, 4);
	t.deepEqual(lanes.grants(), []);
	for (const left of [3, 2, 1]) {
		lanes.ended('a', 0, false, 5, at.now);
		t.is(lanes.inFlight, left);
		t.deepEqual(lanes.grants(), [], 'more than one is still under way');
	}
	lanes.ended('a', 0, false, 5, at.now);
	t.deepEqual(named(lanes.grants()), {a: 1});
	const again = createLanes({perEndpoint: 4, total: 256});
	again.found('a', 0, true, at.now);
	t.deepEqual(named(again.grants()), {a: 1}, 'as the store says');
});

test('a success opens it again', t => {
	const lanes = createLanes({perEndpoint: 4, total: 256});
	lanes.found('a', 0, true, at.now);
	begin(lanes, lanes.grants());
	lanes.ended('a', 0, true, 5, at.now);
	t.deepEqual(named(lanes.grants()), {a: 4});
});

test('where room is scarce endpoints take turns, one attempt each', t => {
	const lanes = lanesOf(4, 4, many(5));
	const first = lanes.grants();
	t.deepEqual(named(first), {e0: 1, e1: 1, e2: 1});
	begin(lanes, first);
	lanes.ended('e0', 0, true, 5, at.now);
	lanes.ended('e1', 0, true, 5, at.now);
	t.deepEqual(Object.keys(named(lanes.grants())), ['e3', 'e4', 'e0'], 'those that had none go first');
});

test('endpoints that are slow, dead or new leave room for those that answer', t => {
	const lanes = lanesOf(4, 256, many(100));
	begin(lanes, lanes.grants());
	t.is(lanes.inFlight, 192);
	lanes.due('good', 0, at.now);
	lanes.advance({now: at.now, monotonic: 500});
	t.deepEqual(lanes.grants(), [], 'it is not known to answer');

	const known = lanesOf(4, 256, ['good']);
	begin(known, known.grants());
	for (let n = 0; n < 4; n++) {
		known.ended('good', 0, true, 20, at.now);
	}
	for (const endpoint of many(100, 'slow')) {
		known.due(endpoint, 0, at.now);
	}
	const grants = known.grants();
	begin(known, grants);
	const toSlow = grants.filter(({lane}) => lane.endpointId !== 'good');
	t.is(
		toSlow.reduce((sum, {limit}) => sum + limit, 0),
		192,
	);
	t.true(Object.hasOwn(named(known.grants()), 'good'), 'its turn does not wait for theirs');
});

test('an endpoint that takes long now is no longer one that answers', t => {
	const lanes = lanesOf(4, 4, ['good']);
	begin(lanes, lanes.grants());
	lanes.ended('good', 0, true, 20, at.now);
	begin(lanes, lanes.grants(), 100);
	lanes.ended('good', 0, true, 20, at.now);
	const before = lanes.grants();
	t.is(before.length, 1);
	begin(lanes, before, 200);
	lanes.ended('good', 0, true, 20, at.now);
	lanes.advance({now: at.now, monotonic: 1000});
	lanes.ended('good', 100, true, 900, at.now);
	lanes.advance({now: at.now, monotonic: 5000});
	t.deepEqual(
		lanes.grants().map(({limit}) => limit),
		[1],
		'three of four places are for such as it',
	);
});

test('what comes due while the store is asked is not forgotten', t => {
	const lanes = lanesOf(4, 256, ['a']);
	const [grant] = lanes.grants();
	lanes.due('a', at.now, at.now);
	lanes.claimed(grant as Grant, [], null, at);
	t.deepEqual(named(lanes.grants()), {a: 4});
});

test('what is due later comes due then; what has nothing to do is forgotten', t => {
	const lanes = createLanes({perEndpoint: 4, total: 256});
	lanes.due('a', 5000, at.now);
	lanes.advance({now: 4999, monotonic: 0});
	t.deepEqual(lanes.grants(), []);
	lanes.advance({now: 5000, monotonic: 0});
	const grants = lanes.grants();
	t.deepEqual(named(grants), {a: 4});
	lanes.claimed(grants[0] as Grant, [], null, {now: 5000, monotonic: 0});
	lanes.advance({now: 5000, monotonic: 600_001});
	lanes.found('a', 0, true, 5000);
	t.deepEqual(named(lanes.grants()), {a: 1}, 'what the store says of it counts again');
});

test('whatever happens, no more is under way than may be, and nothing that is due is left for ever', t => {
	const step = fc.oneof(
		fc.record({do: fc.constant('due' as const), endpoint: fc.nat(20)}),
		fc.record({do: fc.constant('end' as const), pick: fc.nat(1000), ok: fc.boolean(), ms: fc.constantFrom(5, 2000)}),
		fc.record({do: fc.constant('turn' as const), given: fc.nat(4)}),
		fc.record({do: fc.constant('time' as const), ms: fc.nat(3000)}),
	);
	fc.assert(
		fc.property(fc.array(step, {maxLength: 200}), fc.integer({min: 1, max: 12}), (steps, total) => {
			const perEndpoint = Math.min(4, total);
			const lanes = createLanes({perEndpoint, total});
			const underWay: Array<readonly [endpoint: string, begun: number]> = [];
			let monotonic = 0;
			const now = () => at.now + monotonic;
			const turn = (given: number) => {
				for (const grant of lanes.grants()) {
					t.true(grant.limit >= 1 && grant.limit <= perEndpoint);
					const begun = new Array(Math.min(given, grant.limit)).fill(monotonic);
					lanes.claimed(grant, begun, given > grant.limit ? now() : null, {now: now(), monotonic});
					underWay.push(...begun.map(time => [grant.lane.endpointId, time] as const));
				}
			};
			for (const one of steps) {
				if (one.do === 'due') {
					lanes.due(`e${one.endpoint}`, now(), now());
				} else if (one.do === 'end' && underWay.length > 0) {
					const [[endpoint, begun]] = underWay.splice(one.pick % underWay.length, 1) as [readonly [string, number]];
					lanes.ended(endpoint, begun, one.ok, one.ms, now());
				} else if (one.do === 'turn') {
					turn(one.given);
				} else if (one.do === 'time') {
					monotonic += one.ms;
					lanes.advance({now: now(), monotonic});
				}
				t.true(underWay.length <= total);
				t.is(lanes.inFlight, underWay.length);
			}
			for (const [endpoint, begun] of underWay.splice(0)) {
				lanes.ended(endpoint, begun, true, 5, now());
			}
			lanes.due('last', now(), now());
			let seen = false;
			for (let turns = 0; turns < 50 && !seen; turns++) {
				const grants = lanes.grants();
				seen = grants.some(({lane}) => lane.endpointId === 'last');
				for (const grant of grants) {
					lanes.claimed(grant, [], null, {now: now(), monotonic});
				}
			}
			t.true(seen);
		}),
		{numRuns: 300},
	);
});
