import {readFileSync} from 'node:fs';
import test from 'ava';
import {apiErrors} from '../src/mail/api-error.ts';
import {scopes} from '../src/mail/api-key.ts';
import {brokenReferences, repository} from './helpers/references.ts';

const pages = repository.filter(file => file.endsWith('.md') && !file.startsWith('test/fixtures/'));
const code = repository.filter(
	file =>
		/^(src|test|migrations|scripts|bin|config|\.ci)\/|^Dockerfile$/.test(file) &&
		!/^test\/fixtures\/|\.(md|png|eml|snap)$/.test(file),
);

const brokenIn = (files: readonly string[]) =>
	files.flatMap(file => brokenReferences(file, readFileSync(file, 'utf8')).map(name => `${file}: ${name}`));

test('what comments refer to is in the repository', t => {
	t.true(code.length > 500);
	t.deepEqual(brokenIn(code), []);
});

test('what pages refer to is in the repository', t => {
	t.true(pages.length > 30);
	t.deepEqual(brokenIn(pages), []);
});

test('docs/README.md leads to every page', t => {
	const index = readFileSync('docs/README.md', 'utf8');
	const listed = pages.filter(file => /^docs\/(guide|reference|internals)\/[\w-]+\.md$/.test(file));
	t.true(listed.length > 30);
	t.deepEqual(
		listed.filter(file => !index.includes(`](${file.slice('docs/'.length)})`)),
		[],
	);
});

test('reference pages list every error code with its status, every scope and every metric', t => {
	const errors = readFileSync('docs/reference/errors.md', 'utf8');
	for (const [name, {status}] of Object.entries(apiErrors)) {
		t.regex(errors, new RegExp(`^\\| ${status}\\b.* \\| \`${name}\` \\|`, 'm'));
	}
	const contract = readFileSync('docs/reference/interface.md', 'utf8');
	t.deepEqual(
		scopes.filter(scope => !contract.includes(`\`${scope}\``)),
		[],
	);
	const metrics = readFileSync('docs/reference/metrics.md', 'utf8');
	const made = [...readFileSync('src/daemon/metrics.ts', 'utf8').matchAll(/'(mailctl_\w+)'/g)].map(
		([, name]) => `${name}`,
	);
	t.true(made.length > 25);
	t.deepEqual(
		made.filter(name => !metrics.includes(`\`${name}\``)),
		[],
	);
});

test('styles refer to tables that exist', t => {
	const styles = readFileSync('src/dashboard/assets/dashboard.css', 'utf8');
	const labels = [...styles.matchAll(/aria-label="([^"]+)"/g)].map(([, label]) => label);
	const sources = code.filter(file => file.startsWith('src/')).map(file => readFileSync(file, 'utf8'));
	t.true(labels.length > 5);
	t.deepEqual(
		labels.filter(label => !sources.some(source => source.includes(`label: '${label}'`))),
		[],
	);
});

for (const [what, file, text, broken] of [
	['a document that is elsewhere', 'src/a.ts', '/** Errors (nowhere.md, Errors). */', ['nowhere.md']],
	['a page that moved', 'src/a.ts', `f(); ${'//'} See docs/flow-of-old.md.`, ['docs/flow-of-old.md']],
	[
		'a heading',
		'src/a.ts',
		'// docs/reference/interface.md, No Such Thing',
		['docs/reference/interface.md, No Such Thing'],
	],
	['a rule', 'src/a.ts', '\t * It waits (R8.2, R8.99).', ['R8.99']],
	['a decision', 'src/a.ts', '// Decision 999 says why.', ['Decision 999']],
	['a file of the program', 'docs/guide/a.md', 'See `store/no-such-file.ts`.', ['store/no-such-file.ts']],
	['a folder', 'docs/guide/a.md', 'See `src/no-such-folder/`.', ['src/no-such-folder/']],
	['a link', 'docs/guide/a.md', '[nodes](nodes.md), [none](none.md)', ['none.md']],
	['an anchor', 'docs/guide/a.md', '[nodes](nodes.md#no-such-heading)', ['nodes.md#no-such-heading']],
	['a string of the code', 'src/a.ts', "const name = 'docs/of-strings.md';", []],
] as const) {
	test(`a reference to what is not there is found: ${what}`, t => {
		t.deepEqual(brokenReferences(file, text), [...broken]);
	});
}
