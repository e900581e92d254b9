/**
 * Runs work for many owners, one batch at a time for each, in order of arrival. Work that arrives meanwhile joins the
 * owner's next batch. That way, no owner can fill the store writer's queue, and nobody waits for more than one batch
 * of each other owner.
 */
export class OwnerBatches {
	readonly #size: number;
	readonly #waiting = new Map<string, Array<() => Promise<void>>>();

	/** `size` is the maximum number of pieces of work per batch. */
	constructor(size: number) {
		this.#size = size;
	}

	/** Returns how many pieces of an owner's work are waiting for a batch. */
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
		// Work added in the same tick joins the first batch.
		await undefined;
		while (waiting.length > 0) {
			await Promise.all(waiting.splice(0, this.#size).map(start => start()));
		}
		this.#waiting.delete(owner);
	}
}
