import test from 'ava';
import fc from 'fast-check';
import {
	cut,
	duration,
	fields,
	folded,
	formatNextAttempt,
	grouped,
	printable,
	table,
	toTable,
	widthOf,
} from '../../src/cli/terminal-text.ts';
import {anyChar} from '../helpers/any-char.ts';

test('escapes control characters and characters that hide text', t => {
	t.is(printable('a\x1b[31mb\nc'), 'a\\x1b[31mb\\x0ac');
	t.is(printable('user\u202egro.elpmaxe\u200b'), 'user\\u202egro.elpmaxe\\u200b');
	t.is(printable('\u{e0041}'), '\\u{e0041}');
	t.is(printable('Zoë 日本 🎉'), 'Zoë 日本 🎉');
	fc.assert(fc.property(fc.string({unit: anyChar}), text => !/[\p{Cc}\p{Cf}\u2028\u2029]/u.test(printable(text))));
});

test('cuts text to at most the allowed width', t => {
	t.is(cut('abcdef', 6), 'abcdef');
	t.is(cut('abcdef', 5), 'abcd…');
	t.is(cut('日本語', 5), '日本…');
	t.is(widthOf('日本e\u0301🎉'), 7);
	fc.assert(
		fc.property(fc.string({unit: 'grapheme'}), fc.integer({min: 1, max: 20}), (text, width) => {
			return widthOf(cut(text, width)) <= width;
		}),
	);
});

for (const [text, width] of [
	['⌚✅⭐', 6],
	['🎉', 2],
	['🌡', 1],
	['🌡\ufe0f', 2],
	['❤\ufe0f', 2],
	['1\ufe0f\u20e3', 2],
	['👍🏽', 2],
	['🇩🇪🇦🇹', 4],
	['日本', 4],
	['e\u0301', 1],
	['Zoë – “x”', 9],
] as const) {
	test(`${JSON.stringify(text)} takes ${width} columns`, t => {
		t.is(widthOf(text), width);
	});
}

test('does not cut inside a grapheme', t => {
	t.is(cut('ab🇩🇪🇦🇹cd', 5), 'ab🇩🇪…');
	t.is(cut('ab👍🏽cd', 4), 'ab…');
	t.deepEqual(folded('👍🏽👍🏽👍🏽', 5), ['👍🏽👍🏽', '👍🏽']);
});

test('folds text from outside into lines, however long its words', t => {
	t.deepEqual(folded('see https://help.example/very/long for more', 14, '  '), [
		'  see',
		'  https://help',
		'  .example/ver',
		'  y/long for',
		'  more',
	]);
	t.deepEqual(folded('日本語日本語', 5), ['日本', '語日', '本語']);
	t.deepEqual(folded('as long as it is', Number.POSITIVE_INFINITY), ['as long as it is']);
	fc.assert(
		fc.property(fc.string({unit: 'grapheme'}), fc.integer({min: 4, max: 20}), (text, width) => {
			return folded(text, width, '  ').every(line => widthOf(line) <= width);
		}),
	);
});

test('a table aligns its columns and cuts the widest that may be cut', t => {
	const columns = [
		{title: 'NAME', cell: (row: {name: string; n: number | null}) => row.name, cut: true},
		{title: 'N', cell: (row: {name: string; n: number | null}) => row.n, right: true},
	] as const;
	const rows = [
		{name: 'a very long name', n: 1},
		{name: 'b', n: 1000},
		{name: 'c', n: null},
	];
	t.deepEqual(table(columns, rows, Number.POSITIVE_INFINITY), [
		'NAME                 N',
		'a very long name     1',
		'b                 1000',
		'c                    –',
	]);
	t.deepEqual(table(columns, rows, 16), [
		'NAME           N',
		'a very lo…     1',
		'b           1000',
		'c              –',
	]);
	t.deepEqual(table(columns, [], 80), ['NAME  N']);
	t.is(table(columns, rows, 3)[1]?.length, 14, 'no column gets narrower than can be read');
});

test('aligns the values of fields and folds long ones', t => {
	t.deepEqual(
		fields([
			['id', 'x'],
			['long name', null],
			['n', 0],
		]),
		['id         x', 'long name  –', 'n          0'],
	);
	t.deepEqual(
		fields(
			[
				['reason', 'one two three four'],
				['n', 'a-word-that-is-long'],
			],
			16,
		),
		['reason  one two', '        three', '        four', 'n       a-word-that-is-long'],
	);
});

test('shows the next attempt of a recipient, or since when it is due', t => {
	const at = '2026-06-09T10:15:30.000Z';
	t.is(formatNextAttempt(at, Date.parse(at) - 1), 'next attempt 2026-06-09 10:15:30 UTC');
	t.is(formatNextAttempt(at, Date.parse(at)), 'due since 2026-06-09 10:15:30 UTC');
});

test('prints durations in their two largest units', t => {
	t.deepEqual([0, 59_400, 90_000, 3_600_000, 90_000_000, -5].map(duration), [
		'0s',
		'59s',
		'1m 30s',
		'1h 0m',
		'1d 1h',
		'0s',
	]);
});

test('shortens ids to their unique start where the line would exceed the terminal', t => {
	const columns = [
		{title: 'TO', cell: (row: {id: string; to: string}) => row.to},
		{title: 'ID', cell: (row: {id: string; to: string}) => row.id, id: true as const},
	];
	const rows = [
		{to: 'a@x.example', id: 'msg_01m84hv4h9q7aaaaaaaaaaaaaa'},
		{to: 'b@x.example', id: 'msg_01m84hv4h9q7aabbbbbbbbbbbb'},
	];
	t.is(table(columns, rows, 80)[1], 'a@x.example  msg_01m84hv4h9q7aaaaaaaaaaaaaa');
	t.deepEqual(table(columns, rows, 40).slice(1), [
		'a@x.example  msg_01m84hv4h9q7aaa',
		'b@x.example  msg_01m84hv4h9q7aab',
	]);
	t.is(table(columns, rows.slice(1), 30)[1], 'b@x.example  msg_01m84hv4h9q7');
});

test('prints a sentence for an empty list', t => {
	t.deepEqual(toTable({none: 'no keys', json: row => row, fields: []}, [], 80), ['no keys']);
});

test('cuts the column marked to be cut first before any other', t => {
	const columns = [
		{title: 'TO', cell: (row: {to: string; subject: string}) => row.to, cut: true as const},
		{title: 'SUBJECT', cell: (row: {to: string; subject: string}) => row.subject, cut: 'first' as const},
	];
	const rows = [{to: 'ada.lovelace@example.org', subject: 'Your receipt of yesterday'}];
	t.is(table(columns, rows, 34)[1], 'ada.lovelace@example.org  Your re…');
	t.is(table(columns, rows, 30)[1], 'ada.lovelace@exampl…  Your re…');
});

test('groups thousands of a count as Intl does', t => {
	t.deepEqual([0, 999, 1000, 1_000_000].map(grouped), ['0', '999', '1,000', '1,000,000']);
	fc.assert(fc.property(fc.maxSafeInteger(), count => grouped(count) === count.toLocaleString('en')));
});
