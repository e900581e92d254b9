import {Numeral, writeExact} from '../../kit/exact-json.ts';
import {isStorable} from './formats.ts';

const longest = 256 * 1024;
const deepest = 16;

// Lone surrogates and NUL are escaped in JSON, so that a text without these holds neither.
const suspicious = /\\u(?:0000|d[89a-f])/;

const texts = new WeakMap<object, string>();

/** The variables as JSON. That of the check is kept with them, for the row. */
export function variablesJson(data: object): string {
	const known = texts.get(data);
	if (known !== undefined) {
		return known;
	}
	const json = writeExact(data);
	texts.set(data, json);
	return json;
}

/**
 * Says what is wrong with a send's variables (`must …`), null: nothing. At most 256 KiB as JSON and 16 levels deep, texts
 * that both engines store, numbers below 1.8e308, with which templates can reckon.
 */
export function variablesFault(data: object): string | null {
	const json = variablesJson(data);
	if (Buffer.byteLength(json) > longest) {
		return 'must be at most 256 KiB as JSON';
	}
	return faultInside(data, 1) ?? (suspicious.test(json) && !isAllStorable(data) ? unstorable : null);
}

const unstorable = 'must have only valid Unicode without NUL';

// Written for speed, for every send passes here; what JSON.parse makes has no inherited names, and a Numeral has no own ones.
function faultInside(value: object, depth: number): string | null {
	if (depth > deepest) {
		return 'must be at most 16 levels deep';
	}
	for (const name in value) {
		const item = (value as Record<string, unknown>)[name];
		if ((typeof item === 'number' || item instanceof Numeral) && !Number.isFinite(Number(item))) {
			return 'must have only finite numbers';
		}
		const isNested = typeof item === 'object' && item !== null && !(item instanceof Numeral);
		const fault = isNested ? faultInside(item, depth + 1) : null;
		if (fault !== null) {
			return fault;
		}
	}
	return null;
}

function isAllStorable(value: unknown): boolean {
	if (typeof value === 'string') {
		return isStorable(value);
	}
	return (
		typeof value !== 'object' ||
		value === null ||
		Object.entries(value).every(([name, item]) => isStorable(name) && isAllStorable(item))
	);
}
