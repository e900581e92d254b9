/** An element of DER (X.690 §8.1): a tag of one octet, and its content. */
type Element = {readonly tag: number; readonly content: Buffer};

export const [integerTag, bitsTag, octetsTag, oidTag, sequenceTag, setTag] = [2, 3, 4, 6, 0x30, 0x31];

/** The bytes of an element of these parts. */
export function der(tag: number, ...parts: readonly Uint8Array[]): Buffer {
	const content = Buffer.concat(parts);
	const {length} = content;
	const long = length < 0x100 ? [0x81, length] : [0x82, length >> 8, length & 0xff];
	return Buffer.concat([Buffer.from([tag, ...(length < 0x80 ? [length] : long)]), content]);
}

export const sequence = (...parts: readonly Uint8Array[]): Buffer => der(sequenceTag, ...parts);

/** An object identifier of its numbers between dots. */
export function oid(text: string): Buffer {
	const [first = 0, second = 0, ...rest] = text.split('.').map(Number);
	const octets = [first * 40 + second, ...rest].flatMap(number => {
		const groups = [number & 0x7f];
		for (let left = number >> 7; left > 0; left >>= 7) {
			groups.unshift((left & 0x7f) | 0x80);
		}
		return groups;
	});
	return der(oidTag, Buffer.from(octets));
}

/** The elements that bytes of others hold, one after the other; null: they do not hold elements alone. */
export function readDer(bytes: Buffer): Element[] | null {
	const found: Element[] = [];
	for (let at = 0; at < bytes.length; ) {
		const [tag = 0, first = 0x80] = bytes.subarray(at, at + 2);
		const octets = first < 0x80 ? 0 : first & 0x7f;
		const start = at + 2 + octets;
		// No certificate has a longer element, or a tag of several octets.
		if (first === 0x80 || octets > 3 || (tag & 0x1f) === 0x1f || start > bytes.length) {
			return null;
		}
		const end = start + (octets === 0 ? first : bytes.readUIntBE(at + 2, octets));
		if (end > bytes.length) {
			return null;
		}
		found.push({tag, content: bytes.subarray(start, end)});
		at = end;
	}
	return found;
}
