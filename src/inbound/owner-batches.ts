/**
 * Runs tasks for many owners, one batch at a time for each owner, in order of arrival. Tasks that arrive meanwhile join
 * the owner's next batch. That way, no owner can fill the store writer's queue, and nobody waits for more than one
 * batch of each other owner.
 */
export class OwnerBatches {
	readonly #size: number;
	readonly #waiting = new Map<string, Array<() => Promise<void>>>();

	/** `size` is the maximum number of tasks per batch. */
	constructor(size: number) {
		this.#size = size;
	}

	/** Returns how many of an owner's tasks are waiting for a batch. */
	waiting(owner: string): number {
		return this.#waiting.get(owner)?.length ?? 0;
	}

	run<Result>(owner: string, task: () => Promise<Result>): Promise<Result> {
		return new Promise((resolve, reject) => {
			const start = () => task().then(resolve, reject);
			const waiting = this.#waiting.get(owner);
			if (waiting) {
				waiting.push(start);
			} else {
				const queue = [start];
				this.#waiting.set(owner, queue);
				void this.#drain(owner, queue);
			}
		});
	}

	async #drain(owner: string, waiting: Array<() => Promise<void>>): Promise<void> {
		// Tasks added in the same tick join the first batch.
		await undefined;
		while (waiting.length > 0) {
			await Promise.all(waiting.splice(0, this.#size).map(start => start()));
		}
		this.#waiting.delete(owner);
	}
}
