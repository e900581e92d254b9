/**
 * Who waits for a turn: groups take turns, and within a group its items. So a group with much to do never stands before
 * another one's. Items that need no groups share the group `null`.
 */
export type FairRing<Item> = Map<string | null, Set<Item>>;

/** A group's turn is that of its first item. */
export type Turn<Item> = {readonly group: string | null; readonly item: Item};

/** The item waits behind the others of its group; if it waits already it keeps its place. */
export function addTurn<Item>(ring: FairRing<Item>, group: string | null, item: Item): void {
	const items = ring.get(group);
	if (items) {
		items.add(item);
	} else {
		ring.set(group, new Set([item]));
	}
}

/** Whether the item waits. */
export function hasTurn<Item>(ring: FairRing<Item>, group: string | null, item: Item): boolean {
	return ring.get(group)?.has(item) ?? false;
}

/** The item waits no longer. */
export function removeTurn<Item>(ring: FairRing<Item>, group: string | null, item: Item): void {
	const items = ring.get(group);
	items?.delete(item);
	if (items?.size === 0) {
		ring.delete(group);
	}
}

/** Whose turn it is, of this group if one is named. */
export function firstTurn<Item>(ring: FairRing<Item>, ofGroup?: string | null): Turn<Item> | undefined {
	const [group = null] = ofGroup === undefined ? ring.keys() : [ofGroup];
	for (const item of ring.get(group) ?? []) {
		return {group, item};
	}
	return undefined;
}

/** It had its turn: the item leaves, its group goes to the end. */
export function endTurn<Item>(ring: FairRing<Item>, {group, item}: Turn<Item>): void {
	const items = ring.get(group);
	if (items) {
		items.delete(item);
		ring.delete(group);
		if (items.size > 0) {
			ring.set(group, items);
		}
	}
}

/** Takes the item whose turn it is, of this group if one is named; its group goes to the end. */
export function takeTurn<Item>(ring: FairRing<Item>, ofGroup?: string | null): Item | undefined {
	const turn = firstTurn(ring, ofGroup);
	if (turn) {
		endTurn(ring, turn);
	}
	return turn?.item;
}
