import test from 'ava';
import {parse} from 'csv-parse/sync';
import fc from 'fast-check';
import {CsvReader, type CsvRecord, csvLine, withoutApostrophe} from '../../src/kit/csv.ts';

/** Returns the records of a text that arrives in pieces of these sizes, repeated. */
function read(text: string, sizes: readonly number[] = [text.length || 1]): CsvRecord[] {
	const reader = new CsvReader();
	const records: CsvRecord[] = [];
	for (let at = 0, turn = 0; at < text.length; turn++) {
		const size = sizes[turn % sizes.length] as number;
		records.push(...reader.push(text.slice(at, at + size)));
		at += size;
	}
	return [...records, ...reader.end()];
}

function cells(records: readonly CsvRecord[]): Array<readonly string[] | string> {
	return records.map(record => ('cells' in record ? record.cells : record.problem));
}

const sizes = fc.array(fc.integer({min: 1, max: 40}), {minLength: 1, maxLength: 5});
// The characters that matter in CSV, far more often than in random text.
const tricky = fc.array(
	fc.oneof(fc.constantFrom('"', '""', ',', ';', '\t', '\n', '\r', '\r\n', "'", '=', '+', ' ', '@', 'a'), fc.string()),
	{maxLength: 12},
);
const text = tricky.map(parts => parts.join(''));
// A record whose only cell is empty is an empty line.
const table = fc
	.integer({min: 2, max: 5})
	.chain(width => fc.array(fc.array(text, {minLength: width, maxLength: width}), {minLength: 1, maxLength: 8}));

test('reads back whatever csvLine writes, in any pieces', t => {
	fc.assert(
		fc.property(table, sizes, (rows, pieces) => {
			const file = rows.map(csvLine).join('');
			const plain = cells(read(file, pieces)).map(row => (row as string[]).map(withoutApostrophe));
			// A line ending within quotes is read back as LF.
			t.deepEqual(
				plain,
				rows.map(row => row.map(cell => cell.replaceAll(/\r\n?/g, '\n'))),
			);
		}),
	);
});

test('reads the same as another CSV parser', t => {
	fc.assert(
		fc.property(table, rows => {
			const file = rows.map(row => csvLine(row.map(cell => cell.replaceAll('\r', '')))).join('');
			t.deepEqual(
				cells(read(file)),
				parse(file, {record_delimiter: ['\r\n', '\n', '\r']}) as unknown as string[][],
			);
		}),
	);
});

test('reads any text without throwing, the same in any pieces, and each line once at most', t => {
	fc.assert(
		fc.property(text, sizes, (file, pieces) => {
			const records = read(file);
			t.deepEqual(read(file, pieces), records);
			const lines = records.map(({line}) => line);
			t.deepEqual(
				lines,
				[...new Set(lines)].toSorted((a, b) => a - b),
			);
			t.true((lines.at(-1) ?? 0) <= file.split(/\r\n?|\n/).length);
		}),
		{numRuns: 500},
	);
});

test('csvLine writes no cell as a formula, and different cells differently', t => {
	fc.assert(
		fc.property(text, text, (one, other) => {
			const written = csvLine([one]);
			t.notRegex(written, /^"?[=+\-@＝＋－＠\t]/);
			t.is(written === csvLine([other]), one === other);
		}),
	);
	t.is(
		csvLine(['=HYPERLINK("http://evil.test")', "'+1", "'a", '＝1', 5]),
		'"\'=HYPERLINK(""http://evil.test"")",\'\'+1,\'a,\'＝1,5\r\n',
	);
});

test('handles line endings, empty lines, delimiters and quotes', t => {
	for (const [file, expected] of [
		[
			'a,b\r\nc,d\n\n\re,f\r',
			[
				['a', 'b'],
				['c', 'd'],
				['e', 'f'],
			],
		],
		[
			'a;b,c;d\n1;2\n',
			[
				['a', 'b,c', 'd'],
				['1', '2'],
			],
		],
		['a\tb\n', [['a', 'b']]],
		[
			'"x;y;z",b\n1,2',
			[
				['x;y;z', 'b'],
				['1', '2'],
			],
		],
		['"a ""b"", c","\r\nd",\n', [['a "b", c', '\nd', '']]],
		['5" pipe,x\n', [['5" pipe', 'x']]],
		[',\n', [['', '']]],
		['', []],
	] as const) {
		t.deepEqual(cells(read(file)), expected as unknown as string[][], JSON.stringify(file));
	}
});

test('an unclosed quote affects only its own line', t => {
	const good = Array.from({length: 250}, (_, index) => `a${index}@x.test,`);
	const file = ['h,i', '"open,', ...good, '"x"y,', '"also open'].join('\n');
	const records = read(file, [7]);
	t.is(records.length, 1 + 1 + 250 + 1 + 1);
	t.deepEqual(records[1], {line: 2, problem: 'its quote is not closed', text: '"open,'});
	t.deepEqual(records[2], {line: 3, cells: ['a0@x.test', '']});
	t.deepEqual(records[252], {line: 253, problem: 'something follows its closing quote', text: '"x"y,'});
	t.deepEqual(records[253], {line: 254, problem: 'its quote is not closed', text: '"also open'});
});

test('an endless line uses no memory, and reading continues after it', t => {
	const reader = new CsvReader();
	t.deepEqual(cells(reader.push('a,b\n')), [['a', 'b']]);
	const long = 'x'.repeat(100_000);
	const faults = Array.from({length: 100}, () => reader.push(long)).flat();
	t.is(faults.length, 1);
	t.like(faults[0], {line: 2, problem: 'it is longer than 65536 characters', text: 'x'.repeat(200)});
	t.deepEqual(reader.push('\nc,d\n'), [{line: 3, cells: ['c', 'd']}]);
	t.deepEqual(reader.end(), []);
});

test('scans each line only a few times if quotes open and close on every line', t => {
	// If each line scanned a hundred others, these would take minutes.
	for (const [line, bad] of [
		['x","x","z\n', 'its quote is not closed'],
		['"x\n', 'something follows its closing quote'],
	] as const) {
		const lines = Math.ceil((8 * 1024 * 1024) / line.length);
		const reader = new CsvReader();
		const file = line.repeat(lines);
		const faults = new Set<string>();
		let last = 0;
		for (let at = 0; at <= file.length; at += 65_536) {
			const records = at < file.length ? reader.push(file.slice(at, at + 65_536)) : reader.end();
			for (const record of records) {
				faults.add('problem' in record ? record.problem : '');
				last = record.line;
			}
		}
		t.true(faults.has(bad), `${JSON.stringify(line)}: ${[...faults]}`);
		t.true(last > lines - 100, line);
	}
});

test('does not rescan a line for each character that arrives', t => {
	const reader = new CsvReader();
	const long = 'x'.repeat(65_536);
	for (let round = 0; round < 16; round++) {
		let early = 0;
		for (const character of long) {
			early += reader.push(character).length;
		}
		t.is(early, 0);
		t.deepEqual(reader.push('\n'), [{line: round + 1, cells: [long]}]);
	}
});
