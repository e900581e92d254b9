import {UrgentRing} from '../kit/fair-ring.ts';
import type {DestinationQueue} from './site.ts';

/** Whether the queue's route is looked up before those of a backlog. */
const isSoon = ({priority, hasNewMail}: DestinationQueue): boolean => hasNewMail && priority !== 'low';

/** Decides whether a workspace may start a look-up. `isAlone` means that no other workspace is waiting for one. */
export type MayLookUp = (workspaceId: string, isAlone: boolean) => boolean;

/** Destination queues waiting for a route look-up. Workspaces take turns; high-priority mail goes first in each. */
export class LookUps {
	readonly #soon = new UrgentRing<DestinationQueue>();
	readonly #backlog = new UrgentRing<DestinationQueue>();
	/** Queues that have a route which is due to be looked up again. */
	readonly #stale = new Set<DestinationQueue>();

	add(queue: DestinationQueue): void {
		const ring = isSoon(queue) ? this.#soon : this.#backlog;
		ring.add(queue.workspaceId, queue, queue.priority === 'high');
	}

	/** Moves a waiting queue ahead of the backlog if new mail has arrived for it. */
	hurry(queue: DestinationQueue): void {
		if (isSoon(queue) && this.#backlog.has(queue.workspaceId, queue)) {
			this.#backlog.remove(queue.workspaceId, queue);
			this.add(queue);
		}
	}

	/** Adds a queue whose route is old. It keeps using that route until a new one is found. */
	addStale(queue: DestinationQueue): void {
		this.#stale.add(queue);
	}

	remove(queue: DestinationQueue): void {
		this.#soon.remove(queue.workspaceId, queue);
		this.#backlog.remove(queue.workspaceId, queue);
		this.#stale.delete(queue);
	}

	/** Removes and returns the next queue. With `shouldIncludeBacklog`, its mail may have been attempted before. */
	next(shouldIncludeBacklog: boolean, mayLookUp: MayLookUp): DestinationQueue | undefined {
		const isAllowed = (workspaceId: string) =>
			mayLookUp(workspaceId, this.#soon.isOnly(workspaceId) && this.#backlog.isOnly(workspaceId));
		const soon = this.#soon.take(isAllowed);
		if (soon) {
			return soon;
		}
		const [stale] = this.#stale;
		if (stale && isAllowed(stale.workspaceId)) {
			this.#stale.delete(stale);
			return stale;
		}
		return shouldIncludeBacklog ? this.#backlog.take(isAllowed) : undefined;
	}
}
