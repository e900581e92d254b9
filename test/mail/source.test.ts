import test from 'ava';
import fc from 'fast-check';
import {fieldValue, lineNumber, longLineIn, octetProblem, readSource, withoutRecipient} from '../../src/mail/source.ts';

const read = (text: string) => readSource(Buffer.from(text, 'latin1'), {octets: 200_000, fields: 1000});

test('reads the headers and body of a message, with folded lines unchanged', t => {
	const source = read('From: a@example.com\r\nSubject: one\r\n\ttwo\r\n  three \r\n\r\nbody\r\n');
	t.true(source.ok);
	if (source.ok) {
		const {fields, body} = source.source;
		t.deepEqual(
			fields.map(field => [field.name, fieldValue(field)]),
			[
				['from', 'a@example.com'],
				['subject', 'one\ttwo  three'],
			],
		);
		t.is(body.toString(), 'body\r\n');
	}
});

for (const [what, text] of [
	['a line that is not a header', 'From: a@example.com\r\nhello\r\n\r\n'],
	['a body without a header', '\r\nbody'],
	['a folded line at the start', ' From: a@example.com\r\n\r\n'],
	['a space before the colon', 'From : a@example.com\r\n\r\n'],
	['a line of spaces', 'From: a@example.com\r\n \r\nTo: b@example.com\r\n\r\n'],
	['octets that are not ASCII', 'Subject: \xe9\r\n\r\n'],
	['a control character', 'Subject: \x1b\r\n\r\n'],
	['too many fields', `${'A: b\r\n'.repeat(1001)}\r\n`],
	['a header that is too long', `${'A: b\r\n'.repeat(50_000)}\r\n`],
] as const) {
	test(`rejects ${what}`, t => {
		t.false(read(text).ok);
	});
}

const piece = fc.constantFrom('\r\n', '\r', '\n', ' ', '\t', ':', 'A', 'From', '\xff', '\0', 'x'.repeat(500));
const anyMail = fc.array(piece, {maxLength: 40}).map(pieces => Buffer.from(pieces.join(''), 'latin1'));

test('rejects any bytes or reads headers and a body that make up the same message', t => {
	fc.assert(
		fc.property(anyMail, raw => {
			const answer = readSource(raw);
			if (answer.ok) {
				const {fields, body} = answer.source;
				const text = `${fields.map(({line}) => line).join('\r\n')}\r\n\r\n${body.toString('latin1')}`;
				t.true([text, `${text.slice(0, -4)}\r\n`, text.slice(0, -4)].includes(raw.toString('latin1')));
			}
			return true;
		}),
		{numRuns: 2000},
	);
});

test('finds invalid bytes like a regular expression', t => {
	fc.assert(
		fc.property(anyMail, raw => {
			const text = raw.toString('latin1');
			const isGood = !/\0|\r(?!\n)|(?<!\r)\n/.test(text);
			t.is(octetProblem(raw) === null, isGood);
		}),
		{numRuns: 2000},
	);
});

test('finds the first line that is too long', t => {
	const lines = fc.array(fc.constantFrom('', 'a', 'x'.repeat(998), 'x'.repeat(999), 'x'.repeat(2000)), {
		maxLength: 6,
	});
	fc.assert(
		fc.property(lines, all => {
			const first = all.findIndex(line => line.length > 998);
			const octets = Buffer.from(all.join('\r\n'));
			const start = longLineIn(octets);
			t.is(start === -1 ? -1 : lineNumber(octets, start) - 1, first);
		}),
	);
});

test('removes To and Cc headers with the address and leaves others unchanged', t => {
	const rest = ['From: ann@x.example', 'To: undisclosed-recipients:;', 'Cc: bob@x.example', 'X-To: ann@x.example'];
	for (const to of [
		'ann@x.example',
		'Ann <ANN@x.example>, bob@x.example',
		'team: <bob@x.example>,\r\n\tann@x.example;',
	]) {
		const mail = [rest[0], `To: ${to}`, rest[2], rest[3], 'CC: "Ann" <ann@x.example>', '', 'ann@x.example', ''];
		const changed = withoutRecipient(Buffer.from(mail.join('\r\n')), 'ann@x.example');
		t.is(String(changed), [...rest, '', 'ann@x.example', ''].join('\r\n'));
	}
	for (const to of ['joann@x.example', 'ann@x.example.org', 'bob@x.example']) {
		t.is(withoutRecipient(Buffer.from(`To: ${to}\r\n\r\nann@x.example`), 'ann@x.example'), null, to);
	}
});

test('removes a recipient from To and Cc of any message, which stays readable', t => {
	const words = fc.constantFrom('To: ', 'Cc:', 'ann@x.example', ',', '<', '>', '\r\n', ' ', '\t', '"', 'Ann', '\xff');
	fc.assert(
		fc.property(fc.array(words, {maxLength: 30}), pieces => {
			const changed = withoutRecipient(
				Buffer.from(`From: a@b.example\r\n${pieces.join('')}`, 'latin1'),
				'ann@x.example',
			);
			t.true(changed === null || (readSource(changed).ok && withoutRecipient(changed, 'ann@x.example') === null));
		}),
		{numRuns: 2000},
	);
});
