import {readFileSync} from 'node:fs';
import {LRUCache} from 'lru-cache';

const known = new LRUCache<string, string>({max: 1000});

/**
 * A stack with the places of our source instead of those of the files that were made of it. Their maps are read when an error
 * is shown: to have Node.js do it (`--enable-source-maps`) costs every start.
 */
export function inSource(stack = ''): string {
	// For this stack alone: a map takes a megabyte.
	const maps = new Map<string, SourceMap | null>();

	function sourceOf(file: string, line: number, column: number): string | null {
		const map = maps.has(file) ? maps.get(file) : readMap(file);
		maps.set(file, map ?? null);
		const place = map && findSource(map, line, column);
		return place ? `${new URL(place.source, file)}:${place.line}:${place.column}` : null;
	}

	return stack.replace(
		/(file:\/\/\/[^\s()]+\.js):(\d+):(\d+)/g,
		(place, file: string, line: string, column: string) => {
			const found = known.get(place) ?? sourceOf(file, Number(line), Number(column)) ?? place;
			known.set(place, found);
			return found;
		},
	);
}

function readMap(file: string): SourceMap | null {
	try {
		return JSON.parse(readFileSync(new URL(`${file}.map`), 'utf8'));
	} catch {
		return null; // A library's file, which has none.
	}
}

/** A source map as it is in its file (ECMA-426). */
type SourceMap = {readonly sources: readonly string[]; readonly mappings: string};

type SourcePlace = {readonly source: string; readonly line: number; readonly column: number};

const digits = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/';
const values = new Int8Array(128).fill(-1);
for (const [value, digit] of [...digits].entries()) {
	values[digit.charCodeAt(0)] = value;
}

/**
 * What a place of a made file was made of; lines and columns count from 1. One walk over the text: an object of each of its
 * mappings, as Node.js would make, takes 40 MB and a fifth of a second for our largest file.
 */
export function findSource({sources, mappings}: SourceMap, line: number, column: number): SourcePlace | null {
	// Of a mapping: column, source, line and column there, each but the first as the difference to the mapping before.
	const at = [0, 0, 0, 0, 0];
	let [current, field, number, shift] = [1, 0, 0, 0];
	let found: SourcePlace | null = null;
	for (let index = 0; index <= mappings.length; index++) {
		const value = values[mappings.charCodeAt(index)] ?? -1;
		if (value >= 0) {
			// Five bits a digit, the lowest first; the sixth says that more follow. The lowest bit of a number is its sign.
			number |= (value & 31) << shift;
			shift += 5;
			if (value < 32) {
				at[field] = (at[field] ?? 0) + (number & 1 ? -(number >> 1) : number >> 1);
				[number, shift] = [0, 0];
				field++;
			}
			continue;
		}
		const [generated = 0, source = 0, sourceLine = 0, sourceColumn = 0] = at;
		if (current === line && field > 1 && generated < column) {
			found = {source: sources[source] ?? '', line: sourceLine + 1, column: sourceColumn + 1};
		}
		field = 0;
		if (mappings[index] === ';') {
			if (current++ === line) {
				break;
			}
			at[0] = 0;
		}
	}
	return found;
}
