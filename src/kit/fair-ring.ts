/**
 * Items that wait for a turn. Groups take turns, and so do the items within a group, so a group with many items never
 * delays another group.
 */
export type FairRing<Item> = Map<string, Set<Item>>;

/** The next turn of a group, which belongs to its first item. */
export type Turn<Item> = {readonly group: string; readonly item: Item};

/** Adds an item behind the others of its group. An item that is already waiting keeps its position. */
export function addTurn<Item>(ring: FairRing<Item>, group: string, item: Item): void {
	const items = ring.get(group);
	if (items) {
		items.add(item);
	} else {
		ring.set(group, new Set([item]));
	}
}

/** Whether the item is waiting. */
export function hasTurn<Item>(ring: FairRing<Item>, group: string, item: Item): boolean {
	return ring.get(group)?.has(item) ?? false;
}

/** Whether no other group is waiting. */
export function isOnlyGroup<Item>(ring: FairRing<Item>, group: string): boolean {
	return ring.size === 0 || (ring.size === 1 && ring.has(group));
}

/** Removes a waiting item. */
export function removeTurn<Item>(ring: FairRing<Item>, group: string, item: Item): void {
	const items = ring.get(group);
	items?.delete(item);
	if (items?.size === 0) {
		ring.delete(group);
	}
}

/** Returns the next turn, considering only groups that `mayHave` allows. */
export function firstTurn<Item>(
	ring: FairRing<Item>,
	mayHave: (group: string) => boolean = () => true,
): Turn<Item> | undefined {
	for (const [group, [item]] of ring) {
		if (item !== undefined && mayHave(group)) {
			return {group, item};
		}
	}
	return undefined;
}

/** Finishes a turn: the item is removed, and its group moves to the end. */
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

/** Returns and removes the next item. Its group moves to the end. */
export function takeTurn<Item>(ring: FairRing<Item>): Item | undefined {
	const turn = firstTurn(ring);
	if (turn) {
		endTurn(ring, turn);
	}
	return turn?.item;
}

/** A ring in which a group's urgent items precede its others. A group is not served earlier because of them. */
export class UrgentRing<Item> {
	readonly #all: FairRing<Item> = new Map();
	readonly #urgent: FairRing<Item> = new Map();

	add(group: string, item: Item, isUrgent: boolean): void {
		addTurn(this.#all, group, item);
		if (isUrgent) {
			addTurn(this.#urgent, group, item);
		}
	}

	remove(group: string, item: Item): void {
		removeTurn(this.#all, group, item);
		removeTurn(this.#urgent, group, item);
	}

	has(group: string, item: Item): boolean {
		return hasTurn(this.#all, group, item);
	}

	/** Whether no other group is waiting. */
	isOnly(group: string): boolean {
		return isOnlyGroup(this.#all, group);
	}

	/** Returns and removes the next item of a group that may have a turn. The group moves to the end. */
	take(mayHave?: (group: string) => boolean): Item | undefined {
		const turn = firstTurn(this.#all, mayHave);
		if (!turn) {
			return undefined;
		}
		const [item = turn.item] = this.#urgent.get(turn.group) ?? [];
		endTurn(this.#all, {group: turn.group, item});
		removeTurn(this.#urgent, turn.group, item);
		return item;
	}
}
