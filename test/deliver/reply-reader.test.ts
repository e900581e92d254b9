import test from 'ava';
import fc from 'fast-check';
import {type RawReply, ReplyReader} from '../../src/deliver/dialogue.ts';

type Read = {replies: RawReply[]; strays: string[]; fault: string | null; partial: boolean; begun: boolean};

function readAll(chunks: readonly Buffer[]): Read {
	const reader = new ReplyReader();
	const replies: RawReply[] = [];
	const strays: string[] = [];
	let fault: string | null = null;
	for (const chunk of chunks) {
		fault ??= reader.push(
			chunk,
			reply => replies.push(reply),
			line => strays.push(line),
		);
	}

	return {replies, strays, fault, partial: reader.isPartial, begun: reader.isBegun};
}

const read = (text: string) => readAll([Buffer.from(text)]);

test('reads replies of one line and of several', t => {
	t.deepEqual(read('220 a.test ESMTP\r\n250-one\r\n250-\r\n250 two\r\n354\r\n').replies, [
		{code: 220, lines: ['a.test ESMTP']},
		{code: 250, lines: ['one', '', 'two']},
		{code: 354, lines: ['']},
	]);
});

test('accepts a bare line feed as the end of a line', t => {
	t.deepEqual(read('250 ok\n').replies, [{code: 250, lines: ['ok']}]);
});

test('holds an incomplete reply until the rest arrives', t => {
	t.true(read('250-one\r\n').partial);
	t.true(read('25').partial);
	t.false(read('250 one\r\n').partial);
});

const noReplies = [
	'',
	'x',
	'25',
	'2500',
	'250x',
	'250\tx',
	'\u0000250 x',
	'150 a',
	'600 a',
	'099 a',
	'2a0 x',
	' 250 x',
	'٢٥٠ x',
];
for (const line of noReplies) {
	test(`skips a line without a code: ${JSON.stringify(line)}`, t => {
		const replies = [{code: 250, lines: ['one', 'two']}];
		t.like(read(`${line}\r\n250-one\r\n250 two\r\n`), {replies, strays: [line], fault: null});
		t.like(read(`250-one\r\n${line}\r\n250 two\r\n`), {replies, strays: [line], fault: null});
		t.like(read(`${line}\r\n`), {replies: [], strays: [line], fault: null});
	});
}

test('rejects a reply whose lines both accept and refuse', t => {
	for (const text of ['250-ok\r\n550 no\r\n', '550-no\r\n250 ok\r\n', '250-a\r\n354 go\r\n']) {
		t.like(read(text), {replies: []});
		t.regex(read(text).fault ?? '', /two codes/);
	}

	t.deepEqual(read('550-no\r\n554 no\r\n').replies, [{code: 554, lines: ['no', 'no']}]);
	for (const text of ['450-a\r\n550 b\r\n', '550-a\r\n450 b\r\n']) {
		t.deepEqual(read(text).replies, [{code: 450, lines: ['a', 'b']}], 'refused for now');
	}
});

test('reports a reply as begun while its bytes may still become one', t => {
	for (const text of ['2', '25', '250', '250 x', '250-', '250-x\r\n', '250 ok\r\n5', '250\r']) {
		t.true(read(text).begun, JSON.stringify(text));
	}

	for (const text of ['', 'x', '\r', '1', '2x', '2500', '250x', ' 250', '250 ok\r\n', 'x\r\n', '250 ok\r\nx']) {
		t.false(read(text).begun, JSON.stringify(text));
	}
});

test('limits the size of lines, replies and stray lines', t => {
	const million = 1024 * 1024;
	for (const endless of ['250-x\r\n'.repeat(million / 5), '2'.repeat(million + 1), 'x\r\n'.repeat(million / 2)]) {
		t.regex(read(endless).fault ?? '', /does not end/);
		t.like(read(`${endless.slice(0, million / 2)}\r\n250 x\r\n`.repeat(3)), {fault: null});
	}

	const {replies, strays} = read(
		`${'x\r\n'.repeat(1000)}${`250-${'x'.repeat(9000)}\r\n`.repeat(9)}250 x\r\n250 y\r\n`,
	);
	t.is(strays.length, 16);
	t.deepEqual(
		replies.map(({code, lines}) => [code, lines.map(({length}) => length)]),
		[
			[250, [8188, 8188, 8188, 8188, 8188, 8188, 8188, 8188]],
			[250, [1]],
		],
	);
});

test('reads the same replies from any bytes, however they are split into chunks', t => {
	const line = fc.oneof(
		fc
			.tuple(fc.integer({min: 200, max: 599}), fc.constantFrom(' ', '-'), fc.string({unit: 'grapheme'}))
			.map(([code, mark, text]) => Buffer.from(`${code}${mark}${text.replace(/[\r\n]/g, '')}\r\n`)),
		fc.uint8Array({maxLength: 20}).map(bytes => Buffer.from(bytes)),
	);
	fc.assert(
		fc.property(fc.array(line), fc.array(fc.nat({max: 40}), {maxLength: 20}), (lines, cuts) => {
			const bytes = Buffer.concat(lines);
			const chunks: Buffer[] = [];
			let rest = bytes;
			for (const cut of cuts) {
				chunks.push(rest.subarray(0, cut));
				rest = rest.subarray(cut);
			}

			const whole = readAll([bytes]);
			const pieces = readAll([...chunks, rest]);
			t.deepEqual(pieces, whole);
		}),
	);
});
