const alphabet = '0123456789abcdefghjkmnpqrstvwxyz';

/** Bytes as lower-case Crockford base32; the last character's spare bits are zero. Survives relays that fold case. */
export function toBase32(bytes: Uint8Array): string {
	let text = '';
	let bits = 0;
	let held = 0;
	for (const byte of bytes) {
		held = (held << 8) | byte;
		bits += 8;
		while (bits >= 5) {
			bits -= 5;
			text += alphabet[(held >> bits) & 31];
		}
		held &= (1 << bits) - 1;
	}
	return bits > 0 ? text + alphabet[(held << (5 - bits)) & 31] : text;
}

/** Reverses `toBase32`, in any case; null where the text is not exactly what `toBase32` writes. */
export function fromBase32(text: string): Buffer | null {
	const lower = text.toLowerCase();
	const bytes = Buffer.alloc(Math.floor((lower.length * 5) / 8));
	let length = 0;
	let bits = 0;
	let held = 0;
	for (const character of lower) {
		const value = alphabet.indexOf(character);
		if (value === -1) {
			return null;
		}

		held = (held << 5) | value;
		bits += 5;
		if (bits >= 8) {
			bits -= 8;
			bytes[length++] = (held >> bits) & 255;
		}
		held &= (1 << bits) - 1;
	}
	// One byte sequence has one spelling: spare bits are zero and no character is left over.
	return held === 0 && bits < 5 ? bytes : null;
}
