import {readdirSync, readFileSync} from 'node:fs';
import test from 'ava';
import {matchesGolden} from '../helpers/transcript.ts';

const sources = readdirSync('src', {recursive: true, encoding: 'utf8'})
	.filter(file => file.endsWith('.ts'))
	.map(file => readFileSync(`src/${file}`, 'utf8'))
	.join('\n');

/** Returns the actions in the table of docs/reference/audit.md, such as `key.revoked`. */
function documentedActions(): string[] {
	const page = readFileSync('docs/reference/audit.md', 'utf8');
	const table = page.slice(page.indexOf('| noun | actions |'));
	return [...table.matchAll(/^\| `(\w+)` \| (.+) \|$/gm)].flatMap(([, noun, actions = '']) => {
		const listed = actions.replaceAll(/\([^)]*\)/g, '').replace(/: .*/, '');
		return [...listed.matchAll(/`(\w+)`/g)].map(([, action]) => `${noun}.${action}`);
	});
}

test('the audit trail has the recorded actions', t => {
	const actions = documentedActions();
	matchesGolden(t, 'audit-actions.txt', actions.map(action => `${action}\n`).join(''));
	// The code has an action as one string, or builds it from its noun and a word.
	const isWritten = (action: string) => {
		const [noun, done] = action.split('.');
		return (
			sources.includes(`'${action}'`) ||
			(sources.includes(`\`${noun}.\${`) && new RegExp(`\\b${done}\\b`).test(sources))
		);
	};
	t.deepEqual(
		actions.filter(action => !isWritten(action)),
		[],
	);
	t.false(isWritten('key.misplaced'));
});

test('an action in the code is documented', t => {
	const actions = documentedActions();
	const written = [...sources.matchAll(/\b(?:audit|action): '(\w+\.\w+)'/g)].map(([, action = '']) => action);
	t.true(written.length > 40);
	t.deepEqual(
		written.filter(action => !actions.includes(action)),
		[],
	);
});
