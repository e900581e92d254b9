import test from 'ava';
import {read} from '../../../helpers/report-mails.ts';
import {type Header, linesOf, mailOf} from './bounces.ts';

const back =
	'Return-Path: <b0sender@bounce.example.com>\nReceived: by mx.example.org\nFrom: shop@example.com\nTo: neko@example.org\nSubject: Hello\n\nuser unknown\n';

const others: ReadonlyArray<readonly [string, Header, string, string[]]> = [
	[
		'Notes, whose reasons stand first',
		{Subject: 'Undeliverable message'},
		`------- Failure Reasons  --------

550 5.1.1 User not listed in public Name & Address Book
neko@example.org

552 5.2.2 Mailbox full
inu@example.org

------- Returned Message --------
`,
		['neko@example.org failed 550 5.1.1', 'inu@example.org failed 552 5.2.2'],
	],
	[
		'Sendmail of old, which names a host and a local part',
		{Subject: 'Returned mail: Host unknown'},
		`   ----- Transcript of session follows -----
421 example.net (smtp)... Deferred: Connection timed out during user open with example.net
550 neko... User unknown

   ----- Unsent message follows -----
Received: by mx.example.org
From: shop@example.com
To: inu@example.net, neko@example.org
Subject: Hello
`,
		['inu@example.net failed 421', 'neko@example.org failed 550'],
	],
	[
		'Sendmail, of a program to which an alias leads',
		{Subject: 'Returned mail: see transcript for details'},
		`   ----- The following addresses had permanent fatal errors -----
"|exit 67"
    (reason: User unknown)
    (expanded from: <neko@example.org>)

   ----- Transcript of session follows -----
550 5.1.1 "|exit 67"... User unknown
`,
		['neko@example.org failed 550 5.1.1'],
	],
	[
		'1&1',
		{
			Subject: 'Mail delivery failed: returning message to sender',
			From: 'Mail Delivery System <mailer-daemon@kundenserver.de>',
		},
		`This message was created automatically by mail delivery software.

A message that you have sent could not be delivered to one or more of
its recipients. This is a permanent error. The following address failed:

  neko@example.org

For the following reason:

552 5.2.3 Mail size limit exceeded. For explanation visit
http://postmaster.1and1.com/en/error-messages

--- The header of the original message is following. ---
`,
		['neko@example.org failed 552 5.2.3'],
	],
	[
		'Post.Office',
		{From: 'Mail Administrator <Postmaster@example.org>', Subject: 'Mail System Error - Returned Mail'},
		`This Message was undeliverable due to the following reason:

Each of the following recipients was rejected by a remote mail server.
The reasons given by the server are included to help you determine why
each recipient was rejected.

    Recipient: <neko@example.org>
    Reason:    550 5.1.1 user unknown

    Recipient: <inu@example.org>
    Reason:    552 5.2.2 mailbox full

Please reply to <Postmaster@example.org>
if you feel this message to be in error.
`,
		['neko@example.org failed 550 5.1.1', 'inu@example.org failed 552 5.2.2'],
	],
	[
		'vtext',
		{From: 'post_master@vtext.com', Subject: 'Undeliverable Message'},
		`Error:
  550 - Requested action not taken: no such user here

Message details:
  Subject: Hello
  MAIL FROM: b0sender@bounce.example.com
  RCPT TO: 5550100@vtext.com
`,
		['5550100@vtext.com failed 550'],
	],
	[
		'ActiveHunter',
		{Subject: 'FAILURE NOTICE :'},
		`Sorry, your message could not be delivered.

  ----- The following addresses had permanent fatal errors -----

>>> neko@example.org <neko@example.org>

  ----- Transcript of session follows -----
550 sorry, no mailbox here by that name (#5.1.1 - chkusr)

  ----- Message header follows -----

${back}`,
		['neko@example.org failed 550 5.1.1'],
	],
	[
		'Biglobe',
		{From: 'postmaster@biglobe.ne.jp', Subject: 'Returned mail'},
		`   ----- The following addresses had delivery problems -----
neko@example.org

   ----- Non-delivered information -----
The number of messages in recipient's mailbox exceeded the local limit.

   ----- The original message follows -----
${back}`,
		['neko@example.org failed'],
	],
	[
		'InterMail: the reason stands above',
		{From: 'Mail Administrator <Postmaster@example.org>', Subject: 'Mail System Error - Returned Mail'},
		`This Message was undeliverable due to the following reason:

The user(s) account is temporarily over quota.

<neko@example.org>

Please reply to <Postmaster@example.org>
if you feel this message to be in error.
`,
		['neko@example.org failed'],
	],
	[
		'X1',
		{From: '"Mail Deliver System" <MAILER-DAEMON@example.org>', Subject: 'Returned Mail: Hello'},
		`The original message was received at Thu, 29 Apr 2010 23:34:45 +0900
from b0sender@bounce.example.com

---The following addresses had delivery errors---

neko@example.org [User unknown]

`,
		['neko@example.org failed'],
	],
	[
		'a gateway that quotes the reply',
		{Subject: 'There was an error sending your mail'},
		`We had trouble delivering your message. Full details follow:

Subject: 'Hello'
Date: 'Thu, 29 Apr 2012 23:34:45 +0000'

1 error(s):

SMTP Server <mx.example.org> rejected recipient <neko@example.org>
  (Error following RCPT command). It responded as follows: [550 5.1.1 User unknown]

`,
		['neko@example.org failed 550 5.1.1 rcpt mx.example.org'],
	],
	[
		'MailFoundry',
		{Subject: 'Message delivery has failed'},
		`Unable to deliver message to: <neko@example.org>
Delivery failed for the following reason:
Server mx.example.org[192.0.2.222] failed with: 550 <neko@example.org> No such user here

This has been a permanent failure.  No further delivery attempts will be made.

This is a copy of the message below this line:

${back}`,
		['neko@example.org failed 550 - - mx.example.org'],
	],
	[
		'InterScan',
		{From: 'InterScan MSS <imss@example.org>', Subject: 'Mail could not be delivered'},
		`Sent >>> RCPT TO:<neko@example.org>
Received <<< 550 5.1.1 <neko@example.org>... user unknown

Unable to deliver message to <neko@example.org>.
`,
		['neko@example.org failed 550 5.1.1 rcpt'],
	],
	[
		'SurfControl',
		{From: 'Mail Delivery System <mailer-daemon@example.org>', Subject: 'Message could not be delivered'},
		`Your message could not be sent.
A transcript of the attempts to send the message follows.
The number of attempts made: 1
Addressed To: neko@example.org

Thu 29 Apr 2010 23:34:45 +0900
Failed to send to identified host,
neko@example.org: [192.0.2.5], 550 neko@example.org... No such user

--- Message non-deliverable.
`,
		['neko@example.org failed 550'],
	],
	[
		'GroupWise',
		{From: 'Mailer-Daemon@example.org', Subject: 'Message status - undeliverable'},
		`The message that you sent was undeliverable to the following:

	neko@example.org (user not found)

`,
		['neko@example.org failed'],
	],
	[
		'Smail',
		{Subject: 'mail failed, returning to sender'},
		`|------------------------- Message log follows: -------------------------|
 no valid recipients were found for this message
|------------------------- Failed addresses follow: ---------------------|
 <neko@example.org> ... transport smtp: 550 <neko@example.org>... User unknown
|------------------------- Message text follows: ------------------------|
${back}`,
		['neko@example.org failed 550'],
	],
	[
		'MDaemon',
		{From: 'MDaemon@example.org', Subject: 'Permanent Delivery Failure'},
		`The attached message had PERMANENT fatal delivery errors!

After one or more unsuccessful delivery attempts the attached message has
been removed from the mail queue on this server.

Failed address: neko@example.org

--- Session Transcript ---
 Mon 2024-04-29 10:00:00: <-- 550 5.1.1 <neko@example.org> User unknown
--- End Transcript ---
`,
		['neko@example.org failed 550 5.1.1'],
	],
	[
		'IceWarp',
		{Subject: 'Undelivered Mail'},
		`Message <abc@example.com> was undeliverable to the following recipient(s).

    <neko@example.org>
        550 5.1.1 unknown user
`,
		['neko@example.org failed 550 5.1.1'],
	],
	[
		'Kerio',
		{From: 'Mail Delivery Subsystem <>', Subject: 'Undeliverable: Hello'},
		`Your message could not be delivered to the following recipients:

neko@example.org: 550 5.1.1 User unknown
`,
		['neko@example.org failed 550 5.1.1'],
	],
	[
		"Microsoft's SMTP service",
		{From: 'postmaster@example.org', Subject: 'Delivery Status Notification (Failure)'},
		`This is an automatically generated Delivery Status Notification.

Delivery to the following recipients failed.

       neko@example.org

`,
		['neko@example.org failed'],
	],
	[
		'PowerMTA',
		{From: 'Mail Delivery System <postmaster@example.org>', Subject: 'Delivery report'},
		`Hello, this is the mail server on mx.example.org.

I am sending you this message to inform you on the delivery status of a
message you previously sent.  Immediately below you will find a list of
the affected recipients;  also attached is a Delivery Status Notification
(DSN) report in standard format, as well as the headers of the original
message.

  <neko@example.org>   delivery failed; will not continue trying
`,
		['neko@example.org failed'],
	],
	[
		'vzwpix',
		{From: 'sysadmin@vzwpix.com', Subject: 'Undeliverable Message'},
		`Message could not be delivered to mobile.

Error: No valid recipients for this MM

  Message: 1
  From: b0sender@bounce.example.com
  To: 5550100@vzwpix.com
  Subject: Hello
`,
		['5550100@vzwpix.com failed'],
	],
	[
		'docomo',
		{From: 'mail-master@docomo.ne.jp', Subject: 'Undeliverable: your message'},
		`The following recipients were not reachable.

 neko@docomo.ne.jp: 550 Unknown user neko@docomo.ne.jp

Original message follows.

${back}`,
		['neko@docomo.ne.jp failed 550'],
	],
	[
		'in Japanese',
		{
			From: 'postmaster@example.jp',
			Subject: '=?ISO-2022-JP?B?GyRCRTY/LiUoJWkhPBsoQg==?=',
			'Content-Type': 'text/plain; charset=utf-8',
		},
		`次のあて先へのメッセージはエラーのため送信できませんでした。

neko@example.jp
  550 5.1.1 User unknown
`,
		['neko@example.jp failed 550 5.1.1'],
	],
	[
		'in German',
		{
			From: 'Mail-Server <postmaster@example.de>',
			Subject: 'Unzustellbar: Hallo',
			'Content-Type': 'text/plain; charset=utf-8',
		},
		`Ihre Nachricht konnte nicht zugestellt werden.

Empfänger: neko@example.de
Grund: Benutzer unbekannt
`,
		['neko@example.de failed'],
	],
	[
		'in French',
		{From: 'postmaster@example.fr', Subject: 'Message non remis', 'Content-Type': 'text/plain; charset=iso-8859-1'},
		`Votre message n'a pas pu etre remis au destinataire <neko@example.fr> : utilisateur inconnu.
`,
		['neko@example.fr failed'],
	],
	[
		'in Spanish',
		{
			From: 'MAILER-DAEMON@example.es',
			Subject: 'Mensaje no entregado',
			'Content-Type': 'text/plain; charset=utf-8',
		},
		`Su mensaje no pudo ser entregado a los siguientes destinatarios:

neko@example.es
  El usuario no existe
`,
		['neko@example.es failed'],
	],
	[
		'HTML alone',
		{From: 'postmaster@example.org', Subject: 'Undeliverable: Hello', 'Content-Type': 'text/html; charset=utf-8'},
		`<html><head><style>p {}</style></head><body><p>Delivery has failed to these recipients or groups:</p>
<p><a href="mailto:neko@example.org">neko@example.org</a><br>The e-mail address could not be found.</p>
<p>Diagnostic information for administrators:</p><p>Generating server: ex.example.org</p>
<p>neko@example.org<br>#&lt;ex.example.org #5.1.1 smtp;550 5.1.1 RESOLVER.ADR.RecipNotFound; not found&gt; #SMTP#</p>
<p>Original message headers:</p><pre>${back}</pre></body></html>`,
		['neko@example.org failed 550 5.1.1'],
	],
	[
		'a filter that only says what it thinks, and gives the mail back',
		{Subject: 'Delivery Status Notification (Failure)'},
		`Spam detected

--- Below this line is a copy of the message.

${back}`,
		['neko@example.org failed'],
	],
	[
		'the content filter Amavis',
		{
			From: '"Content-filter at av.example.org" <postmaster@av.example.org>',
			Subject: 'Considered UNSOLICITED BULK EMAIL, apparently from you',
		},
		`A message from <b0sender@bounce.example.com> to:
-> neko@example.org

was considered unsolicited bulk e-mail (UBE).

Delivery of the email was stopped!
`,
		['neko@example.org failed'],
	],
	[
		'fml',
		{
			From: 'cats-admin@example.org',
			Subject: 'NOT MEMBER article from shop@example.com (cats ML)',
			'X-MLServer': 'fml [fml 4.0.3]',
		},
		`Hi, I am the fml ML manager for the ML <cats@example.org>.

Sorry, your mail to <cats@example.org> is rejected
since you are not a member of this mailing list.
`,
		['cats@example.org failed'],
	],
	[
		'what arrived',
		{From: 'postmaster@example.org', Subject: 'Delivery Status Notification (Success)'},
		`Your message was successfully delivered to the following recipients:

neko@example.org
`,
		['neko@example.org delivered'],
	],
	[
		'several recipients on one line',
		{Subject: 'Undeliverable mail'},
		`Your message could not be delivered to the following addresses:

neko@example.org, inu@example.org

550 5.1.1 no such users
`,
		['neko@example.org failed 550 5.1.1', 'inu@example.org failed 550 5.1.1'],
	],
];

for (const [family, header, text, expected] of others) {
	test(`readText: ${family}`, t => {
		t.deepEqual(
			linesOf(header, text).map(line => line.replace(/( -)+$/, '')),
			expected,
		);
	});
}

const office = {From: 'postmaster@mx.example', Subject: 'Mail', 'Return-Path': '<>'};

for (const [header, text] of [
	[{}, 'The mailbox of neko@mx.example is full.'],
	[{}, 'The user <neko@mx.example> has exceeded their quota.'],
	[{'Return-Path': ''}, 'Sorry, neko@mx.example: mailbox full'],
	[{From: 'MAILER-DAEMON@mx.example'}, 'No space is left in the mailbox of neko@mx.example.'],
	[{Subject: 'Mailbox of neko@mx.example is full'}, ''],
	[{From: 'no-reply@mx.example'}, 'Inbox of neko@mx.example is over quota.'],
	[{}, 'Das Postfach von neko@mx.example ist voll.'],
	[{}, 'La boîte de neko@mx.example est pleine.'],
	[{}, 'Почтовый ящик neko@mx.example переполнен.'],
	[{}, 'メールボックス neko@mx.example がいっぱいです。'],
] as const) {
	test(`a letter of a sentence about a mailbox that is full: ${text || 'the subject'}`, t => {
		const {kind, reports} = read(mailOf({...office, ...header}, text));
		t.is(kind, 'text');
		t.like(reports, [
			{recipient: 'neko@mx.example', action: 'failed', category: 'mailbox_full', suppresses: false},
		]);
	});
}

for (const [words, category] of [
	['The mailbox is full. (#5.1.1)', 'mailbox_full'],
	['Your IP is blocked here. (#5.1.1 - chkuser)', 'block'],
	['Sorry, temporarily disabled. (#5.1.1)', 'undetermined'],
	['Sorry, it looks like spam.\n(#5.1.1)', 'spam_content'],
	['Sorry, no mailbox here by that name. (#5.1.1)', 'unknown_user'],
] as const) {
	test(`qmail puts the code behind the words: ${words}`, t => {
		const text = `Hi. This is the qmail-send program at mx.example.\n\n<neko@mx.example>:\n${words}\n`;
		t.like(read(mailOf({Subject: 'failure notice'}, text)).reports, [{recipient: 'neko@mx.example', category}]);
	});
}

for (const [text, category] of [
	['<neko@mx.example>:\nSorry, no mailbox here by that name. (#5.1.1)', 'unknown_user'],
	['neko@mx.example [Inactive account]', 'disabled'],
	['neko@mx.example; Failed; 5.1.1 (bad destination mailbox address)', 'unknown_user'],
	['<neko@mx.example>:\nThis address no longer accepts mail.', 'disabled'],
	['<neko@mx.example>:\nYour host is listed at bl.example.', 'block'],
] as const) {
	test(`a daemon’s letter that the rules know: ${text}`, t => {
		const header = {From: 'MAILER-DAEMON@mx.example', Subject: 'Returned mail', 'Return-Path': '<>'};
		t.like(read(mailOf(header, text)).reports, [{recipient: 'neko@mx.example', action: 'failed', category}]);
		const ada = {...header, From: 'Ada <ada@mx.example>', 'Return-Path': '<ada@mx.example>'};
		t.is(read(mailOf(ada, text)).kind, 'other');
	});
}

for (const [header, text] of [
	[{}, 'Your mailbox neko@mx.example is full.'],
	[{}, 'Ihr Postfach neko@mx.example ist voll.'],
	[{}, 'The mailbox of neko@mx.example is 95 % full.'],
	[{}, 'The mailbox of neko@mx.example is almost full.'],
	[{Subject: 'Re: Mail'}, 'The mailbox of neko@mx.example is full.'],
	[{'Return-Path': '<ada@mx.example>'}, 'The mailbox of neko@mx.example is full.'],
	[{From: 'Ada <ada@mx.example>'}, 'The mailbox of neko@mx.example is full.'],
	[{'List-Id': '<news.mx.example>'}, 'The mailbox of neko@mx.example is full.'],
] as const) {
	test(`no bounce, of ${JSON.stringify(header)}: ${text}`, t => {
		t.like(read(mailOf({...office, ...header}, text)), {kind: 'other', reports: []});
	});
}
