import test from 'ava';
import fc from 'fast-check';
import {base64Length, writeBase64Lines} from '../../src/compose/body-writer.ts';
import {createCompose} from '../../src/compose/compose.ts';
import type {RenderedMessage} from '../../src/compose/header-field.ts';
import {anyLetter, texts} from './any-letter.ts';
import {receipt} from './letters.ts';
import {headerLines, read} from './read.ts';

const compose = createCompose();
const now = Date.UTC(2026, 5, 9);
const fieldNames = headerLines(compose(receipt, [], now)).map(line => line.slice(0, line.indexOf(':')));

const letters: fc.Arbitrary<RenderedMessage> = fc
	.record({letter: anyLetter, name: texts, header: texts})
	.map(({letter, name, header}) => ({
		...letter,
		from: {...receipt.from, name},
		messageIdHeader: header.slice(0, 100),
		ref: header.slice(0, 100),
		feedbackId: header.slice(0, 100),
		cfblAddress: header.slice(0, 100),
		listUnsubscribe: {url: header.slice(0, 100), mailto: header.slice(0, 100)},
	}));

test('no input adds a header field, a long line, a bare CR or LF, or an 8-bit octet', t => {
	fc.assert(
		fc.property(letters, letter => {
			const mail = compose(letter, [], now);
			const text = mail.toString('latin1');
			t.true(/^[\t\r\n\x20-\x7e]*$/.test(text));
			t.false(/\r(?!\n)|(?<!\r)\n/.test(text));
			t.true(text.split('\r\n').every(line => line.length <= 998));
			t.true(text.endsWith('\r\n'));
			const isSingle = letter.text === null && letter.attachments.length === 0;
			const added = (letter.extras.headers ?? []).map(([name]) => name);
			t.deepEqual(
				headerLines(mail)
					.map(line => line.slice(0, line.indexOf(':')))
					.toSorted(),
				[
					...fieldNames.filter(name => !added.includes(name)),
					...added,
					...(isSingle ? ['Content-Transfer-Encoding'] : []),
				].toSorted(),
			);
			t.false(/^[ \t]*$/m.test(text.slice(0, text.indexOf('\r\n\r\n')).replaceAll('\r\n', '\n')));
		}),
		{numRuns: 500},
	);
});

// As the parser returns a header value: trimmed, with control characters as spaces.
const shown = (text: string) => text.replaceAll(/[\u0000-\u001f\u007f-\u009f\u2028\u2029]+/g, ' ').trim();
const lines = (text: string) => text.replaceAll(/\r\n?/g, '\n');
// What mailparser itself changes: it drops a leading byte order mark and reads an empty text as an empty line.
// In file names, it decodes encoded words, although RFC 2047 §5 forbids them there.
const readable = texts.filter(text => !text.startsWith('\ufeff'));

test('another parser reads any subject, name, text, html and file unchanged', async t => {
	await fc.assert(
		fc.asyncProperty(
			fc.record({
				subject: readable,
				name: readable,
				html: readable,
				text: readable,
				filename: readable.filter(text => !text.includes('=?')),
			}),
			fc.uint8Array({maxLength: 500}),
			async ({subject, name, html, text, filename}, content) => {
				const mail = await read(
					compose(
						{
							...receipt,
							subject,
							from: {...receipt.from, name},
							html,
							text,
							attachments: [{filename, contentType: 'application/pdf', content}],
						},
						[],
						now,
					),
				);
				t.is((mail.subject ?? '').trim(), shown(subject));
				t.is(mail.from?.value[0]?.name, shown(name));
				t.is(mail.from?.value[0]?.address, receipt.from.address);
				t.is(lines(mail.text ?? ''), lines(text) || '\n');
				t.is(lines(mail.html || ''), lines(html));
				t.is(mail.attachments.length, 1);
				t.is((mail.attachments[0]?.filename ?? '').trim(), shown(filename));
				t.deepEqual(Buffer.from(mail.attachments[0]?.content ?? []), Buffer.from(content));
			},
		),
		{numRuns: 300},
	);
});

test('writes any bytes as base64 lines', t => {
	fc.assert(
		fc.property(fc.uint8Array({maxLength: 400}), bytes => {
			const output = Buffer.alloc(base64Length(bytes.length));
			t.is(writeBase64Lines(bytes, output, 0), output.length);
			const text = output.toString('latin1');
			t.deepEqual(Buffer.from(text, 'base64'), Buffer.from(bytes));
			t.true(text.split('\r\n').every((line, index, all) => line.length === 76 || index === all.length - 1));
		}),
	);
});
