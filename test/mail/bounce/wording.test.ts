import test from 'ava';
import fc from 'fast-check';
import {toWording} from '../../../src/mail/classify-reply.ts';
import {anyChar} from '../../helpers/any-char.ts';

test('gives replies that differ only in addresses and numbers the same wording', t => {
	const same: ReadonlyArray<readonly [one: string, other: string, wording: string]> = [
		[
			'550 5.1.1 <ann@a.example>: Recipient address rejected: User unknown',
			'550 5.1.1 <bob@b.example>: Recipient address rejected: User unknown',
			'550 5.1.1 : Recipient address rejected: User unknown',
		],
		[
			'452-4.2.2 The inbox is full, see https://help.example/?p=Over a640c23-si12.3 - gsmtp',
			'452-4.2.2 The inbox is full, see https://help.example/?p=Under b7-si99.1 - gsmtp',
			'452 4.2.2 The inbox is full, see https://help.example … - gsmtp',
		],
		[
			'451 4.7.1 Greylisted, try again in 30 seconds',
			'451 4.7.1 Greylisted, try again in 299 seconds',
			'451 4.7.1 Greylisted, try again in … seconds',
		],
		[
			'554 Host 192.0.2.1 blocked by bl1.example',
			'554 Host 2001:db8::1 blocked by bl7.example',
			'554 Host … blocked by …',
		],
	];
	for (const [one, other, wording] of same) {
		t.is(toWording(one), toWording(other));
		t.is(toWording(one), wording);
	}
});

test('keeps replies with different meanings apart', t => {
	t.not(toWording('550 5.1.1 no'), toWording('550 5.7.1 no'));
	t.not(toWording('550 no'), toWording('450 no'));
	t.is(toWording('5.1.1 no'), '5.1.1 no');
	t.is(toWording('connect ETIMEDOUT'), 'connect ETIMEDOUT');
	t.is(toWording(''), '');
});

test('shortens any reply to one line with no numbers except the codes', t => {
	fc.assert(
		fc.property(fc.string({unit: anyChar, maxLength: 2000}), text => {
			const wording = toWording(text);
			t.true(wording.length <= 2000);
			t.notRegex(wording, /\n/);
			t.notRegex(wording.replace(/^(?:[245]\d\d(?= |$) ?)?(?:[245]\.\d{1,3}\.\d{1,3}(?= |$))?/, ''), /\d/);
		}),
		{numRuns: 300},
	);
});
