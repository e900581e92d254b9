import {
	createCipheriv,
	createDecipheriv,
	createHmac,
	createSecretKey,
	hkdfSync,
	type KeyObject,
	timingSafeEqual,
} from 'node:crypto';
import {type IdPrefix, idBytes, idFromBytes} from '../mail/ids.ts';

const version = 1;
const nonceLength = 12;
const tagLength = 16;
const headLength = 2 + nonceLength;
/** Longer tokens are neither made nor looked at. */
const longestToken = 4096;

/** Encrypted, authenticated text for a URL: what is in it can be neither read nor changed by who holds it. */
export type SealedToken = {
	/** The token, or null where it would be longer than 4,096 characters. */
	readonly seal: (content: Uint8Array) => string | null;
	/** The content; null for everything that `seal` of this purpose did not write. */
	readonly open: (token: string) => Buffer | null;
};

/**
 * Tokens of one purpose: base64url of version ‖ key id ‖ nonce (12 B) ‖ AES-256-GCM(content) ‖ tag (16 B), with the
 * purpose as associated data. Canonical: one token has one spelling.
 */
export function createSealedToken(
	tokenKeys: TokenKeys,
	purpose: Purpose,
	random: (size: number) => Uint8Array,
): SealedToken {
	const keys = purposeKeys(tokenKeys, purpose);
	const associated = Buffer.from(purpose, 'latin1');

	return {
		seal: content => {
			const nonce = random(nonceLength);
			const cipher = createCipheriv('aes-256-gcm', keys.current.key, nonce);
			cipher.setAAD(associated);
			const encrypted = cipher.update(content);
			cipher.final();
			const head = Uint8Array.of(version, keys.current.id);
			const token = Buffer.concat([head, nonce, encrypted, cipher.getAuthTag()]).toString('base64url');
			return token.length <= longestToken ? token : null;
		},

		open: token => {
			if (token.length > longestToken) {
				return null;
			}

			// Node's decoder skips what is not base64url and ignores spare bits; only the spelling `seal` writes counts.
			const bytes = Buffer.from(token, 'base64url');
			if (bytes.length < headLength + tagLength || bytes[0] !== version || bytes.toString('base64url') !== token) {
				return null;
			}

			const key = keys.byId.get(bytes[1] ?? -1);
			if (!key) {
				return null;
			}

			const decipher = createDecipheriv('aes-256-gcm', key, bytes.subarray(2, headLength), {authTagLength: tagLength});
			decipher.setAAD(associated);
			decipher.setAuthTag(bytes.subarray(-tagLength));
			const content = decipher.update(bytes.subarray(headLength, -tagLength));
			try {
				decipher.final();
			} catch {
				return null; // The tag does not fit: forged, or another purpose's token.
			}
			return content;
		},
	};
}

/** Master keys of 32 bytes by key id (0–255). New tokens use `current`; the others only read what is still out there. */
export type TokenKeys = {
	readonly current: number;
	readonly keys: Readonly<Record<number, Uint8Array>>;
};

/** What a token is for. A token of one purpose never opens as another: each purpose has its own key. */
type Purpose = 'unsubscribe' | 'open' | 'click' | 'rp' | 'unsubscribe-mail' | 'ref' | 'message-id';

/** One purpose's keys, derived once. */
type PurposeKeys = {
	readonly current: {readonly id: number; readonly key: KeyObject};
	readonly byId: ReadonlyMap<number, KeyObject>;
};

/**
 * Derives the keys of one purpose by HKDF-SHA256 (RFC 5869). The key id is part of the derivation, so that a token with
 * a changed key id is refused even if two ids have the same master key.
 *
 * @throws if a master key does not have 32 bytes, an id is not a byte, or the current key is missing.
 */
function purposeKeys(tokenKeys: TokenKeys, purpose: Purpose): PurposeKeys {
	const byId = new Map<number, KeyObject>();
	for (const [text, master] of Object.entries(tokenKeys.keys)) {
		const id = Number(text);
		if (!Number.isInteger(id) || id < 0 || id > 255 || master.length !== 32) {
			throw new Error('A token key has an id of one byte and 32 bytes of key.');
		}

		const derived = hkdfSync('sha256', master, new Uint8Array(), `mailctl token ${purpose} ${id}`, 32);
		byId.set(id, createSecretKey(Buffer.from(derived)));
	}

	const current = byId.get(tokenKeys.current);
	if (!current) {
		throw new Error('The current token key is missing.');
	}

	return {current: {id: tokenKeys.current, key: current}, byId};
}

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
