import test from 'ava';
import fc from 'fast-check';
import {fromBase32, toBase32} from '../../../src/compose/links/tokens.ts';

test('encodes 27 bytes as 44 characters of Crockford’s alphabet', t => {
	t.is(toBase32(Buffer.alloc(27)), '0'.repeat(44));
	t.is(toBase32(Buffer.from('ffffffffff', 'hex')), 'zzzzzzzz');
	t.is(toBase32(Buffer.from('hello')), 'd1jprv3f');
});

test('decodes what it encoded, in any case', t => {
	fc.assert(
		fc.property(fc.uint8Array({maxLength: 40}), bytes => {
			const text = toBase32(bytes);
			t.deepEqual(fromBase32(text), Buffer.from(bytes));
			t.deepEqual(fromBase32(text.toUpperCase()), Buffer.from(bytes));
		}),
	);
});

test('accepts only one spelling of a byte sequence', t => {
	fc.assert(
		fc.property(fc.string({unit: fc.constantFrom(...'0123456789abcdefghjkmnpqrstvwxyz-uilo')}), text => {
			const bytes = fromBase32(text);
			t.true(bytes === null || toBase32(bytes) === text);
		}),
	);
});

for (const text of ['i', 'u', 'é', '0', 'd1jprv3f0', '01', '-'.repeat(8)]) {
	test(`rejects ${text}`, t => {
		t.is(fromBase32(text), null);
	});
}
