import {isStorable} from './formats.ts';

const longest = 256 * 1024;
const deepest = 16;

/**
 * Says what is wrong with a send's variables (`must …`), null: nothing. At most 256 KiB as JSON and 16 levels deep, texts
 * that both engines store, numbers that JSON can hold (`1e999` was read as infinity).
 */
export function variablesFault(data: object): string | null {
	if (Buffer.byteLength(JSON.stringify(data)) > longest) {
		return 'must be at most 256 KiB as JSON';
	}
	return faultIn(data, 1);
}

function faultIn(value: unknown, depth: number): string | null {
	switch (typeof value) {
		case 'string':
			return isStorable(value) ? null : 'must have only valid Unicode without NUL';
		case 'number':
			return Number.isFinite(value) ? null : 'must have only finite numbers';
		case 'object':
			return value === null ? null : faultInside(value, depth);
		default:
			return null;
	}
}

function faultInside(value: object, depth: number): string | null {
	if (depth > deepest) {
		return 'must be at most 16 levels deep';
	}
	for (const [name, item] of Object.entries(value)) {
		const fault = faultIn(name, depth) ?? faultIn(item, depth + 1);
		if (fault !== null) {
			return fault;
		}
	}
	return null;
}
