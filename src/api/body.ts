const blockSize = 64 * 1024;
/** Shorter pieces are joined, because a client may send one byte at a time. */
const minPieceLength = 4 * 1024;
const empty = Buffer.alloc(0);

/** The bytes of a request as they arrive. */
export type Body = ReturnType<typeof createBody>;

export function createBody() {
	const pieces: Buffer[] = [];
	const starts: number[] = [];
	/** The unused part of the last piece, if that is a block for short pieces. */
	let free = empty;
	let length = 0;
	let dropped = 0;

	function push(piece: Buffer): void {
		pieces.push(piece);
		starts.push(length);
	}

	function addShort(piece: Buffer): void {
		for (let from = 0; from < piece.length; ) {
			if (free.length === 0) {
				free = Buffer.allocUnsafe(blockSize);
				push(free);
			}
			const copied = piece.copy(free, 0, from);
			free = free.subarray(copied);
			length += copied;
			from += copied;
		}
	}

	const endOf = (index: number) => starts[index + 1] ?? length;

	function between(start: number, end: number): Uint8Array {
		const parts: Uint8Array[] = [];
		for (const [index, piece] of pieces.entries()) {
			const from = starts[index] as number;
			if (from < end && endOf(index) > start) {
				parts.push(piece.subarray(Math.max(0, start - from), Math.min(end, endOf(index)) - from));
			}
		}
		return parts.length === 1 ? (parts[0] as Uint8Array) : Buffer.concat(parts);
	}

	return {
		add(piece: Buffer): void {
			if (piece.length < minPieceLength && length > 0) {
				addShort(piece);
				return;
			}
			push(piece);
			free = empty;
			length += piece.length;
		},
		length: () => length,
		between,
		all: () => between(0, length),
		/** Frees the memory of all octets before this one, which must not be read again. */
		drop(before: number): void {
			for (; dropped < pieces.length && endOf(dropped) <= before; dropped++) {
				pieces[dropped] = empty;
			}
		},
	};
}
