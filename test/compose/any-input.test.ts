import test from 'ava';
import fc from 'fast-check';
import {base64Length, writeBase64Lines} from '../../src/compose/body-writer.ts';
import {createCompose} from '../../src/compose/compose.ts';
import type {Letter} from '../../src/compose/header-field.ts';
import {receipt} from './letters.ts';
import {headerLines, read} from './read.ts';

const compose = createCompose();
const now = Date.UTC(2026, 5, 9);
const fieldNames = headerLines(compose(receipt, [], now)).map(line => line.slice(0, line.indexOf(':')));

// Any code point, and often what headers and MIME give a meaning to.
const texts = fc.oneof(
	fc.string({unit: 'binary', maxLength: 120}),
	fc.string({unit: 'grapheme', maxLength: 120}),
	fc
		.array(
			fc.constantFrom(
				'\r\nBcc: eve@evil.test',
				'\r\n\r\n<html>',
				'\n',
				'\r',
				'\0',
				'\u0085',
				'\u2028',
				'\u2029',
				'=?UTF-8?B?QQ==?=',
				'=?utf-8?Q?=0D=0ABcc:x?=',
				'"',
				'\\',
				';',
				'<',
				'>',
				',',
				'(',
				"'",
				'%41',
				'é',
				'😀',
				' ',
				'\t',
				'word',
				'x'.repeat(80),
				`--=_${receipt.ref}_a`,
			),
			{maxLength: 12},
		)
		.map(pieces => pieces.join('')),
);
const attachments = fc.array(
	fc.record({
		filename: texts,
		contentType: fc.oneof(fc.constantFrom('application/pdf', 'text/csv', 'image/png'), texts),
		content: fc.uint8Array({maxLength: 200}),
	}),
	{maxLength: 2},
);
const letters: fc.Arbitrary<Letter> = fc
	.record({subject: texts, name: texts, html: texts, text: fc.option(texts), attachments, header: texts})
	.map(({name, header, ...rest}) => ({
		...receipt,
		...rest,
		from: {...receipt.from, name},
		messageIdHeader: header.slice(0, 100),
		ref: header.slice(0, 100),
		feedbackId: header.slice(0, 100),
		cfblAddress: header.slice(0, 100),
		listUnsubscribe: {url: header.slice(0, 100), mailto: header.slice(0, 100)},
	}));

test('no input makes another header field, a long line, a bare CR or LF, or an octet over 7 bits', t => {
	fc.assert(
		fc.property(letters, letter => {
			const mail = compose(letter, [], now);
			const text = mail.toString('latin1');
			t.true(/^[\t\r\n\x20-\x7e]*$/.test(text));
			t.false(/\r(?!\n)|(?<!\r)\n/.test(text));
			t.true(text.split('\r\n').every(line => line.length <= 998));
			t.true(text.endsWith('\r\n'));
			t.deepEqual(
				headerLines(mail).map(line => line.slice(0, line.indexOf(':'))),
				letter.text === null && letter.attachments.length === 0
					? [...fieldNames, 'Content-Transfer-Encoding']
					: fieldNames,
			);
			t.false(/^[ \t]*$/m.test(text.slice(0, text.indexOf('\r\n\r\n')).replaceAll('\r\n', '\n')));
		}),
		{numRuns: 500},
	);
});

// As the reader sees a header value: controls are spaces, and it trims.
const shown = (text: string) => text.replaceAll(/[\u0000-\u001f\u007f-\u009f\u2028\u2029]+/g, ' ').trim();
const lines = (text: string) => text.replaceAll(/\r\n?/g, '\n');
// What mailparser itself changes: it drops a byte order mark at the start, and reads an empty text as an empty line.
// In file names it decodes encoded words, though RFC 2047 §5 allows none there.
const readable = texts.filter(text => !text.startsWith('\ufeff'));

test('another reader finds any subject, name, text, html and file as they were', async t => {
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

test('base64 lines hold any bytes', t => {
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
