import {randomBytes} from 'node:crypto';
import type {Clock} from '../kit/clock.ts';
import {toBuffer} from '../kit/text.ts';

const idPrefixes = [
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
	'aud',
	'rpt',
	'usr',
	'ses',
	'psk',
	'smh',
	'alr',
	'alm',
	'inb',
	'rcv',
] as const;
export type IdPrefix = (typeof idPrefixes)[number];

/**
 * Creates an id: the prefix, `_` and 26 characters of Crockford's base32, which are 48 bits of milliseconds and 80
 * random bits. Each id from one source sorts after the previous one.
 */
export type NewId = (prefix: IdPrefix) => string;

const alphabet = '0123456789abcdefghjkmnpqrstvwxyz';
// Numbers hold only 53 bits exactly, so the 80 random bits are stored as two halves of 40 bits. This is how many values
// each half has.
const valuesPerHalf = 2 ** 40;

function encode(value: number, characters: number): string {
	let text = '';
	for (let remaining = value; text.length < characters; remaining = Math.floor(remaining / 32)) {
		text = alphabet[remaining % 32] + text;
	}
	return text;
}

const poolSize = 8192;

/**
 * Returns a source of buffered random bytes. Requesting a few bytes at a time from the system would take longer than
 * everything else in creating an id.
 */
export function pooledRandom(): (size: number) => Buffer {
	let pool = Buffer.alloc(0);
	return size => {
		if (pool.length < size) {
			pool = randomBytes(poolSize);
		}
		const bytes = pool.subarray(0, size);
		pool = pool.subarray(size);
		return bytes;
	};
}

export function createIdSource(clock: Clock, random: (size: number) => Buffer = pooledRandom()): NewId {
	let time = Number.NEGATIVE_INFINITY;
	let timeText = '';
	let [high, low] = [0, 0];
	let highText = '';

	function begin(now: number): void {
		const bytes = random(10);
		time = now;
		timeText = encode(time, 10);
		high = bytes.readUIntBE(0, 5);
		highText = encode(high, 8);
		low = bytes.readUIntBE(5, 5);
	}

	return prefix => {
		const now = clock.now();
		if (now > time) {
			begin(now);
		} else {
			// Within a millisecond, or after the clock stepped back, continue from the last id to preserve the order.
			low += 1 + random(3).readUIntBE(0, 3);
			if (low >= valuesPerHalf) {
				low -= valuesPerHalf;
				high++;
				highText = encode(high, 8);
			}
			if (high >= valuesPerHalf) {
				begin(time + 1);
			}
		}
		return `${prefix}_${timeText}${highText}${encode(low, 8)}`;
	};
}

/** Stands for the message id in links that do not come from a message, such as those that the API creates. */
export const noMessage = 'msg_00000000000000000000000000';

/** Whether the text is a well-formed id of this kind. Callers check this before they query the store. */
export function isId(prefix: IdPrefix, text: string): boolean {
	return (
		text.length === prefix.length + 27 &&
		text.startsWith(`${prefix}_`) &&
		/^[0-9a-hjkmnp-tv-z]{26}$/.test(text.slice(-26))
	);
}

/** Whether the text is a well-formed template id. People may choose it, so more is allowed than for other ids. */
export function isTemplateId(text: string): boolean {
	return /^tpl_[\w-]{1,64}$/.test(text);
}

/** Describes the rule of `isTemplateId` in error messages. */
export const templateIdForm = 'tpl_ and 1 to 64 letters, digits, hyphens and underscores';

/** Returns the 16 bytes of an id, for signed tokens. */
export function idBytes(id: string): Buffer {
	const body = id.slice(-26);
	const bytes = Buffer.allocUnsafe(16);
	bytes.writeUIntBE(decode(body.slice(0, 10)), 0, 6);
	bytes.writeUIntBE(decode(body.slice(10, 18)), 6, 5);
	bytes.writeUIntBE(decode(body.slice(18)), 11, 5);
	return bytes;
}

function decode(text: string): number {
	let value = 0;
	for (const character of text) {
		value = value * 32 + alphabet.indexOf(character);
	}
	return value;
}

/** Returns the id for the bytes from `idBytes`. */
export function idFromBytes(prefix: IdPrefix, bytes: Uint8Array): string {
	const buffer = toBuffer(bytes);
	const parts = [
		encode(buffer.readUIntBE(0, 6), 10),
		encode(buffer.readUIntBE(6, 5), 8),
		encode(buffer.readUIntBE(11, 5), 8),
	];
	return `${prefix}_${parts.join('')}`;
}

/** Creates an id that sorts as if it had been created at a past time (milliseconds since the epoch). */
export type PastId = (prefix: IdPrefix, milliseconds: number) => string;

/**
 * Creates a source of past ids. Consecutive ids of the same time count up, so that a million of them are adjacent in an
 * index instead of scattered.
 */
export function createPastIds(random: (size: number) => Buffer = pooledRandom()): PastId {
	let currentMs = Number.NaN;
	let newId: NewId;
	return (prefix, milliseconds) => {
		if (milliseconds !== currentMs) {
			currentMs = milliseconds;
			newId = createIdSource({now: () => milliseconds, monotonic: () => 0}, random);
		}
		return newId(prefix);
	};
}

/** Returns when an id was created, in milliseconds. */
export function idTime(id: string): number {
	return decode(id.slice(-26, -16));
}

/** Returns the smallest possible id of a time, so that a range of times can be queried as a range of ids. */
export function idFloor(prefix: IdPrefix, milliseconds: number): string {
	return `${prefix}_${encode(Math.max(0, milliseconds), 10)}${'0'.repeat(16)}`;
}
