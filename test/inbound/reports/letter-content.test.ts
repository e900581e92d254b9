import test from 'ava';
import fc from 'fast-check';
import {readLetter} from '../../../src/inbound/reports/letter.ts';
import {decodeWords} from '../../../src/mail/decode.ts';

const letterOf = (lines: readonly string[], charset: BufferEncoding = 'latin1') =>
	readLetter(Buffer.from(lines.join('\r\n'), charset), []);
const bytesOf = (text: string) => Buffer.from(text).toString('latin1');

const base64Word = (charset: string, bytes: Uint8Array) => `=?${charset}?B?${Buffer.from(bytes).toString('base64')}?=`;
const quotedWord = (charset: string, bytes: Uint8Array) =>
	`=?${charset}?q?${[...bytes].map(byte => `=${byte.toString(16).padStart(2, '0').toUpperCase()}`).join('')}?=`;

test('joins encoded words that are split inside a character', async t => {
	const bytes = Buffer.from('Größe 😀');
	for (const word of [base64Word, quotedWord]) {
		for (let at = 1; at < bytes.length; at++) {
			const value = `${word('UTF-8', bytes.subarray(0, at))}\r\n ${word('utf-8*de', bytes.subarray(at))}`;
			t.is((await letterOf([`Subject: ${value}`, '', '.'])).subject, 'Größe 😀', value);
		}
	}
	const digits = bytes.toString('base64').replace(/=+$/, '');
	const anywhere = `=?utf-8?B?${digits.slice(0, 5)}?= =?UTF-8?b?${digits.slice(5)}?=`;
	t.is(decodeWords(anywhere), 'Größe 😀');
	const mixed = `${base64Word('utf-8', bytes.subarray(0, 3))} ${quotedWord('utf-8', bytes.subarray(3))}`;
	t.is(decodeWords(mixed), 'Größe 😀');
	t.is(decodeWords(`${quotedWord('utf-8', Buffer.from('ä'))} =?iso-8859-1?q?=E4?=`), 'ää', 'of two charsets');
	t.is(decodeWords('=?utf-8?q?a?= b =?utf-8?q?c?='), 'a b c');
	t.is(decodeWords(`=?x-unknown?q?a?= =?utf-8?q?${'='}`), 'a =?utf-8?q?=', 'half a word is none');
});

test('decodes an encoded word of any length', async t => {
	const subject = 'ä'.repeat(400);
	for (const word of [base64Word, quotedWord]) {
		t.is((await letterOf([`Subject: ${word('utf-8', Buffer.from(subject))}`, '', '.'])).subject, subject);
	}
	const from = `From: ${quotedWord('utf-8', Buffer.from('ä'.repeat(200)))} <ada@example.net>`;
	t.deepEqual((await letterOf([from, '', '.'])).from, {address: 'ada@example.net', name: 'ä'.repeat(200)});
});

test('decodes any text that is split into encoded words', t => {
	const cut = fc.tuple(fc.nat(200), fc.boolean());
	fc.assert(
		fc.property(
			fc.string({unit: 'grapheme', minLength: 1, maxLength: 40}),
			fc.array(cut, {maxLength: 6}),
			(text, cuts) => {
				const bytes = Buffer.from(text);
				const ends = [...cuts.map(([at]) => at % bytes.length), bytes.length].toSorted((a, b) => a - b);
				const words = ends.map((end, n) => {
					const word = cuts[n]?.[1] ? base64Word : quotedWord;
					return word('utf-8', bytes.subarray(ends[n - 1] ?? 0, end));
				});
				t.is(decodeWords(words.join(' ')), text.replace(/^\ufeff/, ''));
			},
		),
	);
});

const part = (type: string, text: string, ...fields: readonly string[]) => [
	'--b',
	`Content-Type: ${type}`,
	...fields,
	'',
	text,
];
const mail = (kind: string, ...parts: ReadonlyArray<readonly string[]>) => [
	...['Subject: x', `Content-Type: multipart/${kind}; boundary=b`, ''],
	...[...parts.flat(), '--b--', ''],
];

test('puts the content of consecutive text and HTML parts into both fields', async t => {
	const html = part('text/html', '<p>One &amp; all</p>');
	const text = part('text/plain', '2 < 3\r\nfooter');
	const picture = part('image/png', 'iVBORw0KGgo=', 'Content-Transfer-Encoding: base64');
	for (const kind of ['mixed', 'related', 'unknown']) {
		t.like(await letterOf(mail(kind, html, picture, text)), {
			...{text: '\nOne & all\n\n2 < 3\nfooter', html: '<p>One &amp; all</p><br/>\n2 &lt; 3<br/>\nfooter'},
			files: [{type: 'image/png', size: 8}],
		});
		t.like(await letterOf(mail(kind, text, html)), {
			...{text: '2 < 3\nfooter\n\nOne & all\n', html: '2 &lt; 3<br/>\nfooter<br/>\n<p>One &amp; all</p>'},
		});
		t.like(await letterOf(mail(kind, text, text)), {text: '2 < 3\nfooter\n2 < 3\nfooter', html: null});
		t.like(await letterOf(mail(kind, html, html)), {
			text: null,
			html: '<p>One &amp; all</p><br/>\n<p>One &amp; all</p>',
		});
	}
	t.like(await letterOf(mail('alternative', text, html)), {text: '2 < 3\nfooter', html: '<p>One &amp; all</p>'});
	const inner = mail('alternative', text, html)
		.slice(1)
		.join('\r\n')
		.replaceAll(/\bb\b(?=\r|--\r)/g, 'in');
	const listed = await letterOf(mail('mixed', ['--b', inner], part('text/plain', 'To leave the list')));
	t.like(listed, {
		text: '2 < 3\nfooter\nTo leave the list',
		html: '<p>One &amp; all</p><br/>\nTo leave the list',
	});
	const mixed = mail('mixed', html, picture, text)
		.slice(1)
		.join('\r\n')
		.replaceAll(/\bb\b(?=\r|--\r)/g, 'in');
	const apple = await letterOf(mail('alternative', part('text/plain', 'All of it'), ['--b', mixed]));
	t.like(apple, {text: 'All of it', html: '<p>One &amp; all</p><br/>\n2 &lt; 3<br/>\nfooter', files: [{size: 8}]});
});

test('decodes a body without a charset', async t => {
	const latin = 'f\xfcr Gr\xf6\xdfe';
	const japanese = '\x1b$B$K$c\x1b(B';
	for (const type of ['text/plain', 'text/plain; charset=us-ascii', 'text/plain; charset=""']) {
		t.is((await letterOf([`Content-Type: ${type}`, '', latin])).text, 'für Größe', type);
		t.is((await letterOf([`Content-Type: ${type}`, '', bytesOf('für Größe')])).text, 'für Größe', type);
		t.is((await letterOf([`Content-Type: ${type}`, '', japanese])).text, 'にゃ', type);
	}
	t.is((await letterOf(['Subject: x', '', latin])).text, 'für Größe');
	t.is(
		(await letterOf(mail('mixed', part('text/plain', latin), part('text/plain', japanese)))).text,
		'für Größe\nにゃ',
	);
	const quoted = ['Content-Transfer-Encoding: quoted-printable', '', 'f=FCr'];
	t.is((await letterOf(quoted)).text, 'für');
});

test('decodes HTML by the charset it declares itself', async t => {
	const shift = '\x82\xc9\x82\xe1';
	for (const meta of [
		'<meta charset="shift_jis">',
		"<META charset='Shift_JIS' />",
		'<meta charset=shift_jis>',
		'<meta http-equiv="Content-Type" content="text/html; charset=Shift_JIS">',
		`<style>${'p {} '.repeat(500)}</style><meta content="text/html; charset = shift_jis" http-equiv=content-type>`,
	]) {
		for (const type of ['text/html', 'text/html; charset=us-ascii']) {
			const {html} = await letterOf([`Content-Type: ${type}`, '', `<html><head>${meta}</head>${shift}</html>`]);
			t.is(html, `<html><head>${meta}</head>にゃ</html>`, type);
		}
		const said = await letterOf(['Content-Type: text/html; charset=utf-8', '', meta + bytesOf('にゃ')]);
		t.is(said.html, `${meta}にゃ`, 'the header counts more');
	}
	for (const label of ['unknown-8bit', 'x-unknown', 'utf-8', 'UTF8']) {
		const meta = '<meta charset="koi8-r">';
		const {html} = await letterOf([
			`Content-Type: text/html; charset=${label}`,
			'',
			`${meta}\xf0\xd2\xc9\xd7\xc5\xd4`,
		]);
		t.is(html, `${meta}Привет`, label);
	}
	const wrong = await letterOf(['Content-Type: text/html', '', `<meta charset="x-no-such">${bytesOf('für')}`]);
	t.is(wrong.html, '<meta charset="x-no-such">für');
});

test('accepts boundaries with spaces, and malformed ones', async t => {
	const body = (boundary: string, after: string) => [
		...['', `--${boundary}${after}`, 'Content-Type: text/plain', '', 'one'],
		...[`--${boundary}${after}`, 'Content-Type: text/html', '', '<p>two</p>', `--${boundary}--${after}`, ''],
	];
	for (const [announced, boundary, after] of [
		['"b"', 'b', '  '],
		['"b"', 'b', '\t '],
		['"b "', 'b', ''],
		['"b "', 'b', ' '],
		['b ; charset=utf-8', 'b', ''],
		['"other"', 'b', ''],
		['""', 'b', ''],
		['"b', 'b', ''],
	] as const) {
		const field = `Content-Type: multipart/alternative; boundary=${announced}`;
		const letter = await letterOf([field, ...body(boundary, after)]);
		t.like(letter, {text: 'one', html: '<p>two</p>', fault: null, files: []}, JSON.stringify([announced, after]));
	}
	t.like(await letterOf(['Content-Type: multipart/alternative', ...body('b', '')]), {
		text: 'one',
		html: '<p>two</p>',
	});
});

test('accepts transfer encodings as programs write them', async t => {
	for (const encoding of [
		'base64',
		'BASE64 ',
		'base64;',
		'"base64"',
		"'base64'",
		'base64; x=y',
		'base64 (a comment)',
		'(a comment) base64',
		'base-64',
	]) {
		const lines = [
			'Content-Type: text/plain; charset=utf-8',
			`Content-Transfer-Encoding: ${encoding}`,
			'',
			'ZsO8cg==',
		];
		t.is((await letterOf(lines)).text, 'für', encoding);
		const file = part('image/png', 'iVBORw0KGgo=', `Content-Transfer-Encoding: ${encoding}`);
		t.is((await letterOf(mail('mixed', file))).files[0]?.size, 8, encoding);
	}
	for (const encoding of ['"quoted-printable"', 'Quoted-Printable;', 'quoted_printable', '(x) quoted-printable']) {
		t.is((await letterOf([`Content-Transfer-Encoding: ${encoding}`, '', 'f=C3=BCr'])).text, 'für', encoding);
	}
});

test('decodes adjacent header fields in different charsets', async t => {
	const letter = await letterOf([
		`From: ${bytesOf('Jürgen')} <j@example.net>`,
		'X-Latin: Gr\xf6\xdfe',
		`Subject: ${bytesOf('Größe にゃ')}`,
		'X-Japanese: \x1b$B$K$c\x1b(B',
		'',
		'.',
	]);
	t.deepEqual(letter.from, {address: 'j@example.net', name: 'Jürgen'});
	t.is(letter.subject, 'Größe にゃ');
	t.deepEqual(
		letter.headers.flatMap(({name, value}) => (name.startsWith('x-') ? [value] : [])),
		['Größe', 'にゃ'],
	);
});

test('recognizes message IDs in encoded words', async t => {
	const encoded = base64Word('utf-8', Buffer.from('<m1@shop.example>'));
	const [half, rest] = ['<long.message.', 'id@shop.example>'].map(text => quotedWord('us-ascii', Buffer.from(text)));
	const letter = await letterOf([
		`In-Reply-To: ${encoded}`,
		`References: <m0@shop.example> ${half}`,
		` ${rest}`,
		'',
		'.',
	]);
	t.deepEqual(letter.repliedTo, ['<m1@shop.example>', '<long.message.id@shop.example>', '<m0@shop.example>']);
});

test('preserves the names and bytes of attached files', async t => {
	const attached = async (disposition: string, ...more: readonly string[]) => {
		const {files} = await letterOf(
			mail('mixed', part('text/csv', 'a,b\r\n1,2', `Content-Disposition: ${disposition}`, ...more)),
		);
		return files[0];
	};
	for (const [disposition, name] of [
		['attachment; filename="a.csv"', 'a.csv'],
		["attachment; filename*=utf-8''Gr%C3%B6%C3%9Fe.csv", 'Größe.csv'],
		["attachment; filename*=iso-8859-1'de'Gr%F6%DFe.csv", 'Größe.csv'],
		["attachment; filename*0*=utf-8''Gr%C3; filename*1*=%B6%C3%9Fe; filename*2=.csv", 'Größe.csv'],
		[`attachment; filename="${base64Word('utf-8', Buffer.from('Größe.csv'))}"`, 'Größe.csv'],
		[`attachment; filename="${bytesOf('Größe.csv')}"`, 'Größe.csv'],
		['attachment', null],
	] as const) {
		t.like(await attached(disposition), {name, type: 'text/csv', size: 8, contentId: null}, disposition);
	}
	const file = await attached('inline; filename=a.csv', 'Content-ID: <pic@x>');
	t.like(file, {contentId: 'pic@x'});
	t.is(Buffer.from(file?.content ?? []).toString(), 'a,b\r\n1,2');
	const forwarded = await letterOf(
		mail('mixed', part('text/plain', 'See'), part('message/rfc822', 'Subject: y\r\n\r\nz')),
	);
	t.like(forwarded, {text: 'See', files: [{type: 'message/rfc822', size: 15}]});
});

test('joins lines that a program has wrapped', async t => {
	const text = [
		'A paragraph of ',
		'two lines.',
		'> quoted ',
		'> too',
		'>> deeper ',
		'not',
		' from the start',
		'-- ',
		'Ada',
	];
	const read = async (more: string) =>
		(await letterOf([`Content-Type: text/plain; format=flowed${more}`, '', ...text])).text;
	const quoted = '> quoted too\n>> deeper ';
	t.is(await read(''), `A paragraph of two lines.\n${quoted}\nnot\nfrom the start\n-- \nAda`);
	t.is(await read('; delsp=yes'), 'A paragraph oftwo lines.\n> quotedtoo\n>> deeper\nnot\nfrom the start\n-- \nAda');
});

test('finds the author, however the From field is written', async t => {
	const fromOf = async (field: string) => (await letterOf([`From: ${field}`, '', '.'])).from;
	const ada = {address: 'ada@example.net', name: 'Ada, L.'};
	for (const field of [
		'"Ada, L." <ada@example.net>',
		'=?utf-8?q?Ada=2C_L=2E?= <ada@example.net>',
		'"=?utf-8?q?Ada=2C_L=2E?=" <ada@example.net>',
		`${base64Word('utf-8', Buffer.from('"Ada, L." <ada@example.net>'))}`,
		'friends: "Ada, L." <ada@example.net>;',
	]) {
		t.deepEqual(await fromOf(field), ada, field);
	}
	t.deepEqual(await fromOf('ada@example.net (Ada, L.)'), ada);
	t.is(await fromOf(base64Word('utf-8', Buffer.from('ada@example.net'))), null, 'an encoded word is no address');
	t.is(await fromOf(''), null);
});
