import test from 'ava';
import {mailOf, multipartOf, read, readOne} from '../../helpers/report-mails.ts';

const arf = (fields: string, returned = 'Subject: Sale\nTo: neko@mx.example', type = 'message/rfc822') =>
	multipartOf({
		type: 'multipart/report; report-type=feedback-report',
		parts: [
			'Content-Type: text/plain\n\nThis is an abuse report.\nSee below.\n\nBye.\n',
			`Content-Type: message/feedback-report\n\n${fields}\n`,
			`Content-Type: ${type}\n\n${returned}\n\ntext\n`,
		],
	});
const about = (type: string) => `Feedback-Type: ${type}\nUser-Agent: Some/1.0\nVersion: 1\n`;

for (const [type, action] of [
	['abuse', 'complaint'],
	['Abuse', 'complaint'],
	['fraud', 'complaint'],
	['virus', 'complaint'],
	['other', 'complaint'],
	['opt-out', 'unsubscribe'],
	['opt-out-list', 'unsubscribe'],
	['not-spam', 'none'],
	['auth-failure', 'none'],
	['dmarc', 'none'],
	['dkim', 'none'],
	['x-unheard-of', 'none'],
] as const) {
	test(`feedback type ${type}: ${action}`, t => {
		const raw = arf(`${about(type)}Original-Rcpt-To: <neko@mx.example>\n`);
		t.is(read(raw).kind, 'arf');
		t.like(readOne(raw), {
			recipient: 'neko@mx.example',
			action,
			type: 'none',
			category: null,
			suppresses: action === 'complaint',
			feedbackType: type.toLowerCase(),
			rule: 'feedback-type',
			reason: 'This is an abuse report. See below.',
		});
	});
}

const recipients = (raw: Buffer) => read(raw).reports.map(({recipient}) => recipient);

test('accepts repeated Original-Rcpt-To fields and counts each address once', t => {
	const named =
		'Original-Rcpt-To: neko@mx.example\nOriginal-Rcpt-To: <Tora@mx.example>, mike@mx.example\nOriginal-Rcpt-To: NEKO@mx.example\n';
	t.deepEqual(recipients(arf(`${about('abuse')}Incidents: 3\n${named}`)), [
		'NEKO@mx.example',
		'Tora@mx.example',
		'mike@mx.example',
	]);
});

for (const [name, fields, returned, found] of [
	['its To', '', 'To: Neko <neko@mx.example>', ['neko@mx.example']],
	['what its receiver wrote down', '', 'Delivered-To: tora@mx.example\nTo: list@mx.example', ['tora@mx.example']],
	['nobody where To names several', '', 'To: a@mx.example, b@mx.example', [null]],
	['nobody where it is hidden', '', 'To: redacted@mx.example', [null]],
	['nobody where the report says so', 'Original-Rcpt-To: [redacted]@mx.example\n', 'Subject: x', [null]],
	['nobody where nothing is said', '', 'Subject: x', [null]],
] as const) {
	test(`finds the recipient in the returned message if there is no Original-Rcpt-To: ${name}`, t => {
		t.deepEqual(recipients(arf(about('abuse') + fields, returned)), [...found]);
		t.deepEqual(recipients(arf(about('abuse') + fields, returned, 'text/rfc822-header')), [...found]);
	});
}

for (const [name, raw] of [
	[
		'blank lines between its fields',
		arf('Feedback-Type: abuse\n\nVersion: 0.1\n\nOriginal-Rcpt-To: neko@mx.example\n'),
	],
	['names in any case', arf('FEEDBACK-TYPE: ABUSE\nversion: 1.0\noriginal-rcpt-to: neko@mx.example\n')],
	[
		'no blank line behind its header',
		multipartOf({
			parts: [`Content-Type: message/feedback-report\n${about('abuse')}Original-Rcpt-To: neko@mx.example\n`],
		}),
	],
	[
		'its fields in a text',
		multipartOf({
			type: 'multipart/mixed',
			parts: [`Content-Type: text/plain\n\nA complaint:\n\n${about('abuse')}Original-Rcpt-To: neko@mx.example\n`],
		}),
	],
	['no type of feedback', arf('User-Agent: x\nVersion: 1\nOriginal-Rcpt-To: neko@mx.example\n')],
] as const) {
	test(`reads a feedback report with ${name}`, t => {
		t.is(read(raw).kind, 'arf');
		t.like(readOne(raw), {recipient: 'neko@mx.example', action: 'complaint', suppresses: true});
	});
}

test('reads a complaint from Microsoft, which returns the message without a report', t => {
	const raw = multipartOf({
		type: 'multipart/mixed',
		parts: [
			'Content-Type: message/rfc822\n\nX-HmXmrOriginalRecipient: neko@hotmail.example\nSubject: Sale\nTo: x@y.example\n\ntext\n',
		],
	});
	t.is(read(raw).kind, 'arf');
	t.like(readOne(raw), {
		recipient: 'neko@hotmail.example',
		action: 'complaint',
		suppresses: true,
		rule: 'feedback-jmrp',
	});

	const hidden = multipartOf({
		type: 'multipart/mixed',
		header: ['From: staff@hotmail.com', 'Subject: complaint about message from 192.0.2.1'],
		parts: ['Content-Type: message/rfc822\n\nSubject: Sale\n\ntext\n'],
	}).toString();
	const alone = hidden.replace(/From: MAILER-DAEMON.*\r\nSubject: Undelivered.*\r\n/, '');
	t.like(readOne(Buffer.from(alone)), {recipient: null, action: 'complaint'});

	const file = raw.toString().replace('message/rfc822', 'application/octet-stream');
	t.like(readOne(Buffer.from(file)), {recipient: 'neko@hotmail.example', rule: 'feedback-jmrp'});
	const status = 'Final-Recipient: rfc822; neko@mx.example\nAction: failed\nStatus: 5.1.1\n';
	const bounce = multipartOf({
		parts: [
			`Content-Type: message/delivery-status\n\nReporting-MTA: dns; mx\n\n${status}`,
			'Content-Type: message/rfc822\n\nX-HmXmrOriginalRecipient: neko@hotmail.example\nSubject: Sale\n\ntext\n',
		],
	});
	t.is(read(bounce).kind, 'dsn', 'a bounce that gives back such a mail is none');
});

const sale = 'Message-ID: <m1@shop.example>\nTo: neko@mx.example\nSubject: Sale\n\nMessage-ID: <body@x>\n';
const base64 = Buffer.from(sale.replaceAll('\n', '\r\n')).toString('base64');
for (const [name, part] of [
	['a file in base64', `application/octet-stream; name=sale.eml\nContent-Transfer-Encoding: base64\n\n${base64}`],
	['a file as it is', `application/octet-stream\n\n${sale}`],
	['a file behind another one', `application/octet-stream\n\nPNG\n--b\nContent-Type: application/x-eml\n\n${sale}`],
	['a file that is called a text', `text/plain; name=sale.txt\nContent-Transfer-Encoding: base64\n\n${base64}`],
	['a mail of another type', `application/rfc822\n\n${sale}`],
] as const) {
	test(`reads a complaint that returns the message as ${name}`, t => {
		const fields = `Content-Type: message/feedback-report\n\n${about('abuse')}`;
		const parts = ['Content-Type: text/plain\n\nAn abuse report.\n', fields, `Content-Type: ${part}\n`];
		const raw = mailOf(
			'Content-Type: multipart/report; report-type=feedback-report; boundary=b',
			'',
			...parts.flatMap(each => ['--b', each]),
			'--b--',
		);
		t.like(read(raw).clues, {messageIds: ['m1@shop.example']});
		t.deepEqual(recipients(raw), ['neko@mx.example']);
	});
}

test('does not take a forwarded message for a complaint', t => {
	const forwarded = '--b\nContent-Type: message/rfc822\n\nSubject: Sale\n\ntext\n--b--\n';
	const raw = mailOf(
		'From: neko@mx.example',
		'Subject: Look',
		'Content-Type: multipart/mixed; boundary=b',
		'',
		forwarded,
	);
	t.like(read(raw), {kind: 'other', reports: []});
});

const ses = (told: object, more = '') =>
	mailOf(
		'From: SES <no-reply@sns.amazonaws.com>',
		'Subject: AWS Notification Message',
		'',
		JSON.stringify(told) + more,
	);

test('reads a complaint from Amazon SES in JSON', t => {
	const complaint = {complainedRecipients: [{emailAddress: 'neko@mx.example'}], complaintFeedbackType: 'abuse'};
	const footer = '\n\n--\nIf you wish to stop receiving notifications, visit {x}';
	for (const told of [
		{notificationType: 'Complaint', complaint},
		{eventType: 'Complaint', complaint},
		{Type: 'Notification', Message: JSON.stringify({notificationType: 'Complaint', complaint})},
	]) {
		const raw = ses(told, footer);
		t.is(read(raw).kind, 'arf');
		t.like(readOne(raw), {
			recipient: 'neko@mx.example',
			action: 'complaint',
			suppresses: true,
			feedbackType: 'abuse',
			reason: '',
		});
	}
	const notSpam = {...complaint, complaintFeedbackType: 'not-spam'};
	t.like(readOne(ses({notificationType: 'Complaint', complaint: notSpam})), {action: 'none', suppresses: false});
});

test('reads bounces from Amazon SES in JSON', t => {
	const bounce = (subType: string, more: object) => ({
		notificationType: 'Bounce',
		bounce: {
			bounceType: 'Permanent',
			bounceSubType: subType,
			reportingMTA: 'dns; a8.smtp-out.amazonses.com',
			bouncedRecipients: [{emailAddress: 'neko@mx.example', ...more}],
		},
	});
	const full = ses(
		bounce('General', {action: 'failed', status: '5.1.1', diagnosticCode: 'smtp; 550 5.1.1 user unknown'}),
	);
	t.is(read(full).kind, 'dsn');
	t.like(readOne(full), {
		recipient: 'neko@mx.example',
		action: 'failed',
		status: '5.1.1',
		code: 550,
		category: 'unknown_user',
		host: 'a8.smtp-out.amazonses.com',
	});
	t.like(readOne(ses(bounce('NoEmail', {}))), {category: 'unknown_user', suppresses: true});
	t.like(readOne(ses(bounce('MailboxFull', {}))), {category: 'mailbox_full', suppresses: false});
	t.like(
		readOne(
			ses({notificationType: 'Delivery', delivery: {recipients: ['neko@mx.example'], smtpResponse: '250 ok'}}),
		),
		{action: 'delivered', suppresses: false},
	);
});

test('tolerates malformed or unexpected JSON', t => {
	t.is(read(mailOf('Subject: x', '', '{"notificationType":"Complaint"')).kind, 'other');
	t.is(read(ses({notificationType: 'Complaint', complaint: null})).reports.length, 1);
	const wild = {complaintFeedbackType: 'x'.repeat(900), complainedRecipients: [{emailAddress: 'y '.repeat(900)}]};
	t.like(readOne(ses({notificationType: 'Complaint', complaint: wild})), {
		...{recipient: null, action: 'none', feedbackType: 'x'.repeat(41)},
	});
	const named = {complainedRecipients: [{emailAddress: 'Neko <neko@mx.example>'}]};
	t.is(readOne(ses({notificationType: 'Complaint', complaint: named})).recipient, 'neko@mx.example');
	t.is(read(ses({notificationType: ['Complaint']})).kind, 'other');
});
