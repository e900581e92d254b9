/**
 * Items that wait for a turn: groups take turns, and within a group its items. So a group with many items never delays
 * another one.
 */
export type FairRing<Item> = Map<string, Set<Item>>;

/** A group's turn is that of its first item. */
export type Turn<Item> = {readonly group: string; readonly item: Item};

/** The item waits behind the others of its group; if it waits already it keeps its place. */
export function addTurn<Item>(ring: FairRing<Item>, group: string, item: Item): void {
	const items = ring.get(group);
	if (items) {
		items.add(item);
	} else {
		ring.set(group, new Set([item]));
	}
}

/** Whether the item waits. */
export function hasTurn<Item>(ring: FairRing<Item>, group: string, item: Item): boolean {
	return ring.get(group)?.has(item) ?? false;
}

/** Whether no other group waits. */
export function isOnlyGroup<Item>(ring: FairRing<Item>, group: string): boolean {
	return ring.size === 0 || (ring.size === 1 && ring.has(group));
}

/** The item waits no longer. */
export function removeTurn<Item>(ring: FairRing<Item>, group: string, item: Item): void {
	const items = ring.get(group);
	items?.delete(item);
	if (items?.size === 0) {
		ring.delete(group);
	}
}

/** The next turn of a group that may have one. */
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

/** Takes the item that is next; its group goes to the end. */
export function takeTurn<Item>(ring: FairRing<Item>): Item | undefined {
	const turn = firstTurn(ring);
	if (turn) {
		endTurn(ring, turn);
	}
	return turn?.item;
}

/** The same, where a group's urgent items go before its others. No group is served sooner for them. */
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

	/** Whether no other group waits. */
	isOnly(group: string): boolean {
		return isOnlyGroup(this.#all, group);
	}

	/** Takes the item that is next, of a group that may have a turn; its group goes to the end. */
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
