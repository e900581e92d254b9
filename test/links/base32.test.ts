import test from 'ava';
import fc from 'fast-check';
import {fromBase32, toBase32} from '../../src/links/tokens.ts';

test('27 bytes are 44 characters, the alphabet is Crockford’s', t => {
	t.is(toBase32(Buffer.alloc(27)), '0'.repeat(44));
	t.is(toBase32(Buffer.from('ffffffffff', 'hex')), 'zzzzzzzz');
	t.is(toBase32(Buffer.from('hello')), 'd1jprv3f');
});

test('what was written is read, in any case', t => {
	fc.assert(
		fc.property(fc.uint8Array({maxLength: 40}), bytes => {
			const text = toBase32(bytes);
			t.deepEqual(fromBase32(text), Buffer.from(bytes));
			t.deepEqual(fromBase32(text.toUpperCase()), Buffer.from(bytes));
		}),
	);
});

test('one byte sequence has one spelling', t => {
	fc.assert(
		fc.property(fc.string({unit: fc.constantFrom(...'0123456789abcdefghjkmnpqrstvwxyz-uilo')}), text => {
			const bytes = fromBase32(text);
			t.true(bytes === null || toBase32(bytes) === text);
		}),
	);
});

for (const text of ['i', 'u', 'é', '0', 'd1jprv3f0', '01', '-'.repeat(8)]) {
	test(`refused: ${text}`, t => {
		t.is(fromBase32(text), null);
	});
}
