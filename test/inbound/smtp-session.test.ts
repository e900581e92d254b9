import test from 'ava';
import fc from 'fast-check';
import {DotUnstuffing} from '../../src/net/guarded-server.ts';

/** Feeds chunks until the message ends; returns its content and what followed (null: it did not end). */
function fed(chunks: readonly Buffer[]): {content: string; rest: string | null} {
	const unstuffing = new DotUnstuffing();
	let content = '';
	for (const [index, chunk] of chunks.entries()) {
		const {content: part, end} = unstuffing.next(chunk);
		content += part.toString('latin1');
		if (end !== null) {
			return {content, rest: Buffer.concat([chunk.subarray(end), ...chunks.slice(index + 1)]).toString('latin1')};
		}
	}
	return {content, rest: null};
}

const bytes = (text: string) => Buffer.from(text, 'latin1');

for (const [sent, content, rest] of [
	['.\r\n', '', ''],
	['\r\n.\r\n', '\r\n', ''],
	['a\r\n.\r\nQUIT\r\n', 'a\r\n', 'QUIT\r\n'],
	['..\r\n.\r\n', '.\r\n', ''],
	['...\r\n.\r\n', '..\r\n', ''],
	['a..b\r\n..\r\n..c\r\n.\r\n', 'a..b\r\n.\r\n.c\r\n', ''],
	['.a\r\n.\r\n', '.a\r\n', ''],
	['\r\r\n.\r\n', '\r\r\n', ''],
	['a\n.\r\nb\r\n.\r\n', 'a\n.\r\nb\r\n', ''],
	['a\n.\nb\n..\r\n.\r\n', 'a\n.\nb\n..\r\n', ''],
	['a\r.\r\nb\r\n.\r\n', 'a\r.\r\nb\r\n', ''],
	['a\r\n.\nb\r\n.\r\n', 'a\r\n.\nb\r\n', ''],
	['a\r\n.\rb\r\n.\r\n', 'a\r\n.\rb\r\n', ''],
	['a\r\n.\r\r\n.\r\n', 'a\r\n.\r\r\n', ''],
	['a\r\n.', 'a\r\n', null],
	['a\r\n.\r', 'a\r\n', null],
] as const) {
	test(`${JSON.stringify(sent)}, in one chunk and octet by octet`, t => {
		t.deepEqual(fed([bytes(sent)]), {content, rest});
		t.deepEqual(fed([...sent].map(bytes)), {content, rest});
	});
}

test('restores dot-stuffed content, however it is split into chunks', t => {
	const text = fc
		.array(fc.constantFrom('.', '\r', '\n', '\r\n', 'a', '\0', '\r\n.'), {maxLength: 60})
		.map(parts => `${parts.join('')}\r\n`);
	const after = fc.constantFrom('', 'QUIT\r\n', '.\r\n');
	fc.assert(
		fc.property(text, after, fc.array(fc.nat(), {maxLength: 8}), (mail, commands, cuts) => {
			const wire = bytes(`${mail.replace(/(^|\r\n)\./g, '$1..')}.\r\n${commands}`);
			const places = [0, ...cuts.map(cut => cut % wire.length).sort((a, b) => a - b), wire.length];
			const chunks = places.slice(1).map((end, index) => wire.subarray(places[index], end));
			t.deepEqual(fed(chunks), {content: mail, rest: commands});
		}),
	);
});
