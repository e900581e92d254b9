import test from 'ava';
import fc from 'fast-check';
import {createReplyReader, type RawReply} from '../../src/deliver/reply-reader.ts';

function readAll(chunks: readonly Buffer[]): {replies: RawReply[]; fault: string | null; partial: boolean} {
	const reader = createReplyReader();
	const replies: RawReply[] = [];
	for (const chunk of chunks) {
		const fault = reader.push(chunk, reply => replies.push(reply));
		if (fault !== null) {
			return {replies, fault, partial: reader.partial()};
		}
	}

	return {replies, fault: null, partial: reader.partial()};
}

const read = (text: string) => readAll([Buffer.from(text)]);

test('replies of one line and of several', t => {
	t.deepEqual(read('220 a.test ESMTP\r\n250-one\r\n250-\r\n250 two\r\n354\r\n').replies, [
		{code: 220, lines: ['a.test ESMTP']},
		{code: 250, lines: ['one', '', 'two']},
		{code: 354, lines: ['']},
	]);
});

test('a line feed alone ends a line too', t => {
	t.deepEqual(read('250 ok\n').replies, [{code: 250, lines: ['ok']}]);
});

test('part of a reply waits for the rest', t => {
	t.true(read('250-one\r\n').partial);
	t.true(read('25').partial);
	t.false(read('250 one\r\n').partial);
});

for (const line of ['', 'x', '25', '2500', '250x', '150 a', '600 a', '099 a', '2a0 x', ' 250 x', '٢٥٠ x']) {
	test(`no reply: ${JSON.stringify(line)}`, t => {
		t.regex(read(`${line}\r\n`).fault ?? '', /not an SMTP reply/);
	});
}

test('bounds', t => {
	t.is(read('250-x\r\n'.repeat(511).concat('250 x\r\n')).fault, null);
	t.regex(read('250-x\r\n'.repeat(513)).fault ?? '', /does not end/);
	t.regex(read(`250-${'x'.repeat(8000)}\r\n`.repeat(9)).fault ?? '', /does not end/);
	t.regex(read('2'.repeat(9000)).fault ?? '', /does not end/);
});

test('any bytes, however they are cut: the same replies, no exception', t => {
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
			t.deepEqual(pieces.replies, whole.replies);
			t.is(pieces.fault, whole.fault);
		}),
	);
});
