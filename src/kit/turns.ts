import {unavailable} from '../mail/api-error.ts';

/**
 * Runs costly work one piece at a time. Owners take turns, so each waits for at most one piece of every other owner.
 */
type Turns = <Result>(owner: string, work: () => Promise<Result>) => Promise<Result>;

/**
 * @param maxWaiting how many pieces of an owner may wait for their turn; the next one throws the API's `unavailable`
 */
export function createTurns(maxWaiting = 8): Turns {
	// A Map retains the order of insertion: the owner that was added first is next.
	const owners = new Map<string, Array<() => void>>();
	let isBusy = false;

	function next(): void {
		const [nextEntry] = owners;
		if (!nextEntry) {
			isBusy = false;
			return;
		}
		const [owner, [start, ...rest]] = nextEntry;
		owners.delete(owner);
		if (rest.length > 0) {
			owners.set(owner, rest);
		}
		start?.();
	}

	function waitForTurn(owner: string): Promise<void> {
		const queue = owners.get(owner) ?? [];
		if (queue.length >= maxWaiting) {
			throw unavailable();
		}
		return new Promise(resolve => owners.set(owner, [...queue, resolve]));
	}

	return async (owner, work) => {
		if (isBusy) {
			await waitForTurn(owner);
		}
		isBusy = true;
		try {
			return await work();
		} finally {
			next();
		}
	};
}

const slices: Array<() => void> = [];

/**
 * Runs work that may take tens of milliseconds, one piece at a time in the whole process. Between two pieces the event
 * loop handles what has arrived in the meantime.
 */
export function inSlice<Result>(work: () => Result): Promise<Result> {
	return new Promise((resolve, reject) => {
		slices.push(() => {
			try {
				resolve(work());
			} catch (error) {
				reject(error);
			}
		});
		if (slices.length === 1) {
			setImmediate(runSlice);
		}
	});
}

function runSlice(): void {
	slices[0]?.();
	slices.shift();
	if (slices.length > 0) {
		// Two turns: a new connection is accepted in the first one, and its request is read in the second.
		setImmediate(setImmediate, runSlice);
	}
}

/** Limits how many tasks each owner has in progress at once. */
export class ConcurrencyLimit {
	readonly #max: number;
	readonly #occupied = new Map<string, number>();

	constructor(max: number) {
		this.#max = max;
	}

	/** Takes a seat and returns the function that releases it, or `undefined` if the owner has none left. */
	take(owner: string): (() => void) | undefined {
		const count = this.#occupied.get(owner) ?? 0;
		if (count >= this.#max) {
			return undefined;
		}
		this.#occupied.set(owner, count + 1);
		let isReleased = false;
		return () => {
			if (!isReleased) {
				isReleased = true;
				this.#leave(owner);
			}
		};
	}

	/** Occupies a seat while the work runs. Throws the API's `unavailable` if the owner has none left. */
	async hold<Result>(owner: string, work: () => Promise<Result>): Promise<Result> {
		const leave = this.take(owner);
		if (leave === undefined) {
			throw unavailable();
		}
		try {
			return await work();
		} finally {
			leave();
		}
	}

	#leave(owner: string): void {
		const remaining = (this.#occupied.get(owner) ?? 1) - 1;
		if (remaining === 0) {
			this.#occupied.delete(owner);
		} else {
			this.#occupied.set(owner, remaining);
		}
	}
}
