import test from 'ava';
import fc from 'fast-check';
import {findAddresses} from '../../../../src/inbound/reports/addresses-in-text.ts';
import {splitReturned} from '../../../../src/inbound/reports/text/bounce-text.ts';
import {stripHtml} from '../../../../src/mail/decode.ts';
import {cpuCost} from '../../../helpers/cpu-cost.ts';
import {read} from '../../../helpers/report-mails.ts';
import {mailOf, readBounce} from './bounces.ts';

const pieces = fc.constantFrom(
	...[
		'<',
		'>',
		'@',
		'"',
		' ',
		'\n',
		'\t',
		'.',
		'-',
		'(',
		')',
		'[',
		']',
		':',
		';',
		'=',
		'*',
		'#',
		'|',
		'550',
		'5.1.1',
		'neko@example.org',
	],
	...[
		'user unknown',
		'----- Transcript of session follows -----\n',
		'>>> RCPT To:<',
		'<<< 550 ',
		'while talking to ',
		'host ',
		'said: ',
	],
	...[
		'The following address(es) failed:\n',
		'did not reach the following recipient(s):\n',
		'Recipient address: ',
		'(expanded from: <',
		'{"',
	],
	...['X-A: b\n', '<p', '<!--', '&#x', 'é', '😀', '宛先', 'a'],
);
const text = fc.array(pieces, {maxLength: 200}).map(parts => parts.join(''));

test('readText never throws, and names only what stands in the text', t => {
	fc.assert(
		fc.property(text, said => {
			const {reports} = readBounce({}, said);
			return (reports ?? []).every(
				({recipient, reason}) =>
					(recipient === null || said.includes(recipient)) && reason.length <= 1024 && !/\n/.test(reason),
			);
		}),
	);
	t.pass();
});

test('an address found is a piece of the text with one @ between two other characters', t => {
	fc.assert(
		fc.property(text, said =>
			findAddresses(said).every(
				({address, start, end}) =>
					said.slice(start, end) === address && /^.+@[^@\s<>]+$/.test(address) && !/\n/.test(address),
			),
		),
	);
	t.pass();
});

test('what is said and what is given back are the text', t => {
	fc.assert(
		fc.property(text, whole => {
			const {ownText, returned} = splitReturned(whole);
			return ownText + returned === whole;
		}),
	);
	t.pass();
});

test('text without markup stays as it is', t => {
	fc.assert(
		fc.property(
			fc.string().filter(plain => !/[<&]/.test(plain)),
			plain => stripHtml(plain) === plain,
		),
	);
	t.pass();
});

const long = 600_000;
/** Milliseconds of the CPU: tens are needed; what goes back and forth over 600 KB takes minutes. */
const maxMs = 4000;
const hostile: Readonly<Record<string, string>> = {
	'at signs': '@'.repeat(long),
	addresses: 'a@b '.repeat(long / 4),
	'address lines': '<a@b>:\n'.repeat(long / 7),
	'lines of addresses': `${'neko@example.org,'.repeat(60)}\n`.repeat(600),
	dots: '.'.repeat(long),
	spaces: ' '.repeat(long),
	'spaces and a stop': `${' '.repeat(1000)}x\n`.repeat(600),
	dashes: '-'.repeat(long),
	'dashes in lines': `${'- '.repeat(100)}\n`.repeat(3000),
	quotes: '"'.repeat(long),
	'angle brackets': '<'.repeat(long),
	'comments of html': '<!--'.repeat(long / 4),
	'unclosed scripts': '<script>'.repeat(long / 8),
	fields: 'X-A: b\n \n'.repeat(long / 9),
	codes: '550 '.repeat(long / 4),
	digits: '5.1.1'.repeat(long / 5),
	hosts: 'host a.a.a.a.a.a '.repeat(long / 17),
	'a long host': `host ${'a.'.repeat(long / 2)}`,
	transcript: `----- Transcript of session follows -----\n${'>>> RCPT To:<a@b>\n<<< 550 x\n'.repeat(20_000)}`,
	origins: '(expanded from: <'.repeat(long / 17),
	entries: 'Recipient address: a@b\n'.repeat(long / 23),
	commands: `The following addresses had permanent fatal errors\n${'550 5.1.1 <a@b>... '.repeat(30_000)}`,
};

for (const [name, body] of Object.entries(hostile)) {
	test(`a mail of ${name} is read in one go`, t => {
		for (const type of ['text/plain', 'text/html']) {
			const readings = [
				() => readBounce({'Content-Type': type, 'X-Failed-Recipients': 'a@b'}, body),
				() => readBounce({'Content-Type': type}, body),
				() => read(mailOf({'Content-Type': type, 'Auto-Submitted': 'auto-replied'}, body)),
			];
			for (const reading of readings) {
				const ms = cpuCost(reading, maxMs);
				t.true(ms <= maxMs, `${type}: ${ms} ms`);
			}
		}
	});
}
