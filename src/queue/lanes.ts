import {isHighRank, type Phase, phaseOf, type Rank, ranks} from './ranks.ts';
import {type DestinationQueue, keepForHigh, ownCapacity, rankAt, type Site} from './site.ts';

/** One workspace's mail at a site. */
export type Lane = {
	/** Its queues with work due now, in the order of their turns. */
	readonly ready: Record<Rank, Set<DestinationQueue>>;
	/** Recipients of its other priorities that passed what waits of this one, and claims of it under way. */
	readonly passed: Record<Overtaken, number>;
	readonly claiming: Record<Overtaken, number>;
};

/** What high mail passes, in the order of their turns. */
export const overtaken = ['normal', 'low'] as const;
export type Overtaken = (typeof overtaken)[number];
const normalRanks = ['fresh', 'mixed', 'backlog'] as const;

/** How many recipients may pass what waits of a lower priority, for each that goes of it: it gets one in eight. */
const maxOvertakes = 7;
/** Recipients of the waiting mail of this priority that are to go before any other of their workspace. */
export const owedTo = ({passed}: Lane, priority: Overtaken): number => Math.floor(passed[priority] / maxOvertakes);

/** The rank of the first mail of this priority that waits. */
export function readyRank({ready}: Lane, priority: Overtaken): Rank | undefined {
	return (priority === 'low' ? (['low'] as const) : normalRanks).find(rank => ready[rank].size > 0);
}

/** Counts recipients of the queue that were claimed. */
export function countPassed(site: Site, queue: DestinationQueue, recipients: number, monotonic: number): void {
	const {priority, workspaceId} = queue;
	if (priority === 'high' && recipients > 0) {
		keepForHigh(site, workspaceId, monotonic);
	}
	const lane = site.lanes.get(workspaceId);
	for (const one of lane ? overtaken : []) {
		const {passed, claiming} = lane as Lane;
		if (one === priority) {
			passed[one] = Math.max(0, passed[one] - maxOvertakes * recipients);
		} else if (claiming[one] > 0 || readyRank(lane as Lane, one) !== undefined) {
			passed[one] += recipients;
		} else {
			passed[one] = 0;
		}
	}
}

/** Limits the workspaces a site waits for: all workspaces there come by in turn. */
const maxWorkspaces = 8;

/** The workspace's mail at the site. */
export function laneAt({lanes}: Site, workspaceId: string): Lane {
	const known = lanes.get(workspaceId);
	if (known) {
		return known;
	}
	const lane: Lane = {
		ready: {
			...{high: new Set(), highBacklog: new Set(), fresh: new Set()},
			...{mixed: new Set(), backlog: new Set(), low: new Set()},
		},
		passed: {normal: 0, low: 0},
		claiming: {normal: 0, low: 0},
	};
	lanes.set(workspaceId, lane);
	return lane;
}

/** Forgets the workspace's lane if nothing of it waits or is being claimed. */
export function forgetLane({lanes}: Site, workspaceId: string): void {
	const lane = lanes.get(workspaceId);
	if (lane && lane.claiming.normal + lane.claiming.low === 0 && ranks.every(rank => lane.ready[rank].size === 0)) {
		lanes.delete(workspaceId);
	}
}

/** The queues that wait for their turn at the site. */
export function readyQueues({lanes}: Site): DestinationQueue[] {
	return [...lanes.values()].flatMap(({ready}) => ranks.flatMap(rank => [...ready[rank]]));
}

/** A workspace with mail that a site may start, and the first rank of that. */
export type Entry = {readonly workspaceId: string; readonly rank: Rank};

/** The workspaces with mail of this phase that the site may start now, the next ones first. */
export function readyWorkspaces(site: Site, phase: Phase, most: number, monotonic: number): Entry[] {
	const may = {
		high: ownCapacity(site, 'high', most, monotonic) > 0,
		other: ownCapacity(site, 'fresh', most, monotonic) > 0,
	};
	const found: Entry[] = [];
	if (!(may.high || may.other)) {
		return found;
	}
	const startable = ranks.filter(one => {
		const rank = rankAt(site, one);
		return phaseOf(rank) === phase && (isHighRank(rank) ? may.high : may.other);
	});
	for (const [workspaceId, {ready}] of site.lanes) {
		const rank = startable.find(one => ready[one].size > 0);
		if (rank) {
			found.push({workspaceId, rank});
			if (found.length === maxWorkspaces) {
				break;
			}
		}
	}
	return found;
}
