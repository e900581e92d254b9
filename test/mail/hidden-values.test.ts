import test from 'ava';
import {findHiddenValues, maskHidden, maskResult, withoutText} from '../../src/mail/hidden-values.ts';
import type {Attempt, AttemptResult} from '../../src/mail/outcome.ts';
import {notRefused, type Report} from '../../src/mail/report.ts';

const all = {
	...{code: 'Q7-941-ZK', pin: 12.5, name: 'Ada', pair: ['alpha-one', {deep: 'beta=two & "three"'}]},
	...{link: 'https://shop.example/reset/T0k3n-abcdef?sig=99aa88bb77', short: '417', money: 0},
};
const kept = {...all, code: '•••', pin: '•••', pair: '•••', link: '•••', short: '•••'};
const values = findHiddenValues(JSON.stringify(kept), JSON.stringify(all).replace('12.5', '12.50'));

const texts: Readonly<Record<string, string>> = {
	'550 5.7.1 code Q7-941-ZK refused': '550 5.7.1 code ••• refused',
	'q7-941-zk': '•••',
	'the code q 7 - 9 4 1 - z k.': 'the code •••.',
	'say "Q7-941-ZK", <Q7-941-ZK>': 'say "•••", <•••>',
	'pin=12.50, not 12.5': 'pin=•••, not 12.5',
	'first Q7-9\n41-ZK second': 'first ••• second',
	'first Q7-9\n5.7.1 41-ZK second': 'first ••• second',
	'  12 S: 550-5.7.1 see Q7-94\n    12 S: 550 5.7.1 1-ZK': '  12 S: 550-5.7.1 see •••',
	'Q7-9=\n41-ZK': '•••',
	'Q7=2D941=2DZK and Q7%2d941%2DZK and Q7&#45;941&#x2d;ZK': '••• and ••• and •••',
	'beta=two &amp; &quot;three&quot;': '•••',
	'beta=two & \\"three\\"': '•••',
	'alpha-one alpha-two': '••• alpha-two',
	'URL https://shop.example/reset/T0k3n-abcdef?sig=99aa88bb77 is listed': 'URL ••• is listed',
	'token T0k3n-ABCDEF, sig 99aa88bb77': 'token •••, sig •••',
	'417 or code 417.': '••• or code •••.',
	'250 ok 8417, 1.417': '250 ok 8417, 1.417',
	'Ada, 0': 'Ada, 0',
	'': '',
};

test('masks a value in any case, quoted, encoded or continued on the next line', t => {
	for (const [text, masked] of Object.entries(texts)) {
		t.is(maskHidden(text, values), masked, text);
	}
});

test('masks a value truncated at the end of a long text', t => {
	const long = 'x '.repeat(600);
	t.is(maskHidden(`${long}Q7-941`, values), `${long}•••`);
	t.is(maskHidden('a short text Q7-941', values), 'a short text Q7-941');
});

test('masks all server replies of an attempt', t => {
	const attempt: Attempt = {
		...{
			at: '',
			host: 'mx.example',
			ip: null,
			tls: null,
			phase: 'dot' as const,
			code: 550,
			enhanced: '5.7.1',
			ms: 1,
		},
		...{reply: '5.7.1 Q7-941-ZK', dialogue: `1 S: 220 Q7-941-ZK\n${'2 S: '.padEnd(510, 'x')}Q7-941\n3 C: QUIT`},
	};
	const outcome = {kind: 'deferred', category: 'rate', reason: '450 Q7-941-ZK', waitMs: 5} as const;
	const result: AttemptResult = {recipientId: 'r', outcome, attempts: [attempt], sentAt: null, at: ''};
	const masked = maskResult(result, values);
	t.false(JSON.stringify(masked).includes('941'));
	t.like(masked.outcome, {reason: '450 •••', waitMs: 5});
	t.like(masked.attempts[0], {enhanced: '5.7.1', host: 'mx.example'});
});

test('keeps the codes and category of a report, but not its text', t => {
	const report: Report = {
		...{
			recipient: 'a@b.example',
			originalRecipient: null,
			action: 'failed',
			status: '5.7.1',
			code: 550,
			host: null,
		},
		...{...notRefused, matched: 'code', reason: '550 5.7.1 Q7-941-ZK', feedbackType: null},
	};
	t.deepEqual(withoutText(report), {...report, matched: null, reason: '550 5.7.1 •••'});
	t.is(withoutText({...report, reason: 'no such user Q7-941-ZK'}).reason, '•••');
});

test('masks the whole text if there are too many values to search for', t => {
	const hidden = (value: unknown) => findHiddenValues('{"a":"•••"}', JSON.stringify({a: value}));
	const lists = [
		Array.from({length: 101}, (_, n) => `value-${n}`),
		Array.from({length: 5}, (_, n) => `${n}`.repeat(4000)),
	];
	for (const list of lists) {
		t.is(maskHidden('550 5.7.1 no such value', hidden(list)), '550 5.7.1 •••');
	}
	t.is(maskHidden('550 5.7.1 value-1', hidden(lists[0]?.slice(0, 100))), '550 5.7.1 •••');
	t.is(hidden('x'.repeat(200_000)).forms[0]?.plain.length, 4096);
});
