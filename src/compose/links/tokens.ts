import {
	createCipheriv,
	createDecipheriv,
	createHmac,
	createSecretKey,
	hkdfSync,
	type KeyObject,
	timingSafeEqual,
} from 'node:crypto';
import {type IdPrefix, idBytes, idFromBytes} from '../../mail/ids.ts';
import type {Role} from '../../mail/message.ts';

const version = 1;
const nonceLength = 12;
const tagLength = 16;
const headLength = 2 + nonceLength;
/** Longer tokens are neither created nor read. */
const maxTokenLength = 4096;

/**
 * Encrypted and authenticated content for a URL, which its holder can neither read nor change. A token is base64url of
 * version ‖ key id ‖ nonce (12 B) ‖ AES-256-GCM(content) ‖ tag (16 B), with its purpose as associated data. Every token
 * has exactly one valid spelling.
 */
export class SealedToken {
	readonly #keys: PurposeKeys;
	readonly #associatedData: Buffer;
	readonly #random: (size: number) => Uint8Array;

	constructor(tokenKeys: TokenKeys, purpose: Purpose, random: (size: number) => Uint8Array) {
		this.#keys = purposeKeys(tokenKeys, purpose);
		this.#associatedData = Buffer.from(purpose, 'latin1');
		this.#random = random;
	}

	/** Returns the token, or `null` if it would be longer than 4,096 characters. */
	seal(content: Uint8Array): string | null {
		const {id, key} = this.#keys.current;
		const nonce = this.#random(nonceLength);
		const cipher = createCipheriv('aes-256-gcm', key, nonce);
		cipher.setAAD(this.#associatedData);
		const encrypted = cipher.update(content);
		cipher.final();
		const head = Uint8Array.of(version, id);
		const token = Buffer.concat([head, nonce, encrypted, cipher.getAuthTag()]).toString('base64url');
		return token.length <= maxTokenLength ? token : null;
	}

	/** Returns the content, or `null` for anything that `seal` did not create for this purpose. */
	open(token: string): Buffer | null {
		if (token.length > maxTokenLength) {
			return null;
		}

		// Node's decoder skips invalid characters and ignores spare bits, so only the spelling of `seal` is accepted.
		const bytes = Buffer.from(token, 'base64url');
		if (bytes.length < headLength + tagLength || bytes[0] !== version || bytes.toString('base64url') !== token) {
			return null;
		}

		const key = this.#keys.byId.get(bytes[1] ?? -1);
		if (!key) {
			return null;
		}

		const decipher = createDecipheriv('aes-256-gcm', key, bytes.subarray(2, headLength), {
			authTagLength: tagLength,
		});
		decipher.setAAD(this.#associatedData);
		decipher.setAuthTag(bytes.subarray(-tagLength));
		const content = decipher.update(bytes.subarray(headLength, -tagLength));
		try {
			decipher.final();
		} catch {
			return null; // The tag does not match: forged, or for another purpose.
		}
		return content;
	}
}

/** Master keys of 32 bytes by key id (0–255). New tokens use `current`; the others only read existing tokens. */
export type TokenKeys = {
	readonly current: number;
	readonly keys: Readonly<Record<number, Uint8Array>>;
};

/** The purpose of a token. Each purpose has its own key, so a token of one never opens as another. */
type Purpose = 'alert' | 'unsubscribe' | 'open' | 'click' | 'rp' | 'unsubscribe-mail' | 'ref' | 'message-id' | 'reply';

/** The keys of one purpose, derived once. */
type PurposeKeys = {
	readonly current: {readonly id: number; readonly key: KeyObject};
	readonly byId: ReadonlyMap<number, KeyObject>;
};

/**
 * Derives the keys of one purpose by HKDF-SHA256 (RFC 5869). The key id is part of the derivation, so a token with a
 * changed key id is rejected even if two ids share a master key.
 *
 * @throws if a master key does not have 32 bytes, an id is not a byte, or the current key is missing.
 */
function purposeKeys(tokenKeys: TokenKeys, purpose: Purpose): PurposeKeys {
	const byId = new Map<number, KeyObject>();
	for (const [text, master] of Object.entries(tokenKeys.keys)) {
		const id = Number(text);
		if (!Number.isInteger(id) || id < 0 || id > 255 || master.length !== 32) {
			throw new Error('A token key must have 32 bytes and an id of one byte (0–255).');
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

/** An id read from a token. It proves nothing until it is verified. */
export type SignedId = {
	readonly id: string;
	/** Whether mailctl created this token for this id and address. The address must come from the id's row. */
	readonly verify: (address: string) => boolean;
};

/**
 * Tokens that carry an id through mail systems: 45 characters of `[0-9a-z]`, readable in either case (R3.1). A token is
 * a letter for the kind, then base32 of key id (1 B) ‖ id (16 B) ‖ HMAC-SHA256(purpose ‖ id ‖ lower-case address). The
 * HMAC is truncated to 80 bits.
 */
export class SignedIds {
	readonly #keys: PurposeKeys;
	readonly #kind: {readonly purpose: Purpose; readonly letter: string; readonly prefix: IdPrefix};

	constructor(tokenKeys: TokenKeys, kind: {purpose: Purpose; letter: string; prefix: IdPrefix}) {
		this.#keys = purposeKeys(tokenKeys, kind.purpose);
		this.#kind = kind;
	}

	sign(id: string, address: string): string {
		const bytes = idBytes(id);
		const {key, id: keyId} = this.#keys.current;
		return (
			this.#kind.letter + toBase32(Buffer.concat([Uint8Array.of(keyId), bytes, this.#mac(key, bytes, address)]))
		);
	}

	/** Returns `null` if the text is not a well-formed token or its key is not known. */
	read(token: string): SignedId | null {
		const {letter, prefix} = this.#kind;
		if (token.length !== tokenLength || token[0]?.toLowerCase() !== letter) {
			return null;
		}

		const bytes = fromBase32(token.slice(1));
		const key = this.#keys.byId.get(bytes?.[0] ?? -1);
		if (!bytes || !key) {
			return null;
		}

		const id = bytes.subarray(1, 1 + idLength);
		return {
			id: idFromBytes(prefix, id),
			verify: address => timingSafeEqual(this.#mac(key, id, address), bytes.subarray(1 + idLength)),
		};
	}

	#mac(key: KeyObject, id: Uint8Array, address: string): Buffer {
		const mac = createHmac('sha256', key).update(this.#kind.purpose).update(id).update(address.toLowerCase());
		return mac.digest().subarray(0, macLength);
	}
}

const alphabet = '0123456789abcdefghjkmnpqrstvwxyz';

/** Encodes bytes as lower-case Crockford base32, with zeros as spare bits. It survives relays that change the case. */
export function toBase32(bytes: Uint8Array): string {
	let text = '';
	let bits = 0;
	let pending = 0;
	for (const byte of bytes) {
		pending = (pending << 8) | byte;
		bits += 8;
		while (bits >= 5) {
			bits -= 5;
			text += alphabet[(pending >> bits) & 31];
		}
		pending &= (1 << bits) - 1;
	}
	return bits > 0 ? text + alphabet[(pending << (5 - bits)) & 31] : text;
}

/** Reverses `toBase32`, in either case. Returns `null` unless the text is exactly what `toBase32` would write. */
export function fromBase32(text: string): Buffer | null {
	const lower = text.toLowerCase();
	const bytes = Buffer.alloc(Math.floor((lower.length * 5) / 8));
	let length = 0;
	let bits = 0;
	let pending = 0;
	for (const character of lower) {
		const value = alphabet.indexOf(character);
		if (value === -1) {
			return null;
		}

		pending = (pending << 5) | value;
		bits += 5;
		if (bits >= 8) {
			bits -= 8;
			bytes[length++] = (pending >> bits) & 255;
		}
		pending &= (1 << bits) - 1;
	}
	// Each byte sequence has one valid spelling: spare bits are zero, and no character is left over.
	return pending === 0 && bits < 5 ? bytes : null;
}

/** The content of a link's token. It suffices to act even after the message was deleted. */
export type Claims = {
	readonly workspaceId: string;
	readonly messageId: string;
	/** The topic of the message. */
	readonly topicId: string | null;
	readonly role: Role;
	/** The recipient's address, as the caller spelled it. */
	readonly address: string;
	/** Milliseconds since the epoch, stored in whole seconds. */
	readonly expiresAt: number;
};

const noTopic = Buffer.alloc(16);
const roles: readonly Role[] = ['to', 'cc'];
const addressAt = 53;

/** A u32 of seconds wraps around in 2106, so it is read as the time nearest to now. */
const secondsRange = 2 ** 32;
/** Half of the range suffices in each direction, because MAILCTL_TOKEN_LIFETIME is at most ten years. */
const secondsBack = secondsRange / 2;

function readSeconds(seconds: number, now: number): number {
	const earliest = Math.floor(now / 1000) - secondsBack;
	const distance = (((seconds - earliest) % secondsRange) + secondsRange) % secondsRange;
	return (earliest + distance) * 1000;
}

/** Expiry (u32 seconds) ‖ workspace ‖ message ‖ topic or zeros (16 B each) ‖ role (1 B) ‖ address ‖ [NUL ‖ URL]. */
export function writeClaims(claims: Claims, url?: string): Buffer {
	const fixed = Buffer.allocUnsafe(addressAt);
	fixed.writeUInt32BE(Math.floor(claims.expiresAt / 1000) % secondsRange);
	idBytes(claims.workspaceId).copy(fixed, 4);
	idBytes(claims.messageId).copy(fixed, 20);
	(claims.topicId === null ? noTopic : idBytes(claims.topicId)).copy(fixed, 36);
	fixed[52] = roles.indexOf(claims.role);
	return Buffer.concat([fixed, Buffer.from(url === undefined ? claims.address : `${claims.address}\0${url}`)]);
}

/** A link sent to the address. Following it proves control of the address and consents to the workspace's alerts. */
export type AlertConsent = Pick<Claims, 'workspaceId' | 'address' | 'expiresAt'>;

const consentAddressAt = 22;

/** Expiry (u48 milliseconds) ‖ workspace (16 B) ‖ address. */
export function writeConsent({workspaceId, address, expiresAt}: AlertConsent): Buffer {
	const fixed = Buffer.allocUnsafe(consentAddressAt);
	fixed.writeUIntBE(expiresAt, 0, 6);
	idBytes(workspaceId).copy(fixed, 6);
	return Buffer.concat([fixed, Buffer.from(address)]);
}

/** Reads what `writeConsent` wrote. Call it only with bytes whose seal was checked. */
export function readConsent(content: Buffer): AlertConsent {
	return {
		workspaceId: idFromBytes('ws', content.subarray(6, consentAddressAt)),
		address: content.toString('utf8', consentAddressAt),
		expiresAt: content.readUIntBE(0, 6),
	};
}

/** Reads what `writeClaims` wrote. Call it only with bytes whose seal was checked. */
export function readClaims(content: Buffer, now: number): {claims: Claims; url: string} {
	const [address = '', url = ''] = content.toString('utf8', addressAt).split('\0');
	const topic = content.subarray(36, 52);
	return {
		claims: {
			workspaceId: idFromBytes('ws', content.subarray(4, 20)),
			messageId: idFromBytes('msg', content.subarray(20, 36)),
			topicId: topic.equals(noTopic) ? null : idFromBytes('usg', topic),
			role: roles[content[52] ?? 0] ?? 'to',
			address,
			expiresAt: readSeconds(content.readUInt32BE(), now),
		},
		url,
	};
}
