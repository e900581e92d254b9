export type ParsedJson = {readonly ok: true; readonly value: unknown} | {readonly ok: false; readonly fault: string};

const deepest = 32;
const decoder = new TextDecoder('utf-8', {fatal: true, ignoreBOM: true});

const quote = 0x22;
const backslash = 0x5c;
const colon = 0x3a;
const openBracket = 0x5b;
const closeBracket = 0x5d;
const openBrace = 0x7b;
const closeBrace = 0x7d;

/**
 * Reads a JSON document (RFC 8259) strictly: valid UTF-8 without a byte order mark, at most 32 levels deep, no name twice
 * in an object, no `__proto__` and no `constructor.prototype`. The fault is a sentence for people.
 */
export function parseJson(bytes: Uint8Array): ParsedJson {
	let text: string;
	try {
		text = decoder.decode(bytes);
	} catch {
		return fault('The body is not valid UTF-8.');
	}

	const names = countNames(text);
	if (names === null) {
		return fault(`The body is nested more than ${deepest} levels deep.`);
	}

	let value: unknown;
	try {
		value = JSON.parse(text);
	} catch {
		return fault('The body is not valid JSON.');
	}

	// JSON.parse keeps the last of equal names, so that the object has fewer than the text.
	const kept = countKept(value);
	if (kept === null) {
		return fault('The body has a name that is not allowed: __proto__ or constructor.prototype.');
	}

	return kept === names ? {ok: true, value} : fault('The body has the same name twice in one object.');
}

// Outside strings each `:` follows one name. Null: too deep. What it says of text that is not JSON does not matter.
function countNames(text: string): number | null {
	let names = 0;
	let depth = 0;
	for (let index = 0; index < text.length; index++) {
		switch (text.charCodeAt(index)) {
			case quote:
				index = endOfString(text, index + 1);
				break;
			case colon:
				names++;
				break;
			case openBracket:
			case openBrace:
				depth++;
				if (depth > deepest) {
					return null;
				}
				break;
			case closeBracket:
			case closeBrace:
				depth--;
				break;
		}
	}
	return names;
}

// The index of the closing quote: the first one after an even number of backslashes.
function endOfString(text: string, start: number): number {
	for (let end = text.indexOf('"', start); end !== -1; end = text.indexOf('"', end + 1)) {
		let before = end - 1;
		while (before >= start && text.charCodeAt(before) === backslash) {
			before--;
		}
		if ((end - before) % 2 === 1) {
			return end;
		}
	}
	return text.length;
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

function fault(text: string): ParsedJson {
	return {ok: false, fault: text};
}
