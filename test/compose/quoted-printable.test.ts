import test from 'ava';
import fc from 'fast-check';
import {quotedPrintable} from '../../src/compose/body-writer.ts';
import {anyChar} from '../helpers/any-char.ts';

const encode = (text: string) => quotedPrintable(text).octets.toString('latin1');

/** Decodes by the letter of RFC 2045 §6.7 and throws on anything a strict parser would refuse. */
function decode(text: string): string {
	const bytes = text.replaceAll('=\r\n', '').replaceAll(/=(..)/gs, (_, pair: string) => {
		if (!/^[0-9A-F]{2}$/.test(pair)) {
			throw new Error(`=${pair}`);
		}
		return String.fromCharCode(Number.parseInt(pair, 16));
	});
	return Buffer.from(bytes, 'latin1').toString('utf8');
}

for (const [text, encoded] of [
	['', ''],
	['a=b', 'a=3Db'],
	['Grüße', 'Gr=C3=BC=C3=9Fe'],
	['a \nb\t\r\nc ', 'a=20\r\nb=09\r\nc=20'],
	['a  b', 'a  b'],
	['\0\x7f\x0b', '=00=7F=0B'],
	['.', '=2E'],
	['a.b', 'a.b'],
	['From\nF', '=46rom\r\n=46'],
	['\r\r\n\n', '\r\n\r\n\r\n'],
	['a'.repeat(76), `${'a'.repeat(75)}=\r\na`],
	[`${'a'.repeat(73)}é`, `${'a'.repeat(73)}=\r\n=C3=A9`],
	[`${'a'.repeat(75)}.`, `${'a'.repeat(75)}=\r\n=2E`],
	[`${'a'.repeat(74)} \n`, `${'a'.repeat(74)}=\r\n=20\r\n`],
	['\ud800', '=EF=BF=BD'],
] as const) {
	test(`encodes ${JSON.stringify(text)} as quoted-printable`, t => {
		t.is(encode(text), encoded);
	});
}

// Texts that exercise every rule, and any others.
const texts = fc.oneof(
	fc.string({unit: anyChar, maxLength: 300}),
	fc
		.array(
			fc.constantFrom(
				'a',
				'é',
				'😀',
				'=',
				'.',
				'F',
				' ',
				'\t',
				'\r',
				'\n',
				'\r\n',
				'\0',
				'From ',
				'word'.repeat(18),
			),
			{
				maxLength: 60,
			},
		)
		.map(pieces => pieces.join('')),
);

test('encodes any text in 7-bit lines of at most 76 octets without trailing white space', t => {
	fc.assert(
		fc.property(texts, text => {
			const encoded = encode(text);
			t.is(decode(encoded), text.replaceAll(/\r\n?|\n/g, '\r\n'));
			for (const line of encoded.split('\r\n')) {
				t.true(/^[\t\x20-\x7e]{0,76}$/.test(line) && !/[ \t]$|^\.|^F/.test(line), JSON.stringify(line));
			}
		}),
		{numRuns: 500},
	);
});

test('reserves enough space for the worst text', t => {
	for (const text of [
		'é'.repeat(50_000),
		'\0'.repeat(50_000),
		'\n'.repeat(50_000),
		`${'a'.repeat(75)}é`.repeat(1000),
	]) {
		t.is(decode(encode(text)), text.replaceAll('\n', '\r\n'));
	}
});
