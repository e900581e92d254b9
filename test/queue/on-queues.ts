import type {Pace, Route} from '../../src/mail/route.ts';
import type {ClaimPermit} from '../../src/queue/claim-permit.ts';
import {DestinationQueues, type DestinationQueuesOptions} from '../../src/queue/destination-queues.ts';
import type {SiteEnd} from '../../src/queue/pace/site-state.ts';
import {noOtherNodes} from '../../src/queue/site.ts';
import {routeTo} from '../helpers/routes.ts';

export const minute = 60_000;
/** The same instant on both clocks. */
export const at = (ms: number) => ({now: ms, monotonic: ms});
export const key = (destination: string, workspaceId = 'ws_1') => ({destination, workspaceId});
/** What an attempt shows about its provider: it accepted the message, or no mail server was reached. */
export const well: SiteEnd = {kind: 'answered', hasReplied: true, replies: [], reason: ''};
export const silent: SiteEnd = {kind: 'failed', hasReplied: false, replies: [], reason: 'connect ETIMEDOUT'};

/** Queues with enough capacity for all, unless overridden by `more`. */
export const queuesOf = (more: Partial<DestinationQueuesOptions> = {}) =>
	new DestinationQueues({
		maxInFlight: 1000,
		maxUnproven: 1000,
		retry: () => ({schedule: {waits: [240 * minute], repeatLast: true}, lifetime: 5 * 1440 * minute}),
		remembered: () => undefined,
		shares: noOtherNodes,
		...more,
	});

/** A separate provider for every destination. */
export const own =
	(pace: Partial<Pace> = {}) =>
	(destination: string) =>
		routeTo(destination, pace);
/** One provider for all destinations. */
export const shared = (pace: Partial<Pace> = {}) => {
	const route = routeTo('relay', pace);
	return () => route;
};

/** Finds the routes of all queues that wait for one. */
export function place(queues: DestinationQueues, route: (destination: string) => Route, now = 0): void {
	for (let queue = queues.nextToFind(true); queue; queue = queues.nextToFind(true)) {
		queues.placed(queue, route(queue.destination), at(now));
	}
}

/** The claims to be made now, once all routes are found. */
export function permitsOf(
	queues: DestinationQueues,
	route: (destination: string) => Route = own(),
	now = 0,
): ClaimPermit[] {
	place(queues, route, now);
	return queues.permits(at(now));
}

/** Claims `count` recipients by each permit until there are no more permits. */
export function claimAll(
	queues: DestinationQueues,
	route: (destination: string) => Route = own(),
	count = 5,
	now = 0,
): ClaimPermit[] {
	const claimed: ClaimPermit[] = [];
	for (let permits = permitsOf(queues, route, now); permits.length > 0; permits = permitsOf(queues, route, now)) {
		for (const permit of permits) {
			queues.claimed(permit, {count: Math.min(count, permit.limit), nextDue: null, warmedUp: null}, at(now));
			claimed.push(permit);
		}
	}
	return claimed;
}

/** A claim of `count` recipients. */
export const brought = (count: number, nextDue: number | null = null) => ({count, nextDue, warmedUp: null});

/** Ends this many recipients of a permit the same way. */
export function settle(
	queues: DestinationQueues,
	permit: ClaimPermit,
	recipients: number,
	end: SiteEnd | null = well,
	now = 0,
): void {
	for (let recipient = 0; recipient < recipients; recipient++) {
		queues.done(permit, end, at(now));
	}
}
