import test from 'ava';
import {reasonOf} from '../../src/report/reply.ts';

test('a reason begins with its words', t => {
	t.is(reasonOf(': 550 5.1.1 no such user'), '550 5.1.1 no such user');
	t.is(reasonOf(' ----- The following addresses failed -----\n'), 'The following addresses failed -----');
	t.is(reasonOf('=====\n  :\n  gone'), 'gone');
	t.is(reasonOf('<neko@mx.example>: gone'), '<neko@mx.example>: gone');
	t.is(reasonOf('- not here'), '- not here');
	t.is(reasonOf(':'), '');
});

test('a reason is one line that is safe to store and to print', t => {
	t.is(reasonOf('a\r\n\tb\x1b[31m\u202ec'), 'a b [31m c');
	t.is(reasonOf(`${'x'.repeat(1023)}🎉`).length, 1023);
});
