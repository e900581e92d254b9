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

/** What an agenda holds: when its time comes (null: not in it), and where it stands. Both belong to the agenda. */
export type Timed = {at: number | null; place: number};

/** A heap of things whose time comes, the earliest first: what waits costs nothing until then. */
export function createAgenda<Item extends Timed>() {
	const heap: Item[] = [];

	const atOf = (index: number): number => heap[index]?.at ?? Number.POSITIVE_INFINITY;

	function put(item: Item, index: number): void {
		heap[index] = item;
		item.place = index;
	}

	function rise(item: Item, from: number): number {
		let index = from;
		while (index > 0) {
			const parent = (index - 1) >> 1;
			if (atOf(parent) <= (item.at as number)) {
				break;
			}
			put(heap[parent] as Item, index);
			index = parent;
		}
		return index;
	}

	function sink(item: Item, from: number): number {
		let index = from;
		for (;;) {
			const left = 2 * index + 1;
			const child = atOf(left + 1) < atOf(left) ? left + 1 : left;
			if (atOf(child) >= (item.at as number)) {
				return index;
			}
			put(heap[child] as Item, index);
			index = child;
		}
	}

	function remove(item: Item): void {
		if (item.at === null) {
			return;
		}
		const {place} = item;
		item.at = null;
		const last = heap.pop() as Item;
		if (last !== item) {
			put(last, sink(last, rise(last, place)));
		}
	}

	return {
		/** The item's time is `at`, whatever it was before. */
		set(item: Item, at: number): void {
			remove(item);
			item.at = at;
			put(item, rise(item, heap.length));
		},

		remove,

		/** Takes the next item whose time has come; undefined: none. */
		next(now: number): Item | undefined {
			const [first] = heap;
			if (first === undefined || (first.at as number) > now) {
				return undefined;
			}
			remove(first);
			return first;
		},

		get size(): number {
			return heap.length;
		},
	};
}
