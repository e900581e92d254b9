import {TextDecoder} from 'node:util';
import {parseExact} from '../kit/exact-json.ts';
import type {Body} from './body.ts';
import type {JsonScan} from './json-scan.ts';
import {inSlice} from './slices.ts';

export type ParsedJson = {readonly ok: true; readonly value: unknown} | Fault;

type Part = {readonly ok: true; readonly value: unknown; readonly names: number} | Fault;
type Fault = {readonly ok: false; readonly fault: string};
type Seen = ReturnType<JsonScan['seen']>;

/** Replaces an item that is too large to be read. */
export const oversized = Symbol('oversized');

/** Its numbers keep their digits. Those of other fields are numbers to reckon with. */
const variables = 'data';
// With escapes.
const longestName = 100;
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
 * The same for a large body, a part at a time: others get their turn in between. The items of the list that was asked for
 * are parts of their own; those beyond the most that are read become null.
 */
export async function parseLargeJson(
	body: Body,
	{names, list, oddNumbers}: Seen,
	listName: string | null,
): Promise<ParsedJson> {
	const spans = list && listName !== null && nameOf(body, list) === listName ? list : null;
	const around = await readPart(
		() => (spans ? Buffer.concat([body.between(0, spans.start), body.between(spans.end, body.length())]) : body.all()),
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
	const text = nameEnd - nameStart <= longestName ? decode(body.between(nameStart, nameEnd), ofPart) : null;
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
