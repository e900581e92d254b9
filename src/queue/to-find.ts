import type {Lane} from './lane.ts';
import {addTurn, hasTurn, removeTurn, type Turns, takeTurn} from './turns.ts';

/** Lanes whose way is to be found, workspaces in turn, and those that go on while theirs is found anew. */
export function createToFind() {
	const unplaced: Record<'fresh' | 'backlog', Turns<Lane>> = {fresh: new Map(), backlog: new Map()};
	const stale = new Set<Lane>();

	return {
		/** It cannot go on before. */
		seek(lane: Lane): void {
			const isNew = lane.state !== 'looking';
			lane.state = 'looking';
			if (isNew || (lane.fresh && hasTurn(unplaced.backlog, lane))) {
				removeTurn(unplaced.backlog, lane);
				addTurn(unplaced[lane.fresh ? 'fresh' : 'backlog'], lane);
			}
		},

		/** It is to be looked for again. */
		again(lane: Lane): void {
			addTurn(unplaced[lane.fresh ? 'fresh' : 'backlog'], lane);
		},

		renew: (lane: Lane): void => void stale.add(lane),

		remove(lane: Lane): void {
			removeTurn(unplaced.fresh, lane);
			removeTurn(unplaced.backlog, lane);
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
