import test from 'ava';
import fc from 'fast-check';
import {collectLeaves, findField, readMail} from '../../../src/inbound/reports/mime.ts';
import {anyChar} from '../../helpers/any-char.ts';

const read = (text: string) => readMail(Buffer.from(text, 'latin1'));
const texts = (text: string) => collectLeaves(read(text).root).map(part => part.text());
const types = (text: string) => collectLeaves(read(text).root).map(part => part.type);

const twoParts =
	'Subject: x\nContent-Type: multipart/mixed; boundary="b"\n\npreamble\n--b\n\none\n--b\nContent-Type: text/html\n\ntwo\n--b--\nepilogue\n';

for (const [name, end] of [
	['LF', '\n'],
	['CRLF', '\r\n'],
	['CR', '\r'],
	['CR CR LF', '\r\r\n'],
] as const) {
	test(`accepts lines that end with ${name}`, t => {
		t.deepEqual(texts(twoParts.replaceAll('\n', end)), ['one', 'two']);
		t.deepEqual(types(twoParts.replaceAll('\n', end)), ['text/plain', 'text/html']);
	});
}

test('treats a bare CR as a line ending even if a relay added a header with other line endings', t => {
	t.deepEqual(texts(`Received: from a\n${twoParts.replaceAll('\n', '\r')}`), ['one', 'two']);
});

test('preserves a CR inside a line', t => {
	t.deepEqual(texts('Subject: x\n\na\rb\nc\n'), ['a\rb\nc\n']);
});

for (const [name, start] of [
	['a From_ line', 'From MAILER-DAEMON Thu Apr 29 23:34:45 2009\n'],
	['a quoted From_ line', '>From MAILER-DAEMON Thu Apr 29 23:34:45 2009\n'],
	['blank lines', '\n\n'],
] as const) {
	test(`skips ${name} at the start of a message`, t => {
		t.is(findField(read(`${start}${twoParts}`).root.fields, 'subject'), 'x');
		t.deepEqual(texts(`${start}${twoParts}`), ['one', 'two']);
	});
}

test('reads only the first of two concatenated messages', t => {
	const second = 'From MAILER-DAEMON Thu Apr 29 23:34:45 2009\nSubject: y\n\nsecond\n';
	t.deepEqual(texts(`Subject: x\n\nfirst\n\n${second}`), ['first\n']);
	t.deepEqual(texts(`${twoParts}\n${second}`), ['one', 'two']);
	t.deepEqual(texts('Subject: x\n\nfirst\n\nFrom here on: text\n'), ['first\n\nFrom here on: text\n']);
});

test('ends an unclosed boundary with the message', t => {
	t.deepEqual(texts(twoParts.slice(0, twoParts.indexOf('\n--b--'))), ['one', 'two']);
});

test('ends an unclosed inner boundary with its part', t => {
	const inner = 'Content-Type: multipart/alternative; boundary=in\n\n--in\n\none\n--in\n\ntwo';
	t.deepEqual(texts(`Content-Type: multipart/mixed; boundary=out\n\n--out\n${inner}\n--out\n\nthree\n--out--`), [
		'one',
		'two',
		'three',
	]);
});

test('distinguishes boundaries with a common prefix', t => {
	const inner = 'Content-Type: multipart/alternative; boundary=bb\n\n--bb\n\none\n--bb\n\ntwo\n--bb--';
	t.deepEqual(texts(`Content-Type: multipart/mixed; boundary=b\n\n--b\n${inner}\n--b\n\nthree\n--b--`), [
		'one',
		'two',
		'three',
	]);
});

test('finds a boundary that is not declared', t => {
	const body = '--real\nContent-Type: text/plain\n\none\n--real\nContent-Type: text/html\n\ntwo\n--real--\n';
	t.deepEqual(texts(`Content-Type: multipart/mixed\n\n${body}`), ['one', 'two']);
	t.deepEqual(texts(`Content-Type: multipart/mixed; boundary=other\n\n${body}`), ['one', 'two']);
});

test('reads a multipart without parts as plain text', t => {
	t.deepEqual(types('Content-Type: multipart/mixed; boundary=b\n\ntext\n'), ['text/plain']);
	t.deepEqual(texts('Content-Type: multipart/mixed; boundary=b\n\ntext\n'), ['text\n']);
});

test('starts the body at the first line that is not a field if the blank line is missing', t => {
	t.deepEqual(texts('Subject: x\nYour mail could not be delivered.\n<a@b>: unknown\n'), [
		'Your mail could not be delivered.\n<a@b>: unknown\n',
	]);
	t.deepEqual(texts(`${twoParts.replace('\n\npreamble', '').replace('--b\n\none', '--b\none')}`), ['one', 'two']);
});

test('skips a header line that is not a field', t => {
	const {root} = read('Received: from a\nby b with SMTP\nSubject: x\nContent-Type: text/html\n\ntext');
	t.is(root.type, 'text/html');
	t.is(root.text(), 'text');
});

test('unfolds header fields', t => {
	t.is(findField(read('Subject: a\n b\n\tc\n\n').root.fields, 'subject'), 'a b c');
});

for (const [field, type, boundary] of [
	['multipart/report; boundary="a;b"; report-type=x', 'multipart/report', 'a;b'],
	['Multipart/Report (a comment; boundary=no) ; Boundary = ab', 'multipart/report', 'ab'],
	['multipart/report; boundary="a(b)c"', 'multipart/report', 'a(b)c'],
	['multipart/report; boundary=a(b)c', 'multipart/report', 'a(b)c'],
	['multipart/report; boundary="a\\"b"', 'multipart/report', 'a"b'],
	[`multipart/report; boundary*0="a"; boundary*1="b"`, 'multipart/report', 'ab'],
	[`multipart/report; boundary*=us-ascii'en'a%20b`, 'multipart/report', 'a b'],
	[`multipart/report; boundary*0*=us-ascii''a%20; boundary*1=b`, 'multipart/report', 'a b'],
	['multipart/report; boundary="never closed', 'multipart/report', 'never closed'],
	['message/delivery-status; name="a.txt"', 'message/delivery-status', undefined],
	['text', 'text/plain', undefined],
	['', 'text/plain', undefined],
	['(((((', 'text/plain', undefined],
] as const) {
	test(`parses the content type ${field}`, t => {
		const content = `--${boundary}\n\none\n--${boundary}--\n`;
		const {root} = read(`Content-Type: ${field}\n\n${content}`);
		t.is(root.type, type);
		t.is(root.parameters.boundary, boundary);
		t.deepEqual(
			collectLeaves(root).map(part => part.text()),
			boundary === undefined ? [content] : ['one'],
		);
	});
}

for (const [name, header, body, text] of [
	['quoted-printable', 'Content-Transfer-Encoding: quoted-printable', 'a=3D=\nb=C3=A4 \nc', 'a=bä\nc'],
	['broken quoted-printable', 'Content-Transfer-Encoding: QUOTED-PRINTABLE', 'a=zz=3=', 'a=zz=3'],
	[
		'quoted-printable blanks',
		'Content-Transfer-Encoding: quoted-printable',
		'a \t\n =20 \n b= \t\n \n=\n',
		'a\n  \n b\n',
	],
	['base64', 'Content-Transfer-Encoding: base64', 'YcOk\nYg==\n', 'aäb'],
	['base64 behind a comment', 'Content-Transfer-Encoding: (a (b) c) base64', 'YcOk\nYg==\n', 'aäb'],
	['base-64', 'Content-Transfer-Encoding: Base-64', 'YcOk\nYg==\n', 'aäb'],
	['quoted_printable', 'Content-Transfer-Encoding: quoted_printable', 'a=C3=A4', 'aä'],
	[
		'base64 with rubbish',
		'Content-Transfer-Encoding: base64 ',
		'Y!cOk\nYmNkZWZnaGlqa2xtbm9wcXJzdHV2d3h5eg',
		'aäbcdefghijklmnopqrstuvwxyz',
	],
	[
		'base64 that is none',
		'Content-Transfer-Encoding: base64',
		'<a@b>: user unknown (550)',
		'<a@b>: user unknown (550)',
	],
	['an encoding that nobody knows', 'Content-Transfer-Encoding: x-uuencode', 'abc', 'abc'],
	['ISO-2022-JP', 'Content-Type: text/plain; charset="ISO-2022-JP"', '\x1b$B$K$c\x1b(B', 'にゃ'],
	['ISO-2022-JP that nobody announced', 'Subject: x', '\x1b$B$K$c\x1b(B', 'にゃ'],
	['Shift_JIS', 'Content-Type: text/plain; charset=Shift_JIS', '\x82\xc9\x82\xe1', 'にゃ'],
	['Windows-31J by another name', 'Content-Type: text/plain; charset=CP932', '\x82\xc9', 'に'],
	['GB18030', 'Content-Type: text/plain; charset=gb18030', '\xc4\xe3', '你'],
	['KOI8-R', 'Content-Type: text/plain; charset=koi8-r', '\xc1', 'а'],
	['Latin-1 that is called ASCII', 'Content-Type: text/plain; charset=us-ascii', 'f\xfcr', 'für'],
	['Latin-1 that is called nothing', 'Subject: x', 'f\xfcr', 'für'],
	['a charset that nobody knows', 'Content-Type: text/plain; charset=x-mine', 'f\xc3\xbcr', 'für'],
	['Latin-1 that is called UTF-8', 'Content-Type: text/plain; charset=utf-8', 'f\xfcr Gr\xf6\xdfe', 'für Größe'],
	['UTF-8 cut inside a character', 'Content-Type: text/plain; charset=utf-8', 'f\xc3\xbcr \xc3', 'für \ufffd'],
	['UTF-8 with a character lost before', 'Content-Type: text/plain; charset=utf-8', '\xef\xbf\xbd', '\ufffd'],
	['ASCII that is called UTF-16', 'Content-Type: text/plain; charset=utf-16', 'for you', 'for you'],
	['UTF-8 that is called UCS-2', 'Content-Type: text/plain; charset="UCS-2"', 'f\xc3\xbcr', 'für'],
	[
		'ASCII with a zero that is called UTF-16',
		'Content-Type: text/plain; charset=utf-16le',
		`${'for you '.repeat(9)}\0`,
		`${'for you '.repeat(9)}\0`,
	],
	['UTF-16', 'Content-Type: text/plain; charset=utf-16', 'f\0\xfc\0r\0', 'für'],
	['big-endian UTF-16 that does not say so', 'Content-Type: text/plain; charset=utf-16', '\0f\0\xfc\0r', 'für'],
	['UTF-16 that is called ASCII', 'Content-Type: text/plain; charset=us-ascii', '\xff\xfef\0\xfc\0r\0', 'für'],
	['a byte order mark', 'Content-Type: text/plain; charset=utf-8', '\xef\xbb\xbfa', 'a'],
] as const) {
	test(`decodes a body: ${name}`, t => {
		t.is(read(`${header}\n\n${body}`).root.text(), text);
	});
}

test('leaves out parts that are nested too deeply or too many, and indicates it', t => {
	const layers = Array.from(
		{length: 1000},
		(_, layer) => `Content-Type: multipart/mixed; boundary=b${layer}\n\n--b${layer}\n`,
	);
	t.is(read(`${layers.join('')}\ntext`).fault, 'parts are nested too deeply');
	t.is(read(`Content-Type: multipart/mixed; boundary=b\n\n${'--b\n\na\n'.repeat(300)}`).fault, 'too many parts');
	t.is(
		collectLeaves(read(`Content-Type: multipart/mixed; boundary=b\n\n${'--b\n\na\n'.repeat(300)}`).root).length,
		200,
	);
	t.is(read('X-A: b\n'.repeat(2000)).fault, 'too many header fields');
	t.is(read(twoParts).fault, null);
});

test('does not parse the parts of a returned message', t => {
	const mail = `Content-Type: multipart/report; boundary=b\n\n--b\nContent-Type: message/rfc822\n\n${twoParts.replaceAll('--b', '--c').replace('"b"', '"c"')}\n--b--\n`;
	t.deepEqual(types(mail), ['message/rfc822']);
});

const pieces = fc.constantFrom(
	'\n',
	'\r',
	'\r\n',
	'\n\n',
	'--b',
	'--b--',
	'--bb',
	'Content-Type: multipart/mixed; boundary=b\n',
	'Content-Type: multipart/mixed; boundary=bb\n',
	'Content-Type: text/plain; charset=utf-16\n',
	'Content-Transfer-Encoding: base64\n',
	'Content-Transfer-Encoding: quoted-printable\n',
	'From a Thu Jan  1 00:00:00 1970\n',
	'=C3',
	'=\n',
	' ',
	'\t',
	':',
	'X-A: b',
);

test('reads any bytes, with no part larger than the message', t => {
	fc.assert(
		fc.property(
			fc.array(
				fc.oneof({weight: 8, arbitrary: pieces.map(text => Buffer.from(text))}, fc.uint8Array({maxLength: 8})),
				{
					maxLength: 60,
				},
			),
			chunks => {
				const raw = Buffer.concat(chunks);
				const leaves = collectLeaves(readMail(raw).root);
				const sum = leaves.reduce((all, part) => all + part.body().length, 0);
				t.true(sum <= raw.length);
				t.true(leaves.every(part => typeof part.text() === 'string'));
			},
		),
		{numRuns: 300},
	);
});

test('decodes any text encoded as quoted-printable', t => {
	fc.assert(
		fc.property(fc.string({unit: anyChar, maxLength: 100}), fc.array(fc.nat(100)), (text, breaks) => {
			const octets = [...Buffer.from(text)];
			const escaped = octets.map(octet => `=${octet.toString(16).padStart(2, '0')}`);
			const body = escaped.map((octet, n) => (breaks.includes(n) ? `= \n${octet}` : octet)).join('');
			const {root} = read(`Content-Transfer-Encoding: quoted-printable\n\n${body}`);
			t.deepEqual([...root.body()], octets);
		}),
	);
});
