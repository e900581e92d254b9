import {readdirSync, readFileSync} from 'node:fs';
import {join} from 'node:path';
import {readSentences} from './conforms.ts';

/** docs/reference/conformance.md: every sentence of the interface with the tests that name its id. */
export function conformancePage(): string {
	const files = testsByQuoted();
	const rows = readSentences().map(({id, label}) => {
		const tests = files.get(id) ?? [];
		return `| \`${id}\` | ${label} | ${tests.map(file => `[${file}](../../test/${file})`).join(', ')} |\n`;
	});
	return `# Conformance

Every rule, table row and limit of the HTTP interface has an id here. \`npm test\` fails if an id was not shown to hold by a test
that passed. When the interface's document changes, \`scripts/extract-conformance.mjs DOCUMENT\` tells which sentences
the list (\`test/fixtures/conformance.json\`) lacks and which are gone. This page is made by
\`node dist/test/conformance/write-docs.js\`.

| id | what holds | shown by |
|---|---|---|
${rows.join('')}`;
}

/** The test files in which a text stands in quotes, of those that show conformance. */
function testsByQuoted(): ReadonlyMap<string, readonly string[]> {
	const files = readdirSync('test', {recursive: true, encoding: 'utf8'})
		.filter(file => file.endsWith('.test.ts'))
		.sort();
	const found = new Map<string, string[]>();
	for (const file of files) {
		const text = readFileSync(join('test', file), 'utf8');
		if (text.includes('/conforms.ts')) {
			for (const quoted of new Set([...text.matchAll(/'([^'\n]+)'/g)].map(match => match[1] as string))) {
				found.set(quoted, [...(found.get(quoted) ?? []), file]);
			}
		}
	}
	return found;
}
