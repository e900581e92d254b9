import test from 'ava';
import fc from 'fast-check';
import {createLanes, type Grant} from '../../src/webhook/lanes.ts';

const at = {now: 1000, monotonic: 0};

/** Lanes with these endpoints due. */
function lanesOf(perEndpoint: number, total: number, endpoints: readonly string[]) {
	const lanes = createLanes<number>({perEndpoint, total});
	for (const endpoint of endpoints) {
		lanes.due(endpoint, 0, at.now);
	}
	return lanes;
}

type Lanes = ReturnType<typeof lanesOf>;

/** The places of each endpoint. */
const named = (grants: ReadonlyArray<Grant<number>>) =>
	Object.fromEntries(grants.map(({lane, places}) => [lane.endpointId, places]));
const many = (n: number, prefix = 'e') => Array.from({length: n}, (_, index) => `${prefix}${index}`);

/** What was granted is there, as far as its places go, and more. */
function begin(lanes: Lanes, grants: ReadonlyArray<Grant<number>>, monotonic = 0): void {
	for (const grant of grants) {
		lanes.claimed(grant, new Array(grant.places).fill(0), at.now, {...at, monotonic});
	}
}

const end = (lanes: Lanes, endpoint: string, begun = 0, ms = 5) => lanes.ended(endpoint, begun, true, ms, at);
const fail = (lanes: Lanes, endpoint: string) => lanes.ended(endpoint, 0, false, 5, at);

test('an endpoint has so many attempts at once, one after a failure until it succeeds', t => {
	const lanes = lanesOf(4, 256, ['a']);
	begin(lanes, lanes.grants());
	t.is(lanes.inFlight, 4);
	t.deepEqual(lanes.grants(), []);
	for (const left of [3, 2, 1]) {
		fail(lanes, 'a');
		t.is(lanes.inFlight, left);
		t.deepEqual(lanes.grants(), [], 'more than one is still under way');
	}
	fail(lanes, 'a');
	t.deepEqual(named(lanes.grants()), {a: 1});
	const again = createLanes<number>({perEndpoint: 4, total: 256});
	again.found('a', 0, true, at.now);
	t.deepEqual(named(again.grants()), {a: 1}, 'as the store says');
});

test('a success opens it again', t => {
	const lanes = createLanes<number>({perEndpoint: 4, total: 256});
	lanes.found('a', 0, true, at.now);
	begin(lanes, lanes.grants());
	end(lanes, 'a');
	t.deepEqual(named(lanes.grants()), {a: 4});
});

test('where room is scarce endpoints take turns, one attempt each', t => {
	const lanes = lanesOf(4, 4, many(5));
	const first = lanes.grants();
	t.deepEqual(named(first), {e0: 1, e1: 1, e2: 1});
	begin(lanes, first);
	end(lanes, 'e0');
	end(lanes, 'e1');
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
		end(known, 'good', 0, 20);
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
	end(lanes, 'good', 0, 20);
	begin(lanes, lanes.grants(), 100);
	end(lanes, 'good', 0, 20);
	const before = lanes.grants();
	t.is(before.length, 1);
	begin(lanes, before, 200);
	end(lanes, 'good', 0, 20);
	lanes.advance({now: at.now, monotonic: 1000});
	end(lanes, 'good', 100, 900);
	lanes.advance({now: at.now, monotonic: 5000});
	t.deepEqual(
		lanes.grants().map(({places}) => places),
		[1],
		'three of four places are for such as it',
	);
});

test('what comes due while the store is asked is not forgotten', t => {
	const lanes = lanesOf(4, 256, ['a']);
	const [grant] = lanes.grants();
	lanes.due('a', at.now, at.now);
	lanes.claimed(grant as Grant<number>, [], null, at);
	t.deepEqual(named(lanes.grants()), {a: 4});
});

test('what is due later comes due then; what has nothing to do is forgotten', t => {
	const lanes = createLanes<number>({perEndpoint: 4, total: 256});
	lanes.due('a', 5000, at.now);
	lanes.advance({now: 4999, monotonic: 0});
	t.deepEqual(lanes.grants(), []);
	lanes.advance({now: 5000, monotonic: 0});
	const grants = lanes.grants();
	t.deepEqual(named(grants), {a: 4});
	lanes.claimed(grants[0] as Grant<number>, [], null, {now: 5000, monotonic: 0});
	lanes.advance({now: 5000, monotonic: 600_001});
	lanes.found('a', 0, true, 5000);
	t.deepEqual(named(lanes.grants()), {a: 1}, 'what the store says of it counts again');
});

test('an endpoint that answers has its next ones in memory: they begin as attempts end', t => {
	const lanes = lanesOf(2, 2, ['a']);
	begin(lanes, lanes.grants());
	end(lanes, 'a');
	end(lanes, 'a');
	const [grant] = lanes.grants() as [Grant<number>];
	t.like(grant, {places: 2, limit: 4});
	t.deepEqual(lanes.claimed(grant, [1, 2, 3, 4], at.now, at), [1, 2]);
	t.is(lanes.inFlight, 2);
	t.deepEqual(lanes.grants(), []);
	t.deepEqual(end(lanes, 'a'), [3]);
	t.is(lanes.inFlight, 2);
	const [more] = lanes.grants() as [Grant<number>];
	t.like(more, {places: 0, limit: 1}, 'one more can be ahead');
	t.deepEqual(lanes.claimed(more, [5], null, at), []);
	t.deepEqual([end(lanes, 'a'), end(lanes, 'a'), end(lanes, 'a')], [[4], [5], []]);
	t.is(lanes.inFlight, 1);
	t.deepEqual(lanes.takeReturned(), []);
});

test('of few endpoints each may have more in memory', t => {
	for (const [endpoints, limit] of [
		[1, 10],
		[64, 6],
		[100, 4],
	] as const) {
		const lanes = lanesOf(2, 256, many(endpoints));
		begin(lanes, lanes.grants());
		end(lanes, 'e0');
		end(lanes, 'e0');
		t.is(lanes.grants().find(({lane}) => lane.endpointId === 'e0')?.limit, limit);
	}
});

test('after a failure what waits in memory begins one at a time, in order', t => {
	const lanes = lanesOf(2, 256, ['a']);
	begin(lanes, lanes.grants());
	end(lanes, 'a');
	lanes.claimed(lanes.grants()[0] as Grant<number>, [1, 2, 3], null, at);
	t.deepEqual(fail(lanes, 'a'), [], 'one is under way');
	t.deepEqual([fail(lanes, 'a'), end(lanes, 'a'), end(lanes, 'a')], [[2], [3], []]);
	t.deepEqual(lanes.takeReturned(), []);
});

test('what waits in memory is given back when its endpoint may have changed', t => {
	const lanes = lanesOf(2, 2, ['a']);
	begin(lanes, lanes.grants());
	end(lanes, 'a');
	lanes.claimed(lanes.grants()[0] as Grant<number>, [1, 2, 3], null, at);
	lanes.recall(at);
	t.deepEqual(lanes.takeReturned(), [2, 3]);
	const [grant] = lanes.grants() as [Grant<number>];
	t.is(grant.limit, 2);
	lanes.recall(at);
	t.deepEqual(lanes.claimed(grant, [2, 3], null, at), [], 'also what was being claimed');
	t.deepEqual(lanes.takeReturned(), [2, 3]);
	const [again] = lanes.grants() as [Grant<number>];
	t.is(again.limit, 2);
	lanes.claimed(again, [2], null, at);
	lanes.due('a', at.now, at.now);
	const [last] = lanes.grants() as [Grant<number>];
	t.deepEqual([end(lanes, 'a'), lanes.inFlight], [[2], 2]);
	lanes.recall(at);
	t.deepEqual(lanes.claimed(last, [3], null, at), [], 'it has no place of its own');
	t.deepEqual(lanes.takeReturned(), [3]);
});

test('recalls, however often, do not keep anything from beginning', t => {
	const lanes = lanesOf(2, 256, ['a']);
	const begun: number[] = [];
	let first = 0;
	for (let turn = 0; turn < 20; turn++) {
		for (const grant of lanes.grants()) {
			lanes.recall(at);
			const items = Array.from({length: grant.limit}, (_, index) => first + index);
			const begin = lanes.claimed(grant, items, at.now, at);
			begun.push(...begin);
			first += begin.length;
		}
		lanes.recall(at);
		lanes.takeReturned();
		for (const item of end(lanes, 'a')) {
			t.fail(`${item} was recalled`);
		}
	}
	t.true(begun.length >= 10);
	t.deepEqual(begun, [...begun.keys()]);
});

test('where others wait for a place, nobody keeps one for what waits in memory', t => {
	const lanes = lanesOf(2, 4, ['a', 'b']);
	begin(lanes, lanes.grants());
	const underWay = ['a', 'a', 'b'];
	const turn = () => {
		for (const grant of lanes.grants()) {
			// There is always more of a and b.
			const items = new Array(grant.lane.endpointId === 'c' ? 1 : grant.limit).fill(0);
			const begun = lanes.claimed(grant, items, grant.lane.endpointId === 'c' ? null : at.now, at);
			underWay.push(...begun.map(() => grant.lane.endpointId));
		}
	};
	const endOne = () => {
		const endpoint = underWay.shift() as string;
		underWay.push(...end(lanes, endpoint, 0, 500).map(() => endpoint));
		turn();
	};
	for (let n = 0; n < 10; n++) {
		endOne();
	}
	t.deepEqual(underWay.sort(), ['a', 'a', 'b', 'b'], 'all places are taken');
	lanes.due('c', at.now, at.now);
	turn();
	for (let n = 0; n < 8 && !underWay.includes('c'); n++) {
		endOne();
	}
	t.true(underWay.includes('c'));
});

test('what waits in memory goes back where slow endpoints have all that they may', t => {
	const names = ['a', 'b', 'c', 'd'];
	const lanes = lanesOf(1, 4, names);
	for (let round = 0; round < 2; round++) {
		begin(lanes, lanes.grants());
		for (const endpoint of names) {
			end(lanes, endpoint);
		}
	}
	for (const grant of lanes.grants()) {
		lanes.claimed(grant, [1, 2], null, at);
	}
	t.is(lanes.inFlight, 4);
	const late = {now: 3000, monotonic: 2000};
	lanes.advance(late);
	const slow = (endpoint: string) => lanes.ended(endpoint, 0, true, 2000, late);
	t.deepEqual(slow('a'), [], 'three of four places are for such as it');
	t.deepEqual(lanes.takeReturned(), [2]);
	t.deepEqual(slow('b'), [2]);
	t.deepEqual(lanes.takeReturned(), []);
	t.deepEqual(named(lanes.grants()), {}, 'still they have all');
	lanes.ended('b', 2000, true, 5, late);
	t.deepEqual(named(lanes.grants()), {a: 1}, 'it is claimed again');
});

test('whatever happens, no more is under way than may be, nothing is lost, and nothing that is due is left for ever', t => {
	const step = fc.oneof(
		fc.record({do: fc.constant('due' as const), endpoint: fc.nat(20)}),
		fc.record({do: fc.constant('end' as const), pick: fc.nat(1000), ok: fc.boolean(), ms: fc.constantFrom(5, 5, 2000)}),
		fc.record({do: fc.constant('turn' as const), given: fc.nat(8), between: fc.boolean(), recall: fc.boolean()}),
		fc.record({do: fc.constant('time' as const), ms: fc.nat(3000)}),
		fc.record({do: fc.constant('recall' as const)}),
	);
	fc.assert(
		fc.property(fc.array(step, {maxLength: 200}), fc.integer({min: 1, max: 12}), (steps, total) => {
			const perEndpoint = Math.min(4, total);
			const lanes = createLanes<string>({perEndpoint, total});
			const underWay: Array<readonly [endpoint: string, begun: number]> = [];
			/** Claimed, and neither begun nor given back. */
			const waiting: string[] = [];
			let monotonic = 0;
			let last = 0;
			const moment = () => ({now: at.now + monotonic, monotonic});
			const begun = (items: readonly string[]) => {
				for (const item of items) {
					const [endpoint = ''] = item.split(' ');
					t.is(item, waiting.find(one => one.startsWith(`${endpoint} `)) ?? '', 'in order');
					waiting.splice(waiting.indexOf(item), 1);
					underWay.push([endpoint, monotonic]);
				}
			};
			const giveBack = () => {
				for (const item of lanes.takeReturned()) {
					t.true(waiting.includes(item));
					waiting.splice(waiting.indexOf(item), 1);
				}
			};
			const finish = (pick: number, ok: boolean, ms: number) => {
				const [[endpoint, since]] = underWay.splice(pick % underWay.length, 1) as [readonly [string, number]];
				begun(lanes.ended(endpoint, since, ok, ms, moment()));
				giveBack();
			};
			const turn = (given: number, between: boolean, recall: boolean) => {
				const grants = lanes.grants();
				if (between && underWay.length > 0) {
					finish(given, true, 5);
				}
				if (recall) {
					lanes.recall(moment());
				}
				for (const grant of grants) {
					t.true(grant.limit >= 1 && grant.places <= perEndpoint && grant.limit <= 5 * perEndpoint);
					const n = Math.min(given, grant.limit);
					const items = Array.from({length: n}, () => `${grant.lane.endpointId} ${last++}`);
					waiting.push(...items);
					begun(lanes.claimed(grant, items, given > grant.limit ? moment().now : null, moment()));
				}
				giveBack();
			};
			for (const one of steps) {
				if (one.do === 'due') {
					lanes.due(`e${one.endpoint}`, moment().now, moment().now);
				} else if (one.do === 'end' && underWay.length > 0) {
					finish(one.pick, one.ok, one.ms);
				} else if (one.do === 'turn') {
					turn(one.given, one.between, one.recall);
				} else if (one.do === 'time') {
					monotonic += one.ms;
					lanes.advance(moment());
					giveBack();
				} else if (one.do === 'recall') {
					lanes.recall(moment());
					giveBack();
				}
				t.true(underWay.length <= total);
				t.true(waiting.length <= total);
				t.is(lanes.inFlight, underWay.length);
			}
			while (underWay.length > 0) {
				finish(0, true, 5);
			}
			t.deepEqual(waiting, [], 'all that waited has begun, or was given back');
			lanes.due('last', moment().now, moment().now);
			let seen = false;
			for (let turns = 0; turns < 50 && !seen; turns++) {
				const grants = lanes.grants();
				seen = grants.some(({lane}) => lane.endpointId === 'last');
				for (const grant of grants) {
					lanes.claimed(grant, [], null, moment());
				}
			}
			t.true(seen);
		}),
		{numRuns: 1000},
	);
});
