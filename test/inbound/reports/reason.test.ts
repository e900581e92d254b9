import test from 'ava';
import {findReason} from '../../../src/inbound/reports/reply.ts';

test('strips punctuation before the first word of a reason', t => {
	t.is(findReason(': 550 5.1.1 no such user'), '550 5.1.1 no such user');
	t.is(findReason(' ----- The following addresses failed -----\n'), 'The following addresses failed -----');
	t.is(findReason('=====\n  :\n  gone'), 'gone');
	t.is(findReason('<neko@mx.example>: gone'), '<neko@mx.example>: gone');
	t.is(findReason('- not here'), '- not here');
	t.is(findReason(':'), '');
});

test('returns a reason on one line that is safe to store and print', t => {
	t.is(findReason('a\r\n\tb\x1b[31m\u202ec'), 'a b [31m c');
	t.is(findReason(`${'x'.repeat(1023)}🎉`).length, 1023);
});
