import test from 'ava';
import fc from 'fast-check';
import {maxPatternLength, patternText, replyPattern} from '../../../src/queue/pace/choose-route.ts';

test('matches text anywhere in any case, and * matches anything, including line breaks', t => {
	t.true(replyPattern('TS04').test('421 4.7.0 [ts04] Messages from 192.0.2.1 temporarily deferred'));
	t.true(replyPattern('421*[TS04]').test('421 4.7.0\n[TS04]'));
	t.true(replyPattern('*user complaints*').test('temporarily deferred due to user complaints - 4.16.55.1'));
	t.false(replyPattern('421*TS04*later').test('421 4.7.0 later [TS04]'));
	t.false(replyPattern('TS04').test('421 TS 04'));
});

test('treats no character except * specially', t => {
	for (const text of ['a.c', '(a+)+$', '[x]{3}', 'a|b', '^a', 'a\\d', 'a?b', 'x-y/z']) {
		t.true(replyPattern(text).test(`550 ${text} so`), text);
		t.false(replyPattern(text).test('550 abc aaa b x5 ad'), text);
	}
});

test('matches exactly what a plain search would find', t => {
	const letters = fc.string({unit: fc.constantFrom('a', 'b', '*', '.', ' '), maxLength: 12});
	fc.assert(
		fc.property(
			letters,
			fc.string({unit: fc.constantFrom('a', 'B', '.', ' ', '\n'), maxLength: 40}),
			(pattern, reply) => {
				let from = 0;
				const found = pattern.split('*').every(part => {
					const at = reply.toLowerCase().indexOf(part, from);
					from = at + part.length;
					return at !== -1;
				});
				return replyPattern(pattern).test(reply) === found;
			},
		),
	);
	t.pass();
});

test('matches the worst pattern against the worst reply in reasonable time', t => {
	const pattern = 'aaa*'.repeat(maxPatternLength / 4);
	const reply = `${'a'.repeat(20_000)}`.repeat(5);
	t.true(replyPattern(pattern).test(reply));
	t.false(replyPattern(`${'a*'.repeat(98)}zzz`).test(reply));
});

test('recovers the original pattern from the compiled one', t => {
	fc.assert(
		fc.property(fc.string(), text => {
			const told = patternText(replyPattern(text));
			return (
				told ===
				text
					.split('*')
					.filter(part => part !== '')
					.join('*')
			);
		}),
	);
	t.is(patternText(replyPattern('*421*(TS04)\\*')), '421*(TS04)\\');
});
