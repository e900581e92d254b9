import test from 'ava';
import fc from 'fast-check';
import {laneText, type Route} from '../../src/mail/route.ts';
import type {SiteEnd} from '../../src/pace/site.ts';
import type {Grant} from '../../src/queue/grants.ts';
import {createLanes} from '../../src/queue/lanes.ts';
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

/** Two destinations share each site; one has a rate, one a source that is new. */
function routeOf(destination: string): Route {
	const n = Number(/\d+/.exec(destination)?.[0] ?? 0);
	const route = routeTo(`site${n >> 1}`, {failures: 2, startConnections: 2, perMinute: n >> 1 === 1 ? 60 : null});
	return n === 5 ? {...route, warmUp: {source: 'a', group: 'b', perDay: 20, overflow: routeTo('site9')}} : route;
}

test('whatever happens to sites and lanes, every copy is claimed in the end, and never more than allowed at once', t => {
	fc.assert(
		fc.property(fc.array(event, {minLength: 1, maxLength: 60}), events => {
			const lanes = createLanes({
				...{maxInFlight: 20, maxUnproven: 8},
				longestWait: () => 10 * minute,
				remembered: () => undefined,
				onSite: () => undefined,
			});
			/** As the store has it: when the copies of each lane are due. */
			const due = new Map<string, number[]>();
			const running: Grant[] = [];
			let warmedUp = 0;
			let now = 0;
			const at = () => ({now, monotonic: now + 7});

			const settle = (grant: Grant, end: SiteEnd, retryIn: number | null) => {
				if (retryIn !== null) {
					due.get(laneText(grant.lane))?.push(now + retryIn);
					lanes.due(grant.lane, now + retryIn, at());
				}
				lanes.done(grant, end, at());
			};
			const turn = () => {
				now += stepMs;
				lanes.advance(at());
				for (let lane = lanes.nextToFind(true); lane; lane = lanes.nextToFind(true)) {
					lanes.placed(lane, routeOf(lane.destination), at());
				}
				for (const grant of lanes.grants(at())) {
					const all = due.get(laneText(grant.lane)) ?? [];
					const left = grant.warmUp ? Math.min(grant.limit, grant.warmUp.perDay - warmedUp) : grant.limit;
					const sorted = all.toSorted((a, b) => a - b);
					const count = Math.min(left, sorted.filter(one => one <= now).length);
					const rest = sorted.slice(count);
					due.set(laneText(grant.lane), rest);
					warmedUp += grant.warmUp ? count : 0;
					const later = rest.filter(one => one > now);
					const nextDue = grant.asksNext && later.length > 0 ? Math.min(...later) : null;
					lanes.claimed(grant, {count, nextDue, warmedUp: grant.warmUp && warmedUp}, at());
					running.push(...new Array<Grant>(count).fill(grant));
				}
				return lanes.inFlight <= 20 && lanes.inFlight === running.length;
			};

			for (const {destination, workspace, recipients, dueIn, kind, reply, suspends, settles} of events) {
				const key = {destination: `d${destination}`, workspaceId: `w${workspace}`};
				due.set(laneText(key), [...(due.get(laneText(key)) ?? []), ...new Array<number>(recipients).fill(now + dueIn)]);
				if (dueIn === 0) {
					lanes.arrived(key, at());
				} else {
					lanes.due(key, now + dueIn, at());
				}
				lanes.suspend(new Set(suspends ? [key.destination] : []), at());
				for (const grant of running.splice(0, settles)) {
					const end = {kind, spoke: kind !== 'failed', replies: [reply], reason: 'x'};
					settle(grant, end, kind === 'answered' ? null : dueIn);
				}
				if (!turn()) {
					return false;
				}
			}

			lanes.suspend(new Set(), at());
			const well: SiteEnd = {kind: 'answered', spoke: true, replies: [], reason: ''};
			for (let turns = 0; turns < (4 * 60 * minute) / stepMs; turns++) {
				for (const grant of running.splice(0)) {
					settle(grant, well, null);
				}
				if (!turn()) {
					return false;
				}
				if (running.length === 0 && [...due.values()].every(recipients => recipients.length === 0)) {
					return lanes.inFlight === 0;
				}
			}
			return false;
		}),
		{numRuns: 60},
	);
	t.pass();
});
