/** An item's due time (`null` if not in the agenda) and its index in the heap. Only the agenda may change them. */
export type Timed = {at: number | null; index: number};

/** A heap of items ordered by due time, earliest first. An item costs nothing until it is due. */
export class Agenda<Item extends Timed> {
	readonly #heap: Item[] = [];

	get size(): number {
		return this.#heap.length;
	}

	/** Schedules the item for `at`, or reschedules it. */
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

	/** Removes and returns the next due item, or `undefined` if none is due. */
	next(now: number): Item | undefined {
		const [earliest] = this.#heap;
		if (earliest === undefined || (earliest.at as number) > now) {
			return undefined;
		}
		this.remove(earliest);
		return earliest;
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
