/** Bytes that all mails on their way in may hold together beyond what each may hold anyway. */
type Capacity = {
	readonly take: (bytes: number) => boolean;
	readonly giveBack: (bytes: number) => void;
};

export function createCapacity(bytes: number): Capacity {
	let free = bytes;
	return {
		take(wanted) {
			if (wanted > free) {
				return false;
			}
			free -= wanted;
			return true;
		},
		giveBack(taken) {
			free += taken;
		},
	};
}

/** What every mail may hold without asking: nearly all reports are smaller. */
const small = 256 * 1024;
const first = 8 * 1024;

/**
 * The bytes of a mail that is coming in. They are copied together: a hostile client sends ten million chunks of one byte.
 */
export function createMailBuffer(room: Capacity) {
	let buffer = Buffer.alloc(0);
	let length = 0;
	let taken = 0;

	function grow(wanted: number): boolean {
		const size = Math.max(first, wanted, Math.min(2 * buffer.length, buffer.length + 1024 * 1024));
		const beyond = Math.max(0, size - small) - taken;
		if (beyond > 0 && !room.take(beyond)) {
			return false;
		}
		taken += Math.max(0, beyond);
		const larger = Buffer.allocUnsafeSlow(size);
		buffer.copy(larger, 0, 0, length);
		buffer = larger;
		return true;
	}

	return {
		/** False: there is no room for it. */
		add(chunk: Buffer): boolean {
			if (length + chunk.length > buffer.length && !grow(length + chunk.length)) {
				return false;
			}
			length += chunk.copy(buffer, length);
			return true;
		},
		bytes: (): Buffer => buffer.subarray(0, length),
		/** Its room is others' again. */
		release(): void {
			room.giveBack(taken);
			taken = 0;
			length = 0;
			buffer = Buffer.alloc(0);
		},
	};
}

export type MailBuffer = ReturnType<typeof createMailBuffer>;
