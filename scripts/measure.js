// Measures what makes the program hard to read: `npm run measure`. The figures come from patterns and are slightly
// inexact, but the same script counts before and after a change. `npm run measure -- --list NAME` shows what a row
// counted, and `--since COMMIT` the ten files that grew most since then. test/size.test.ts has the ceilings of the
// first figures.
import {execFileSync} from 'node:child_process';
import path from 'node:path';
import process from 'node:process';
import {importsOf, privateExports, readTree, sizesOf} from './sizes.js';

const sources = new Map(readTree(process.cwd(), 'src', ['.ts']));
const lineCount = text => text.split('\n').length - 1;

const imports = importsOf(sources);
const importers = new Map([...sources.keys()].map(file => [file, new Set()]));
for (const {file, target} of imports) {
	importers.get(target)?.add(file);
}

/** Returns groups of files that import one another in a cycle. */
function circles() {
	const index = new Map();
	const low = new Map();
	const stack = [];
	const found = [];
	const visit = file => {
		index.set(file, index.size);
		low.set(file, index.get(file));
		stack.push(file);
		for (const {target} of imports.filter(one => one.file === file && sources.has(one.target))) {
			if (!index.has(target)) {
				visit(target);
				low.set(file, Math.min(low.get(file), low.get(target)));
			} else if (stack.includes(target)) {
				low.set(file, Math.min(low.get(file), index.get(target)));
			}
		}
		if (low.get(file) === index.get(file)) {
			const group = stack.splice(stack.indexOf(file));
			if (group.length > 1) {
				found.push(group.toSorted().join(' '));
			}
		}
	};
	for (const file of sources.keys()) {
		if (!index.has(file)) {
			visit(file);
		}
	}
	return found;
}

const matches = pattern =>
	[...sources].flatMap(([file, text]) => [...text.matchAll(pattern)].map(([all]) => `${file} ${all.trim()}`));
const holding = pattern => [...sources].filter(([, text]) => pattern.test(text)).map(([file]) => file);

/** Outside the dashboard, files are opened by name, so no two should have the same name. */
const baseNames = new Map();
for (const file of [...sources.keys()].filter(name => !name.startsWith('src/dashboard/'))) {
	baseNames.set(path.basename(file), [...(baseNames.get(path.basename(file)) ?? []), file]);
}

const rows = {
	'over-500': [...sources].filter(([, text]) => lineCount(text) > 500).map(([file]) => file),
	'one-importer': [...importers].filter(([, from]) => from.size === 1).map(([file]) => file),
	'shared-names': [...baseNames].filter(([, group]) => group.length > 1).map(([, group]) => group.join(' ')),
	'recipient-types': matches(/^(?:export )?type (?:\w*(?:Copy|Recipient)\w*)\b/gm),
	callbacks: matches(/^\s*(?:readonly )?on[A-Z]\w*\??: (?=\(|\w+ ?\||\w+;)/gm),
	factories: matches(/^export (?:async )?(?:function|const) create\w+/gm),
	'engine-aware': holding(/driverName|dialect\.name\b/),
	circles: circles(),
	'private-exports': privateExports(sources),
	migrations: execFileSync('git', ['ls-files', 'migrations'], {encoding: 'utf8'}).split('\n').filter(Boolean),
};

/** Returns the ten files of src that grew most since a commit, with their added lines. */
function grownSince(commit) {
	const changes = execFileSync('git', ['diff', '--numstat', commit, '--', 'src'], {encoding: 'utf8'});
	return changes
		.split('\n')
		.filter(Boolean)
		.map(line => line.split('\t'))
		.map(([added, removed, file]) => [file, added - removed])
		.toSorted(([, one], [, other]) => other - one)
		.slice(0, 10);
}

const print = sizes => {
	for (const [name, size] of Object.entries(sizes)) {
		console.log(`${name.padEnd(26)} ${String(size).padStart(7)}`);
	}
};
const argumentOf = option => {
	const at = process.argv.indexOf(option);
	return at === -1 ? undefined : (process.argv[at + 1] ?? '');
};
const list = argumentOf('--list');
const since = argumentOf('--since');
if (since !== undefined) {
	print(Object.fromEntries(grownSince(since)));
} else if (list === undefined) {
	const {folders, whole} = sizesOf(process.cwd());
	print(folders);
	console.log();
	print({...whole, ...Object.fromEntries(Object.entries(rows).map(([name, row]) => [name, row.length]))});
} else if (rows[list] === undefined) {
	console.error(`measure: unknown list ${list}; choose one of ${Object.keys(rows).join(', ')}`);
	process.exitCode = 64;
} else {
	console.log(rows[list].join('\n'));
}
