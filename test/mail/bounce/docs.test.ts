import {readFileSync} from 'node:fs';
import test from 'ava';
import {parseRuleTable} from '../../../src/mail/bounce-rule-table.ts';
import {bounceCategories} from '../../../src/mail/outcome.ts';

const page = readFileSync('docs/reference/bounces.md', 'utf8');

test('the example in docs/reference/bounces.md is a valid rules file', t => {
	const example = /\n {4}\{\n[\s\S]*?\n {4}\}\n/.exec(page)?.[0] ?? '';
	const read = parseRuleTable(example);
	t.true(read.ok, JSON.stringify(read));
});

test('docs/reference/bounces.md names every category', t => {
	for (const category of bounceCategories) {
		t.true(page.includes(`\`${category}\``), category);
	}
});
