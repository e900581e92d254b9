import {readFileSync} from 'node:fs';
import {LRUCache} from 'lru-cache';
import {findSource, type SourceMap} from './source-map.ts';

const known = new LRUCache<string, string>({max: 1000});

/**
 * A stack with the places of our source instead of those of the files that were made of it. Their maps are read when an error
 * is told: to have Node.js do it (`--enable-source-maps`) costs every start.
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
