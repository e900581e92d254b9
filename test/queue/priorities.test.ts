import test from 'ava';
import fc from 'fast-check';
import {type Priority, priorities} from '../../src/mail/message.ts';
import type {Pace} from '../../src/mail/route.ts';
import {type ClaimPermit, travelTerms} from '../../src/queue/claim-permit.ts';
import type {DestinationQueues} from '../../src/queue/destination-queues.ts';
import {at, brought, own, permitsOf, queuesOf, settle, shared, well} from './on-queues.ts';

const queueFor = (priority: Priority, workspaceId = 'ws_1') => ({destination: 'a.test', workspaceId, priority});

/** A destination with mail of several priorities, and how many wait, were granted and are in progress. */
class Waiting {
	readonly queues: DestinationQueues;
	readonly waits: Record<Priority, number> = {high: 0, normal: 0, low: 0};
	readonly granted: Record<Priority, number> = {high: 0, normal: 0, low: 0};
	readonly running: ClaimPermit[] = [];
	now = 0;
	readonly #pace: Partial<Pace>;

	constructor(pace: Partial<Pace> = {}) {
		this.queues = queuesOf({maxInFlight: 500});
		this.#pace = pace;
	}

	add(priority: Priority, n: number): void {
		this.waits[priority] += n;
		if (n > 0) {
			this.queues.arrived(queueFor(priority), at(this.now));
		}
	}

	/** Claims all that may be claimed now; returns the priorities in order. */
	claim(): Priority[] {
		const order: Priority[] = [];
		for (const permit of permitsOf(this.queues, shared(this.#pace), this.now)) {
			const {priority} = permit.queue;
			const count = Math.min(permit.limit, this.waits[priority]);
			this.waits[priority] -= count;
			this.granted[priority] += count;
			order.push(...new Array<Priority>(count).fill(priority));
			this.running.push(...new Array<ClaimPermit>(count).fill(permit));
			this.queues.claimed(permit, brought(count), at(this.now));
		}
		return order;
	}

	/** Delivers the oldest message in progress. */
	end(): void {
		const permit = this.running.shift();
		if (permit) {
			settle(this.queues, permit, 1, well, this.now);
		}
	}
}

test('claims a sign-in code at once while 100,000 newsletters wait', t => {
	const waiting = new Waiting({connections: 5, startConnections: 2});
	waiting.add('low', 100_000);
	for (let turn = 0; turn < 500; turn++) {
		waiting.claim();
		waiting.end();
	}
	waiting.claim();
	waiting.add('high', 1);
	t.is(waiting.claim()[0], 'high', 'though all that its site may have in flight is taken');
	const [permit] = waiting.running.slice(-1) as [ClaimPermit];
	t.deepEqual(travelTerms(permit, at(0))?.precedence, {isHigh: true, leaves: 0});
	const [low] = waiting.running as [ClaimPermit];
	t.deepEqual(travelTerms(low, at(0))?.precedence, {isHigh: false, leaves: 1});
});

test('claims high-priority mail next if there is only one connection', t => {
	const waiting = new Waiting({connections: 1, startConnections: 1});
	waiting.add('low', 1000);
	waiting.add('normal', 1000);
	for (let turn = 0; turn < 20; turn++) {
		waiting.claim();
		waiting.end();
	}
	waiting.claim();
	waiting.add('high', 1);
	t.deepEqual(waiting.claim(), ['high']);
	const [permit] = waiting.running.slice(-1) as [ClaimPermit];
	t.is(travelTerms(permit, at(0))?.precedence?.leaves, 0);
});

test('reserves a connection from normal mail for an hour after high-priority mail', t => {
	const waiting = new Waiting({connections: 5, startConnections: 5});
	const ofNormal = () => {
		waiting.add('normal', 1);
		waiting.claim();
		const permit = waiting.running.at(-1) as ClaimPermit;
		waiting.end();
		return travelTerms(permit, at(waiting.now))?.precedence ?? null;
	};
	t.is(ofNormal(), null);
	waiting.add('high', 1);
	waiting.claim();
	waiting.end();
	t.deepEqual(ofNormal(), {isHigh: false, leaves: 1});
	waiting.now = 61 * 60_000;
	t.is(ofNormal(), null);
});

test('claims at least one of eight recipients from each waiting priority', t => {
	fc.assert(
		fc.property(
			fc.record({
				connections: fc.integer({min: 1, max: 20}),
				high: fc.integer({min: 0, max: 40}),
				normal: fc.integer({min: 0, max: 40}),
				ends: fc.array(fc.integer({min: 1, max: 12}), {minLength: 20, maxLength: 60}),
			}),
			({connections, high, normal, ends}) => {
				const waiting = new Waiting({connections, startConnections: connections});
				waiting.add('low', 1e6);
				let total = 0;
				for (const n of [...ends, ...ends, ...ends, ...ends]) {
					waiting.add('high', high);
					waiting.add('normal', normal);
					for (let end = 0; end < n; end++) {
						waiting.claim();
						waiting.end();
					}
					const {high: h, normal: m, low: l} = waiting.granted;
					total = h + m + l;
					const slack = 4 * connections + 8;
					if (l < (total - slack) / 8 - 1) {
						throw new Error(`${l} of ${total} were low: ${JSON.stringify(waiting.granted)}`);
					}
				}
				return total > 0;
			},
		),
		{numRuns: 200},
	);
	t.pass();
});

test('starves neither normal mail by high-priority mail nor the other way round', t => {
	const waiting = new Waiting({connections: 3, startConnections: 3});
	for (const priority of priorities) {
		waiting.add(priority, 1e6);
	}
	for (let turn = 0; turn < 8000; turn++) {
		waiting.claim();
		waiting.end();
	}
	const {high, normal, low} = waiting.granted;
	const all = high + normal + low;
	t.true(low >= all / 8 - 20, JSON.stringify(waiting.granted));
	t.true(normal >= all / 8 - 20, JSON.stringify(waiting.granted));
	t.true(high >= (all * 5) / 8, JSON.stringify(waiting.granted));
});

test('applies a rate limit to all priorities together', t => {
	const waiting = new Waiting({connections: 5, startConnections: 5, perMinute: 60});
	for (const priority of priorities) {
		waiting.add(priority, 10_000);
	}
	for (let second = 0; second < 120; second++) {
		waiting.now = second * 1000;
		waiting.queues.advance(at(waiting.now));
		waiting.claim();
		waiting.end();
	}
	const {high, normal, low} = waiting.granted;
	t.true(high + normal + low <= 121, JSON.stringify(waiting.granted));
	t.true(low >= 12 && normal >= 12 && high >= 80, JSON.stringify(waiting.granted));
});

test('lets high-priority mail overtake only mail of the same workspace', t => {
	const queues = queuesOf({maxInFlight: 40});
	const route = shared({connections: 5, startConnections: 5});
	const order: string[] = [];
	const add = (workspaceId: string, priority: Priority) =>
		queues.arrived({destination: 'a.test', workspaceId, priority}, at(0));
	for (const priority of priorities) {
		add('ws_a', priority);
		add('ws_b', priority);
	}
	for (let turn = 0; turn < 40; turn++) {
		for (const permit of permitsOf(queues, route)) {
			order.push(`${permit.queue.workspaceId} ${permit.queue.priority}`);
			queues.claimed(permit, brought(permit.limit), at(0));
			settle(queues, permit, permit.limit);
		}
	}
	const first = (text: string) => order.indexOf(text);
	t.true(first('ws_b high') <= 1 && first('ws_a high') <= 1, order.slice(0, 8).join(', '));
	const ofA = order.filter(one => one.startsWith('ws_a')).length;
	t.true(Math.abs(ofA - order.length / 2) <= 2, `${ofA} of ${order.length} turns`);
});

test('leaves every second turn to another workspace during a flood of high-priority mail', t => {
	for (const isNew of [true, false]) {
		const queues = queuesOf({maxInFlight: 40, maxUnproven: 20});
		const wake = (key: Parameters<DestinationQueues['arrived']>[0]) =>
			isNew ? queues.arrived(key, at(0)) : queues.scanned(key, 0, at(0));
		for (let n = 0; n < 200; n++) {
			wake({destination: `a${n}.test`, workspaceId: 'ws_a', priority: 'high'});
		}
		const route = own({connections: 1, startConnections: 1});
		const running: ClaimPermit[] = [];
		const order: string[] = [];
		const turn = () => {
			for (const permit of permitsOf(queues, route)) {
				const isFirst = !order.includes(permit.queue.destination);
				order.push(permit.queue.destination);
				queues.claimed(permit, brought(isFirst ? 1 : 0), at(0));
				running.push(...(isFirst ? [permit] : []));
			}
		};
		turn();
		for (let n = 0; n < 10; n++) {
			wake({destination: `b${n}.test`, workspaceId: 'ws_b', priority: 'normal'});
		}
		order.length = 0;
		while (running.length > 0 && order.length < 30) {
			queues.done(running.shift() as ClaimPermit, well, at(0));
			turn();
		}
		const normal = order.flatMap((destination, index) => (destination.startsWith('b') ? [index] : []));
		t.true(normal.length >= 10 && (normal[9] as number) <= 20, order.join(' '));
	}
});

test('reserves no connection for high-priority mail of another workspace', t => {
	const queues = queuesOf();
	const route = shared({connections: 5, startConnections: 5});
	const claim = (workspaceId: string, priority: Priority) => {
		queues.arrived({destination: 'a.test', workspaceId, priority}, at(0));
		const [permit] = permitsOf(queues, route) as [ClaimPermit];
		queues.claimed(permit, brought(1), at(0));
		settle(queues, permit, 1);
		return travelTerms(permit, at(0))?.precedence ?? null;
	};
	claim('ws_a', 'high');
	t.is(claim('ws_b', 'normal'), null);
	t.deepEqual(claim('ws_a', 'normal'), {isHigh: false, leaves: 1});
});
