import {UrgentRing} from '../kit/fair-ring.ts';
import type {DestinationQueue} from './site.ts';

/** Whether its route is looked up before those of a backlog. */
const isSoon = ({priority, fresh}: DestinationQueue): boolean => fresh && priority !== 'low';

/** Whether a workspace may look up another route. `isAlone`: no other one waits for that. */
export type MayLookUp = (workspaceId: string, isAlone: boolean) => boolean;

/** Destination queues that wait for the look-up of their route: workspaces in turn, and high mail first within each. */
export class LookUps {
	readonly #soon = new UrgentRing<DestinationQueue>();
	readonly #backlog = new UrgentRing<DestinationQueue>();
	/** Placed queues with a route to be looked up again. */
	readonly #stale = new Set<DestinationQueue>();

	add(queue: DestinationQueue): void {
		const ring = isSoon(queue) ? this.#soon : this.#backlog;
		ring.add(queue.workspaceId, queue, queue.priority === 'high');
	}

	/** It waits already; mail may have come for which it is looked up sooner. */
	hurry(queue: DestinationQueue): void {
		if (isSoon(queue) && this.#backlog.has(queue.workspaceId, queue)) {
			this.#backlog.remove(queue.workspaceId, queue);
			this.add(queue);
		}
	}

	/** Its route is old: it goes by it until the next one is found. */
	addStale(queue: DestinationQueue): void {
		this.#stale.add(queue);
	}

	remove(queue: DestinationQueue): void {
		this.#soon.remove(queue.workspaceId, queue);
		this.#backlog.remove(queue.workspaceId, queue);
		this.#stale.delete(queue);
	}

	/** Takes the next queue; `backlog`: maybe one of mail that was tried before. */
	next(backlog: boolean, mayLookUp: MayLookUp): DestinationQueue | undefined {
		const may = (workspaceId: string) =>
			mayLookUp(workspaceId, this.#soon.isOnly(workspaceId) && this.#backlog.isOnly(workspaceId));
		const soon = this.#soon.take(may);
		if (soon) {
			return soon;
		}
		const [stale] = this.#stale;
		if (stale && may(stale.workspaceId)) {
			this.#stale.delete(stale);
			return stale;
		}
		return backlog ? this.#backlog.take(may) : undefined;
	}
}
