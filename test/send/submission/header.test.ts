import test from 'ava';
import fc from 'fast-check';
import {composeSubmitted} from '../../../src/compose/compose.ts';
import {readSubmitted} from '../../../src/send/submission/submit.ts';

type Submitted = Parameters<typeof composeSubmitted>[1];

const trace = 'Received: by mail.test (mailctl) with ESMTPSA; Mon, 23 Nov 2026 10:00:00 +0000';
const from = 'From: Ann <ann@example.com>';

const read = (...lines: readonly string[]) =>
	readSubmitted(Buffer.from([...lines, '', 'body', ''].join('\r\n'), 'latin1'), trace);

function faultOf(...lines: readonly string[]): string {
	const answer = read(...lines);
	return answer.ok ? 'none' : answer.problem;
}

test('removes fields meant for us and keeps the rest unchanged', t => {
	const answer = read(
		...[from, 'Sender: ceo@example.org', 'To: a@example.org', 'BCC: hidden@example.org,', '\tmore@example.org'],
		...['Subject:  two  spaces', 'Return-Path: <x@example.org>', 'Resent-Bcc: b@example.org', 'X-Other: kept'],
		...['Reply-To: help@example.com', 'x-mailctl-topic: news', 'X-Mailctl-Tag: =?utf-8?q?gr=C3=BCn?='],
		...['X-Mailctl-Metadata-Order-Id: 1042', 'X-Mailctl-Ref: another'],
	);
	t.true(answer.ok);
	if (answer.ok) {
		const {mail} = answer;
		t.is(mail.from.key, 'ann@example.com');
		t.is(mail.replyTo?.key, 'help@example.com');
		t.is(mail.topicCode, 'news');
		t.deepEqual(mail.tags, ['grün']);
		t.deepEqual(mail.metadata, {tag: 'grün', order_id: '1042'});
		t.is(
			mail.source.toString(),
			[
				...[trace, from, 'To: a@example.org', 'Subject:  two  spaces', 'X-Other: kept'],
				...['Reply-To: help@example.com', '', 'body', ''],
			].join('\r\n'),
		);
	}
});

test('leaves several Reply-To addresses to the message', t => {
	const answer = read(from, 'Reply-To: a@example.com, b@example.com');
	t.true(answer.ok && answer.mail.replyTo === null);
});

test('the largest accepted header can be sent with the fields we add', t => {
	const submitted: Submitted = {
		...{listUnsubscribe: {url: 'https://mail.test/u', mailto: null}, feedbackId: null, cfblAddress: null, ref: 'r'},
		...{messageIdHeader: 'm@example.com', date: 0, hasTopic: false},
	};
	const long = `X-Long: ${'x'.repeat(900)}`;
	for (const more of [Array.from({length: 999}, () => 'X-Other: y'), Array.from({length: 288}, () => long)]) {
		const answer = read(from, ...more);
		t.true(answer.ok);
		if (answer.ok) {
			const {mail} = composeSubmitted(answer.mail.source, submitted, [], 0);
			t.is(mail.toString('latin1').match(/^X-(?:Other|Long):/gm)?.length, more.length);
		}
	}
	t.regex(faultOf(from, ...Array.from({length: 1000}, () => 'X-Other: y')), /more than 1000 fields/);
	t.regex(faultOf(from, ...Array.from({length: 289}, () => long)), /longer than 262144/);
});

for (const [what, lines, fault] of [
	['no From', ['To: a@example.org'], /From field/],
	['two From fields', [from, 'from: b@example.com'], /more than one from field/],
	['two addresses in From', ['From: a@example.com, b@example.com'], /one plain address/],
	['two Subjects', [from, 'Subject: a', 'Subject: b'], /more than one subject/],
	['a topic twice', [from, 'X-Mailctl-Topic: a', 'X-Mailctl-Topic: b'], /more than one x-mailctl-topic/],
	['an unknown field', [from, 'X-Mailctl-Topc: a'], /x-mailctl-topc is not a field/],
	[
		'an unknown priority',
		[from, 'X-Mailctl-Priority: urgent'],
		/x-mailctl-priority must be one of high, normal, low/,
	],
	['an empty tag', [from, 'X-Mailctl-Tag:'], /x-mailctl-tag must have 1 to/],
	['a long tag', [from, `X-Mailctl-Tag: ${'x'.repeat(65)}`], /1 to 64/],
	['a long value', [from, `X-Mailctl-Metadata-A: ${'x'.repeat(501)}`], /1 to 500/],
	['a value with a NUL', [from, 'X-Mailctl-Metadata-A: =?utf-8?b?AA==?='], /1 to 500/],
	['an underscore key', [from, 'X-Mailctl-Metadata-__proto__: x'], /not a field/],
	['too much metadata', [from, ...Array.from({length: 51}, (_, n) => `X-Mailctl-Metadata-${n}: x`)], /more than 50/],
	['a bare LF', [from, 'Subject: a\nBcc: b'], /bare CR or LF/],
] as const) {
	test(`rejects a header with ${what}`, t => {
		t.regex(faultOf(...lines), fault);
	});
}

test('never keeps a Bcc or one of our fields, whatever the header', t => {
	const name = fc.constantFrom(
		'From',
		'Bcc',
		'bCC',
		'X-Mailctl-Topic',
		'X-Mailctl-Priority',
		'X-MAILCTL-Metadata-A',
		'Subject',
		'X-Bcc',
		' ',
	);
	const line = fc.tuple(name, fc.constantFrom(': ', ' :', ':', ''), fc.constantFrom('a@example.com', '', '\tx', 'y'));
	fc.assert(
		fc.property(fc.array(line, {maxLength: 6}), lines => {
			const answer = read(from, ...lines.map(parts => parts.join('')));
			t.true(!answer.ok || !/^(?:bcc|x-mailctl-[^:]*)\s*:/im.test(answer.mail.source.toString('latin1')));
		}),
		{numRuns: 2000},
	);
});
