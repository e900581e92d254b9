import test from 'ava';
import {dsnOf, mailOf, multipartOf, read, readOne} from '../../helpers/report-mails.ts';

const reporting = 'Reporting-MTA: dns; out.example\n\n';
const failed = 'Final-Recipient: rfc822; neko@mx.example\nAction: failed\n';

test('reads recipient, action, mail server and reason of a failure', t => {
	const status = `${reporting}Original-Recipient: rfc822; neko@alias.example\n${failed}Status: 5.1.1\nRemote-MTA: dns; MX.mx.example (192.0.2.1)\nDiagnostic-Code: smtp; 550 5.1.1\n <neko@mx.example>: User unknown\n`;
	t.is(read(dsnOf(status)).kind, 'dsn');
	t.like(readOne(dsnOf(status)), {
		recipient: 'neko@mx.example',
		originalRecipient: 'neko@alias.example',
		action: 'failed',
		status: '5.1.1',
		code: 550,
		host: 'mx.mx.example',
		type: 'permanent',
		category: 'unknown_user',
		suppresses: true,
		reason: '550 5.1.1 <neko@mx.example>: User unknown',
		feedbackType: null,
	});
});

for (const [said, action, type] of [
	['failed', 'failed', 'permanent'],
	['Failed (permanently)', 'failed', 'permanent'],
	['delayed', 'delayed', 'transient'],
	['delivered', 'delivered', 'none'],
	['deliverable', 'delivered', 'none'],
	['relayed', 'relayed', 'none'],
	['expanded', 'expanded', 'none'],
	['expired', 'failed', 'permanent'],
	['nonsense', 'failed', 'permanent'],
	['', 'failed', 'permanent'],
] as const) {
	test(`reads action ${said || 'missing'} as ${action}, ${type}`, t => {
		const report = readOne(
			dsnOf(
				`${reporting}Final-Recipient: rfc822; neko@mx.example\n${said && `Action: ${said}\n`}Diagnostic-Code: smtp; 550 5.1.1 User unknown\n`,
			),
		);
		t.like(report, {action, type, suppresses: type === 'permanent'});
		t.is(report.category === null, type === 'none');
	});
}

test('treats a 2.x.x status as delivered, whatever the action is', t => {
	t.like(readOne(dsnOf(`${reporting}${failed}Status: 2.0.0\n`)), {
		action: 'delivered',
		type: 'none',
		suppresses: false,
	});
});

test('treats a failure with a 4.x.x status as transient', t => {
	const status = `${reporting}${failed}Status: 4.4.1\nDiagnostic-Code: smtp; connect to mx.example[192.0.2.1]:25: Connection timed out\n`;
	t.like(readOne(dsnOf(status)), {action: 'failed', type: 'transient', category: 'network', suppresses: false});
});

test('prefers the SMTP reply to the status', t => {
	const status = `${reporting}${failed}Status: 5.0.0 (permanent failure)\nDiagnostic-Code: smtp; 552 5.2.2 Mailbox full\n`;
	t.like(readOne(dsnOf(status)), {status: '5.2.2', code: 552, category: 'mailbox_full', type: 'transient'});
	t.like(readOne(dsnOf(`${reporting}${failed}Status: 5.1.1\nDiagnostic-Code: x-unix; exit 67\n`)), {
		status: '5.1.1',
		category: 'unknown_user',
	});
});

for (const [diagnostic, category] of [
	['Diagnostic-Code: smtp; 5.1.0 - Unknown address error (delivery attempts: 0)\n', 'unknown_user'],
	[
		"Diagnostic-Code: smtp; 5.3.0 - Other mail system problem 554-'5.0.0 Service refused' (delivery attempts: 0)\n",
		'system',
	],
	['Diagnostic-Code: smtp; 550 Rejected\n', 'unknown_user'],
	['', 'unknown_user'],
] as const) {
	test(`uses X-Supplementary-Info if the reply gives no reason: ${diagnostic || 'no reply'}`, t => {
		const status = `${reporting}${failed}Status: 5.0.0 (permanent failure)\n${diagnostic}X-Supplementary-Info: < #5.1.1 smtp;550 5.1.1 <neko@mx.example>: Recipient\n address rejected: User unknown>\n`;
		t.is(readOne(dsnOf(status, 'Mail could not be delivered.')).category, category);
	});
}

/** Many recipients, of whom only the last one received the message. */
const manyBlocks = (count: number, field = '') =>
	`${reporting}${Array.from({length: count - 1}, (_, i) => `Final-Recipient: rfc822; n${i}@mx.example\nAction: failed\nStatus: 5.1.1\n${field}\n`).join('')}Final-Recipient: rfc822; last@mx.example\nAction: delivered\nStatus: 2.0.0\n`;

test('reports no recipient at all if there are more than can be read', t => {
	t.is(read(dsnOf(manyBlocks(100))).reports.length, 100);
	t.like(read(dsnOf(manyBlocks(101))), {kind: 'dsn', fault: 'too many recipients', reports: {length: 0}});
	const ses = (count: number) => {
		const bouncedRecipients = Array.from({length: count}, (_, i) => ({
			emailAddress: `n${i}@mx.example`,
			status: '5.1.1',
		}));
		return mailOf('Subject: x', '', JSON.stringify({notificationType: 'Bounce', bounce: {bouncedRecipients}}));
	};
	t.is(read(ses(100)).reports.length, 100);
	t.like(read(ses(101)), {kind: 'dsn', fault: 'too many recipients', reports: {length: 0}});
	const told = (count: number, reason = 'User unknown') =>
		mailOf(
			'From: MAILER-DAEMON@mx.example',
			'Subject: Undelivered Mail Returned to Sender',
			'',
			"I'm sorry to have to inform you that your message could not\nbe delivered to one or more recipients.\n",
			...Array.from(
				{length: count},
				(_, i) => `<n${i}@mx.example>: host mx.example[192.0.2.1] said: 550 ${reason}\n`,
			),
		);
	t.is(read(told(100)).reports.length, 100);
	t.like(read(told(101)), {kind: 'text', fault: 'too many recipients', reports: {length: 0}});
	t.like(read(told(70, 'x'.repeat(1000))), {kind: 'text', fault: 'too many recipients', reports: {length: 0}});
	const long = dsnOf(manyBlocks(60, `Diagnostic-Code: smtp; 550 ${'x'.repeat(6000)}\n`));
	t.like(read(long), {kind: 'dsn', fault: 'too many recipients', reports: {length: 0}});
	const parts = Array.from({length: 220}, () => 'Content-Type: text/plain\n\nnothing');
	const status = `Content-Type: message/delivery-status\n\n${reporting}${failed}Status: 5.1.1\n`;
	t.like(read(multipartOf({parts: [status, ...parts]})), {fault: 'too many parts', reports: {length: 0}});
});

test('reads a delivery status in base64, whatever its line endings', t => {
	const encoded = Buffer.from(`${reporting}${failed}Status: 5.1.1\n`.replaceAll('\n', '\r\n')).toString('base64');
	for (const type of ['message/delivery-status', 'application/octet-stream']) {
		const part = `Content-Type: ${type}\nContent-Transfer-Encoding: base64\n\n${encoded}`;
		t.like(readOne(multipartOf({parts: [part]})), {
			recipient: 'neko@mx.example',
			status: '5.1.1',
			suppresses: true,
		});
	}
});

test('reads each recipient separately', t => {
	const other = 'Final-Recipient: rfc822; tora@mx.example\nAction: failed\nStatus: 5.2.2\n';
	const human =
		'<neko@mx.example>: host mx.example[192.0.2.1] said: 550 5.1.1 User unknown\n    (in reply to RCPT TO command)\n\n<tora@mx.example>: host mx.example[192.0.2.1] said: 552 5.2.2 Mailbox full (in\n    reply to RCPT TO command)';
	t.deepEqual(
		read(dsnOf(`${reporting}${failed}Status: 5.1.1\n\n${other}`, human)).reports.map(
			({recipient, category, host}) => [recipient, category, host],
		),
		[
			['neko@mx.example', 'unknown_user', 'mx.example'],
			['tora@mx.example', 'mailbox_full', 'mx.example'],
		],
	);
});

test('does not blame the recipient if the sender was rejected', t => {
	const human =
		'<neko@mx.example>: host mx.example[192.0.2.1] said: 550 User unknown (in reply\n    to MAIL FROM command)';
	t.like(readOne(dsnOf(`${reporting}${failed}Status: 5.0.0\nDiagnostic-Code: smtp; 550 User unknown\n`, human)), {
		type: 'transient',
		suppresses: false,
	});
});

for (const [mailer, human] of [
	['Exchange', "neko@mx.example\nRemote Server returned '550 5.1.1 RESOLVER.ADR.RecipNotFound; not found'"],
	['Gmail', 'The response from the remote server was:\n\n550 5.1.1 User unknown'],
	[
		'Postfix',
		'<neko@mx.example>: host mx.example[192.0.2.1] said: 550 5.1.1 User\n    unknown (in reply to RCPT TO command)',
	],
	[
		'Sendmail',
		'   ----- Transcript of session follows -----\n... while talking to mx.example.:\n>>> RCPT To:<neko@mx.example>\n<<< 550 5.1.1 <neko@mx.example>... User unknown',
	],
	[
		'Exim',
		'  neko@mx.example\n    host mx.example [192.0.2.1]\n    SMTP error from remote mail server after RCPT TO:<neko@mx.example>:\n    550 5.1.1 User unknown',
	],
] as const) {
	test(`finds the reason in the text ${mailer} writes if the status gives none`, t => {
		for (const diagnostic of ['', 'Diagnostic-Code: smtp; 550 Error\n']) {
			t.like(readOne(dsnOf(`${reporting}${failed}Status: 5.0.0\n${diagnostic}`, human)), {
				category: 'unknown_user',
				type: 'permanent',
				code: 550,
			});
		}
	});
}

test('does not take quoted text of the original message for the reason', t => {
	const human = 'It was about:\n\n  To: neko@mx.example\n  Subject: user unknown\n\nSorry.';
	t.like(readOne(dsnOf(`${reporting}${failed}Status: 5.0.0\n`, human)), {
		suppresses: false,
		category: 'undetermined',
	});
});

test('uses the inner reply if one reply quotes another', t => {
	const diagnostic =
		'smtp;550 5.1.351 Remote server returned unknown recipient or mailbox unavailable -> 552 5.2.2 Mailbox full';
	t.like(readOne(dsnOf(`${reporting}${failed}Status: 5.1.351\nDiagnostic-Code: ${diagnostic}\n`)), {
		status: '5.2.2',
		code: 552,
		category: 'mailbox_full',
		suppresses: false,
	});
});

for (const [name, fields, recipient, originalRecipient] of [
	[
		'X-Actual-Recipient',
		'Final-Recipient: rfc822; neko\nX-Actual-Recipient: rfc822; neko@in.example\n',
		'neko@in.example',
		null,
	],
	['Original-Recipient', 'Original-Recipient: <neko@mx.example>\n', 'neko@mx.example', null],
	[
		'another spelling',
		'Original-Recipient: rfc822;Neko@MX.example\nFinal-Recipient: rfc822;neko@mx.example\n',
		'neko@mx.example',
		null,
	],
	['the text', '', 'tora@mx.example', null],
] as const) {
	test(`finds the recipient in ${name}`, t => {
		const status = `${reporting}${fields}Action: failed\nStatus: 5.1.1\n`;
		t.like(readOne(dsnOf(status, 'To <tora@mx.example> it was not delivered.')), {recipient, originalRecipient});
	});
}

test('finds the recipient in X-Failed-Recipients', t => {
	const raw = multipartOf({
		header: ['To: me@shop.example', 'X-Failed-Recipients: tora@mx.example'],
		parts: [
			'\nSorry, me@shop.example.\n',
			'Content-Type: message/delivery-status\n\nAction: failed\nStatus: 5.1.1\n',
		],
	});
	t.is(readOne(raw).recipient, 'tora@mx.example');
});

const whole = `${reporting}${failed}Status: 5.1.1\nDiagnostic-Code: smtp; 550 5.1.1 User unknown\n`;
const base64 = Buffer.from(whole).toString('base64');
for (const [name, raw] of [
	[
		'no report type',
		multipartOf({type: 'multipart/report', parts: [`Content-Type: message/delivery-status\n\n${whole}`]}),
	],
	[
		'multipart/mixed',
		multipartOf({type: 'multipart/mixed', parts: [`Content-Type: Message/Delivery-Status\n\n${whole}`]}),
	],
	['a part of its own', mailOf('Subject: x', 'Content-Type: message/delivery-status', '', whole)],
	['a plain text', mailOf('Subject: x', 'Content-Type: text/plain', '', 'Sorry.', '', whole)],
	['no type at all', mailOf('Subject: x', '', whole)],
	['RFC 6533', multipartOf({parts: [`Content-Type: message/global-delivery-status\n\n${whole}`]})],
	['text/delivery-status', multipartOf({parts: [`Content-Type: text/delivery-status\n\n${whole}`]})],
	[
		'base64',
		multipartOf({parts: [`Content-Type: message/delivery-status\nContent-Transfer-Encoding: base64\n\n${base64}`]}),
	],
	['no blank line', multipartOf({parts: [`Content-Type: message/delivery-status\n${whole}`]})],
	[
		'CR alone',
		Buffer.from(
			multipartOf({parts: [`Content-Type: message/delivery-status\n\n${whole}`]})
				.toString()
				.replaceAll('\r\n', '\r'),
		),
	],
	[
		'a nested multipart',
		multipartOf({
			parts: [
				`Content-Type: multipart/mixed; boundary=i\n\n--i\nContent-Type: message/delivery-status\n\n${whole}\n--i--`,
			],
		}),
	],
] as const) {
	test(`reads a delivery status sent as ${name}`, t => {
		t.is(read(raw).kind, 'dsn');
		t.like(readOne(raw), {recipient: 'neko@mx.example', category: 'unknown_user', suppresses: true});
	});
}

test('ignores a delivery status inside the returned message', t => {
	const inner = dsnOf(whole).toString().replaceAll('\r\n', '\n');
	const raw = multipartOf({
		parts: [
			`Content-Type: message/delivery-status\n\n${reporting}Final-Recipient: rfc822; tora@mx.example\nAction: failed\nStatus: 5.2.2\n`,
			`Content-Type: message/rfc822\n\n${inner}`,
		],
	});
	t.deepEqual(
		read(raw).reports.map(({recipient}) => recipient),
		['tora@mx.example'],
	);
});

test('does not take a delivery status without a recipient for a bounce', t => {
	t.not(read(dsnOf('Reporting-MTA: dns; out.example\n')).kind, 'dsn');
	t.not(read(dsnOf('Final-Recipient: rfc822;\nAction:\n')).kind, 'dsn');
});

test('shortens a reason to one line without control characters', t => {
	const {reason} = readOne(
		dsnOf(`${reporting}${failed}Status: 5.1.1\nDiagnostic-Code: smtp; 550 \x1b[31mno\u202e ${'x'.repeat(3000)}\n`),
	);
	t.regex(reason, /^550 \[31mno x{900,}$/);
	t.is(reason.length, 1024);
});

test('finds the alias in the human-readable text', t => {
	const human =
		'<neko@mx.example> (expanded from <info@shop.example>): host mx.example[192.0.2.1]\n    said: 550 5.1.1 User unknown';
	t.like(readOne(dsnOf(`${reporting}${failed}Status: 5.1.1\n`, human)), {
		recipient: 'neko@mx.example',
		originalRecipient: 'info@shop.example',
	});
});

test('falls back to the category from PowerMTA', t => {
	const status = `${reporting}${failed}Status: 5.0.0\nDiagnostic-Code: smtp;550 sorry\nX-PowerMTA-BounceCategory: bad-mailbox\n`;
	t.like(readOne(dsnOf(status)), {category: 'unknown_user', suppresses: true});
	t.like(readOne(dsnOf(status.replace('550 sorry', '550 5.7.1 blocked using spamhaus'))), {category: 'block'});
});

test('finds the recipient in the diagnostic or the returned message if the status names none', t => {
	const nameless = 'Action: failed\nStatus: 5.1.1\n';
	const raw = (diagnostic: string, to: string) =>
		multipartOf({
			parts: [
				`Content-Type: message/delivery-status\n\n${nameless}${diagnostic}`,
				`Content-Type: message/rfc822\n\nTo: ${to}\n\ntext`,
			],
		});
	t.is(
		readOne(raw('Diagnostic-Code: smtp; 550 5.1.1 <neko@mx.example>: unknown\n', 'tora@mx.example')).recipient,
		'neko@mx.example',
	);
	t.is(readOne(raw('', 'tora@mx.example')).recipient, 'tora@mx.example');
	t.is(readOne(raw('', 'tora@mx.example, mike@mx.example')).recipient, null);
});

test('ignores a delivery status after the returned message', t => {
	const other = 'Final-Recipient: rfc822; tora@mx.example\nAction: failed\nStatus: 5.2.2\n';
	const [first, second] = [`${reporting}${failed}Status: 5.1.1\n`, other].map(
		text => `Content-Type: message/delivery-status\n\n${text}`,
	) as [string, string];
	const returned = 'Content-Type: message/rfc822\n\nSubject: x\n\ntext';
	t.is(readOne(multipartOf({parts: [first, returned, second]})).recipient, 'neko@mx.example');
	t.is(readOne(multipartOf({parts: [returned, second]})).recipient, 'tora@mx.example');
});

const attachedDsn = dsnOf(`Original-Message-ID: <m1@shop.example>\n${reporting}${failed}Status: 5.1.1\n`)
	.toString('latin1')
	.replaceAll('\r\n', '\n');
const note = 'Content-Type: text/plain\n\nFor you.';
const file = `Content-Type: application/octet-stream; name=b.eml\nContent-Transfer-Encoding: base64\n\n${Buffer.from(attachedDsn).toString('base64')}`;
const attached = `Content-Type: message/rfc822\n\n${attachedDsn}`;

function forwardedOf(subject: string, ...parts: readonly string[]): Buffer {
	const body = parts.flatMap(part => ['--outer', part]);
	const header = ['From: Ada <ada@shop.example>', 'To: b1@shop.example', `Subject: ${subject}`];
	return mailOf(...header, 'Content-Type: multipart/mixed; boundary=outer', '', ...body, '--outer--');
}

for (const [name, parts] of [
	['alone', [attached]],
	['with a note', [note, attached]],
	['with a footer', [note, attached, note]],
	['as a file', [note, file]],
	[
		'again',
		[
			note,
			`Content-Type: message/rfc822\n\n${forwardedOf('x', note, attached).toString('latin1').replaceAll('outer', 'middle')}`,
		],
	],
] as const) {
	test(`reads a report that was forwarded as an attachment, ${name}`, t => {
		const reading = read(forwardedOf('Fwd: Undelivered Mail', ...parts));
		t.like(reading, {kind: 'dsn', forwarded: true, reports: [{recipient: 'neko@mx.example', action: 'failed'}]});
		t.deepEqual(reading.clues.addressees, [], 'to whom the mail came says nothing of the report');
	});
}

test('reads a forwarded DSN in plain text and a forwarded complaint in a file', t => {
	const asText = `Content-Type: text/plain\n\n${attachedDsn}`;
	t.like(read(forwardedOf('Fwd: Undelivered Mail', note, asText)), {kind: 'dsn', forwarded: true});
	const complaint = multipartOf({
		type: 'multipart/report; report-type=feedback-report',
		parts: [
			'Content-Type: message/feedback-report\n\nFeedback-Type: abuse\nUser-Agent: Some/1.0\nVersion: 1\n',
			'Content-Type: message/rfc822\n\nFrom: b1@shop.example\nTo: neko@mx.example\nMessage-ID: <1@shop.example>\nSubject: Sale\n\ntext\n',
		],
	}).toString('latin1');
	const asFile = `Content-Type: application/octet-stream; name=c.eml\n\n${complaint}`;
	t.like(read(forwardedOf('Fwd: Complaint', note, asFile)), {kind: 'arf', forwarded: true});
});

test('ignores two attached reports, a report without clues, and other attached messages', t => {
	t.like(read(forwardedOf('Fwd: Undelivered Mail', note, attached, attached)), {kind: 'other', reports: []});
	const letter =
		'Content-Type: message/rfc822\n\nFrom: a@b.example\nSubject: Hi\n\n550 5.1.1 <neko@mx.example> user unknown';
	t.like(read(forwardedOf('Fwd: Undelivered Mail', note, letter)), {kind: 'other', reports: []});
});

const ann = 'ann@example.com';
const ben = 'ben@example.com';
/** How mail systems list two recipients with a reply each and no blank line in between. */
const listings: Readonly<Record<string, (replies: readonly [string, string]) => string>> = {
	exim: ([one, other]) =>
		`A message that you sent could not be delivered to one or more of its recipients. The following address(es) failed:\n\n  ${ann}\n    host mx.example.com [192.0.2.1]\n    SMTP error from remote mail server after RCPT TO:<${ann}>:\n    ${one}\n  ${ben}\n    ${other}`,
	sendmail: ([one, other]) =>
		`   ----- The following addresses had permanent fatal errors -----\n<${ann}>\n    (reason: ${one})\n<${ben}>\n    (reason: ${other})\n\n   ----- Transcript of session follows -----\n... while talking to mx.example.com.:\n>>> RCPT To:<${ann}>\n<<< ${one}\n550 5.0.0 <${ann}>... ${one}\n>>> RCPT To:<${ben}>\n<<< ${other}\n550 5.0.0 <${ben}>... ${other}`,
	opensmtpd: ([one, other]) =>
		`    Hi!\n\n    This is the MAILER-DAEMON, please DO NOT REPLY to this email.\n\n    An error has occurred while attempting to deliver a message for\n    the following list of recipients:\n\n${ann}: ${one}\n${ben}: ${other}`,
	'on one line': ([one, other]) => `${ann}: ${one}; ${ben}: ${other}`,
	'in one sentence': ([one, other]) => `Delivery to <${ann}> failed: ${one}; delivery to <${ben}> failed: ${other}`,
	'reasons ahead': ([one, other]) => `${one}: <${ann}>; ${other}: <${ben}>`,
	'reasons above': ([one, other]) => `${one}:\n  ${ann}\n${other}:\n  ${ben}`,
	sentences: ([one, other]) =>
		`Delivery to ${ann} failed with this reply: ${one}\nDelivery to ${ben} failed with this reply: ${other}`,
};
const unknown = '550 5.1.1 User unknown';
for (const [system, listing] of Object.entries(listings)) {
	for (const said of ['552 message too big', 'message too big', '550 not today', 'retry timeout exceeded']) {
		for (const hasDiagnostics of [true, false]) {
			const replies = [
				[unknown, said],
				[said, unknown],
			] as const;
			for (const pair of replies) {
				test(`${system}, ${hasDiagnostics ? 'with' : 'without'} diagnostics: ${pair.join(', then ')}`, t => {
					const blocks = [ann, ben].map((address, at) => {
						const diagnostic = hasDiagnostics ? `Diagnostic-Code: smtp; ${pair[at]}\n` : '';
						return `Final-Recipient: rfc822; ${address}\nAction: failed\nStatus: 5.0.0\n${diagnostic}`;
					});
					const {reports} = read(dsnOf(`${reporting}${blocks.join('\n')}`, listing(pair)));
					t.deepEqual(
						reports.map(({recipient, suppresses}) => [recipient, suppresses]),
						[ann, ben].map((address, at) => [address, pair[at] === unknown]),
					);
				});
			}
		}
	}
}

test('prefers a recipient’s own reply to text about two recipients', t => {
	const blocks = [
		`Final-Recipient: rfc822; ${ann}\nAction: failed\nStatus: 5.0.0\nDiagnostic-Code: smtp; ${unknown}\n`,
		`Final-Recipient: rfc822; ${ben}\nAction: failed\nStatus: 5.0.0\nDiagnostic-Code: smtp; 550 not today\n`,
	].join('\n');
	const {reports} = read(dsnOf(`${reporting}${blocks}`, `Failed:\n\n<${ben}>\n<${ann}>\n    ${unknown}`));
	t.deepEqual(
		reports.map(({category}) => category),
		['unknown_user', 'undetermined'],
	);
});

test('applies a reason to both recipients on the same line', t => {
	const blocks = [ann, ben].map(address => `Final-Recipient: rfc822; ${address}\nAction: failed\nStatus: 5.0.0\n`);
	for (const text of [
		`${ann}, ${ben}: ${unknown}`,
		`User unknown: <${ann}> and <${ben}>`,
		`To: ${ann}, ${ben}\n${unknown}`,
	]) {
		const {reports} = read(dsnOf(`${reporting}${blocks.join('\n')}`, text));
		t.deepEqual(
			reports.map(({category}) => category),
			['unknown_user', 'unknown_user'],
			text,
		);
	}
});

test('suppresses against a reply by fields of the report, but not by text around several recipients', t => {
	const blocks = [
		`Final-Recipient: rfc822; ${ann}\nAction: failed\nStatus: 5.0.0\nDiagnostic-Code: smtp; ${unknown}\n`,
		`Final-Recipient: rfc822; ${ben}\nAction: failed\nStatus: 5.0.0\nDiagnostic-Code: smtp; 550 not today\n`,
	];
	const text = `The mail to ${ann} came back, that to ${ben}, too:\n${unknown}`;
	const categories = (status: string) => read(dsnOf(`${reporting}${status}`, text)).reports.map(one => one.category);
	t.deepEqual(categories(blocks.join('\n')), ['unknown_user', 'undetermined']);
	t.deepEqual(categories(`${blocks.join('\n')}X-PowerMTA-BounceCategory: bad-mailbox\n`), [
		'unknown_user',
		'unknown_user',
	]);
});

for (const [said, category] of [
	['550 5.7.1 Message rejected as spam', 'spam_content'],
	['550 not today', 'undetermined'],
	['550 Callout verification failed: Quota exceeded', 'mailbox_full'],
	[unknown, 'unknown_user'],
] as const) {
	for (const introduced of [`\n    ${said}`, ` host mx.example [192.0.2.1]: ${said}`]) {
		test(`does not take the text Exim writes before a reply for the reply:${introduced}`, t => {
			const text = `A message that you sent could not be delivered to one or more of its recipients. The following address(es) failed:\n\n  neko@mx.example\n    host mx.example [192.0.2.1]\n    SMTP error from remote mail server after RCPT TO:<neko@mx.example>:${introduced}`;
			t.is(readOne(dsnOf(`${reporting}${failed}Status: 5.0.0\n`, text)).category, category);
			const bounce = mailOf('From: MAILER-DAEMON@out.example', 'Subject: Mail delivery failed', '', text);
			t.like(read(bounce), {kind: 'text', reports: [{recipient: 'neko@mx.example', category}]});
		});
	}
}

test('does not apply the reason for a longer address to an address it ends with', t => {
	const status = `${reporting}Final-Recipient: rfc822; ${ann}\nAction: failed\nStatus: 5.0.0\n\nFinal-Recipient: rfc822; jo${ann}\nAction: failed\nStatus: 5.0.0\n`;
	const {reports} = read(dsnOf(status, `<${ann}>: 550 not today\n\n<jo${ann}>: ${unknown}`));
	t.deepEqual(
		reports.map(({category}) => category),
		['undetermined', 'unknown_user'],
	);
});

for (const [field, address] of [
	['rfc822; =neko@example.com', '=neko@example.com'],
	["rfc822; 'neko@example.com", "'neko@example.com"],
	["rfc822; 'neko@example.com'", 'neko@example.com'],
	['rfc822; neko_@example.com', 'neko_@example.com'],
	['utf-8; 🐱@example.com', '🐱@example.com'],
	['utf-8; ねこ1@猫cafe.example', 'ねこ1@猫cafe.example'],
] as const) {
	test(`Final-Recipient: ${field}`, t => {
		const status = `${reporting}Final-Recipient: ${field}\nAction: failed\nStatus: 5.1.1\n`;
		t.is(readOne(dsnOf(status)).recipient, address);
	});
}

test('completes a bare local part from the recipients of the returned message', t => {
	const blocks = ['rfc822; ann', 'local; <\\ben>', 'rfc822; cem'].map(
		field => `Final-Recipient: ${field}\nAction: failed\nStatus: 5.1.1\n`,
	);
	const returned = `To: Ann <Ann@example.com>, ${ben}\nCc: cem@a.example, cem@b.example\nSubject: hi\n\nhi\n`;
	const mail = multipartOf({
		parts: [
			`Content-Type: message/delivery-status\n\n${reporting}${blocks.join('\n')}\n`,
			`Content-Type: message/rfc822\n\n${returned}`,
		],
	});
	t.deepEqual(
		read(mail).reports.map(({recipient}) => recipient),
		['Ann@example.com', ben, null],
		'two have the last name',
	);
});
