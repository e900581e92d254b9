/**
 * Options of an LRUCache that forgets what was used longest ago beyond `entries`. Its own `max` fills arrays of that length at
 * once, 2 ms of the start and 0.3 MB for each 10,000; so they grow with what is kept.
 */
export function atMost(entries: number): {readonly maxSize: number; readonly sizeCalculation: () => number} {
	return {maxSize: entries, sizeCalculation: () => 1};
}
