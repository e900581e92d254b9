/**
 * How many slots a workspace may hold for each free one. A workspace that shares the slots may take another while it
 * holds fewer than are free, so some always remain for newcomers. A workspace on its own leaves a quarter free.
 */
const timesFree = {shared: 1, alone: 3};

/** Slots that workspaces share. No workspace can take all of them, and one that has none always finds some. */
export class FairSlots {
	readonly #used = new Map<string, number>();
	#total = 0;

	get total(): number {
		return this.#total;
	}

	/** Takes slots; a negative number returns them. */
	take(workspaceId: string, slots: number): void {
		const used = (this.#used.get(workspaceId) ?? 0) + slots;
		this.#total += slots;
		if (used > 0) {
			this.#used.set(workspaceId, used);
		} else {
			this.#used.delete(workspaceId);
		}
	}

	/** Returns how many free slots (or of a share of them) the workspace may take. `isAlone`: no other is waiting. */
	allowance(workspaceId: string, free: number, isAlone: boolean, share = 1): number {
		const used = this.#used.get(workspaceId) ?? 0;
		const times = share * (isAlone && used === this.#total ? timesFree.alone : timesFree.shared);
		// Each slot that is taken leaves one fewer free.
		return Math.max(0, Math.ceil((times * free - used) / (1 + times)));
	}
}
