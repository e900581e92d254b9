import {readFileSync, writeFileSync} from 'node:fs';
import process from 'node:process';
import test from 'ava';
import {createCompose} from '../../src/compose/compose.ts';
import {importSigningKey} from '../../src/compose/dkim.ts';
import {needsSmtputf8, type RenderedMessage} from '../../src/compose/header-field.ts';
import {decodeWords} from '../../src/mail/decode.ts';
import {answer, international, invoice, note, pictured, receipt} from './letters.ts';
import {headerLines, read} from './read.ts';
import {rfc8463} from './rfc8463.ts';

const compose = createCompose();
const now = Date.UTC(2026, 5, 9, 10, 15, 31);
const lf = (text: string) => text.replaceAll(/\r\n?/g, '\n');

const letters = {receipt, note, invoice, international, answer, pictured};
const keys = (['rsa', 'ed25519'] as const).map(kind =>
	importSigningKey({
		domain: 'shop.example',
		selector: kind === 'rsa' ? 'mc1' : 'mc2',
		algorithm: `${kind}-sha256`,
		privateKeyPem: rfc8463[kind].privateKeyPem,
	}),
);
const mails = {
	...Object.fromEntries(Object.entries(letters).map(([name, letter]) => [name, compose(letter, [], now)])),
	signed: compose(receipt, keys, now),
};

for (const [name, mail] of Object.entries(mails)) {
	test(`golden: ${name}.eml`, t => {
		const file = `test/fixtures/compose/${name}.eml`;
		if (process.env.UPDATE_GOLDEN) {
			writeFileSync(file, mail);
		}
		t.deepEqual(mail.toString('latin1').split('\r\n'), readFileSync(file, 'latin1').split('\r\n'));
	});
}

for (const [name, letter] of Object.entries(letters)) {
	test(`another parser reads ${name} as it was composed`, async t => {
		const mail = await read(compose(letter, [], now));
		t.is(mail.subject, letter.subject);
		t.is(lf(mail.html || ''), lf(`${letter.html}`).replace(/\n?$/, '\n'));
		if (letter.text !== null) {
			t.is(lf(mail.text ?? ''), lf(`${letter.text}`));
		}
		t.is(mail.messageId, `<${letter.messageIdHeader}>`);
		t.is(mail.date?.getTime(), Math.floor(letter.date / 1000) * 1000);
		t.is(mail.from?.value[0]?.address, letter.from.address);
		t.is(mail.from?.value[0]?.name, letter.from.name ?? '');
		t.deepEqual(
			mail.attachments.map(({filename, contentType, content}) => ({
				filename,
				contentType,
				content: Buffer.from(content),
			})),
			letter.attachments.map(({filename, contentType, content}) => ({
				...{filename, contentType, content: Buffer.from(content)},
			})),
		);
	});

	test(`composes ${name} identically at every attempt`, t => {
		t.deepEqual(compose(letter, [], now), compose(structuredClone(letter), [], now + 86_400_000));
	});
}

test('writes the header of a full letter, field by field', t => {
	t.deepEqual(headerLines(compose(receipt, [], now)), [
		'Date: Tue, 09 Jun 2026 10:15:30 +0000',
		'From: =?UTF-8?B?TcO8bGxlciAmIFPDtmhuZQ==?= <orders@shop.example>',
		'To: ada@example.com',
		'Cc: grace@example.org, buchhaltung@xn--exmple-cua.test',
		'Reply-To: help@shop.example',
		`Message-ID: <${receipt.messageIdHeader}>`,
		'Subject: =?UTF-8?B?SWhyZSBCZXN0ZWxsdW5nIDQ3MTEg4oCTIHZpZWxlbiBEYW5rLCBz?= =?UTF-8?B?Y2jDtm5lIEdyw7zDn2UgdW5kIGJpcyBiYWxkIGluIHVuc2VyZW0g?= =?UTF-8?B?R2VzY2jDpGZ0IPCfjoE=?=',
		`List-Unsubscribe: <${receipt.listUnsubscribe.url}>, <mailto:${receipt.listUnsubscribe.mailto}?subject=unsubscribe>`,
		'List-Unsubscribe-Post: List-Unsubscribe=One-Click',
		'Feedback-ID: receipt:ws1:live:mailctl',
		'CFBL-Address: fbl@bounces.shop.example; report=arf',
		`CFBL-Feedback-ID: ${receipt.ref}`,
		`X-Mailctl-Ref: ${receipt.ref}`,
		'Auto-Submitted: auto-generated',
		'MIME-Version: 1.0',
		`Content-Type: multipart/alternative; boundary="=_${receipt.ref}_a"`,
	]);
});

test('puts attachments that the html refers to by cid: next to it, and others at the end', async t => {
	const parts = (mail: Buffer) =>
		[
			...mail
				.toString('latin1')
				.matchAll(/^(?:Content-Type: ([^;\r]+)|Content-Disposition: (\w+)|Content-ID: (.+))/gm),
		]
			.map(([, ...found]) => found.find(text => text !== undefined)?.trim())
			.join(' ');
	const files = 'image/png inline <logo@shop> image/png inline <back+ground>';
	const others = 'image/png attachment <unused> application/pdf attachment';
	t.is(
		parts(compose(pictured, [], now)),
		`multipart/mixed multipart/alternative text/plain multipart/related text/html ${files} ${others}`,
	);
	const alone = {...pictured, text: null, attachments: pictured.attachments.slice(0, 1)};
	t.is(parts(compose(alone, [], now)), 'multipart/related text/html image/png inline <logo@shop>');
	const {attachments} = await read(compose(pictured, [], now));
	t.deepEqual(
		attachments.map(({related, cid}) => [related === true, cid]),
		[
			[true, 'logo@shop'],
			[true, 'back+ground'],
			[false, 'unused'],
			[false, undefined],
		],
	);
});

test('includes the names and header fields of the send', async t => {
	const {headers, to, replyTo} = await read(compose(answer, [], now));
	t.is([to].flat()[0]?.value[0]?.name, 'Lovelace, Ada');
	t.is(replyTo?.value[0]?.name, 'Hilfe & Größe');
	t.is(headers.get('in-reply-to'), '<2@shop.example>');
	t.deepEqual([headers.get('references')].flat().join(' '), answer.extras.headers?.[1]?.[1]);
	t.is(decodeWords(`${headers.get('x-long')}`), 'a'.repeat(998));
	t.is(decodeWords(`${headers.get('x-size')}`), 'Größe =?UTF-8?Q?x?='.repeat(20));
	const lines = headerLines(compose(answer, [], now));
	t.is(
		lines.filter(line => line.startsWith('Auto-Submitted:')).join(),
		'Auto-Submitted: auto-replied; owner-email=x',
	);
	t.true(lines.includes(`X-Word: https://shop.example/${'a'.repeat(200)} and more`), 'programs read it');
});

test('never folds the unsubscribe URL', t => {
	const url = `https://mail.shop.example/unsubscribe?token=${'x'.repeat(600)}`;
	const mail = compose({...receipt, listUnsubscribe: {url, mailto: 'u@bounces.shop.example'}}, [], now).toString();
	t.true(
		mail.includes(`\r\nList-Unsubscribe: <${url}>,\r\n <mailto:u@bounces.shop.example?subject=unsubscribe>\r\n`),
	);
});

test('omits fields that the letter does not have', t => {
	const names = headerLines(compose(note, [], now)).map(line => line.split(':')[0]);
	for (const name of [
		'Cc',
		'Reply-To',
		'Feedback-ID',
		'CFBL-Address',
		'CFBL-Feedback-ID',
		'Bcc',
		'DKIM-Signature',
		'Return-Path',
	]) {
		t.false(names.includes(name));
	}
});

test('keeps a non-ASCII local part and converts its domain to A-labels', t => {
	t.true(needsSmtputf8(international));
	t.true(headerLines(compose(international, [], now)).includes('To: jörg@xn--exmple-cua.test'));
	t.false(needsSmtputf8(receipt));
	t.false(needsSmtputf8({...receipt, to: 'ada@exämple.test'}));
});

test('returns a buffer that owns its memory and can be transferred', t => {
	const mail = compose(note, [], now);
	t.is(mail.buffer.byteLength, mail.length);
});

test('converts all line endings to CRLF, and starts no line with a dot or From', t => {
	const mail = compose({...note, html: 'a\nb\rc\r\nd\n\r\n.\n.e\nFrom x\r.\r'}, [], now).toString();
	t.true(mail.endsWith('\r\n\r\na\r\nb\r\nc\r\nd\r\n\r\n=2E\r\n=2Ee\r\n=46rom x\r\n=2E\r\n\r\n'));
});

for (const bad of [
	'a@b.test, c@d.test',
	'<a@b.test>',
	'a@b.test\r\nBcc: c@d.test',
	'a b@c.test',
	'a@',
	'a',
	'a@b@c',
	'"a"@b.test',
	'a@b.te\u2028st',
]) {
	test(`throws on an address that validation should have refused: ${JSON.stringify(bad)}`, t => {
		for (const letter of [
			{...note, to: bad},
			{...note, cc: [bad]},
			{...note, replyTo: bad},
			{...note, from: {address: bad, name: null}},
		] satisfies RenderedMessage[]) {
			t.throws(() => compose(letter, [], now), {message: /bare addr-spec/});
		}
	});
}

test('throws on a URL that is too long for a line', t => {
	const listUnsubscribe = {url: `https://mail.shop.example/${'x'.repeat(1000)}`, mailto: null};
	t.throws(() => compose({...note, listUnsubscribe}, [], now), {message: /List-Unsubscribe/});
});

for (const [contentType, content, expected] of [
	['text/plain', 'Größe', 'text/plain; charset=utf-8'],
	['text/csv', Buffer.from('Gr\xf6\xdfe', 'latin1'), 'text/csv'],
	['text/csv; charset=iso-8859-1', 'a', 'text/csv; charset=iso-8859-1'],
	['text/calendar; method=REQUEST', 'BEGIN:VCALENDAR', 'text/calendar; method=REQUEST; charset=utf-8'],
	['application/pdf', 'a', 'application/pdf'],
	['nonsense; x=y', 'a', 'application/octet-stream'],
] as const) {
	test(`writes an attachment of type ${contentType} as ${expected}`, t => {
		const attachment = {filename: 'a.bin', contentType, content: Buffer.from(content)};
		const mail = compose({...note, attachments: [attachment]}, [], now).toString();
		t.true(mail.includes(`\r\nContent-Type: ${expected}\r\nContent-Disposition: attachment; filename="a.bin"\r\n`));
	});
}
