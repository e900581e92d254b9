/**
 * Runs work of many owners: of each owner one batch at a time, in the order in which it came. What an owner adds
 * meanwhile shares the next batch, so that no owner fills the queue of the store's writer, and others wait for one
 * batch of each at most.
 */
export class OwnerBatches {
	readonly #size: number;
	readonly #waiting = new Map<string, Array<() => Promise<void>>>();

	/** `size`: how many pieces of work a batch has at most. */
	constructor(size: number) {
		this.#size = size;
	}

	/** How many pieces of an owner wait for their batch. */
	waiting(owner: string): number {
		return this.#waiting.get(owner)?.length ?? 0;
	}

	run<Result>(owner: string, work: () => Promise<Result>): Promise<Result> {
		return new Promise((resolve, reject) => {
			const start = () => work().then(resolve, reject);
			const waiting = this.#waiting.get(owner);
			if (waiting) {
				waiting.push(start);
			} else {
				const first = [start];
				this.#waiting.set(owner, first);
				void this.#drain(owner, first);
			}
		});
	}

	async #drain(owner: string, waiting: Array<() => Promise<void>>): Promise<void> {
		// What the same tick adds shares the first batch.
		await undefined;
		while (waiting.length > 0) {
			await Promise.all(waiting.splice(0, this.#size).map(start => start()));
		}
		this.#waiting.delete(owner);
	}
}
