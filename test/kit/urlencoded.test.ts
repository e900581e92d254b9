import test from 'ava';
import fc from 'fast-check';
import {parseUrlencoded, percentDecode} from '../../src/kit/urlencoded.ts';

const parse = (text: string, maxFields = 1000) => parseUrlencoded(Buffer.from(text), maxFields);

test('parses fields like the URL Standard, even broken escapes', t => {
	t.deepEqual(parse('a=1&b=2&a=3'), [
		['a', '1'],
		['b', '2'],
		['a', '3'],
	]);
	t.deepEqual(parse('&&a+b=c+d%2B&=x&y&z=&'), [
		['a b', 'c d+'],
		['', 'x'],
		['y', ''],
		['z', ''],
	]);
	t.deepEqual(parse('a=%E0%A4%A&%zz=%&b=%ff%4'), [
		['a', '\ufffd%A'],
		['%zz', '%'],
		['b', '\ufffd%4'],
	]);
	t.deepEqual(parse('a=b=c'), [['a', 'b=c']]);
	t.deepEqual(parse(''), []);
});

test('parses any text like URLSearchParams', t => {
	const piece = fc.constantFrom('a', '=', '&', '+', '%', '%4', '%41', '%e2%82%ac', '%ff', '%E0%A4%A');
	const text = fc.oneof(
		fc.array(piece, {maxLength: 40}).map(pieces => pieces.join('')),
		// Where an escape is broken Node.js mangles characters beyond ASCII, against the standard.
		fc.string({unit: 'grapheme'}).map(input => input.replaceAll('%', '')),
	);
	fc.assert(
		fc.property(text, input => {
			t.deepEqual(parse(input), [...new URLSearchParams(input.replace(/^\?/, '%3F'))]);
		}),
		{numRuns: 500},
	);
});

test('ignores fields beyond the limit', t => {
	t.is(parse('a&'.repeat(5000), 100).length, 100);
	t.deepEqual(parse('a=1&b=2', 1), [['a', '1']]);
});

test('percentDecode decodes like decodeURIComponent, but keeps invalid escapes instead of throwing', t => {
	t.is(percentDecode('a%20b+c%E2%82%AC'), 'a b+c€');
	t.is(percentDecode('100%'), '100%');
	t.is(percentDecode('%E0%A4%A'), '\ufffd%A');
	t.is(percentDecode('plain'), 'plain');
	fc.assert(fc.property(fc.string({unit: 'grapheme'}), text => t.is(percentDecode(encodeURIComponent(text)), text)));
});

test('handles broken escapes without the cost of exceptions', t => {
	const body = Buffer.from('a=%E0%A4%A&'.repeat(100_000));
	const cpuOf = (work: () => unknown) => {
		const before = process.cpuUsage();
		work();
		const {user, system} = process.cpuUsage(before);
		return user + system;
	};
	const ours = cpuOf(() => parseUrlencoded(body, Number.POSITIVE_INFINITY));
	const platform = cpuOf(() => new URLSearchParams(body.toString()));
	t.true(ours < platform / 2, `${ours} and ${platform} µs`);
});
