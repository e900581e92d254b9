import test from 'ava';
import fc from 'fast-check';
import {EndpointQueues, type Permit} from '../../../src/resources/webhooks/endpoint-queues.ts';

const at = {now: 1000, monotonic: 0};

/** Queues with these endpoints due. */
function endpointsOf(perEndpoint: number, total: number, endpoints: readonly string[]) {
	const queues = new EndpointQueues<number>({perEndpoint, total});
	for (const endpoint of endpoints) {
		queues.due(endpoint, 0, at.now);
	}
	return queues;
}

/** The slots of each endpoint. */
const named = (permits: ReadonlyArray<Permit<number>>) =>
	Object.fromEntries(permits.map(({endpoint: queue, places}) => [queue.endpointId, places]));
const many = (n: number, prefix = 'e') => Array.from({length: n}, (_, index) => `${prefix}${index}`);

/** Claims enough deliveries to use all granted slots, and more. */
function begin(queues: EndpointQueues<number>, permits: ReadonlyArray<Permit<number>>, monotonic = 0): void {
	for (const permit of permits) {
		queues.claimed(permit, new Array(permit.places).fill(0), at.now, {...at, monotonic});
	}
}

const end = (queues: EndpointQueues<number>, endpoint: string, begun = 0, ms = 5) =>
	queues.ended(endpoint, begun, true, ms, at);
const fail = (queues: EndpointQueues<number>, endpoint: string) => queues.ended(endpoint, 0, false, 5, at);

test('limits concurrent attempts of an endpoint, to one from a failure until a success', t => {
	const queues = endpointsOf(4, 256, ['a']);
	begin(queues, queues.permits());
	t.is(queues.inFlight, 4);
	t.deepEqual(queues.permits(), []);
	for (const left of [3, 2, 1]) {
		fail(queues, 'a');
		t.is(queues.inFlight, left);
		t.deepEqual(queues.permits(), [], 'more than one is still under way');
	}
	fail(queues, 'a');
	t.deepEqual(named(queues.permits()), {a: 1});
	const again = new EndpointQueues<number>({perEndpoint: 4, total: 256});
	again.sync('a', 0, true, at.now);
	t.deepEqual(named(again.permits()), {a: 1}, 'as the store says');
});

test('a success restores the full limit', t => {
	const queues = new EndpointQueues<number>({perEndpoint: 4, total: 256});
	queues.sync('a', 0, true, at.now);
	begin(queues, queues.permits());
	end(queues, 'a');
	t.deepEqual(named(queues.permits()), {a: 4});
});

test('endpoints take turns with one attempt each while slots are scarce', t => {
	const queues = endpointsOf(4, 4, many(5));
	const first = queues.permits();
	t.deepEqual(named(first), {e0: 1, e1: 1, e2: 1});
	begin(queues, first);
	end(queues, 'e0');
	end(queues, 'e1');
	t.deepEqual(Object.keys(named(queues.permits())), ['e3', 'e4', 'e0'], 'those that had none go first');
});

test('slow, dead and new endpoints leave slots for those known to respond', t => {
	const queues = endpointsOf(4, 256, many(100));
	begin(queues, queues.permits());
	t.is(queues.inFlight, 192);
	queues.due('good', 0, at.now);
	queues.advance({now: at.now, monotonic: 500});
	t.deepEqual(queues.permits(), [], 'it is not known to answer');

	const known = endpointsOf(4, 256, ['good']);
	begin(known, known.permits());
	for (let n = 0; n < 4; n++) {
		end(known, 'good', 0, 20);
	}
	for (const endpoint of many(100, 'slow')) {
		known.due(endpoint, 0, at.now);
	}
	const permits = known.permits();
	begin(known, permits);
	const toSlow = permits.filter(({endpoint: queue}) => queue.endpointId !== 'good');
	t.is(
		toSlow.reduce((sum, {limit}) => sum + limit, 0),
		192,
	);
	t.true(Object.hasOwn(named(known.permits()), 'good'), 'its turn does not wait for theirs');
});

test('an endpoint that becomes slow no longer counts as responsive', t => {
	const queues = endpointsOf(4, 4, ['good']);
	begin(queues, queues.permits());
	end(queues, 'good', 0, 20);
	begin(queues, queues.permits(), 100);
	end(queues, 'good', 0, 20);
	const before = queues.permits();
	t.is(before.length, 1);
	begin(queues, before, 200);
	end(queues, 'good', 0, 20);
	queues.advance({now: at.now, monotonic: 1000});
	end(queues, 'good', 100, 900);
	queues.advance({now: at.now, monotonic: 5000});
	t.deepEqual(
		queues.permits().map(({places}) => places),
		[1],
		'three of four places are for such as it',
	);
});

test('does not forget what comes due during a query of the store', t => {
	const queues = endpointsOf(4, 256, ['a']);
	const [permit] = queues.permits();
	queues.due('a', at.now, at.now);
	queues.claimed(permit as Permit<number>, [], null, at);
	t.deepEqual(named(queues.permits()), {a: 4});
});

test('endpoints come due at their time, and idle ones are forgotten', t => {
	const queues = new EndpointQueues<number>({perEndpoint: 4, total: 256});
	queues.due('a', 5000, at.now);
	queues.advance({now: 4999, monotonic: 0});
	t.deepEqual(queues.permits(), []);
	queues.advance({now: 5000, monotonic: 0});
	const permits = queues.permits();
	t.deepEqual(named(permits), {a: 4});
	queues.claimed(permits[0] as Permit<number>, [], null, {now: 5000, monotonic: 0});
	queues.advance({now: 5000, monotonic: 600_001});
	queues.sync('a', 0, true, 5000);
	t.deepEqual(named(queues.permits()), {a: 1}, 'what the store says of it counts again');
});

test('prefetches for a responsive endpoint and starts the next as attempts end', t => {
	const queues = endpointsOf(2, 2, ['a']);
	begin(queues, queues.permits());
	end(queues, 'a');
	end(queues, 'a');
	const [permit] = queues.permits() as [Permit<number>];
	t.like(permit, {places: 2, limit: 4});
	t.deepEqual(queues.claimed(permit, [1, 2, 3, 4], at.now, at), [1, 2]);
	t.is(queues.inFlight, 2);
	t.deepEqual(queues.permits(), []);
	t.deepEqual(end(queues, 'a'), [3]);
	t.is(queues.inFlight, 2);
	const [more] = queues.permits() as [Permit<number>];
	t.like(more, {places: 0, limit: 1}, 'one more can be ahead');
	t.deepEqual(queues.claimed(more, [5], null, at), []);
	t.deepEqual([end(queues, 'a'), end(queues, 'a'), end(queues, 'a')], [[4], [5], []]);
	t.is(queues.inFlight, 1);
	t.deepEqual(queues.takeReturned(), []);
});

test('prefetches more per endpoint if there are few', t => {
	for (const [endpoints, limit] of [
		[1, 10],
		[64, 6],
		[100, 4],
	] as const) {
		const queues = endpointsOf(2, 256, many(endpoints));
		begin(queues, queues.permits());
		end(queues, 'e0');
		end(queues, 'e0');
		t.is(queues.permits().find(({endpoint: queue}) => queue.endpointId === 'e0')?.limit, limit);
	}
});

test('after a failure starts prefetched deliveries one at a time, in order', t => {
	const queues = endpointsOf(2, 256, ['a']);
	begin(queues, queues.permits());
	end(queues, 'a');
	queues.claimed(queues.permits()[0] as Permit<number>, [1, 2, 3], null, at);
	t.deepEqual(fail(queues, 'a'), [], 'one is under way');
	t.deepEqual([fail(queues, 'a'), end(queues, 'a'), end(queues, 'a')], [[2], [3], []]);
	t.deepEqual(queues.takeReturned(), []);
});

test('releases prefetched deliveries when their endpoint may have changed', t => {
	const queues = endpointsOf(2, 2, ['a']);
	begin(queues, queues.permits());
	end(queues, 'a');
	queues.claimed(queues.permits()[0] as Permit<number>, [1, 2, 3], null, at);
	queues.recall(at);
	t.deepEqual(queues.takeReturned(), [2, 3]);
	const [permit] = queues.permits() as [Permit<number>];
	t.is(permit.limit, 2);
	queues.recall(at);
	t.deepEqual(queues.claimed(permit, [2, 3], null, at), [], 'also what was being claimed');
	t.deepEqual(queues.takeReturned(), [2, 3]);
	const [again] = queues.permits() as [Permit<number>];
	t.is(again.limit, 2);
	queues.claimed(again, [2], null, at);
	queues.due('a', at.now, at.now);
	const [last] = queues.permits() as [Permit<number>];
	t.deepEqual([end(queues, 'a'), queues.inFlight], [[2], 2]);
	queues.recall(at);
	t.deepEqual(queues.claimed(last, [3], null, at), [], 'it has no place of its own');
	t.deepEqual(queues.takeReturned(), [3]);
});

test('frequent recalls do not prevent deliveries from starting', t => {
	const queues = endpointsOf(2, 256, ['a']);
	const begun: number[] = [];
	let first = 0;
	for (let turn = 0; turn < 20; turn++) {
		for (const permit of queues.permits()) {
			queues.recall(at);
			const items = Array.from({length: permit.limit}, (_, index) => first + index);
			const begin = queues.claimed(permit, items, at.now, at);
			begun.push(...begin);
			first += begin.length;
		}
		queues.recall(at);
		queues.takeReturned();
		for (const item of end(queues, 'a')) {
			t.fail(`${item} was recalled`);
		}
	}
	t.true(begun.length >= 10);
	t.deepEqual(begun, [...begun.keys()]);
});

test('does not reserve slots for prefetched deliveries while others wait for one', t => {
	const queues = endpointsOf(2, 4, ['a', 'b']);
	begin(queues, queues.permits());
	const underWay = ['a', 'a', 'b'];
	const turn = () => {
		for (const permit of queues.permits()) {
			// There is always more of a and b.
			const items = new Array(permit.endpoint.endpointId === 'c' ? 1 : permit.limit).fill(0);
			const begun = queues.claimed(permit, items, permit.endpoint.endpointId === 'c' ? null : at.now, at);
			underWay.push(...begun.map(() => permit.endpoint.endpointId));
		}
	};
	const endOne = () => {
		const endpoint = underWay.shift() as string;
		underWay.push(...end(queues, endpoint, 0, 500).map(() => endpoint));
		turn();
	};
	for (let n = 0; n < 10; n++) {
		endOne();
	}
	t.deepEqual(underWay.sort(), ['a', 'a', 'b', 'b'], 'all places are taken');
	queues.due('c', at.now, at.now);
	turn();
	for (let n = 0; n < 8 && !underWay.includes('c'); n++) {
		endOne();
	}
	t.true(underWay.includes('c'));
});

test('releases prefetched deliveries when slow endpoints use all their slots', t => {
	const names = ['a', 'b', 'c', 'd'];
	const queues = endpointsOf(1, 4, names);
	for (let round = 0; round < 2; round++) {
		begin(queues, queues.permits());
		for (const endpoint of names) {
			end(queues, endpoint);
		}
	}
	for (const permit of queues.permits()) {
		queues.claimed(permit, [1, 2], null, at);
	}
	t.is(queues.inFlight, 4);
	const late = {now: 3000, monotonic: 2000};
	queues.advance(late);
	const slow = (endpoint: string) => queues.ended(endpoint, 0, true, 2000, late);
	t.deepEqual(slow('a'), [], 'three of four places are for such as it');
	t.deepEqual(queues.takeReturned(), [2]);
	t.deepEqual(slow('b'), [2]);
	t.deepEqual(queues.takeReturned(), []);
	t.deepEqual(named(queues.permits()), {}, 'still they have all');
	queues.ended('b', 2000, true, 5, late);
	t.deepEqual(named(queues.permits()), {a: 1}, 'it is claimed again');
});

test('never exceeds its limits, loses nothing and starves nothing, whatever happens', t => {
	const step = fc.oneof(
		fc.record({do: fc.constant('due' as const), endpoint: fc.nat(20)}),
		fc.record({
			do: fc.constant('end' as const),
			pick: fc.nat(1000),
			ok: fc.boolean(),
			ms: fc.constantFrom(5, 5, 2000),
		}),
		fc.record({do: fc.constant('turn' as const), given: fc.nat(8), between: fc.boolean(), recall: fc.boolean()}),
		fc.record({do: fc.constant('time' as const), ms: fc.nat(3000)}),
		fc.record({do: fc.constant('recall' as const)}),
	);
	fc.assert(
		fc.property(fc.array(step, {maxLength: 200}), fc.integer({min: 1, max: 12}), (steps, total) => {
			const perEndpoint = Math.min(4, total);
			const queues = new EndpointQueues<string>({perEndpoint, total});
			const underWay: Array<readonly [endpoint: string, begun: number]> = [];
			/** Claimed deliveries that are neither started nor released. */
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
				for (const item of queues.takeReturned()) {
					t.true(waiting.includes(item));
					waiting.splice(waiting.indexOf(item), 1);
				}
			};
			const finish = (pick: number, ok: boolean, ms: number) => {
				const [[endpoint, since]] = underWay.splice(pick % underWay.length, 1) as [readonly [string, number]];
				begun(queues.ended(endpoint, since, ok, ms, moment()));
				giveBack();
			};
			const turn = (given: number, between: boolean, recall: boolean) => {
				const permits = queues.permits();
				if (between && underWay.length > 0) {
					finish(given, true, 5);
				}
				if (recall) {
					queues.recall(moment());
				}
				for (const permit of permits) {
					t.true(permit.limit >= 1 && permit.places <= perEndpoint && permit.limit <= 5 * perEndpoint);
					const n = Math.min(given, permit.limit);
					const items = Array.from({length: n}, () => `${permit.endpoint.endpointId} ${last++}`);
					waiting.push(...items);
					begun(queues.claimed(permit, items, given > permit.limit ? moment().now : null, moment()));
				}
				giveBack();
			};
			for (const one of steps) {
				if (one.do === 'due') {
					queues.due(`e${one.endpoint}`, moment().now, moment().now);
				} else if (one.do === 'end' && underWay.length > 0) {
					finish(one.pick, one.ok, one.ms);
				} else if (one.do === 'turn') {
					turn(one.given, one.between, one.recall);
				} else if (one.do === 'time') {
					monotonic += one.ms;
					queues.advance(moment());
					giveBack();
				} else if (one.do === 'recall') {
					queues.recall(moment());
					giveBack();
				}
				t.true(underWay.length <= total);
				t.true(waiting.length <= total);
				t.is(queues.inFlight, underWay.length);
			}
			while (underWay.length > 0) {
				finish(0, true, 5);
			}
			t.deepEqual(waiting, [], 'all that waited has begun, or was given back');
			queues.due('last', moment().now, moment().now);
			let seen = false;
			for (let turns = 0; turns < 50 && !seen; turns++) {
				const permits = queues.permits();
				seen = permits.some(({endpoint: queue}) => queue.endpointId === 'last');
				for (const permit of permits) {
					queues.claimed(permit, [], null, moment());
				}
			}
			t.true(seen);
		}),
		{numRuns: 1000},
	);
});
