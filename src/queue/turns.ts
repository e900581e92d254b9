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

/** Whether there is any lane, of this workspace if one is named. */
export function hasTurns(turns: Turns<LaneKey>, ofWorkspace: string | null): boolean {
	return ofWorkspace === null ? turns.size > 0 : turns.has(ofWorkspace);
}

export function removeTurn<Lane extends LaneKey>(turns: Turns<Lane>, lane: Lane): void {
	const own = turns.get(lane.workspaceId);
	own?.delete(lane);
	if (own?.size === 0) {
		turns.delete(lane.workspaceId);
	}
}

/** Takes the lane whose turn it is, of this workspace if one is named; its workspace goes to the end. */
export function takeTurn<Lane extends LaneKey>(
	turns: Turns<Lane>,
	ofWorkspace: string | null = null,
): Lane | undefined {
	const [next] = ofWorkspace === null ? turns.keys() : [ofWorkspace];
	const lanes = next === undefined ? undefined : turns.get(next);
	if (next === undefined || !lanes) {
		return undefined;
	}
	turns.delete(next);
	const [lane] = lanes;
	lanes.delete(lane as Lane);
	if (lanes.size > 0) {
		turns.set(next, lanes);
	}
	return lane;
}
