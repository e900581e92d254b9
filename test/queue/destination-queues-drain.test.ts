import test from 'ava';
import fc from 'fast-check';
import {queueKeyText, type Route} from '../../src/mail/route.ts';
import type {ClaimPermit} from '../../src/queue/claim-permit.ts';
import {DestinationQueues} from '../../src/queue/destination-queues.ts';
import type {SiteEnd} from '../../src/queue/pace/site-state.ts';
import {noOtherNodes} from '../../src/queue/site.ts';
import {routeTo} from '../helpers/routes.ts';

const minute = 60_000;
const stepMs = 500;
const kinds = ['answered', 'throttled', 'failed', 'locked_out'] as const;
const replies = ['421 too many messages on this connection', '421 deferred due to user complaints', '421 busy'];

const event = fc.record({
	destination: fc.nat(5),
	workspace: fc.nat(2),
	recipients: fc.integer({min: 1, max: 12}),
	dueIn: fc.oneof(fc.constant(0), fc.integer({min: 0, max: 20 * minute})),
	kind: fc.constantFrom(...kinds),
	reply: fc.constantFrom(...replies),
	suspends: fc.boolean(),
	settles: fc.nat(6),
});

/** Two destinations share each provider; one has a rate, one a new source address. */
function routeOf(destination: string): Route {
	const n = Number(/\d+/.exec(destination)?.[0] ?? 0);
	const route = routeTo(`site${n >> 1}`, {failures: 2, startConnections: 2, perMinute: n >> 1 === 1 ? 60 : null});
	return n === 5 ? {...route, warmUp: {source: 'a', group: 'b', perDay: 20, overflow: routeTo('site9')}} : route;
}

test('claims every recipient eventually and never too many at once, whatever happens to providers', t => {
	fc.assert(
		fc.property(fc.array(event, {minLength: 1, maxLength: 60}), events => {
			const queues = new DestinationQueues({
				...{maxInFlight: 20, maxUnproven: 8},
				retry: () => ({schedule: {waits: [10 * minute], repeatLast: true}, lifetime: 1440 * minute}),
				remembered: () => undefined,
				shares: noOtherNodes,
			});
			/** When the recipients of each queue are due, as in the store. */
			const due = new Map<string, number[]>();
			const running: ClaimPermit[] = [];
			let warmedUp = 0;
			let now = 0;
			const at = () => ({now, monotonic: now + 7});

			const settle = (permit: ClaimPermit, end: SiteEnd, retryIn: number | null) => {
				if (retryIn !== null) {
					due.get(queueKeyText(permit.queue))?.push(now + retryIn);
					queues.due(permit.queue, now + retryIn, at());
				}
				queues.done(permit, end, at());
			};
			const turn = () => {
				now += stepMs;
				queues.advance(at());
				for (let queue = queues.nextToFind(true); queue; queue = queues.nextToFind(true)) {
					queues.placed(queue, routeOf(queue.destination), at());
				}
				for (const permit of queues.permits(at())) {
					const all = due.get(queueKeyText(permit.queue)) ?? [];
					const left = permit.warmUp ? Math.min(permit.limit, permit.warmUp.perDay - warmedUp) : permit.limit;
					const sorted = all.toSorted((a, b) => a - b);
					const count = Math.min(left, sorted.filter(one => one <= now).length);
					const rest = sorted.slice(count);
					due.set(queueKeyText(permit.queue), rest);
					warmedUp += permit.warmUp ? count : 0;
					const later = rest.filter(one => one > now);
					const nextDue = permit.asksNext && later.length > 0 ? Math.min(...later) : null;
					queues.claimed(permit, {count, nextDue, warmedUp: permit.warmUp && warmedUp}, at());
					running.push(...new Array<ClaimPermit>(count).fill(permit));
				}
				return queues.inFlight <= 20 && queues.inFlight === running.length;
			};

			for (const {destination, workspace, recipients, dueIn, kind, reply, suspends, settles} of events) {
				const key = {destination: `d${destination}`, workspaceId: `w${workspace}`};
				due.set(queueKeyText(key), [
					...(due.get(queueKeyText(key)) ?? []),
					...new Array<number>(recipients).fill(now + dueIn),
				]);
				if (dueIn === 0) {
					queues.arrived(key, at());
				} else {
					queues.due(key, now + dueIn, at());
				}
				queues.suspend(new Set(suspends ? [key.destination] : []), at());
				for (const permit of running.splice(0, settles)) {
					const end = {kind, hasReplied: kind !== 'failed', replies: [reply], reason: 'x'};
					settle(permit, end, kind === 'answered' ? null : dueIn);
				}
				if (!turn()) {
					return false;
				}
			}

			queues.suspend(new Set(), at());
			const well: SiteEnd = {kind: 'answered', hasReplied: true, replies: [], reason: ''};
			for (let turns = 0; turns < (4 * 60 * minute) / stepMs; turns++) {
				for (const permit of running.splice(0)) {
					settle(permit, well, null);
				}
				if (!turn()) {
					return false;
				}
				if (running.length === 0 && [...due.values()].every(recipients => recipients.length === 0)) {
					return queues.inFlight === 0;
				}
			}
			return false;
		}),
		{numRuns: 60},
	);
	t.pass();
});
