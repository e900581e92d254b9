/** Places for work that would take the machine's time from other work: who finds none free waits for its turn. */
export class Slots {
	#free: number;
	readonly #waiting: Array<() => void> = [];

	constructor(count: number) {
		this.#free = count;
	}

	async take(): Promise<void> {
		if (this.#free > 0) {
			this.#free--;
			return;
		}
		await new Promise<void>(resolve => this.#waiting.push(resolve));
	}

	/** Hands the place on to the one that has waited longest. */
	release(): void {
		const next = this.#waiting.shift();
		if (next) {
			next();
		} else {
			this.#free++;
		}
	}
}
