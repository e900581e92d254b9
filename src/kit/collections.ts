type Defined<Values> = {[Name in keyof Values]?: Exclude<Values[Name], undefined>};

/** Returns the object without fields that are `undefined`. */
export function defined<Values extends object>(values: Values): Defined<Values> {
	return Object.fromEntries(Object.entries(values).filter(([, value]) => value !== undefined)) as Defined<Values>;
}

/** Returns the object without fields that are `undefined`, `null`, `false` or an empty array. */
export function present<Values extends object>(values: Values): {[Name in keyof Values]?: NonNullable<Values[Name]>} {
	const isPresent = (value: unknown) => (Array.isArray(value) ? value.length > 0 : value != null && value !== false);
	return Object.fromEntries(Object.entries(values).filter(([, value]) => isPresent(value))) as Values;
}

/** Returns an object with only the named fields. */
export function pick<Value extends object, Name extends keyof Value>(value: Value, names: readonly Name[]) {
	return Object.fromEntries(names.map(name => [name, value[name]])) as Pick<Value, Name>;
}

/** Groups values by key. Both keys and values keep their order. */
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

/** Yields the items in batches of at most `max`, in order. */
export function* inParts<Item>(items: readonly Item[], max: number): Generator<readonly Item[]> {
	for (let start = 0; start < items.length; start += max) {
		yield items.slice(start, start + max);
	}
}

/**
 * Returns options for an LRUCache of at most `entries` items. The library's own `max` allocates arrays of that length
 * immediately, which costs 2 ms at startup and 0.3 MB per 10,000 entries. With `maxSize` they grow with the content.
 */
export function atMost(entries: number): {readonly maxSize: number; readonly sizeCalculation: () => number} {
	return {maxSize: entries, sizeCalculation: () => 1};
}

/** Returns a pseudo-random number that depends only on the two texts: 32 bits, evenly distributed. */
export function hash32(first: string, second: string): number {
	let hash = 0x811c9dc5;
	for (const text of [first, second]) {
		for (let index = 0; index < text.length; index++) {
			hash = Math.imul(hash ^ text.charCodeAt(index), 0x01000193);
		}
	}
	// Without this step, the last characters alone would hardly change the result.
	hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
	return (hash ^ (hash >>> 13)) >>> 0;
}
