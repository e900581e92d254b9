import test from 'ava';
import fc from 'fast-check';
import {splitParts} from '../../src/kit/multipart.ts';

const split = (text: string, ...rest: [string, Parameters<typeof splitParts>[2]?]) =>
	splitParts(Buffer.from(text), ...rest).map(String);

test('splits at lines of the boundary only', t => {
	t.deepEqual(split('preamble\n--b\none\n--bc\n--b \ntwo\r\n--b--\nepilogue\n--b\nthree\n', 'b'), [
		'one\n--bc',
		'two\r',
	]);
	t.deepEqual(split('--b\r\none\r\n--b--\r\n', 'b'), ['one\r']);
	t.deepEqual(split('a--b\none', 'b'), []);
});

test('includes an unclosed part or not, and returns no more parts than requested', t => {
	t.deepEqual(split('--b\none\n--b\ntwo', 'b'), ['one', 'two']);
	t.deepEqual(split('--b\none\n--b\ntwo', 'b', {acceptsUnclosed: false}), ['one']);
	t.deepEqual(split('--b\none\n--b\ntwo\n--b--', 'b', {max: 1}), ['one']);
});

test('preserves parts that do not contain the boundary', t => {
	const part = fc.string({unit: 'binary-ascii'}).filter(text => !text.includes('--b'));
	fc.assert(
		fc.property(fc.array(part), parts => {
			const text = `${parts.map(one => `--b\n${one}\n`).join('')}--b--\n`;
			t.deepEqual(split(text, 'b'), parts);
		}),
	);
});

test('splits any bytes into views of the input', t => {
	fc.assert(
		fc.property(
			fc.uint8Array({maxLength: 200}),
			fc.string({minLength: 1}),
			fc.boolean(),
			(bytes, boundary, unclosed) => {
				const content = Buffer.from(bytes);
				const sizes = splitParts(content, boundary, {acceptsUnclosed: unclosed}).map(one => one.length);
				t.true(sizes.reduce((sum, size) => sum + size, 0) <= content.length);
			},
		),
	);
});
