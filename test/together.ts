import {existsSync, readdirSync, readFileSync, rmSync, writeFileSync} from 'node:fs';
import path from 'node:path';

const root = 'dist/test';
const gathered = /^(?:together|stores-\d+|services|commands-\d+|others-\d+)\.test\.js$/;

/** What opens sockets or starts processes and threads; tests that use it may depend on how soon they are served. */
const waits =
	/^(?:node:(?:net|http|https|tls|dgram|child_process|worker_threads|timers\/promises)|knex|sqlite3|pg|fastify|undici|playwright-core|smtp-server|nodemailer|imapflow|esbuild)(?:\/|$)/;

/** A module that waits while it is loaded: ava wants all tests of a file declared at once. */
const awaitsAtTop = /^(?:\w+ .*= |for )?\(?await /m;
const laterTests = 'await';

/** What a test file does to its process, and what depends on how soon its own process serves it. */
const ownProcess = /\bprocess\.(?:env\S* = |chdir|exit|on\(|once\(|std|memoryUsage)|\btest\.(?:before|after|serial)/;
const ownTime = /\bsetTimeout|\bsetImmediate|\bfetch\(/;

/** Tests that have a store each and take turns (helpers/databases.ts). */
const takesTurns = /\b(?:storeTest|sqliteTest)\(/;
const opensItself = /\bfrom ['"]node:(?:net|http|https|tls|dgram|child_process|worker_threads|timers\/promises)['"]/;
const maxFilesWithStores = 8;

/** Folders whose files start a daemon each. */
const startsDaemons = /^(?:flow|dashboard|conformance|golden)\//;
const maxOtherFiles = 5;

/** Tests that share the daemon of their folder. */
const sharesDaemon = /from '\.\/service\.js'/;

/** Tests of commands, which share the process that runs them (helpers/cli-shell.ts). */
const runsCommands = /from '(?:\.\.\/)+helpers\/cli\.js'/;
const maxFilesWithCommands = 6;

/**
 * The test files below dist/test but those of some folders. Of each folder, nouns being one folder, those that compute and wait for nothing run
 * in one process, so do those that share a daemon, and those whose tests take turns or run commands, some at a time, and
 * all others that open no socket and start no process themselves: to start a process or a daemon costs more than most
 * tests do.
 */
export function gather(without: readonly string[]): readonly string[] {
	const files = readdirSync(root, {recursive: true, encoding: 'utf8'})
		.filter(file => file.endsWith('.test.js') && !gathered.test(path.basename(file)))
		.filter(file => !without.includes(file.split(path.sep)[0] ?? ''))
		.toSorted((a, b) => folderOf(a).localeCompare(folderOf(b)) || a.localeCompare(b));
	const kinds: ReadonlyArray<readonly [name: string, belongs: (file: string) => boolean, maxFiles: number]> = [
		['together', createComputes(), Number.POSITIVE_INFINITY],
		['services', file => sharesDaemon.test(readFileSync(file, 'utf8')), Number.POSITIVE_INFINITY],
		['stores', hasStores, maxFilesWithStores],
		['commands', hasCommands, maxFilesWithCommands],
		['others', opensNothing, maxOtherFiles],
	];
	const groups: Group[] = [];
	const taken = new Set<string>();
	for (const [name, belongs, maxFiles] of kinds) {
		const left = files.filter(file => !taken.has(file));
		for (const [at, members] of groupsOf(left, belongs, maxFiles).entries()) {
			groups.push(writeGroup(maxFiles === Number.POSITIVE_INFINITY ? name : `${name}-${at}`, members));
			for (const member of members) {
				taken.add(member);
			}
		}
	}
	return [
		...groups.map(({file}) => file),
		...files.filter(file => !taken.has(file)).map(file => path.join(root, file)),
	];
}

/** A folder whose files may share processes. */
const folderOf = (file: string): string => (file.startsWith('resources/') ? 'resources' : path.dirname(file));

/** Groups of at least two files of one folder. */
function groupsOf(files: readonly string[], belongs: (file: string) => boolean, maxFiles: number): string[][] {
	const groups: string[][] = [];
	for (const file of files.filter(file => folderOf(file) !== '.' && belongs(path.resolve(root, file)))) {
		const last = groups.at(-1);
		if (last?.[0] !== undefined && folderOf(last[0]) === folderOf(file) && last.length < maxFiles) {
			last.push(file);
		} else {
			groups.push([file]);
		}
	}
	return groups.filter(({length}) => length > 1);
}

type Group = {readonly file: string; readonly members: readonly string[]};

function writeGroup(name: string, members: readonly string[]): Group {
	const folder = folderOf(members[0] ?? '');
	const file = path.join(root, folder, `${name}.test.js`);
	writeFileSync(file, members.map(member => `import './${path.relative(folder, member)}';\n`).join(''));
	return {file, members};
}

/** Removes what `gather` wrote. */
export function scatter(files: readonly string[]): void {
	for (const file of files.filter(file => gathered.test(path.basename(file)))) {
		rmSync(file, {force: true});
	}
}

function hasStores(file: string): boolean {
	const text = readFileSync(file, 'utf8');
	return takesTurns.test(text) && ![ownProcess, opensItself, awaitsAtTop].some(pattern => pattern.test(text));
}

function hasCommands(file: string): boolean {
	const text = readFileSync(file, 'utf8');
	return (
		/^(?:cli|resources)\//.test(path.relative(root, file)) &&
		runsCommands.test(text) &&
		![ownProcess, awaitsAtTop].some(pattern => pattern.test(text))
	);
}

function opensNothing(file: string): boolean {
	const text = readFileSync(file, 'utf8');
	const isApart = startsDaemons.test(path.relative(root, file));
	return !isApart && ![ownProcess, ownTime, opensItself, awaitsAtTop].some(pattern => pattern.test(text));
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
		if (awaitsAtTop.test(text)) {
			packages.add(laterTests);
		}
		for (const [, names = '', from = ''] of text.matchAll(
			/\bimport\b(?:\(|([^'";]*?)\bfrom\b)?\s*['"]([^'"]+)['"]/g,
		)) {
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
		![ownProcess, ownTime].some(pattern => pattern.test(readFileSync(file, 'utf8')));
}
