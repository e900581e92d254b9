/**
 * A limit on what may be going on at once, counted in units: mails that are on the wire, or sent and not yet recorded (as
 * many may arrive twice after a crash, no more); bytes that are held in memory. A recipient that needs more units than there
 * are goes when it is alone.
 */
export class Permits {
	readonly #held = new Map<string, number>();
	readonly #waiting: Array<{readonly recipientId: string; readonly units: number; readonly go: () => void}> = [];
	#free: number;

	constructor(count: number) {
		this.#free = count;
	}

	/** Resolves when the recipient may go on, in order of asking; asking again for the same one is free. */
	take(recipientId: string, units = 1): Promise<void> {
		if (this.#held.has(recipientId)) {
			return Promise.resolve();
		}
		return new Promise(resolve => {
			this.#waiting.push({recipientId, units, go: resolve});
			this.#serve();
		});
	}

	/** The outcome of the recipient is on stable storage. */
	giveBack(recipientId: string): void {
		this.#free += this.#held.get(recipientId) ?? 0;
		this.#held.delete(recipientId);
		this.#serve();
	}

	#serve(): void {
		for (
			let next = this.#waiting[0];
			next && (next.units <= this.#free || this.#held.size === 0);
			next = this.#waiting[0]
		) {
			const {recipientId, units, go} = next;
			this.#waiting.shift();
			if (!this.#held.has(recipientId)) {
				this.#held.set(recipientId, units);
				this.#free -= units;
			}
			go();
		}
	}
}
