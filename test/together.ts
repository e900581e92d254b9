import {existsSync, readdirSync, readFileSync, rmSync, writeFileSync} from 'node:fs';
import path from 'node:path';

const root = 'dist/test';
const shared = 'together.test.js';

/** What opens sockets or starts processes and threads; tests that use it may depend on how soon they are served. */
const waits =
	/^(?:node:(?:net|http|https|tls|dgram|child_process|worker_threads|timers\/promises)|knex|sqlite3|pg|fastify|undici|playwright-core|smtp-server|nodemailer|imapflow|esbuild)(?:\/|$)/;

/** A module that waits while it is loaded: ava wants all tests of a file declared at once. */
const laterTests = 'await';

/** What a test file does to its process, or expects of it. */
const ownProcess =
	/\bprocess\.(?:env\S* = |chdir|exit|on\(|once\(|std|memoryUsage)|\btest\.(?:before|after|serial)|\bsetTimeout|\bsetImmediate|\bfetch\(/;

/**
 * The test files below dist/test but those of some folders. Of each folder those that compute and wait for nothing run in one
 * process, as one file that imports them: to start a process costs more than most of them do.
 */
export function gather(without: readonly string[]): readonly string[] {
	const files = readdirSync(root, {recursive: true, encoding: 'utf8'})
		.filter(file => file.endsWith('.test.js') && path.basename(file) !== shared)
		.filter(file => !without.includes(file.split(path.sep)[0] ?? ''))
		.toSorted();
	const folders = new Map<string, string[]>();
	const computes = createComputes();
	for (const file of files.filter(file => path.dirname(file) !== '.' && computes(path.resolve(root, file)))) {
		const folder = path.dirname(file);
		folders.set(folder, [...(folders.get(folder) ?? []), file]);
	}
	const taken = new Set([...folders.values()].flat());
	return [
		...[...folders].map(([folder, members]) => {
			const imports = members.map(file => `import './${path.basename(file)}';\n`);
			const file = path.join(root, folder, shared);
			writeFileSync(file, imports.join(''));
			return file;
		}),
		...files.filter(file => !taken.has(file)).map(file => path.join(root, file)),
	];
}

/** Removes what `gather` wrote. */
export function scatter(files: readonly string[]): void {
	for (const file of files.filter(file => path.basename(file) === shared)) {
		rmSync(file, {force: true});
	}
}

function createComputes(): (file: string) => boolean {
	const reached = new Map<string, ReadonlySet<string>>();
	/** The packages that a file and those that it imports import. */
	function packagesOf(file: string): ReadonlySet<string> {
		const known = reached.get(file);
		if (known) {
			return known;
		}
		const packages = new Set<string>();
		reached.set(file, packages);
		const text = existsSync(file) ? readFileSync(file, 'utf8') : '';
		if (/^(?:\w+ .*= |for )?\(?await /m.test(text)) {
			packages.add(laterTests);
		}
		for (const [, names = '', from = ''] of text.matchAll(/\bimport\b(?:\(|([^'";]*?)\bfrom\b)?\s*['"]([^'"]+)['"]/g)) {
			if (from.startsWith('.')) {
				for (const each of packagesOf(path.resolve(path.dirname(file), from))) {
					packages.add(each);
				}
			} else if (!(from === 'node:net' && /^\s*\{\s*(?:(?:isIP\w*|BlockList)\s*,?\s*)+\}\s*$/.test(names))) {
				packages.add(from);
			}
		}
		return packages;
	}
	return file =>
		![...packagesOf(file)].some(each => each === laterTests || waits.test(each)) &&
		!ownProcess.test(readFileSync(file, 'utf8'));
}
