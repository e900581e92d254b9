import type {Pace, Route} from '../../src/mail/route.ts';
import type {SiteEnd} from '../../src/pace/site.ts';
import type {Grant} from '../../src/queue/grants.ts';
import {createLanes, type Lanes, type LanesOptions} from '../../src/queue/lanes.ts';
import {routeTo} from '../helpers/routes.ts';

export const minute = 60_000;
/** The same instant on both clocks. */
export const at = (ms: number) => ({now: ms, monotonic: ms});
export const key = (destination: string, workspaceId = 'ws_1') => ({destination, workspaceId});
/** What a try tells of its site: it took the mail, or no host was reached. */
export const well: SiteEnd = {kind: 'answered', spoke: true, replies: [], reason: ''};
export const silent: SiteEnd = {kind: 'failed', spoke: false, replies: [], reason: 'connect ETIMEDOUT'};

/** Lanes with room for all, unless told otherwise. */
export const lanesOf = (more: Partial<LanesOptions> = {}) =>
	createLanes({
		maxInFlight: 1000,
		maxUnproven: 1000,
		longestWait: () => 240 * minute,
		remembered: () => undefined,
		onSite: () => undefined,
		...more,
	});

/** A site of its own for every destination. */
export const own =
	(pace: Partial<Pace> = {}) =>
	(destination: string) =>
		routeTo(destination, pace);
/** One site for all. */
export const shared = (pace: Partial<Pace> = {}) => {
	const route = routeTo('relay', pace);
	return () => route;
};

/** Finds the ways of all lanes that wait for theirs. */
export function place(lanes: Lanes, route: (destination: string) => Route, now = 0): void {
	for (let lane = lanes.nextToFind(true); lane; lane = lanes.nextToFind(true)) {
		lanes.placed(lane, route(lane.destination), at(now));
	}
}

/** The claims to be made now, once all ways are found. */
export function grantsOf(lanes: Lanes, route: (destination: string) => Route = own(), now = 0): Grant[] {
	place(lanes, route, now);
	return lanes.grants(at(now));
}

/** Claims `count` copies of each grant until there are no more grants. */
export function claimAll(lanes: Lanes, route: (destination: string) => Route = own(), count = 5, now = 0): Grant[] {
	const claimed: Grant[] = [];
	for (let grants = grantsOf(lanes, route, now); grants.length > 0; grants = grantsOf(lanes, route, now)) {
		for (const grant of grants) {
			lanes.claimed(grant, {count: Math.min(count, grant.limit), nextDue: null, warmedUp: null}, at(now));
			claimed.push(grant);
		}
	}
	return claimed;
}

/** A claim that brought so many copies. */
export const brought = (count: number, nextDue: number | null = null) => ({count, nextDue, warmedUp: null});

/** So many copies of a grant come to the same end. */
export function settle(lanes: Lanes, grant: Grant, recipients: number, end: SiteEnd | null = well, now = 0): void {
	for (let recipient = 0; recipient < recipients; recipient++) {
		lanes.done(grant, end, at(now));
	}
}
