import {TextDecoder} from 'node:util';
import {parseExact} from '../kit/exact-json.ts';
import type {Violation} from '../mail/api-error.ts';
import type {Body} from './body.ts';
import {inSlice} from './turns.ts';

/**
 * How much a JSON body may hold. What counts are its values: the names of its objects and the elements of its lists.
 */
export type JsonLimits = {
	readonly values: number;
	/** For a body that is an object with a list of items, which are read one by one. */
	readonly items?: ItemLimits;
};

export type ItemLimits = {
	/** The list's name, for violations. */
	readonly list: string;
	/** Further items are counted, and not read. */
	readonly most: number;
	readonly values: number;
	/** An item with more is not read. */
	readonly bytes: number;
};

/** A list of items: where its content begins and ends. */
type List = {
	/** Of its name, with the quotes. */
	readonly nameStart: number;
	readonly nameEnd: number;
	readonly start: number;
	end: number;
	length: number;
	/** Where each of the first ones begins and ends; null: it is too large. */
	readonly items: Array<readonly [start: number, end: number] | null>;
	/** How many names the items have that are not read. */
	unreadNames: number;
};

export type ScanFault = {readonly violation: Violation} | {readonly message: string};

/** What a scan has seen. Of bytes that are not JSON it may be anything. */
type Seen = {
	readonly names: number;
	readonly values: number;
	/** A number has a sign, a point, an exponent or more than 15 digits: JavaScript may spell it in another way. */
	readonly oddNumbers: boolean;
	/** The first list in the root object that is not empty; null: no list, or it was not looked for. */
	readonly list: List | null;
};

const deepest = 32;
// The root is an object, the list is within it.
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
/** A double holds any number of this many digits, and is spelled by the same ones. */
const plainDigits = 15;

/**
 * Looks through a JSON body (RFC 8259) as it comes, before anything is made of it: parsing costs memory and time for
 * each value. Finds what is nested too deep or has too many values, and where the items are.
 *
 * A class, so that V8 compiles its methods once: functions that are made for each body lose their code with it.
 */
export class JsonScan {
	readonly #most: number;
	readonly #itemLimits: ItemLimits | undefined;
	readonly #maxInPart: number;
	#offset = 0;
	#depth = 0;
	#names = 0;
	#values = 0;
	#inString = false;
	/** How many bytes of the next piece a backslash at the end of the last one escapes. */
	#skipped = 0;
	/** Of the number that is being read. */
	#digits = 0;
	#oddNumbers = false;
	/** A bracket was opened, and nothing stood behind it yet. */
	#fresh = false;
	/** More values would be too many: in all, in this item, or around the items. */
	#cap: number;
	#list: List | null = null;
	#isInList = false;
	/** The root is an object. */
	#hasNames = false;
	#nameStart = 0;
	#nameEnd = 0;
	#item = {start: 0, names: 0, values: 0};
	#valuesOfItems = 0;

	constructor({values, items}: JsonLimits) {
		this.#most = values;
		this.#itemLimits = items;
		this.#maxInPart = items?.values ?? values;
		this.#cap = Math.min(values, this.#maxInPart);
	}

	/** Null: good so far. */
	feed(bytes: Buffer): ScanFault | null {
		// A text of bytes: finding the end of a string in it is quick.
		const text = bytes.toString('latin1');
		const {length} = text;
		for (let index = this.#inString ? this.#endOfString(text, this.#skipped) + 1 : 0; index < length; index++) {
			const byte = text.charCodeAt(index);
			if (byte <= lastWhitespace) {
				continue;
			}
			if (byte === closeBracket || byte === closeBrace) {
				this.#close(this.#offset + index);
				continue;
			}
			if (this.#fresh) {
				this.#fresh = false;
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
				const fault = this.#open(byte, this.#offset + index);
				if (fault) {
					return fault;
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

	seen(): Seen {
		return {
			names: this.#names,
			values: this.#values,
			oddNumbers: this.#oddNumbers,
			list: this.#isInList ? null : this.#list,
		};
	}

	#beginItem(start: number, valuesBefore: number): void {
		this.#item = {start, names: this.#names, values: valuesBefore};
		this.#cap = Math.min(this.#most, valuesBefore + this.#maxInPart);
	}

	#endItem(of: List, {most, bytes}: ItemLimits, end: number): void {
		this.#valuesOfItems += this.#values - this.#item.values;
		const isRead = of.length < most && end - this.#item.start <= bytes;
		if (of.length < most) {
			of.items.push(isRead ? [this.#item.start, end] : null);
		}
		of.length++;
		of.unreadNames += isRead ? 0 : this.#names - this.#item.names;
	}

	#tooMany(): ScanFault {
		const refuse = (field: string, allowed: number) => ({
			violation: {field, message: `must have at most ${allowed} names and list elements`},
		});
		const list = this.#itemLimits?.list;
		if (this.#values > this.#most) {
			return refuse(list ?? 'body', this.#most);
		}
		return refuse(
			list !== undefined && this.#isInList ? `${list}[${this.#list?.length}]` : 'body',
			this.#maxInPart,
		);
	}

	#open(bracket: number, at: number): ScanFault | null {
		this.#depth++;
		this.#fresh = true;
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
			this.#list = {nameStart, nameEnd, start: at + 1, end: 0, length: 0, items: [], unreadNames: 0};
			// The first item is an element too: it is counted when its first byte is seen.
			this.#beginItem(at + 1, this.#values + 1);
		}
		return this.#depth > deepest ? {message: `The body is nested more than ${deepest} levels deep.`} : null;
	}

	#close(at: number): void {
		if (this.#itemLimits && this.#list && this.#isInList && this.#depth === itemDepth) {
			if (!this.#fresh) {
				this.#endItem(this.#list, this.#itemLimits, at);
				this.#list.end = at;
			}
			this.#cap = Math.min(this.#most, this.#valuesOfItems + this.#list.length + this.#maxInPart);
			this.#list = this.#fresh ? null : this.#list;
			this.#isInList = false;
		}
		this.#depth--;
		this.#fresh = false;
	}

	#separate(at: number): void {
		if (this.#itemLimits && this.#list && this.#isInList && this.#depth === itemDepth) {
			this.#endItem(this.#list, this.#itemLimits, at);
			this.#beginItem(at + 1, this.#values + 1);
		}
		this.#values++;
	}

	#readNumber(byte: number): void {
		if (byte >= zero && byte <= nine) {
			this.#digits++;
			this.#oddNumbers ||= this.#digits > plainDigits;
		} else {
			// Below 0 are `-`, `+` and the point. The other `e` are those of `true` and `false`.
			this.#oddNumbers ||= byte < zero || byte === upperE || (byte === lowerE && this.#digits > 0);
		}
	}

	/** The index of the closing quote; the length where the string goes on in the next piece. */
	#endOfString(text: string, start: number): number {
		let end = text.indexOf('"', start);
		while (end !== -1 && isEscaped(text, start, end)) {
			end = text.indexOf('"', end + 1);
		}
		this.#inString = end === -1;
		if (this.#inString) {
			this.#skipped = isEscaped(text, start, text.length) ? 1 : 0;
			return text.length;
		}
		if (this.#depth === nameDepth) {
			this.#nameEnd = this.#offset + end + 1;
		}
		return end;
	}
}

/** Whether an odd number of backslashes comes before. */
function isEscaped(text: string, start: number, at: number): boolean {
	let before = at - 1;
	while (before >= start && text.charCodeAt(before) === backslash) {
		before--;
	}
	return (at - before) % 2 === 0;
}

export type ParsedJson = {readonly ok: true; readonly value: unknown} | Fault;

type Part = {readonly ok: true; readonly value: unknown; readonly names: number} | Fault;
type Fault = {readonly ok: false; readonly fault: string};

/** Replaces an item that is too large to be read. */
export const oversized = Symbol('oversized');

/** Its numbers keep their digits. Those of other fields are numbers to reckon with. */
const variables = 'data';
// With escapes.
const maxNameLength = 100;
/** RFC 8259 §8.1: a byte order mark in front of a document may be passed over. Within it, it is a character. */
const ofDocument = new TextDecoder('utf-8', {fatal: true});
const ofPart = new TextDecoder('utf-8', {fatal: true, ignoreBOM: true});

/**
 * Reads a JSON document (RFC 8259) strictly: valid UTF-8, no name twice in an object, no
 * `__proto__` and no `constructor.prototype`. The fault is a sentence for people. A scan has looked through the bytes
 * before: it counted the names, and refused what is nested too deep.
 */
export function parseJson(bytes: Uint8Array, {names, oddNumbers}: Pick<Seen, 'names' | 'oddNumbers'>): ParsedJson {
	const text = decode(bytes, ofDocument);
	return text === null ? notUtf8 : once(parsePart(text, oddNumbers), names);
}

/**
 * The same for a large body, a part at a time: others get their turn in between. The items of the list that was asked
 * for are parts of their own; those beyond the most that are read become null.
 */
export async function parseLargeJson(
	body: Body,
	{names, list, oddNumbers}: Seen,
	listName: string | null,
): Promise<ParsedJson> {
	const spans = list && listName !== null && nameOf(body, list) === listName ? list : null;
	const around = await readPart(
		() =>
			spans ? Buffer.concat([body.between(0, spans.start), body.between(spans.end, body.length())]) : body.all(),
		{decoder: ofDocument, oddNumbers},
	);
	const root = around.ok ? (around.value as Record<string, unknown> | null) : null;
	if (!around.ok || !spans || !Array.isArray(root?.[listName as string])) {
		return once(around, names);
	}

	const items: unknown[] = [];
	let kept = around.names;
	for (const span of spans.items) {
		if (span === null) {
			items.push(oversized);
			continue;
		}
		const item = await readPart(() => body.between(...span), {decoder: ofPart, oddNumbers});
		body.drop(span[1]);
		if (!item.ok) {
			return item;
		}
		kept += item.names;
		items.push(item.value);
	}
	const unread = new Array(spans.length - items.length).fill(null);
	return once(
		{ok: true, value: {...root, [listName as string]: items.concat(unread)}, names: kept},
		names - spans.unreadNames,
	);
}

/** Two slices: each of both takes its time with a megabyte. */
async function readPart(
	bytes: () => Uint8Array,
	{decoder, oddNumbers}: {readonly decoder: TextDecoder; readonly oddNumbers: boolean},
): Promise<Part> {
	const text = await inSlice(() => decode(bytes(), decoder));
	return text === null ? notUtf8 : await inSlice(() => parsePart(text, oddNumbers));
}

function nameOf(body: Body, {nameStart, nameEnd}: NonNullable<Seen['list']>): unknown {
	const text = nameEnd - nameStart <= maxNameLength ? decode(body.between(nameStart, nameEnd), ofPart) : null;
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

function parsePart(text: string, oddNumbers: boolean): Part {
	let value: unknown;
	try {
		value = oddNumbers ? parseExact(text, variables) : JSON.parse(text);
	} catch {
		return fault('The body is not valid JSON.');
	}
	const names = countKept(value);
	return names === null
		? fault('The body has a name that is not allowed: __proto__ or constructor.prototype.')
		: {ok: true, value, names};
}

// JSON.parse keeps the last of equal names, so that the object has fewer than the text.
function once(part: Part, names: number): ParsedJson {
	if (!part.ok) {
		return part;
	}
	return part.names === names
		? {ok: true, value: part.value}
		: fault('The body has the same name twice in one object.');
}

// The names of all objects in the value; null if there is one that could poison a prototype.
function countKept(value: unknown): number | null {
	if (typeof value !== 'object' || value === null) {
		return 0;
	}

	let kept = 0;
	if (Array.isArray(value)) {
		for (const item of value) {
			const inside = countKept(item);
			if (inside === null) {
				return null;
			}
			kept += inside;
		}
		return kept;
	}

	// Object.entries costs twice as much; what JSON.parse makes has no inherited names.
	for (const name in value) {
		const item = (value as Record<string, unknown>)[name];
		const inside = name === '__proto__' || (name === 'constructor' && hasPrototype(item)) ? null : countKept(item);
		if (inside === null) {
			return null;
		}
		kept += inside + 1;
	}
	return kept;
}

function hasPrototype(value: unknown): boolean {
	return typeof value === 'object' && value !== null && Object.hasOwn(value, 'prototype');
}

function fault(text: string): Fault {
	return {ok: false, fault: text};
}

const notUtf8 = fault('The body is not valid UTF-8.');
