import type {Liquid} from 'liquidjs';

/** A value that a template reads of its data: `order.items` is `['order', 'items']`. */
export type DataPath = ReadonlyArray<string | number>;

/** What the render gives to each mail by itself. */
const reserved = new Set<unknown>(['recipient', 'unsubscribe_url', 'workspace', 'message']);
const ofLists = new Set<unknown>(['size', 'first', 'last']);

/**
 * The values of the data that the sources, which must parse, read. Without values that a source makes itself, such as a
 * loop's item.
 */
export function dataPaths(engine: Liquid, sources: readonly string[]): DataPath[] {
	const found = new Map<string, DataPath>();
	for (const source of sources) {
		for (const segments of engine.globalVariableSegmentsSync(engine.parse(source))) {
			const computed = segments.findIndex(segment => typeof segment === 'object');
			const path = (computed === -1 ? segments : segments.slice(0, computed)) as DataPath;
			found.set(JSON.stringify(path), path);
		}
	}
	return [...found.values()];
}

/** The paths that lead nowhere in the data, each as far as the first name that is missing: `order.total`. */
export function missingPaths(paths: readonly DataPath[], data: Readonly<Record<string, unknown>>): string[] {
	const missing = paths.flatMap(path => {
		const lost = reserved.has(path[0]) ? -1 : lostAt(path, data);
		return lost === -1 ? [] : [path.slice(0, lost + 1).join('.')];
	});
	return [...new Set(missing)];
}

/** -1: the path has a value. */
function lostAt(path: DataPath, data: unknown): number {
	let value = data;
	for (const [index, name] of path.entries()) {
		if ((Array.isArray(value) || typeof value === 'string') && ofLists.has(name)) {
			value = name === 'size' ? 0 : value.at(name === 'first' ? 0 : -1);
		} else if (typeof value === 'object' && value !== null && Object.hasOwn(value, name)) {
			value = (value as Record<string | number, unknown>)[name];
		} else {
			return index;
		}
	}
	return -1;
}
