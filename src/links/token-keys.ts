import {createSecretKey, hkdfSync, type KeyObject} from 'node:crypto';

/** Master keys of 32 bytes by key id (0–255). New tokens use `current`; the others only read what is still out there. */
export type TokenKeys = {
	readonly current: number;
	readonly keys: Readonly<Record<number, Uint8Array>>;
};

/** What a token is for. A token of one purpose never opens as another: each purpose has its own key. */
export type Purpose = 'unsubscribe' | 'open' | 'click' | 'rp' | 'unsubscribe-mail' | 'ref' | 'message-id';

/** One purpose's keys, derived once. */
export type PurposeKeys = {
	readonly current: {readonly id: number; readonly key: KeyObject};
	readonly byId: ReadonlyMap<number, KeyObject>;
};

/**
 * Derives the keys of one purpose by HKDF-SHA256 (RFC 5869). The key id is part of the derivation, so that a token
 * whose key id was changed is refused even where two ids hold the same master key.
 * @throws where a master key has not 32 bytes, an id is no byte, or the current key is missing.
 */
export function purposeKeys(tokenKeys: TokenKeys, purpose: Purpose): PurposeKeys {
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
