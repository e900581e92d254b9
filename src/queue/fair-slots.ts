/**
 * How far workspaces may use what is free. One that shares the slots takes another while it has fewer than are free, so
 * that with any number of them some are left to one that comes. One that is alone leaves a quarter.
 */
const timesFree = {shared: 1, alone: 3};

/** Slots that workspaces share: none of them can take them all, and one that has none always finds some. */
export class FairSlots {
	readonly #taken = new Map<string, number>();
	#total = 0;

	get total(): number {
		return this.#total;
	}

	/** A negative number gives back. */
	take(workspaceId: string, slots: number): void {
		const taken = (this.#taken.get(workspaceId) ?? 0) + slots;
		this.#total += slots;
		if (taken > 0) {
			this.#taken.set(workspaceId, taken);
		} else {
			this.#taken.delete(workspaceId);
		}
	}

	/**
	 * How many the workspace may take of those that are free, or of this share of them. `isAlone`: no other workspace
	 * waits for one.
	 */
	allowance(workspaceId: string, free: number, isAlone: boolean, share = 1): number {
		const taken = this.#taken.get(workspaceId) ?? 0;
		const times = share * (isAlone && taken === this.#total ? timesFree.alone : timesFree.shared);
		// With each slot that it takes, one fewer is free.
		return Math.max(0, Math.ceil((times * free - taken) / (1 + times)));
	}
}
