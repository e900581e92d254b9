import {readFileSync} from 'node:fs';
import test from 'ava';
import {repository} from './helpers/references.ts';

const longest = 35;

/** Sentences of a page with more words than that: outside code, each cell of a table by itself. */
function longSentences(text: string): string[] {
	return text
		.replaceAll(/^```.*?^```$|<!--.*?-->|^ {4}.*$/gms, '')
		.split(/\n\s*\n|\n(?=\s*(?:[-*|#]|\d+\. ))/)
		.flatMap(block => (block.trimStart().startsWith('|') ? block.split(/(?<!\\)\|/) : [block]))
		.flatMap(block => block.replaceAll(/\]\([^)]*\)/g, ']').split(/(?<=[.?!:;]\)?)\s+(?=[A-Z`*[(])/))
		.map(sentence => sentence.trim().replaceAll(/\s+/g, ' '))
		.filter(sentence => sentence.split(' ').filter(word => /\p{L}/u.test(word)).length > longest);
}

// Lists of figures: docs/internals/performance.md is a log of measurements.
const pages = repository.filter(
	file => /^(docs\/|[A-Z]+\.md$)/.test(file) && /(?<!performance|CHANGELOG)\.md$/.test(file),
);

test(`no sentence of a page has more than ${longest} words`, t => {
	t.true(pages.length > 40);
	t.deepEqual(
		pages.flatMap(file => longSentences(readFileSync(file, 'utf8')).map(sentence => `${file}: ${sentence}`)),
		[],
	);
});

test('a sentence that is too long is found', t => {
	const words = (count: number) => `A${' word'.repeat(count - 1)}.`;
	t.deepEqual(longSentences(`# A title\n\n${words(35)} ${words(35)}\n`), []);
	t.is(longSentences(`A short one. ${words(36)}\n`).length, 1);
	t.is(longSentences(`- ${words(20)}\n- ${words(36)}\n`).length, 1);
});
