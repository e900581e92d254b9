import {isHighRank, type Phase, phaseOf, type Rank, ranks} from './ranks.ts';
import {type DestinationQueue, ownCapacity, rankAt, reserveForHigh, type Site} from './site.ts';

/** One workspace's mail at a provider. */
export type Lane = {
	/** Its queues with work due now, in the order of their turns. */
	readonly ready: Record<Rank, Set<DestinationQueue>>;
	/** Recipients of other priorities that passed the waiting mail of this one, and claims of this one under way. */
	readonly passed: Record<Overtaken, number>;
	readonly claiming: Record<Overtaken, number>;
};

/** The priorities that high-priority mail passes, in the order of their turns. */
export const overtaken = ['normal', 'low'] as const;
export type Overtaken = (typeof overtaken)[number];
const normalRanks = ['fresh', 'mixed', 'backlog'] as const;

/** How many recipients may pass waiting mail of a lower priority for each recipient of it: it gets one in eight. */
const maxOvertakes = 7;
/** Returns how many waiting recipients of this priority must go before any other mail of their workspace. */
export const owedTo = ({passed}: Lane, priority: Overtaken): number => Math.floor(passed[priority] / maxOvertakes);

/** Returns the rank of the first waiting mail of this priority. */
export function readyRank({ready}: Lane, priority: Overtaken): Rank | undefined {
	return (priority === 'low' ? (['low'] as const) : normalRanks).find(rank => ready[rank].size > 0);
}

/** Counts recipients of the queue that were claimed. */
export function countPassed(site: Site, queue: DestinationQueue, recipients: number, monotonic: number): void {
	const {priority, workspaceId} = queue;
	if (priority === 'high' && recipients > 0) {
		reserveForHigh(site, workspaceId, monotonic);
	}
	const lane = site.lanes.get(workspaceId);
	for (const overtakenPriority of lane ? overtaken : []) {
		const {passed, claiming} = lane as Lane;
		if (overtakenPriority === priority) {
			passed[overtakenPriority] = Math.max(0, passed[overtakenPriority] - maxOvertakes * recipients);
		} else if (claiming[overtakenPriority] > 0 || readyRank(lane as Lane, overtakenPriority) !== undefined) {
			passed[overtakenPriority] += recipients;
		} else {
			passed[overtakenPriority] = 0;
		}
	}
}

/** For how many workspaces a provider waits at once. All of its workspaces get their turn. */
const maxWorkspaces = 8;

/** Returns the workspace's lane at the provider; creates it if necessary. */
export function laneAt({lanes}: Site, workspaceId: string): Lane {
	const known = lanes.get(workspaceId);
	if (known) {
		return known;
	}
	const lane: Lane = {
		ready: {
			high: new Set(),
			highBacklog: new Set(),
			fresh: new Set(),
			mixed: new Set(),
			backlog: new Set(),
			low: new Set(),
		},
		passed: {normal: 0, low: 0},
		claiming: {normal: 0, low: 0},
	};
	lanes.set(workspaceId, lane);
	return lane;
}

/** Removes the workspace's lane if nothing in it is waiting or being claimed. */
export function forgetLane({lanes}: Site, workspaceId: string): void {
	const lane = lanes.get(workspaceId);
	if (lane && lane.claiming.normal + lane.claiming.low === 0 && ranks.every(rank => lane.ready[rank].size === 0)) {
		lanes.delete(workspaceId);
	}
}

/** Returns the queues that are waiting for their turn at the provider. */
export function readyQueues({lanes}: Site): DestinationQueue[] {
	return [...lanes.values()].flatMap(({ready}) => ranks.flatMap(rank => [...ready[rank]]));
}

/** A workspace with mail that a provider may start, and the first rank of that mail. */
export type Entry = {readonly workspaceId: string; readonly rank: Rank};

/** Returns the workspaces with mail of this phase that the provider may start now, in the order of their turns. */
export function readyWorkspaces(site: Site, phase: Phase, max: number, monotonic: number): Entry[] {
	const canStart = {
		high: ownCapacity(site, 'high', max, monotonic) > 0,
		other: ownCapacity(site, 'fresh', max, monotonic) > 0,
	};
	const entries: Entry[] = [];
	if (!(canStart.high || canStart.other)) {
		return entries;
	}
	const startable = ranks.filter(candidate => {
		const rank = rankAt(site, candidate);
		return phaseOf(rank) === phase && (isHighRank(rank) ? canStart.high : canStart.other);
	});
	for (const [workspaceId, {ready}] of site.lanes) {
		const rank = startable.find(candidate => ready[candidate].size > 0);
		if (rank) {
			entries.push({workspaceId, rank});
			if (entries.length === maxWorkspaces) {
				break;
			}
		}
	}
	return entries;
}
