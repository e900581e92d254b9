// Counts what makes the program heavy to read: `npm run measure`. The figures are by pattern, so they are exact to a few; what
// counts is that one script counts before and after a change. `npm run measure -- --list NAME` shows what a row counted.
import {execFileSync} from 'node:child_process';
import {readFileSync} from 'node:fs';
import path from 'node:path';
import process from 'node:process';

const files = execFileSync('git', ['ls-files', 'src'], {encoding: 'utf8'}).split('\n').filter(Boolean);
const sources = new Map(files.filter(file => file.endsWith('.ts')).map(file => [file, readFileSync(file, 'utf8')]));
const lineCount = text => text.split('\n').length - 1;

/** Relative imports as `{file, target, names}`; `names` is null where all of a module is taken. */
const imports = [...sources].flatMap(([file, text]) =>
	[...text.matchAll(/^(?:import|export)\b([^'"]*?)from '(\.[^']+)'|\bimport\('(\.[^']+)'\)/gm)].map(
		([, names, from, lazy]) => ({
			file,
			target: path.join(path.dirname(file), from ?? lazy),
			names:
				names === undefined || names.includes('*')
					? null
					: [...names.matchAll(/(\w+)(?: as \w+)?\s*[,}]/g)].map(([, name]) => name),
		}),
	),
);

const importers = new Map([...sources.keys()].map(file => [file, new Set()]));
for (const {file, target} of imports) {
	importers.get(target)?.add(file);
}

/** Exported names that no other file of src imports. */
function privateExports() {
	const taken = new Set(imports.flatMap(({target, names}) => (names ?? []).map(name => `${target} ${name}`)));
	const whole = new Set(imports.filter(({names}) => names === null).map(({target}) => target));
	return [...sources].flatMap(([file, text]) =>
		whole.has(file)
			? []
			: [
					...text.matchAll(
						/^export (?:async )?(?:declare )?(?:abstract )?(?:function\*?|const|let|class|type|interface) (\w+)/gm,
					),
				]
					.map(([, name]) => `${file} ${name}`)
					.filter(name => !taken.has(name)),
	);
}

/** Groups of files of one folder that import one another in a circle. */
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

/** Words and turns that a reader has to translate (docs/internals/flow.md has the field's words). */
const odd =
	/\b(whoever|whomever|whatever|nobody|somebody|whose|of whom|of which|is none|are none|so many|so much|so long|told|tells?|spoken|speaks?|heard|hears?|mend\w*|anew|besides|put off|left alone|leads? to|stands? in|bears?|came of|comes of|becomes? of|became of|took in|takes in|due to this|has none|had none)\b/i;
const comments = [...sources].flatMap(([file, text]) =>
	text
		.split('\n')
		.map((line, at) => [at + 1, line])
		.filter(([, line]) => /^\s*(\/\/|\/?\*)/.test(line) && odd.test(line))
		.map(([at, line]) => `${file}:${at} ${line.trim()}`),
);

/** Outside the dashboard a file is opened by its name, so two of one name are one too many. */
const baseNames = new Map();
for (const file of [...sources.keys()].filter(name => !name.startsWith('src/dashboard/'))) {
	baseNames.set(path.basename(file), [...(baseNames.get(path.basename(file)) ?? []), file]);
}

const rows = {
	lines: [...sources.values()].reduce((sum, text) => sum + lineCount(text), 0),
	files: [...sources.keys()],
	'over-500': [...sources].filter(([, text]) => lineCount(text) > 500).map(([file]) => file),
	'one-importer': [...importers].filter(([, from]) => from.size === 1).map(([file]) => file),
	'shared-names': [...baseNames].filter(([, group]) => group.length > 1).map(([, group]) => group.join(' ')),
	'recipient-types': matches(/^(?:export )?type (?:\w*(?:Copy|Recipient)\w*)\b/gm),
	callbacks: matches(/^\s*(?:readonly )?on[A-Z]\w*\??: (?=\(|\w+ ?\||\w+;)/gm),
	factories: matches(/^export (?:async )?(?:function|const) create\w+/gm),
	'engine-aware': holding(/driverName|dialect\.name\b/),
	circles: circles(),
	'odd-comments': comments,
	'private-exports': privateExports(),
	migrations: execFileSync('git', ['ls-files', 'migrations'], {encoding: 'utf8'}).split('\n').filter(Boolean),
};

const wanted = process.argv.indexOf('--list');
if (wanted !== -1) {
	const row = rows[process.argv[wanted + 1]];
	if (!Array.isArray(row)) {
		console.error(
			`measure: no list of that name; there are ${Object.keys(rows)
				.filter(name => Array.isArray(rows[name]))
				.join(', ')}`,
		);
		process.exit(64);
	}
	console.log(row.join('\n'));
} else {
	for (const [name, row] of Object.entries(rows)) {
		console.log(`${name.padEnd(16)} ${String(Array.isArray(row) ? row.length : row).padStart(7)}`);
	}
}
