// Paths of files that belong to the program. Both functions work in the sources as compiled by tsc and in the bundle,
// because this file and the bundle's lie at the same depth.

/** Returns the module that a thread or process starts with. `name` is its path below `src`, without the extension. */
export function entryPoint(name: string): URL {
	return new URL(`../${name}.js`, import.meta.url);
}

/** Returns a file of the package, such as `config/destinations.json`. */
export function packageFile(name: string): URL {
	return new URL(`../../../${name}`, import.meta.url);
}
