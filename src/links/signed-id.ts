import {createHmac, type KeyObject, timingSafeEqual} from 'node:crypto';
import {type IdPrefix, idBytes, idFromBytes} from '../mail/ids.ts';
import {type Purpose, purposeKeys, type TokenKeys} from './sealed-token.ts';

const idLength = 16;
const macLength = 10;
const tokenLength = 45;

/** An id read from a token. It proves nothing until `verify` says so. */
export type SignedId = {
	readonly id: string;
	/** Whether we made this token for this id and address. The address comes from the id's row, never from outside. */
	readonly verify: (address: string) => boolean;
};

/** Tokens that carry one id through mail systems: 45 characters of `[0-9a-z]`, readable in any case (R3.1). */
type SignedIds = {
	readonly sign: (id: string, address: string) => string;
	/** Null where the text has not the form of such a token, or its key is not known. */
	readonly read: (token: string) => SignedId | null;
};

/**
 * Tokens of one purpose: a letter that names the kind, then base32 of key id (1 B) ‖ id (16 B) ‖
 * HMAC-SHA256(purpose ‖ id ‖ lower-case address) cut to 80 bits.
 */
export function createSignedIds(
	tokenKeys: TokenKeys,
	{purpose, letter, prefix}: {purpose: Purpose; letter: string; prefix: IdPrefix},
): SignedIds {
	const keys = purposeKeys(tokenKeys, purpose);
	const mac = (key: KeyObject, id: Uint8Array, address: string) =>
		createHmac('sha256', key).update(purpose).update(id).update(address.toLowerCase()).digest().subarray(0, macLength);

	return {
		sign: (id, address) => {
			const bytes = idBytes(id);
			const {key, id: keyId} = keys.current;
			return letter + toBase32(Buffer.concat([Uint8Array.of(keyId), bytes, mac(key, bytes, address)]));
		},

		read: token => {
			if (token.length !== tokenLength || token[0]?.toLowerCase() !== letter) {
				return null;
			}

			const bytes = fromBase32(token.slice(1));
			const key = keys.byId.get(bytes?.[0] ?? -1);
			if (!bytes || !key) {
				return null;
			}

			const id = bytes.subarray(1, 1 + idLength);
			return {
				id: idFromBytes(prefix, id),
				verify: address => timingSafeEqual(mac(key, id, address), bytes.subarray(1 + idLength)),
			};
		},
	};
}

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
