import type {LaneKey} from '../mail/way.ts';

/** Lanes that wait for their turn: workspaces take turns, and within a workspace its destinations. */
export type Turns<Lane extends LaneKey> = Map<string, Set<Lane>>;

export function addTurn<Lane extends LaneKey>(turns: Turns<Lane>, lane: Lane): void {
	const own = turns.get(lane.workspaceId);
	if (own) {
		own.add(lane);
	} else {
		turns.set(lane.workspaceId, new Set([lane]));
	}
}

export function hasTurn<Lane extends LaneKey>(turns: Turns<Lane>, lane: Lane): boolean {
	return turns.get(lane.workspaceId)?.has(lane) ?? false;
}

export function removeTurn<Lane extends LaneKey>(turns: Turns<Lane>, lane: Lane): void {
	const own = turns.get(lane.workspaceId);
	own?.delete(lane);
	if (own?.size === 0) {
		turns.delete(lane.workspaceId);
	}
}

/** Takes the lane whose turn it is; its workspace goes to the end. */
export function takeTurn<Lane extends LaneKey>(turns: Turns<Lane>): Lane | undefined {
	for (const [workspaceId, lanes] of turns) {
		turns.delete(workspaceId);
		for (const lane of lanes) {
			lanes.delete(lane);
			if (lanes.size > 0) {
				turns.set(workspaceId, lanes);
			}
			return lane;
		}
	}
	return undefined;
}
