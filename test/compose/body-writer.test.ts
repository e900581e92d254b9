import test from 'ava';
import fc from 'fast-check';
import {BodyWriter} from '../../src/compose/body-writer.ts';
import {joined} from '../../src/kit/text.ts';
import {anyChar} from '../helpers/any-char.ts';
import {read} from './read.ts';

const constants = [
	'<p>One</p>',
	'\nbegins with a line end, \ttabs  and spaces ',
	'.ends with CR\r',
	`long ${'word '.repeat(40)}`,
	'\r\n\r\n',
	'x'.repeat(75),
	'From é – 😀',
].map(text => ({text}));
const strings = fc.oneof(
	fc.constantFrom('', ' ', '.', 'F', '=', '\n', '\r', '\r\n', ' \n', 'a', '€9.50', '\ud83d', 'x'.repeat(74)),
	fc.string({unit: anyChar, maxLength: 20}),
);
const pieces = fc.array(fc.oneof(fc.constantFrom(...constants), strings), {maxLength: 12});

/** Applies RFC 6376 §3.4.4, rule by rule. */
function relaxed(body: string): string {
	const lines = body.split('\r\n').map(line => line.replaceAll(/[ \t]+$/g, '').replaceAll(/[ \t]+/g, ' '));
	while (lines.at(-1) === '') {
		lines.pop();
	}
	return lines.map(line => `${line}\r\n`).join('');
}

test('encodes pieces as the quoted-printable form of their text, with the relaxed form alongside', async t => {
	const writer = new BodyWriter();
	await fc.assert(
		fc.asyncProperty(pieces, fc.uint8Array({maxLength: 200}), async (text, bytes) => {
			const {octets, canonical} = writer.write([
				{text},
				{ascii: '\r\n--b  \t\r\nA:  b\r\n\r\n'},
				{bytes},
				{ascii: '\r\n'},
			]);
			const body = octets.toString('latin1');
			t.is(canonical.toString('latin1'), relaxed(body));

			const alone = writer.write([{text}]).octets;
			for (const line of alone.toString('latin1').split('\r\n')) {
				t.true(/^[\t\x20-\x7e]{0,76}$/.test(line) && !/[ \t]$|^\.|^F/.test(line), JSON.stringify(line));
			}
			const head =
				'Content-Type: application/octet-stream\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\n';
			const [attachment] = (await read(Buffer.concat([Buffer.from(head), alone]))).attachments;
			t.is(
				attachment?.content.toString('utf8').replaceAll('\r\n', '\n').replace(/\n$/, ''),
				Buffer.from(joined(text)).toString('utf8').replaceAll(/\r\n?/g, '\n').replace(/\n$/, ''),
			);
		}),
		{numRuns: 500},
	);
});

test('encodes a constant the same way everywhere, even in an unusually large body', t => {
	const writer = new BodyWriter();
	const constant = {text: '<td style="padding:8px">'.repeat(8)};
	const once = writer.write([{text: ['Ada', constant]}]).octets.toString('latin1');
	const more = writer.write([{text: ['Ada', ...Array(5000).fill(constant)]}]).octets.toString('latin1');
	t.is(once.slice(0, 6), 'Ada=\r\n');
	t.is(more, `Ada${once.slice(3).repeat(5000)}`);
});
