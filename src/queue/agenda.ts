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
