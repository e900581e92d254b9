import type {LaneKey, Route} from '../mail/route.ts';
import {addTurn, type FairRing, hasTurn, removeTurn, takeTurn} from './fair-ring.ts';
import type {Lane} from './lane.ts';

/** Lanes whose way is to be found, workspaces in turn, and those that go on while theirs is found anew. */
export function createToFind() {
	const unplaced: Record<'fresh' | 'backlog', FairRing<Lane>> = {fresh: new Map(), backlog: new Map()};
	const stale = new Set<Lane>();

	/** It is to be looked for again. */
	function again(lane: Lane): void {
		addTurn(unplaced[lane.fresh ? 'fresh' : 'backlog'], lane.workspaceId, lane);
	}

	return {
		/** It cannot go on before. */
		seek(lane: Lane): void {
			const isNew = lane.state !== 'looking';
			lane.state = 'looking';
			if (isNew || (lane.fresh && hasTurn(unplaced.backlog, lane.workspaceId, lane))) {
				removeTurn(unplaced.backlog, lane.workspaceId, lane);
				again(lane);
			}
		},

		again,

		renew: (lane: Lane): void => void stale.add(lane),

		remove(lane: Lane): void {
			removeTurn(unplaced.fresh, lane.workspaceId, lane);
			removeTurn(unplaced.backlog, lane.workspaceId, lane);
			stale.delete(lane);
		},

		/** The one whose turn it is; `backlog`: also of what was tried before. */
		next(backlog: boolean): Lane | undefined {
			const [renewed] = stale;
			const lane = takeTurn(unplaced.fresh) ?? renewed ?? (backlog ? takeTurn(unplaced.backlog) : undefined);
			if (lane && lane === renewed) {
				stale.delete(lane);
			}
			return lane;
		},
	};
}

export type ToFind = ReturnType<typeof createToFind>;

export type FindRoutesOptions = {
	/** At once where it is known. */
	readonly routeOf: (key: LaneKey) => Route | Promise<Route>;
	/** A lane whose way is to be found; without `backlog` only what cannot wait. */
	readonly next: (backlog: boolean) => Lane | undefined;
	readonly onFound: (lane: Lane, route: Route) => void;
	readonly onFailed: (lane: Lane) => void;
	readonly onError: (error: unknown, lane: LaneKey) => void;
};

/** Look-ups at once; what was tried before leaves some of them to new mail. */
const most = 64;
const mostWithBacklog = 48;
const retryMs = 5000;

/** Finds the ways of lanes, so many at once: those whose look-up takes long hold up nobody else's. */
export function createFindRoutes({routeOf, next, onFound, onFailed, onError}: FindRoutesOptions) {
	let running = 0;
	let renewals = 0;

	function fill(): void {
		while (running < most) {
			const lane = next(running < mostWithBacklog);
			if (!lane) {
				return;
			}
			const {destination, workspaceId} = lane;
			const route = routeOf({destination, workspaceId});
			if (route instanceof Promise) {
				running++;
				void find(lane, route);
			} else {
				onFound(lane, route);
			}
		}
	}

	async function find(lane: Lane, finding: Promise<Route>): Promise<void> {
		const before = renewals;
		try {
			const route = await finding;
			running--;
			if (before === renewals) {
				onFound(lane, route);
			} else {
				onFailed(lane);
			}
		} catch (error) {
			running--;
			onError(error, {destination: lane.destination, workspaceId: lane.workspaceId});
			setTimeout(onFailed, retryMs, lane).unref();
		}
		fill();
	}

	return {
		fill,

		/** Ways may lead elsewhere from now on: what is being found by what held before is looked up again. */
		renew: (): void => void renewals++,
	};
}
