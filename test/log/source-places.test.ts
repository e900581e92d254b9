import {readFileSync} from 'node:fs';
import {SourceMap} from 'node:module';
import {pathToFileURL} from 'node:url';
import test from 'ava';
import fc from 'fast-check';
import {findSource, inSource} from '../../src/log/source-places.ts';

const file = 'dist/src/log/log.js';
const map = JSON.parse(readFileSync(`${file}.map`, 'utf8'));

test('a place is found where Node.js finds it', t => {
	const theirs = new SourceMap(map);
	const lines = readFileSync(file, 'utf8').split('\n');
	const places = fc
		.nat(lines.length - 1)
		.chain(line => fc.record({line: fc.constant(line), column: fc.nat(lines[line]?.length ?? 0)}));
	fc.assert(
		fc.property(places, ({line, column}) => {
			const entry = theirs.findEntry(line, column);
			// Where a line has no mapping before the column Node.js goes on to look in the lines before it.
			const expected = 'originalSource' in entry && entry.generatedLine === line ? entry : null;
			t.deepEqual(
				findSource(map, line + 1, column + 1),
				expected && {
					source: '../../../src/log/log.ts',
					line: expected.originalLine + 1,
					column: expected.originalColumn + 1,
				},
			);
		}),
	);
	t.is(findSource(map, lines.length + 7, 1), null);
});

test('whatever a map holds, the walk ends', t => {
	fc.assert(
		fc.property(fc.string({unit: 'binary'}), fc.nat(5), fc.nat(5), (mappings, line, column) => {
			const found = findSource({sources: ['a.ts'], mappings}, line, column);
			return found === null || typeof found.source === 'string';
		}),
	);
	t.pass();
});

test('a stack names our source; what has no map stays as it is', t => {
	const lines = readFileSync(file, 'utf8').split('\n');
	const line = lines.findIndex(text => text.includes('String(error)'));
	const column = lines[line]?.indexOf('String(error)') ?? 0;
	const source = readFileSync('src/log/log.ts', 'utf8').split('\n');
	const ours = source.findIndex(text => text.includes('String(error)'));
	const place = `${ours + 1}:${(source[ours]?.indexOf('String(error)') ?? 0) + 1}`;
	const library = 'at there (file:///nowhere/x.js:1:1)\n    at node:internal/timers:594:17';
	t.is(
		inSource(`Error: x\n    at here (${pathToFileURL(file)}:${line + 1}:${column + 1})\n    ${library}`),
		`Error: x\n    at here (${pathToFileURL('src/log/log.ts')}:${place})\n    ${library}`,
	);
	t.is(inSource(undefined), '');
});
