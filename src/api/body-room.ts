export type RoomOptions = {
	/** How many bytes large bodies may have in memory; one owner's have half of it. */
	readonly bytes: number;
	/** How many of them may wait for room. */
	readonly waiting: number;
	/** A body may wait, as often as need be, until so long after it first waited; then it may not. */
	readonly waitMs: number;
};

/** A large body's part of the room. */
export type Place = {
	/** Counts bytes that came. False: there is no room; no more may be read until `go`. */
	readonly grow: (bytes: number) => boolean;
	/** How many it counted. */
	readonly bytes: () => number;
	readonly leave: () => void;
};

/** Called for a body that waited: it may go on, or it waited too long. */
export type Waiter = {readonly go: () => void; readonly giveUp: () => void};

type Taken = Waiter & {
	readonly owner: string;
	bytes: number;
	isWaiting: boolean;
	/** It waited as long as it may. */
	isLate: boolean;
	timer: NodeJS.Timeout | null;
};

/**
 * Bounds the memory of large bodies from their arrival to their answer. They count by what came of them, so that one that
 * comes slowly takes no room from others; the one that came first may always go on.
 */
export function createBodyRoom({bytes: most, waiting, waitMs}: RoomOptions) {
	// In the order in which they came.
	const places = new Set<Taken>();

	function sum(of: (place: Taken) => boolean): number {
		let bytes = 0;
		for (const place of places) {
			bytes += of(place) ? place.bytes : 0;
		}
		return bytes;
	}

	function hasRoom(place: Taken): boolean {
		const [first] = places;
		return place === first || (sum(() => true) <= most && sum(({owner}) => owner === place.owner) <= most / 2);
	}

	function wake(): void {
		for (const place of places) {
			if (place.isWaiting && hasRoom(place)) {
				place.isWaiting = false;
				place.go();
			}
		}
	}

	function expire(place: Taken): void {
		place.isLate = true;
		if (place.isWaiting) {
			place.giveUp();
		}
	}

	/** Null: too many wait already. */
	return (owner: string, waiter: Waiter): Place | null => {
		if ([...places].filter(({isWaiting}) => isWaiting).length >= waiting) {
			return null;
		}
		const place: Taken = {...waiter, owner, bytes: 0, isWaiting: false, isLate: false, timer: null};
		places.add(place);
		return {
			grow(bytes) {
				place.bytes += bytes;
				if (hasRoom(place)) {
					return true;
				}
				if (place.isLate) {
					place.giveUp();
					return true;
				}
				place.isWaiting = true;
				place.timer ??= setTimeout(expire, waitMs, place);
				return false;
			},
			bytes: () => place.bytes,
			leave() {
				if (places.delete(place)) {
					clearTimeout(place.timer ?? undefined);
					wake();
				}
			},
		};
	};
}
