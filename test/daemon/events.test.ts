import {readFileSync} from 'node:fs';
import test from 'ava';
import {repository} from '../helpers/references.ts';

const source = repository
	.filter(file => /^src\/.*\.ts$/.test(file))
	.map(file => readFileSync(file, 'utf8'))
	.join('\n');

/** `logger.warn({event: 'few_open_files', …`, also where the level or the name is a variable. */
const calls = [
	...source.matchAll(/logger(?:\.(\w+)|\[\w+\])\(\s*\{\s*(?:\.\.\.\{)?event(?:: (?:event \?\? )?'(\w+)')?/g),
];
const logged = calls.map(([, level = null, event = null]) => ({level, event}));

const rows = readFileSync('docs/reference/logs.md', 'utf8').matchAll(/^\| (`[\w`, ]+`) \| (`[a-z`, ]+`) \|/gm);
const names = (cell: string) => [...cell.matchAll(/`(\w+)`/g)].map(([, name = '']) => name);
const documented = new Map(
	[...rows].flatMap(([, events = '', levels = '']) => names(events).map(event => [event, names(levels)] as const)),
);

test('docs/reference/logs.md lists every log event with its level', t => {
	t.true(logged.length > 60);
	const wrong = logged.filter(({level, event}) => {
		const levels = event === null ? [] : documented.get(event);
		return !levels || (level !== null && event !== null && !levels.includes(level));
	});
	t.deepEqual(wrong, []);
});

test('docs/reference/logs.md lists no event or level that is never logged', t => {
	const invented = [...documented].filter(([event, levels]) => {
		const own = logged.filter(one => one.event === event);
		// The observer has the names of outcomes and judgements in tables, and logs them by variables.
		const isTabled = own.length === 0 && new RegExp(`: '${event}'`).test(source);
		const isVariable = own.some(({level}) => level === null);
		return !isTabled && !isVariable && levels.some(level => own.every(one => one.level !== level));
	});
	t.deepEqual(invented, []);
});
