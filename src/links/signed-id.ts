import {createHmac, type KeyObject, timingSafeEqual} from 'node:crypto';
import {type IdPrefix, idBytes, idFromBytes} from '../mail/ids.ts';
import {fromBase32, toBase32} from './base32.ts';
import {type Purpose, purposeKeys, type TokenKeys} from './token-keys.ts';

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
export type SignedIds = {
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
