import test from 'ava';
import fc from 'fast-check';
import {simpleParser} from 'mailparser';
import {sevenBit} from '../../src/compose/seven-bit.ts';

const mail = (...lines: readonly string[]) => Buffer.from(lines.join('\r\n'), 'utf8');
const isSevenBit = (bytes: Buffer) => bytes.every(octet => octet < 0x80);

test('leaves an ASCII message unchanged', t => {
	const bytes = mail('From: a@example.com', 'Content-Transfer-Encoding: 8bit', '', 'hello', '');
	t.is(sevenBit(bytes), bytes);
});

test('encodes the parts with 8-bit octets and leaves the others unchanged', async t => {
	const bytes = mail(
		...['From: a@example.com', 'MIME-Version: 1.0', 'Content-Type: multipart/mixed;', '\tboundary="a b"'],
		...['Content-Transfer-Encoding: 8bit', '', 'préambule', '--a b'],
		...['Content-Type: multipart/alternative; boundary=inner', '', '--inner'],
		...['Content-Type: text/plain; charset=utf-8', 'Content-Transfer-Encoding: 8bit', '', 'Grüße\t', '--inner'],
		...['Content-Type: text/html; charset=utf-8', '', '<p>Grüße</p>', '--inner--', '--a b'],
		...['', 'nur größe', '--a b', 'Content-Type: text/plain', '', 'plain = as it was', '--a b'],
		...[
			'Content-Type: message/rfc822',
			'Content-Transfer-Encoding: 8bit',
			'',
			'Subject: in',
			'',
			'Straße',
			'--a b--',
			'',
		],
	);
	const made = sevenBit(bytes);
	const text = made.toString('latin1');
	t.true(text.includes('\r\nplain = as it was\r\n--a b'));
	t.true(text.includes('Content-Type: text/html; charset=utf-8\r\nContent-Transfer-Encoding: quoted-printable\r\n'));
	t.true(text.includes('Subject: in\r\nContent-Type: text/plain; charset=utf-8'));
	t.is(text.match(/Content-Transfer-Encoding: 8bit/g), null);
	const read = await simpleParser(made);
	t.true(read.text?.startsWith('Grüße\t'), read.text);
	t.true(read.text?.includes('nur größe'));
	t.true(`${read.html}`.startsWith('<p>Grüße</p>'));
	// Nobody reads the preamble (RFC 2046 §5.1.1).
	t.true(isSevenBit(made.subarray(made.indexOf('--a b'))));
});

test('encodes binary parts as base64', async t => {
	const head = ['From: a@example.com', 'Content-Type: text/plain; charset=iso-8859-1', '', ''].join('\r\n');
	const made = sevenBit(Buffer.concat([Buffer.from(head), Buffer.from('Gr\xfc\xdfe\r\n', 'latin1')]));
	t.true(isSevenBit(made));
	t.is((await simpleParser(made)).text?.trim(), 'Grüße');
});

test('leaves a multipart with an absurd number of parts unchanged', t => {
	const withParts = (n: number) =>
		mail(
			'Content-Type: multipart/mixed; boundary=b',
			'',
			...Array.from({length: n}, () => '--b\r\n\r\nü'),
			'--b--',
		);
	t.true(isSevenBit(sevenBit(withParts(1000))));
	const more = withParts(1001);
	t.is(sevenBit(more), more);
});

test('any text and any octets read the same after encoding', async t => {
	const body = fc.oneof(
		fc.array(fc.constantFrom('ü', '=', ' ', '\t', '\r\n', '.', 'From ', 'x'.repeat(80))).map(all => all.join('')),
		fc.uint8Array({maxLength: 200}).map(bytes =>
			Buffer.from(bytes)
				.toString('latin1')
				.replace(/[\r\n]/g, '\r\n'),
		),
	);
	await fc.assert(
		fc.asyncProperty(body, fc.constantFrom('utf8', 'latin1'), async (text, encoding) => {
			const head = 'From: a@example.com\r\nContent-Type: application/x-any\r\n\r\n';
			const bytes = Buffer.concat([Buffer.from(head), Buffer.from(`é${text}`, encoding)]);
			const made = sevenBit(bytes);
			t.true(isSevenBit(made));
			const [attached] = (await simpleParser(made)).attachments;
			t.deepEqual(attached?.content, bytes.subarray(head.length));
		}),
	);
});

test('never throws and never adds non-ASCII octets, whatever the bytes', t => {
	const piece = fc.constantFrom(
		'\r\n',
		'--b',
		'--b--',
		'Content-Type: multipart/mixed; boundary=b',
		'ü',
		'\r\n\r\n',
		'é: x',
	);
	const eightBit = (bytes: Buffer) => bytes.filter(octet => octet > 0x7f).length;
	fc.assert(
		fc.property(fc.array(piece, {maxLength: 30}), pieces => {
			const bytes = Buffer.from(pieces.join(''), 'latin1');
			t.true(eightBit(sevenBit(bytes)) <= eightBit(bytes));
		}),
	);
});
