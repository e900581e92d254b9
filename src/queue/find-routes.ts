import type {QueueKey, Route} from '../mail/route.ts';
import type {DestinationQueue} from './destination-queue.ts';
import {addTurn, type FairRing, hasTurn, removeTurn, takeTurn} from './fair-ring.ts';

/** Lanes whose way is to be found, workspaces in turn, and those that go on while theirs is found anew. */
export function createToFind() {
	const unplaced: Record<'fresh' | 'backlog', FairRing<DestinationQueue>> = {fresh: new Map(), backlog: new Map()};
	const stale = new Set<DestinationQueue>();

	/** It is to be looked for again. */
	function again(queue: DestinationQueue): void {
		addTurn(unplaced[queue.fresh ? 'fresh' : 'backlog'], queue.workspaceId, queue);
	}

	return {
		/** It cannot go on before. */
		seek(queue: DestinationQueue): void {
			const isNew = queue.state !== 'looking';
			queue.state = 'looking';
			if (isNew || (queue.fresh && hasTurn(unplaced.backlog, queue.workspaceId, queue))) {
				removeTurn(unplaced.backlog, queue.workspaceId, queue);
				again(queue);
			}
		},

		again,

		renew: (queue: DestinationQueue): void => void stale.add(queue),

		remove(queue: DestinationQueue): void {
			removeTurn(unplaced.fresh, queue.workspaceId, queue);
			removeTurn(unplaced.backlog, queue.workspaceId, queue);
			stale.delete(queue);
		},

		/** The one whose turn it is; `backlog`: also of what was tried before. */
		next(backlog: boolean): DestinationQueue | undefined {
			const [renewed] = stale;
			const queue = takeTurn(unplaced.fresh) ?? renewed ?? (backlog ? takeTurn(unplaced.backlog) : undefined);
			if (queue && queue === renewed) {
				stale.delete(queue);
			}
			return queue;
		},
	};
}

export type ToFind = ReturnType<typeof createToFind>;

export type FindRoutesOptions = {
	/** At once where it is known. */
	readonly routeOf: (key: QueueKey) => Route | Promise<Route>;
	/** A lane whose way is to be found; without `backlog` only what cannot wait. */
	readonly next: (backlog: boolean) => DestinationQueue | undefined;
	readonly onFound: (queue: DestinationQueue, route: Route) => void;
	readonly onFailed: (queue: DestinationQueue) => void;
	readonly onError: (error: unknown, queue: QueueKey) => void;
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
			const queue = next(running < mostWithBacklog);
			if (!queue) {
				return;
			}
			const {destination, workspaceId} = queue;
			const route = routeOf({destination, workspaceId});
			if (route instanceof Promise) {
				running++;
				void find(queue, route);
			} else {
				onFound(queue, route);
			}
		}
	}

	async function find(queue: DestinationQueue, finding: Promise<Route>): Promise<void> {
		const before = renewals;
		try {
			const route = await finding;
			running--;
			if (before === renewals) {
				onFound(queue, route);
			} else {
				onFailed(queue);
			}
		} catch (error) {
			running--;
			onError(error, {destination: queue.destination, workspaceId: queue.workspaceId});
			setTimeout(onFailed, retryMs, queue).unref();
		}
		fill();
	}

	return {
		fill,

		/** Ways may lead elsewhere from now on: what is being found by what held before is looked up again. */
		renew: (): void => void renewals++,
	};
}
