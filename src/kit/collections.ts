type Defined<Values> = {[Name in keyof Values]?: Exclude<Values[Name], undefined>};

/** Without the fields that are undefined. */
export function defined<Values extends object>(values: Values): Defined<Values> {
	return Object.fromEntries(Object.entries(values).filter(([, value]) => value !== undefined)) as Defined<Values>;
}

/** Without the fields that are undefined, null, false or an empty list. */
export function present<Values extends object>(values: Values): {[Name in keyof Values]?: NonNullable<Values[Name]>} {
	const isThere = (value: unknown) => (Array.isArray(value) ? value.length > 0 : value != null && value !== false);
	return Object.fromEntries(Object.entries(values).filter(([, value]) => isThere(value))) as Values;
}

/** Some of the fields. */
export function pick<Value extends object, Name extends keyof Value>(value: Value, names: readonly Name[]) {
	return Object.fromEntries(names.map(name => [name, value[name]])) as Pick<Value, Name>;
}

/** The values of each key, both in their order. */
export function groupBy<Value, Key>(values: readonly Value[], keyOf: (value: Value) => Key): Map<Key, Value[]> {
	const groups = new Map<Key, Value[]>();
	for (const value of values) {
		const key = keyOf(value);
		const group = groups.get(key);
		if (group) {
			group.push(value);
		} else {
			groups.set(key, [value]);
		}
	}
	return groups;
}

/** The items in lists of at most so many, in their order. */
export function* inParts<Item>(items: readonly Item[], most: number): Generator<readonly Item[]> {
	for (let start = 0; start < items.length; start += most) {
		yield items.slice(start, start + most);
	}
}

/**
 * Options of an LRUCache that forgets what was used longest ago beyond `entries`. Its own `max` fills arrays of that
 * length at once, 2 ms of the start and 0.3 MB for each 10,000; so they grow with what is kept.
 */
export function atMost(entries: number): {readonly maxSize: number; readonly sizeCalculation: () => number} {
	return {maxSize: entries, sizeCalculation: () => 1};
}

/** A number that only the two texts decide, as if drawn by lot: 32 bits, evenly spread. */
export function lot(of: string, one: string): number {
	let hash = 0x811c9dc5;
	for (const text of [of, one]) {
		for (let index = 0; index < text.length; index++) {
			hash = Math.imul(hash ^ text.charCodeAt(index), 0x01000193);
		}
	}
	// The last characters alone would move it little.
	hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
	return (hash ^ (hash >>> 13)) >>> 0;
}
