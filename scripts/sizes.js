// Measures the tree for `npm run measure` and test/size.test.ts. Functions are found by Biome's code layout, so their
// number is slightly inexact.
import {readdirSync, readFileSync} from 'node:fs';
import path from 'node:path';

const tabWidth = 4;

/** Returns all files below a folder with one of these endings, as `[path below the root, text]`. */
export function readTree(root, folder, endings) {
	const names = readdirSync(path.join(root, folder), {recursive: true, withFileTypes: true});
	return names
		.filter(entry => entry.isFile() && endings.some(ending => entry.name.endsWith(ending)))
		.map(entry => path.relative(root, path.join(entry.parentPath, entry.name)))
		.filter(file => !file.startsWith('test/fixtures/'))
		.toSorted()
		.map(file => [file, readFileSync(path.join(root, file), 'utf8')]);
}

const countLines = text => text.split('\n').length - 1;
const sumLines = files => files.reduce((sum, [, text]) => sum + countLines(text), 0);
const widthOf = line => line.length + (line.match(/\t/g)?.length ?? 0) * (tabWidth - 1);

function linesOver(files, width) {
	return files.flatMap(([file, text]) =>
		text.split('\n').flatMap((line, at) => (widthOf(line) > width ? [`${file}:${at + 1}`] : [])),
	);
}

const control = /^\s*(?:\} )?(?:if|else|for|while|do|switch|try|catch|finally)\b/;
const header = /(?:\bfunction\b.*|=>|\)(?:: .+)?) \{$/;
const indentOf = line => /^\t*/.exec(line)[0].length;

/**
 * Returns the functions with more lines than the limit, as `file:line lines`. Lines count from a signature's last one.
 */
export function functionsOver(files, limit) {
	return files.flatMap(([file, text]) => {
		const lines = text.split('\n');
		return lines.flatMap((line, at) => {
			if (!header.test(line) || control.test(line)) {
				return [];
			}
			const indent = indentOf(line);
			const length =
				lines
					.slice(at + 1)
					.findIndex(other => indentOf(other) === indent && other.trimStart().startsWith('}')) + 2;
			return length > limit ? [`${file}:${at + 1} ${length}`] : [];
		});
	});
}

/** Returns the number of lines of each folder directly below `src`. Files beside the folders count as `.`. */
export function foldersOf(files) {
	const lines = {};
	for (const [file, text] of files) {
		const [, folder, ...rest] = file.split('/');
		const isNoun = folder === 'resources' && rest.length > 1;
		const name = rest.length === 0 ? '.' : isNoun ? `${folder}/${rest[0]}` : folder;
		lines[name] = (lines[name] ?? 0) + countLines(text);
	}
	return lines;
}

/** Returns relative imports as `{file, target, names}`. `names` is `null` if the whole module is imported. */
export function importsOf(sources) {
	return [...sources].flatMap(([file, text]) =>
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
}

/** Returns exported names that no other file of src imports. */
export function privateExports(sources) {
	const imports = importsOf(sources);
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

/** Returns the figures of a tree: `folders` by name, `whole` by figure. */
export function sizesOf(root) {
	const source = readTree(root, 'src', ['.ts']);
	return {
		folders: foldersOf(source),
		whole: {
			'lines of src': sumLines(source),
			'files of src': source.length,
			'functions over 60 lines': functionsOver(source, 60).length,
			'functions over 100 lines': functionsOver(source, 100).length,
			'lines over 120 columns': linesOver(source, 120).length,
			'lines over 160 columns': linesOver(source, 160).length,
			'private exports': privateExports(source).length,
			'lines of tests': sumLines(readTree(root, 'test', ['.ts'])),
			'lines of docs': sumLines(readTree(root, 'docs', ['.md'])),
		},
	};
}
