import {randomBytes} from 'node:crypto';
import type {Clock} from './clock.ts';

export const idPrefixes = [
	'ws',
	'key',
	'dom',
	'dkm',
	'snd',
	'tpl',
	'tpv',
	'msg',
	'rcp',
	'evt',
	'sup',
	'usg',
	'whe',
	'whd',
	'con',
	'req',
] as const;
export type IdPrefix = (typeof idPrefixes)[number];

/** Makes ids: prefix, `_`, 26 characters of Crockford's base32: 48 bits of milliseconds, 80 random, never backwards. */
export type NewId = (prefix: IdPrefix) => string;

const alphabet = '0123456789abcdefghjkmnpqrstvwxyz';
const timeShift = 80n;
const randomMask = (1n << timeShift) - 1n;

// Thirteen characters hold the time (48 bits) and the upper 17 random bits, thirteen the rest: numbers that fit a double twice.
function encode(value: bigint): string {
	let text = '';
	for (let shift = 125n; shift >= 0n; shift -= 5n) {
		text += alphabet[Number((value >> shift) & 31n)];
	}
	return text;
}

export function createIdSource(clock: Clock, random: (size: number) => Buffer = randomBytes): NewId {
	let last = 0n;
	return prefix => {
		const now = BigInt(clock.now()) << timeShift;
		// Within a millisecond, or after the clock stepped back, count on from the last id so that order is kept.
		last =
			now >> timeShift > last >> timeShift
				? now | (BigInt(`0x${random(10).toString('hex')}`) & randomMask)
				: last + 1n + BigInt(random(3).readUIntBE(0, 3));
		return `${prefix}_${encode(last)}`;
	};
}

/** Whether the text has the form of an id of this kind; asked before any query. */
export function isId(prefix: IdPrefix, text: string): boolean {
	return (
		text.length === prefix.length + 27 &&
		text.startsWith(`${prefix}_`) &&
		/^[0-9a-hjkmnp-tv-z]{26}$/.test(text.slice(-26))
	);
}

/** The 16 bytes of an id's body, for signed tokens (its first two bits are always zero: 26 characters hold 130). */
export function idBytes(id: string): Buffer {
	let value = 0n;
	for (const character of id.slice(-26)) {
		value = (value << 5n) | BigInt(alphabet.indexOf(character));
	}
	return Buffer.from(value.toString(16).padStart(32, '0'), 'hex');
}

/** The id that `idBytes` was taken from. */
export function idFromBytes(prefix: IdPrefix, bytes: Uint8Array): string {
	return `${prefix}_${encode(BigInt(`0x${Buffer.from(bytes).toString('hex')}`))}`;
}

/** The smallest id body of a moment: a range of times becomes a range of ids. */
export function idFloor(prefix: IdPrefix, milliseconds: number): string {
	return `${prefix}_${encode(BigInt(Math.max(0, milliseconds)) << timeShift)}`;
}
