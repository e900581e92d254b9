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
