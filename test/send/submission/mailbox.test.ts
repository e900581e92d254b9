import test from 'ava';
import fc from 'fast-check';
import {onlyMailbox} from '../../../src/send/submission/submit.ts';

for (const [value, address] of [
	['ann@example.com', 'ann@example.com'],
	['  ann@example.com  ', 'ann@example.com'],
	['<ann@example.com>', 'ann@example.com'],
	['Ann B. <ann@example.com>', 'ann@example.com'],
	['"Ann, of \\"sales\\" <x@y.example>" <ann@example.com>', 'ann@example.com'],
	['=?utf-8?q?J=C3=B6rg?= <ann@example.com>', 'ann@example.com'],
	['ann@example.com (Ann (of sales))', 'ann@example.com'],
	['(a\\)b) Ann <ann@example.com>', 'ann@example.com'],
] as const) {
	test(`${JSON.stringify(value)} is ${address}`, t => {
		t.is(onlyMailbox(value)?.spelling, address);
	});
}

for (const value of [
	'',
	'Ann',
	'ann@example.com, ben@example.com',
	'Ann <ann@example.com>, Ben <ben@example.com>',
	'ben@example.com <ann@example.com>',
	'<ben@example.com> <ann@example.com>',
	'Team: ann@example.com;',
	'<@relay.example:ann@example.com>',
	'"ann"@example.com',
	'"Ann" ann@example.com',
	'Ann <ann@example.com> (',
	'"Ann <ann@example.com>',
	'Ann <ann@example.com',
	'Ann <ann@exa(x)mple.com>',
	'ann@[127.0.0.1]',
	'\\"ben@example.com"<ann@example.com>',
	'ann@example.com\0',
]) {
	test(`is not a mailbox: ${JSON.stringify(value)}`, t => {
		t.is(onlyMailbox(value), null);
	});
}

test('finds no address or one contained in the text, whatever the text', t => {
	const piece = fc.constantFrom('a@b.example', '<', '>', '"', '(', ')', '\\', ',', ':', ';', ' ', '@', 'x', '\xe9');
	fc.assert(
		fc.property(fc.array(piece, {maxLength: 12}), pieces => {
			const text = pieces.join('');
			const found = onlyMailbox(text);
			t.true(found === null || text.includes(found.spelling));
		}),
		{numRuns: 2000},
	);
});
