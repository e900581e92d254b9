import {TextDecoder} from 'node:util';
import {parseExact} from '../kit/exact-json.ts';
import {inSlice} from '../kit/turns.ts';
import type {Violation} from '../mail/api-error.ts';
import type {Body} from './body.ts';

/** The limits of a JSON body. The values that count are the names in objects and the elements of lists. */
export type JsonLimits = {
	readonly values: number;
	/** For a body that is an object with a list of items, which are parsed one by one. */
	readonly items?: ItemLimits;
};

export type ItemLimits = {
	/** The name of the list, also used in violations. */
	readonly list: string;
	/** The maximum number of items that are parsed. Further ones are only counted. */
	readonly max: number;
	readonly values: number;
	/** The maximum size of an item. A larger one is not parsed. */
	readonly bytes: number;
};

/** The position of a list of items and of its content. */
type List = {
	/** The position of its name, including the quotes. */
	readonly nameStart: number;
	readonly nameEnd: number;
	readonly start: number;
	end: number;
	length: number;
	/** The position of each item that is to be parsed; `null` if the item is too large. */
	readonly items: Array<readonly [start: number, end: number] | null>;
	/** The number of names within items that are not parsed. */
	unreadNames: number;
};

export type ScanProblem = {readonly violation: Violation} | {readonly message: string};

/** The result of a scan. It is meaningless if the bytes are not JSON. */
type ScanResult = {
	readonly names: number;
	readonly values: number;
	/** Whether a number has a sign, a point, an exponent or over 15 digits, so that JavaScript may respell it. */
	readonly hasOddNumbers: boolean;
	/** The first list in the root object that is not empty; `null` if there is none or items were not requested. */
	readonly list: List | null;
};

const maxDepth = 32;
// The root object has depth 1, and the list within it depth 2.
const itemDepth = 2;
const nameDepth = 1;

const quote = 0x22;
const comma = 0x2c;
const backslash = 0x5c;
const colon = 0x3a;
const openBracket = 0x5b;
const closeBracket = 0x5d;
const openBrace = 0x7b;
const closeBrace = 0x7d;
const lastWhitespace = 0x20;
const zero = 0x30;
const nine = 0x39;
const upperE = 0x45;
const lowerE = 0x65;
/** Every integer of this many digits survives the conversion to a double and back. */
const maxExactDigits = 15;

/**
 * Scans a JSON body (RFC 8259) while it arrives, before it is parsed, because parsing costs memory and time for each
 * value. It detects bodies that are nested too deeply or have too many values, and finds the items.
 *
 * It is a class so that V8 compiles its methods once: closures created for each body would lose their compiled code.
 */
export class JsonScan {
	readonly #max: number;
	readonly #itemLimits: ItemLimits | undefined;
	readonly #maxInPart: number;
	#offset = 0;
	#depth = 0;
	#names = 0;
	#values = 0;
	#isInString = false;
	/** The number of bytes of the next piece that are escaped by a backslash at the end of this one. */
	#skipped = 0;
	/** The number of digits of the current number. */
	#digits = 0;
	#hasOddNumbers = false;
	/** Whether a bracket was opened and nothing has followed it yet. */
	#isJustOpened = false;
	/** The highest number of values allowed so far: in total, in this item, or around the items. */
	#cap: number;
	#list: List | null = null;
	#isInList = false;
	/** Whether the root is an object. */
	#hasNames = false;
	#nameStart = 0;
	#nameEnd = 0;
	#item = {start: 0, names: 0, values: 0};
	#valuesOfItems = 0;

	constructor({values, items}: JsonLimits) {
		this.#max = values;
		this.#itemLimits = items;
		this.#maxInPart = items?.values ?? values;
		this.#cap = Math.min(values, this.#maxInPart);
	}

	/** Scans a piece. Returns the first problem, or `null`. */
	feed(bytes: Buffer): ScanProblem | null {
		// One character per byte: `indexOf` then finds the end of a string quickly.
		const text = bytes.toString('latin1');
		const {length} = text;
		for (let index = this.#isInString ? this.#endOfString(text, this.#skipped) + 1 : 0; index < length; index++) {
			const byte = text.charCodeAt(index);
			if (byte <= lastWhitespace) {
				continue;
			}
			if (byte === closeBracket || byte === closeBrace) {
				this.#close(this.#offset + index);
				continue;
			}
			if (this.#isJustOpened) {
				this.#isJustOpened = false;
				this.#values++;
			}
			if (byte === quote) {
				const start = index;
				index = this.#endOfString(text, index + 1);
				if (this.#depth === nameDepth) {
					this.#nameStart = this.#offset + start;
				}
			} else if (byte === colon) {
				this.#names++;
				this.#digits = 0;
			} else if (byte === comma) {
				this.#separate(this.#offset + index);
				this.#digits = 0;
			} else if (byte === openBracket || byte === openBrace) {
				const problem = this.#open(byte, this.#offset + index);
				if (problem) {
					return problem;
				}
			} else {
				this.#readNumber(byte);
			}
			if (this.#values > this.#cap) {
				return this.#tooMany();
			}
		}
		this.#offset += length;
		return null;
	}

	result(): ScanResult {
		return {
			names: this.#names,
			values: this.#values,
			hasOddNumbers: this.#hasOddNumbers,
			list: this.#isInList ? null : this.#list,
		};
	}

	#beginItem(start: number, valuesBefore: number): void {
		this.#item = {start, names: this.#names, values: valuesBefore};
		this.#cap = Math.min(this.#max, valuesBefore + this.#maxInPart);
	}

	#endItem(list: List, {max, bytes}: ItemLimits, end: number): void {
		this.#valuesOfItems += this.#values - this.#item.values;
		const isRead = list.length < max && end - this.#item.start <= bytes;
		if (list.length < max) {
			list.items.push(isRead ? [this.#item.start, end] : null);
		}
		list.length++;
		list.unreadNames += isRead ? 0 : this.#names - this.#item.names;
	}

	#tooMany(): ScanProblem {
		const toProblem = (field: string, allowed: number) => ({
			violation: {field, message: `must have at most ${allowed} names and list elements`},
		});
		const list = this.#itemLimits?.list;
		if (this.#values > this.#max) {
			return toProblem(list ?? 'body', this.#max);
		}
		const field = list !== undefined && this.#isInList ? `${list}[${this.#list?.length}]` : 'body';
		return toProblem(field, this.#maxInPart);
	}

	#open(bracket: number, position: number): ScanProblem | null {
		this.#depth++;
		this.#isJustOpened = true;
		if (this.#depth === nameDepth) {
			this.#hasNames = bracket === openBrace;
		} else if (
			this.#itemLimits &&
			this.#depth === itemDepth &&
			this.#hasNames &&
			bracket === openBracket &&
			this.#list === null
		) {
			this.#isInList = true;
			const [nameStart, nameEnd] = [this.#nameStart, this.#nameEnd];
			this.#list = {nameStart, nameEnd, start: position + 1, end: 0, length: 0, items: [], unreadNames: 0};
			// The first item also counts as an element, which is added when its first byte is seen.
			this.#beginItem(position + 1, this.#values + 1);
		}
		return this.#depth > maxDepth ? {message: `The body is nested more than ${maxDepth} levels deep.`} : null;
	}

	#close(position: number): void {
		if (this.#itemLimits && this.#list && this.#isInList && this.#depth === itemDepth) {
			if (!this.#isJustOpened) {
				this.#endItem(this.#list, this.#itemLimits, position);
				this.#list.end = position;
			}
			this.#cap = Math.min(this.#max, this.#valuesOfItems + this.#list.length + this.#maxInPart);
			this.#list = this.#isJustOpened ? null : this.#list;
			this.#isInList = false;
		}
		this.#depth--;
		this.#isJustOpened = false;
	}

	#separate(position: number): void {
		if (this.#itemLimits && this.#list && this.#isInList && this.#depth === itemDepth) {
			this.#endItem(this.#list, this.#itemLimits, position);
			this.#beginItem(position + 1, this.#values + 1);
		}
		this.#values++;
	}

	#readNumber(byte: number): void {
		if (byte >= zero && byte <= nine) {
			this.#digits++;
			this.#hasOddNumbers ||= this.#digits > maxExactDigits;
		} else {
			// `-`, `+` and the point are below 0. Without digits before it, an `e` belongs to `true` or `false`.
			this.#hasOddNumbers ||= byte < zero || byte === upperE || (byte === lowerE && this.#digits > 0);
		}
	}

	/** Returns the index of the closing quote, or the length if the string continues in the next piece. */
	#endOfString(text: string, start: number): number {
		let end = text.indexOf('"', start);
		while (end !== -1 && isEscaped(text, start, end)) {
			end = text.indexOf('"', end + 1);
		}
		this.#isInString = end === -1;
		if (this.#isInString) {
			this.#skipped = isEscaped(text, start, text.length) ? 1 : 0;
			return text.length;
		}
		if (this.#depth === nameDepth) {
			this.#nameEnd = this.#offset + end + 1;
		}
		return end;
	}
}

/** Whether an odd number of backslashes precedes the position. */
function isEscaped(text: string, start: number, position: number): boolean {
	let before = position - 1;
	while (before >= start && text.charCodeAt(before) === backslash) {
		before--;
	}
	return (position - before) % 2 === 0;
}

export type ParsedJson = {readonly ok: true; readonly value: unknown} | Problem;

type Part = {readonly ok: true; readonly value: unknown; readonly names: number} | Problem;
type Problem = {readonly ok: false; readonly problem: string};

/** Stands for an item that is too large to be parsed. */
export const oversized = Symbol('oversized');

/** The field whose numbers retain their digits. Numbers in other fields are used for arithmetic. */
const variablesField = 'data';
// Includes escapes.
const maxNameLength = 100;
/** RFC 8259 §8.1 allows parsers to ignore a byte order mark before a document. Within it, it is a character. */
const documentDecoder = new TextDecoder('utf-8', {fatal: true});
const partDecoder = new TextDecoder('utf-8', {fatal: true, ignoreBOM: true});

/**
 * Parses a JSON document (RFC 8259) strictly: valid UTF-8, no duplicate names in an object, and no `__proto__` or
 * `constructor.prototype`. The problem is a sentence for the user. A scan must have accepted the bytes: it counts the
 * names and limits the depth.
 */
export function parseJson(
	bytes: Uint8Array,
	{names, hasOddNumbers}: Pick<ScanResult, 'names' | 'hasOddNumbers'>,
): ParsedJson {
	const text = decode(bytes, documentDecoder);
	return text === null ? notUtf8 : rejectDuplicates(parsePart(text, hasOddNumbers), names);
}

/**
 * Parses a large body in parts, so that other requests run in between. Each item of the list named `listName` is a
 * part. Items beyond the maximum become `null`.
 */
export async function parseLargeJson(
	body: Body,
	{names, list, hasOddNumbers}: ScanResult,
	listName: string | null,
): Promise<ParsedJson> {
	const itemList = list && listName !== null && readListName(body, list) === listName ? list : null;
	const outerBytes = () =>
		itemList
			? Buffer.concat([body.between(0, itemList.start), body.between(itemList.end, body.length())])
			: body.all();
	const outer = await readPart(outerBytes, {decoder: documentDecoder, hasOddNumbers});
	const root = outer.ok ? (outer.value as Record<string, unknown> | null) : null;
	if (!outer.ok || !itemList || !Array.isArray(root?.[listName as string])) {
		return rejectDuplicates(outer, names);
	}

	const items: unknown[] = [];
	let nameCount = outer.names;
	for (const span of itemList.items) {
		if (span === null) {
			items.push(oversized);
			continue;
		}
		const item = await readPart(() => body.between(...span), {decoder: partDecoder, hasOddNumbers});
		body.drop(span[1]);
		if (!item.ok) {
			return item;
		}
		nameCount += item.names;
		items.push(item.value);
	}
	const unreadItems = new Array(itemList.length - items.length).fill(null);
	return rejectDuplicates(
		{ok: true, value: {...root, [listName as string]: items.concat(unreadItems)}, names: nameCount},
		names - itemList.unreadNames,
	);
}

/** Uses two slices, because decoding and parsing a megabyte both take noticeable time. */
async function readPart(
	bytes: () => Uint8Array,
	{decoder, hasOddNumbers}: {readonly decoder: TextDecoder; readonly hasOddNumbers: boolean},
): Promise<Part> {
	const text = await inSlice(() => decode(bytes(), decoder));
	return text === null ? notUtf8 : await inSlice(() => parsePart(text, hasOddNumbers));
}

function readListName(body: Body, {nameStart, nameEnd}: NonNullable<ScanResult['list']>): unknown {
	const text = nameEnd - nameStart <= maxNameLength ? decode(body.between(nameStart, nameEnd), partDecoder) : null;
	const part = text === null ? notUtf8 : parsePart(text, false);
	return part.ok ? part.value : null;
}

function decode(bytes: Uint8Array, decoder: TextDecoder): string | null {
	try {
		return decoder.decode(bytes);
	} catch {
		return null;
	}
}

function parsePart(text: string, hasOddNumbers: boolean): Part {
	let value: unknown;
	try {
		value = hasOddNumbers ? parseExact(text, variablesField) : JSON.parse(text);
	} catch {
		return problem('The body is not valid JSON.');
	}
	const names = countNames(value);
	return names === null
		? problem('The body has a name that is not allowed: __proto__ or constructor.prototype.')
		: {ok: true, value, names};
}

// JSON.parse retains only the last of several equal names, so the object then has fewer names than the text.
function rejectDuplicates(part: Part, names: number): ParsedJson {
	if (!part.ok) {
		return part;
	}
	return part.names === names
		? {ok: true, value: part.value}
		: problem('The body has the same name twice in one object.');
}

// Returns the number of names of all objects in the value, or `null` if a name could pollute a prototype.
function countNames(value: unknown): number | null {
	if (typeof value !== 'object' || value === null) {
		return 0;
	}

	let count = 0;
	if (Array.isArray(value)) {
		for (const item of value) {
			const innerCount = countNames(item);
			if (innerCount === null) {
				return null;
			}
			count += innerCount;
		}
		return count;
	}

	// Object.entries takes twice as long, and objects from JSON.parse have no inherited names.
	for (const name in value) {
		const item = (value as Record<string, unknown>)[name];
		const innerCount =
			name === '__proto__' || (name === 'constructor' && hasPrototype(item)) ? null : countNames(item);
		if (innerCount === null) {
			return null;
		}
		count += innerCount + 1;
	}
	return count;
}

function hasPrototype(value: unknown): boolean {
	return typeof value === 'object' && value !== null && Object.hasOwn(value, 'prototype');
}

function problem(text: string): Problem {
	return {ok: false, problem: text};
}

const notUtf8 = problem('The body is not valid UTF-8.');
