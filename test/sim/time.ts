/** Simulated time: what is to happen, in order. Nothing waits for a real clock. */
export type Time = {
	/** Milliseconds since the beginning. */
	readonly now: () => number;
	readonly after: (ms: number, happens: () => void) => void;
	/** Lets everything happen up to then. Promises settle before the next event. */
	readonly run: (until: number) => Promise<void>;
	/** Something was left to a promise: it goes on before the next event. */
	readonly settle: () => void;
};

type Event = {readonly at: number; readonly order: number; readonly happens: () => void};

export function createTime(): Time {
	const heap: Event[] = [];
	let now = 0;
	let order = 0;
	let unsettled = false;

	const isBefore = (a: Event, b: Event) => a.at < b.at || (a.at === b.at && a.order < b.order);

	function push(event: Event): void {
		let index = heap.length;
		while (index > 0) {
			const parent = (index - 1) >> 1;
			if (!isBefore(event, heap[parent] as Event)) {
				break;
			}
			heap[index] = heap[parent] as Event;
			index = parent;
		}
		heap[index] = event;
	}

	function pop(): Event {
		const [first] = heap as [Event];
		const last = heap.pop() as Event;
		if (heap.length === 0) {
			return first;
		}
		let index = 0;
		for (let child = 1; child < heap.length; child = 2 * index + 1) {
			if (child + 1 < heap.length && isBefore(heap[child + 1] as Event, heap[child] as Event)) {
				child++;
			}
			if (!isBefore(heap[child] as Event, last)) {
				break;
			}
			heap[index] = heap[child] as Event;
			index = child;
		}
		heap[index] = last;
		return first;
	}

	return {
		now: () => now,
		after: (ms, happens) => push({at: now + Math.max(0, ms), order: order++, happens}),
		settle() {
			unsettled = true;
		},
		async run(until) {
			for (let [next] = heap; next && next.at <= until; [next] = heap) {
				pop();
				now = next.at;
				next.happens();
				while (unsettled) {
					unsettled = false;
					await new Promise(resolve => setImmediate(resolve));
				}
			}
			now = until;
		},
	};
}

/** Repeatable chance (mulberry32). */
export function createChance(seed: number): () => number {
	let state = seed;
	return () => {
		state = (state + 0x6d2b79f5) | 0;
		let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
		mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
		return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
	};
}
