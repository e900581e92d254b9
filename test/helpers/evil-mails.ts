import fc from 'fast-check';
import {anyChar} from './any-char.ts';

// Field names whose values somebody reads, and such as every object has.
const names = `From To Subject Return-Path Content-Type Content-Transfer-Encoding Date Received X-Failed-Recipients
	Auto-Submitted X-Autoreply Precedence Message-ID References In-Reply-To List-Unsubscribe X-Mailctl-Ref CFBL-Feedback-ID
	Delivered-To X-HmXmrOriginalRecipient X-Apple-Unsubscribe constructor __proto__ toString`.split(/\s+/);
const statusNames = `Final-Recipient Original-Recipient Action Status Diagnostic-Code Remote-MTA Reporting-MTA
	Original-Envelope-Id Arrival-Date Last-Attempt-Date Will-Retry-Until X-PowerMTA-BounceCategory __proto__ constructor`.split(
	/\s+/,
);
const feedbackNames = `Feedback-Type Version User-Agent Original-Rcpt-To Original-Mail-From Incidents Reporting-MTA
	Removal-Recipient Original-Envelope-Id __proto__ constructor`.split(/\s+/);

const words = [
	...['constructor', '__proto__', 'hasOwnProperty', 'failed', 'delayed', 'relayed', 'expanded', 'abuse', 'opt-out'],
	...[
		'99999999999999999999999999',
		'-1',
		'1e999',
		'NaN',
		'999 9.9.9',
		'550 5.999.999 x',
		'550 5.1.1',
		'5.1.1',
		'4.2.2',
	],
	...['rfc822;neko@mx.example', 'rfc822;', 'utf-8;\\x{110000}@x', 'utf-8;\\x{D800}neko@mx.example', 'unitext;\\x{}'],
	...['<>', '<<<>>>', 'a@b@c', '@', '"@"@x', '\0', '\0neko@mx.example\0', '\u202e', ' ( ( ( ', '; ; ;', 'smtp;'],
	...['=?utf-8?b?//79gA==?=', '=?constructor?q?=00=01?=', '=?x?b?=', '=?utf-16le?b?AAD/2A==?='],
	...['multipart/mixed; boundary=b', 'multipart/mixed; boundary=""', 'multipart/x; boundary*0="-"; __proto__=x'],
	...['message/delivery-status', 'message/feedback-report', 'message/rfc822', 'text/html; charset=utf-7'],
	...['replacement', 'x-user-defined', 'iso-2022-kr', 'utf-16be', '__proto__'].map(
		name => `text/plain; charset=${name}`,
	),
	...['base64', 'quoted-printable', 'x-uuencode', 'MAILER-DAEMON@mx.example', 'unsubscribe', 'Out of office'],
	...[
		'Thu, 99 Foo 99999 99:99:99 +9999',
		'Mon, 32 Jan 0000 00:00:00',
		'from x by y for <a@b>; date',
		'<mailto:%00@%zz>',
	],
];
const blocks = [
	'Hi. This is the qmail-send program at mx.example.\n\n<neko@mx.example>:\nno such user',
	'<neko@mx.example>: host mx[192.0.2.1] said: 550 5.1.1 (in reply to RCPT TO command)',
	'   ----- Transcript of session follows -----\n... while talking to x.:\n>>> RCPT\n<<< 550',
	'did not reach the following recipient(s):\n\n"x" on Thu, 99 Foo\n    550',
	'--- Below this line is a copy of the message.',
	'{"notificationType":"Bounce","bounce":{"bouncedRecipients":[null,{"emailAddress":{}}]}}',
	...['--b', '--b--', '--b\nContent-Type: multipart/mixed; boundary=b\n', 'From a@b Thu Jan  1 00:00:00 1970', ''],
	...[
		'&#0;&#x110000;&#xD800;&#99999999999;<b>',
		'<script><style><!--',
		'=\n=00=ZZ',
		'\x1b$B\x1b(B',
		'\0\0',
		'\r\r',
		'\f\v',
	],
	...['@', '(', '<', '"\\', 'a ', '550 '].map(text => text.repeat(500)),
];

const value = fc.oneof(
	{weight: 5, arbitrary: fc.constantFrom(...words)},
	fc.string({unit: anyChar, maxLength: 20}),
	fc.tuple(fc.constantFrom(...words), fc.constantFrom(...words)).map(two => two.join(' ')),
	fc.constantFrom(...words).map(word => word.repeat(50)),
);
const fieldOf = (among: readonly string[]) =>
	fc
		.tuple(fc.constantFrom(...among), fc.constantFrom(': ', ' :\t', '', ':\n '), value)
		.map(([name, colon, text]) => `${name}${colon}${text}`);
const fields = (among: readonly string[], maxLength: number) =>
	fc.array(fc.oneof({weight: 8, arbitrary: fieldOf(among)}, fc.constant('')), {maxLength}).map(all => all.join('\n'));
const text = fc
	.array(fc.oneof(fc.constantFrom(...blocks), fieldOf(names), fc.string({unit: anyChar, maxLength: 30})), {
		maxLength: 8,
	})
	.map(all => all.join('\n'));

const header = 'Return-Path: <>\nFrom: MAILER-DAEMON@mx.example\nSubject: Undelivered Mail Returned to Sender';
const encoding = fc.constantFrom('7bit', '7bit', 'base64', 'quoted-printable');

function part(type: string, encoded: string, body: string): string {
	const bytes = encoded === 'base64' ? Buffer.from(body).toString('base64') : body;
	return `--b\nContent-Type: ${type}\nContent-Transfer-Encoding: ${encoded}\n\n${bytes}\n`;
}

/** A report of these parts, its machine-readable one of these fields. */
const report = (kind: string, among: readonly string[], right: string) =>
	fc
		.tuple(fields(names, 4), text, fields(among, 20), fields(names, 6), encoding, fc.constantFrom('', right))
		.map(([more, said, told, returned, encoded, first]) =>
			[
				`${header}\n${more}\nContent-Type: multipart/report; boundary=b\n`,
				part('text/plain', encoded, said),
				part(`message/${kind}`, encoded, `${first}${told}`),
				part('message/rfc822', '7bit', returned),
				'--b--',
			].join('\n'),
		);

const json = fc.oneof(fc.jsonValue(), value, fc.constantFrom(null, 1e308, [], {}));
const addressees = fc.oneof(json, fc.array(fc.record({emailAddress: json, status: json, diagnosticCode: json})));
const notification = fc
	.record({
		notificationType: fc.oneof(fc.constantFrom('Bounce', 'Complaint', 'Delivery'), json),
		bounce: fc.oneof(json, fc.record({bounceSubType: json, bouncedRecipients: addressees})),
		complaint: fc.oneof(json, fc.record({complaintFeedbackType: json, complainedRecipients: addressees})),
		mail: fc.oneof(json, fc.record({headers: fc.array(fc.record({name: json, value: json}))})),
	})
	.map(said => `Content-Type: text/plain\n\n${JSON.stringify(said)}`);

/**
 * Mails that are made to break whoever reads them: fields, numbers, dates, charsets and structures that nobody should
 * send.
 */
export const evilMail: fc.Arbitrary<Buffer> = fc
	.tuple(
		fc.oneof(
			report('delivery-status', statusNames, 'Final-Recipient: rfc822;neko@mx.example\nAction: failed\n'),
			report('feedback-report', feedbackNames, 'Feedback-Type: abuse\nOriginal-Rcpt-To: neko@mx.example\n'),
			notification,
			fc.tuple(fields(names, 6), text).map(([more, said]) => `${header}\n${more}\n\n${said}`),
			fc.tuple(fields(names, 20), text).map(([all, said]) => `${all}\n\n${said}`),
		),
		fc.constantFrom('\n', '\r\n', '\r', '\r\r\n'),
		fc.constantFrom('utf8' as const, 'latin1' as const, 'utf16le' as const),
	)
	.map(([mail, end, charset]) => Buffer.from(mail.replaceAll('\n', end), charset));
