import test from 'ava';
import fc from 'fast-check';
import {compareNumbers, Numeral, parseExact, writeExact} from '../../src/kit/exact-json.ts';
import {anyChar} from '../helpers/any-char.ts';
import {cpuCost} from '../helpers/cpu-cost.ts';

const digits = fc.stringMatching(/^(?:0|[1-9]\d{0,24})$/);
const spelling = fc
	.tuple(
		fc.constantFrom('', '-'),
		digits,
		fc.oneof(fc.constant(''), fc.stringMatching(/^\.\d{1,25}$/)),
		fc.oneof(fc.constant(''), fc.stringMatching(/^[eE][-+]?\d{1,4}$/)),
	)
	.map(parts => parts.join(''));
const text = fc
	.oneof(fc.string({unit: anyChar}), fc.constantFrom('1.0', ',1.0', '": 1e5', '\\', '"', '\\",[1.0', '-0'))
	.map(value => JSON.stringify(value));
/** A JSON document without spaces, spelled in any valid way. */
const {document} = fc.letrec<{document: string}>(tie => ({
	document: fc.oneof(
		{depthSize: 'small', withCrossShrink: true},
		spelling,
		text,
		fc.constantFrom('true', 'false', 'null'),
		fc.array(tie('document'), {maxLength: 4}).map(items => `[${items.join(',')}]`),
		fc
			.uniqueArray(fc.tuple(fc.oneof(text, fc.constant('"__proto__"')), tie('document')), {
				maxLength: 4,
				selector: ([name]) => name,
			})
			// JavaScript orders names that look like indices first.
			.map(
				fields =>
					`{${fields
						.filter(([name]) => !/^"\d+"$/.test(name))
						.map(field => field.join(':'))
						.join(',')}}`,
			),
	),
}));

const plain = (value: unknown): unknown =>
	value instanceof Numeral
		? value.valueOf()
		: Array.isArray(value)
			? value.map(plain)
			: typeof value === 'object' && value !== null
				? Object.fromEntries(Object.entries(value).map(([name, item]) => [name, plain(item)]))
				: value;

test('writes a parsed document unchanged', t => {
	fc.assert(
		fc.property(document, json => t.is(writeExact(parseExact(json)), json)),
		{numRuns: 1000},
	);
	t.pass();
});

test('parses the same values as JSON.parse', t => {
	fc.assert(
		fc.property(document, json => t.deepEqual(plain(parseExact(json)), plain(JSON.parse(json)))),
		{numRuns: 1000},
	);
	t.pass();
});

test('rejects what JSON.parse rejects', t => {
	const broken = fc
		.tuple(document, fc.nat(), fc.constantFrom('', '0', '.', ':', '"', '1.0', '{1.0:2}', ' ', '-', 'e'))
		.map(
			([json, at, put]) => json.slice(0, at % (json.length + 1)) + put + json.slice((at % (json.length + 1)) + 1),
		);
	fc.assert(
		fc.property(broken, json => {
			let expected: unknown;
			try {
				expected = JSON.parse(json);
			} catch {
				t.throws(() => parseExact(json), {instanceOf: SyntaxError}, json);
				return;
			}
			t.deepEqual(plain(parseExact(json)), plain(expected), json);
		}),
		{numRuns: 2000},
	);
	for (const json of ['{1.0:2}', '[01.0]', '[1.0.0]', '[1.]', '[--1.0]', '1.0 1.0', '["a]']) {
		t.throws(() => parseExact(json), {instanceOf: SyntaxError}, json);
	}
});

test('preserves digits only below the given name', t => {
	const json = '{"limit":5.0,"data":{"a":[1.10],"data":2.0},"list":[{"data":1e2,"n":7.0}]}';
	t.is(
		writeExact(parseExact(json, 'data')),
		'{"limit":5,"data":{"a":[1.10],"data":2.0},"list":[{"data":100,"n":7}]}',
	);
});

test('compares numbers by all their digits', t => {
	const order = [
		'-1e400',
		'-12345678901234567891',
		'-12345678901234567890',
		'-0.5',
		'-0.0',
		'1e-400',
		'0.1',
		'0.10000000000000000001',
		'1',
		'9007199254740993',
		'12345678901234567890',
		'1E20',
		'1e400',
	];
	for (const [index, one] of order.entries()) {
		for (const [other, two] of order.entries()) {
			t.true(
				Math.sign(compareNumbers(new Numeral(one), new Numeral(two))) === Math.sign(index - other),
				`${one} ${two}`,
			);
		}
	}
	t.true(new Numeral('1.50').equals(1.5));
	const long = new Numeral(`1${'0'.repeat(240_000)}1`);
	t.true(cpuCost(() => long.gt(1), 200) <= 200, 'in one pass');
	t.true(new Numeral('100e-2').equals(1));
	t.true(new Numeral('-0').equals(0));
	t.false(new Numeral('9007199254740993').equals(9007199254740992));
	for (const other of ['x', null, undefined, {}, Number.NaN]) {
		t.false(new Numeral('1.0').gt(other) || new Numeral('1.0').leq(other), String(other));
	}
});
