/**
 * Items that wait for a turn: groups take turns, and within a group its items. So a group with many items never delays
 * another one. Items that need no groups share the group `null`.
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

/** The next turn, of this group if one is named. */
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

/** Takes the item that is next, of this group if one is named; its group goes to the end. */
export function takeTurn<Item>(ring: FairRing<Item>, ofGroup?: string | null): Item | undefined {
	const turn = firstTurn(ring, ofGroup);
	if (turn) {
		endTurn(ring, turn);
	}
	return turn?.item;
}

/** What an agenda holds: when it is due (null: not in the agenda), and its index there. Both belong to the agenda. */
export type Timed = {at: number | null; index: number};

/** A heap of items by due time, the earliest first: an item costs nothing until it is due. */
export class Agenda<Item extends Timed> {
	readonly #heap: Item[] = [];

	get size(): number {
		return this.#heap.length;
	}

	/** Makes the item due at `at`, or moves it there. */
	set(item: Item, at: number): void {
		this.remove(item);
		item.at = at;
		this.#put(item, this.#rise(item, this.#heap.length));
	}

	remove(item: Item): void {
		if (item.at === null) {
			return;
		}
		const {index} = item;
		item.at = null;
		const last = this.#heap.pop() as Item;
		if (last !== item) {
			this.#put(last, this.#sink(last, this.#rise(last, index)));
		}
	}

	/** Takes the next due item; undefined if none is due. */
	next(now: number): Item | undefined {
		const [first] = this.#heap;
		if (first === undefined || (first.at as number) > now) {
			return undefined;
		}
		this.remove(first);
		return first;
	}

	#atOf(index: number): number {
		return this.#heap[index]?.at ?? Number.POSITIVE_INFINITY;
	}

	#put(item: Item, index: number): void {
		this.#heap[index] = item;
		item.index = index;
	}

	#rise(item: Item, from: number): number {
		let index = from;
		while (index > 0) {
			const parent = (index - 1) >> 1;
			if (this.#atOf(parent) <= (item.at as number)) {
				break;
			}
			this.#put(this.#heap[parent] as Item, index);
			index = parent;
		}
		return index;
	}

	#sink(item: Item, from: number): number {
		let index = from;
		for (;;) {
			const left = 2 * index + 1;
			const child = this.#atOf(left + 1) < this.#atOf(left) ? left + 1 : left;
			if (this.#atOf(child) >= (item.at as number)) {
				return index;
			}
			this.#put(this.#heap[child] as Item, index);
			index = child;
		}
	}
}
