import test from 'ava';
import fc from 'fast-check';
import {type AddressObject, type ParsedMail, simpleParser} from 'mailparser';
import {composeSubmitted} from '../../../src/compose/compose.ts';
import {decodeWords} from '../../../src/mail/decode.ts';
import {readSubmitted} from '../../../src/send/submission/submit.ts';
import {cpuCost} from '../../helpers/cpu-cost.ts';

type Submitted = Parameters<typeof composeSubmitted>[1];

const submitted: Submitted = {
	...{listUnsubscribe: {url: 'https://mail.test/u', mailto: null}, feedbackId: null, cfblAddress: null, ref: 'r'},
	...{messageIdHeader: 'm@example.com', date: 0, hasTopic: false},
};
const from = 'From: Ann <ann@example.com>';
const long = 'x'.repeat(999);

const mailOf = (lines: readonly string[]) => Buffer.from([from, ...lines].join('\r\n'), 'utf8');

/** The message as sent, or the reason for its refusal. */
function sent(raw: Buffer): Buffer | string {
	const read = readSubmitted(raw, 'Received: by mail.test; Mon, 23 Nov 2026 10:00:00 +0000');
	if (!read.ok) {
		return read.problem;
	}
	return composeSubmitted(read.mail.source, submitted, [], 0).mail;
}

async function repaired(...lines: readonly string[]): Promise<ParsedMail> {
	const mail = sent(mailOf(lines));
	const unfit = /[^\r\n]{999}|[^\t\r\n\x20-\x7e]/.exec(mail.toString('latin1'));
	if (typeof mail === 'string' || unfit !== null) {
		throw new Error(`${unfit?.[0] ?? mail}`);
	}
	return await simpleParser(mail);
}

const valuesOf = (to: ParsedMail['to']) => (to as AddressObject).value;

const word = fc.oneof(
	fc.string({
		unit: fc.constantFrom(
			'ü',
			'ß',
			'a',
			'Z',
			'0',
			'.',
			',',
			';',
			':',
			'"',
			'\\',
			'(',
			')',
			'<',
			'>',
			'@',
			'日',
			'🎉',
			"'",
			'%',
		),
		minLength: 1,
		maxLength: 12,
	}),
	fc.constantFrom('word', 'x'.repeat(1100), 'ü'.repeat(600)),
);
const text = fc.array(fc.tuple(word, fc.constantFrom(' ', '  ')), {minLength: 1, maxLength: 40}).map(words =>
	words
		.map(pair => pair.join(''))
		.join('')
		.trim(),
);
const quoted = (name: string) => `"${name.replace(/["\\]/g, '\\$&')}"`;

test('preserves any subject and any names', async t => {
	const recipients = fc.array(
		text.filter(name => name.length < 900 && /[^ -~]/.test(name)),
		{minLength: 1, maxLength: 5},
	);
	await fc.assert(
		fc.asyncProperty(text, recipients, async (subject, names) => {
			const to = names.map((name, index) => `${quoted(name)} <to${index}@dest.example>`).join(', ');
			const read = await repaired(`Subject: ${subject}`, `To: ${to}`, '', 'body');
			t.is(read.subject, subject);
			t.deepEqual(
				valuesOf(read.to).map(({address, name}) => [address, name]),
				names.map((name, index) => [`to${index}@dest.example`, name]),
			);
		}),
		{numRuns: 100},
	);
});

test('preserves any body and any attachments', async t => {
	const lines = fc.array(fc.oneof(text, fc.constantFrom('', '.', 'From me', 'a \t', '=3D=')), {maxLength: 8});
	const content = lines.map(all => all.join('\r\n'));
	const encoding = fc.constantFrom('8bit', 'base64', 'base64 in one line', 'quoted-printable');
	const written = (kind: string, octets: Buffer): string => {
		switch (kind) {
			case '8bit':
				return octets.toString('utf8');
			case 'quoted-printable':
				return octets
					.toString('latin1')
					.replace(
						/[^\r\n!-<>-~]/g,
						one => `=${one.charCodeAt(0).toString(16).toUpperCase().padStart(2, '0')}`,
					);
			default:
				return octets.toString('base64').replace(kind === 'base64' ? /.{76}(?=.)/g : /$^/g, '$&\r\n');
		}
	};
	// Of several empty files the reader takes the line end before a boundary for content.
	const some = content.map(lines => `a${lines}`);
	const file = fc.record({filename: text.filter(name => name.length < 900), content: some, encoding});
	await fc.assert(
		fc.asyncProperty(content, fc.array(file, {maxLength: 3}), fc.boolean(), async (body, files, isNested) => {
			const parts = files.flatMap(({filename, content, encoding}) => [
				...['--b', `Content-Type: application/x-any; name=${quoted(filename)}`],
				`Content-Disposition: attachment; filename=${quoted(filename)}`,
				...[
					`Content-Transfer-Encoding: ${encoding.split(' ')[0]}`,
					'',
					written(encoding, Buffer.from(content)),
				],
			]);
			const first = ['--b', 'Content-Type: text/plain; charset=utf-8', '', body];
			const mixed = ['Content-Type: multipart/mixed; boundary=b', '', long, ...first, ...parts, '--b--', long];
			const outer = ['Content-Type: multipart/mixed; boundary=a', '', '--a', ...mixed, '--a--', ''];
			const read = await repaired(...(isNested ? outer : mixed));
			t.is(read.text?.trimEnd().replaceAll('\n', '\r\n') ?? '', body.trimEnd());
			t.deepEqual(
				read.attachments.map(({filename, content}) => [filename, content.toString()]),
				files.map(({filename, content}) => [filename, content]),
			);
		}),
		{numRuns: 100},
	);
});

test('leaves valid messages unchanged', t => {
	const lines = [
		'To: "B, C" <b@example.org>',
		`Subject: ${'word  '.repeat(150)}`,
		'Date: Mon, 23 Nov 2026 10:00:00 +0000',
	];
	const mail = String(sent(mailOf([...lines, 'MIME-Version: 1.0', '', 'body', ''])));
	for (const line of lines) {
		t.true(mail.includes(`${line}\r\n`), line);
	}
});

test('folds and encodes fields where their kind allows it', async t => {
	const ids = Array.from({length: 80}, (_, n) => `<${n}@example.org>`);
	const many = Array.from({length: 80}, (_, n) => `"B, ${n}" <to${n}@example.org>`);
	const read = await repaired(
		...[
			`References: ${ids.join('')}`,
			`To: ${many.join(',')}`,
			'Cc: Größe & Söhne <c@münchen.example>, d@example.org (Jörg)',
		],
		...['Reply-To: =?utf-8?q?=C3=A4?= =?utf-8?q?=C3=B6?= ü é <r@example.org>', `X-Other: ${'ä'.repeat(2000)}`],
		...[
			`Subject:${long} =?utf-8?q?a?= ü =?utf-8?q?b?=  c${' '.repeat(1000)}d`,
			`List-Unsubscribe: ${'<https://a.example/b>,'.repeat(60)}`,
		],
		...["Content-Type: text/plain; charset=utf-8; name*=utf-8''Größe", '', 'body'],
	);
	t.deepEqual(read.references, ids);
	t.deepEqual(
		valuesOf(read.to).map(({name}) => name),
		Array.from({length: 80}, (_, n) => `B, ${n}`),
	);
	t.deepEqual(
		valuesOf(read.cc).map(({address, name}) => [address, name]),
		[
			['c@münchen.example', 'Größe & Söhne'],
			['d@example.org', 'Jörg'],
		],
	);
	t.is(valuesOf(read.replyTo)[0]?.name, 'äö ü é');
	t.is(decodeWords(String(read.headers.get('x-other'))), 'ä'.repeat(2000));
	t.is(read.subject, `${long} a ü b  c d`);
});

test('repairs attached messages and leaves signed parts untouched', async t => {
	const inner = ['From: Jörg <j@example.org>', `Subject: ${'ü'.repeat(600)}`, '', `${long} ü`];
	const read = await repaired(
		...[
			'Content-Type: multipart/mixed; boundary=b',
			'',
			'--b',
			'Content-Type: message/rfc822',
			'',
			...inner,
			'--b--',
			'',
		],
	);
	const attached = await simpleParser(read.attachments[0]?.content ?? '');
	t.is(attached.subject, 'ü'.repeat(600));
	t.is(attached.text?.trimEnd(), `${long} ü`);

	const signed = [
		'Content-Type: multipart/signed; boundary=s',
		'',
		'--s',
		'Subject: x',
		'',
		'plain =',
		'--s',
		'',
		'sig',
		'--s--',
	];
	const mail = sent(
		mailOf(['Content-Type: multipart/mixed; boundary=b', '', '--b', ...signed, '--b', '', 'ü', '--b--', '']),
	);
	t.true(String(mail).includes(signed.join('\r\n')));
	t.regex(String(mail), /\r\n=C3=BC\r\n/);
});

for (const [what, lines, fault] of [
	['Latin-1', ['Subject: gr\xfc\xdfe'], /^the Subject field has octets that are neither ASCII nor UTF-8: encode/],
	['a non-ASCII address', ['To: jörg@example.org'], /^the To field .* address/],
	['a non-ASCII address after a name', ['To: Jörg <jörg@example.org>'], /^the To field .* address/],
	['an unterminated name', ['To: "Jörg <j@example.org>'], /^the To field /],
	['a link', ['List-Unsubscribe: <https://a.example/ü>'], /^the List-Unsubscribe field .*percent-encode/],
	['an id', ['Message-ID: <ü@example.org>'], /^the Message-ID field .*ASCII/],
	['a boundary', ['Content-Type: multipart/mixed; boundary="ü"'], /^the Content-Type field .*ASCII/],
	['a control character', ['X-A: a\x01'], /^the X-A field has a control character: remove it/],
	[
		'an id that fills a line',
		[`References: <${long}@example.org>`],
		/^the References field has a word of more than 998.*shorten/,
	],
	[
		'a field of a signed message',
		['DKIM-Signature: v=1', 'Subject: ü'],
		/^the Subject field .*DKIM.*encode them \(RFC 2047\) before/,
	],
	[
		'a long field of a signed message',
		['DKIM-Signature: v=1', `Subject: ${long}`],
		/^the Subject field .*998.*DKIM.*fold it before/,
	],
	[
		'a long line of a signed message',
		['DKIM-Signature: v=1', '', 'a', long],
		/^the body .*line 2\).*DKIM.*quoted-printable before/,
	],
	[
		'a signed part',
		['Content-Type: multipart/signed; boundary=b', '', '--b', '', 'ü', '--b--'],
		/signed.*before it is signed/,
	],
	['uuencode', ['Content-Transfer-Encoding: x-uuencode', '', long], /^the body .*x-uuencode: use/],
	['a multipart without parts', ['Content-Type: multipart/mixed', '', long], /^the body .*without parts: use/],
	[
		'a field of a part',
		[...['Content-Type: multipart/mixed; boundary=b', '', '--b', `Content-ID: <${long}>`, '', '', '--b--']],
		/^in a part the Content-ID field .*shorten/,
	],
	[
		'an invalid header line of a part before a long body',
		['Content-Type: multipart/mixed; boundary=b', '', '--b', long, '', long, '--b--'],
		/^the body has a line of more than 998 octets: use/,
	],
] as const) {
	test(`rejects with advice: ${what}`, t => {
		t.regex(
			String(sent(Buffer.from([from, ...lines].join('\r\n'), what === 'Latin-1' ? 'latin1' : 'utf8'))),
			fault,
		);
	});
}

test('yields a message without long lines, or rejects it, whatever the octets', t => {
	const piece = fc.constantFrom(
		...[
			'\r\n',
			'\r\n\r\n',
			'To: ',
			'Subject:',
			'Content-Type: multipart/mixed; boundary=b\r\n',
			'\r\n--b\r\n',
			'\r\n--b--\r\n',
		],
		...[
			'Content-Transfer-Encoding: base64\r\n',
			'Content-Transfer-Encoding: quoted-printable\r\n',
			'ü',
			long,
			' ',
			'\t',
			'"',
			'<',
		],
		...[
			'Content-Type: multipart/digest; boundary=b\r\n',
			'Content-Type: message/rfc822\r\n',
			'@',
			',',
			'(',
			')',
			'\\',
			';',
			'a=b',
		],
		...['Content-Disposition: x; filename=', '=?utf-8?q?a?=', '='],
	);
	fc.assert(
		fc.property(fc.array(piece, {maxLength: 30}), pieces => {
			const mail = sent(Buffer.from(`${from}\r\n${pieces.join('')}`));
			t.notRegex(mail.toString('latin1'), /[^\r\n]{999}/);
		}),
		{numRuns: 1000},
	);
});

/** A quarter of a megabyte takes about 30 ms in one pass, and half a minute in quadratic time. */
const maxMs = 2000;

test('repairs a field of any form in one pass', t => {
	const size = 240_000;
	const fields: ReadonlyArray<readonly [string, string]> = [
		['many blanks in a name', `To: ü${' '.repeat(size)}x <ann@example.com>`],
		['a quoted name without an end', `To: "${'\\"'.repeat(size / 2)}`],
		['many comments', `To: ü${'()'.repeat(size / 2)}`],
		['many addresses', `To: ${'<a'.repeat(size / 2)}`],
		['many parameters', `Content-Type: text/plain;ü${';'.repeat(size)}`],
		['many quotes', `Content-Type: text/plain;ü${'"a'.repeat(size / 2)}`],
		['many words', `Subject: ${'ü a '.repeat(size / 5)}`],
		['many blanks at the end of a text', `Subject: x${' '.repeat(size)}`],
		['many marks in a domain', `To: ann@${'\u0315'.repeat(size / 4)}${'\u0316'.repeat(size / 4)}.example`],
		['many blanks at the end of an address', `To: ann@example.com${' '.repeat(size)}`],
	];
	for (const [what, field] of fields) {
		t.true(cpuCost(() => sent(mailOf([field])), maxMs) <= maxMs, what);
	}
});

test('rejects an address list with too many names and separators', t => {
	t.true(sent(mailOf([`To: ${'ü <ann@example.com>,'.repeat(12_000)}`])) instanceof Buffer);
	t.regex(`${sent(mailOf([`To: ${'ü:'.repeat(60_000)}`]))}`, /the To field has characters that are not ASCII/);
});

test('repairs nested parts up to a limit on rescanning', async t => {
	const nested = (depth: number, text: string): string =>
		depth === 0
			? text
			: `Content-Type: multipart/mixed; boundary=b${depth}\r\n\r\n--b${depth}\r\n${nested(depth - 1, text)}\r\n--b${depth}--\r\n`;
	const part = (text: string) => `Content-Type: text/plain\r\n\r\n${text}`;
	t.regex((await repaired(nested(9, part(`Hello\r\n${long}`)))).text ?? '', /Hello/);
	const lines = '\r\n'.repeat(4 * 1024 * 1024);
	t.regex((await repaired(nested(3, part(`Hello${lines}${long}`)))).text ?? '', /Hello/);
	t.regex(
		`${sent(mailOf([nested(9, part(`${lines}${long}`))]))}`,
		/998 octets, in a large part that is nested too deeply/,
	);
});

test('drops the preamble before the first part if a line is too long', async t => {
	const {text} = await repaired(
		`Content-Type: multipart/mixed; boundary=b\r\n\r\nabc\r\n\r\n${long}\r\n--b\r\n\r\nHello\r\n--b--\r\n${long}`,
	);
	t.is(text?.trim(), 'Hello');
});
