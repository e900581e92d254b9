import test from 'ava';
import {type Header, linesOf} from './text/bounces.ts';

const back =
	'Return-Path: <b0sender@bounce.example.com>\nReceived: by mx.example.org\nTo: other@example.net\nSubject: Hello\n\nuser unknown\n';

const families: ReadonlyArray<readonly [string, Header, string, string[]]> = [
	[
		'Exim',
		{'X-Failed-Recipients': 'neko@example.org, inu@example.org', 'Auto-Submitted': 'auto-replied'},
		`This message was created automatically by mail delivery software.

A message that you sent could not be delivered to one or more of its
recipients. This is a permanent error. The following address(es) failed:

  neko@example.org
    (ultimately generated from all@example.net)
    host mx.example.org [192.0.2.20]
    SMTP error from remote mail server after RCPT TO:<neko@example.org>:
    550 5.1.1 <neko@example.org>... User unknown
  inu@example.org
    SMTP error from remote mail server after end of data:
    host mx.example.org [192.0.2.20]: 552 5.2.2 mailbox full

------ This is a copy of the message, including all the headers. ------

${back}`,
		[
			'neko@example.org failed 550 5.1.1 rcpt mx.example.org for all@example.net',
			'inu@example.org failed 552 5.2.2 dot mx.example.org',
		],
	],
	[
		'Exim, without its field',
		{},
		`This message was created automatically by mail delivery software.

A message that you sent could not be delivered to one or more of its
recipients. This is a permanent error. The following address(es) failed:

  neko@example.org
    Unrouteable address

------ This is a copy of the message, including all the headers. ------

${back}`,
		['neko@example.org failed'],
	],
	[
		'several recipients on one line',
		{'Auto-Submitted': 'auto-replied'},
		`Your message could not be delivered.

neko@example.org: 550 not today; <inu@example.org>: 550 5.1.1 User unknown, tora@example.org 552 5.2.2 mailbox full

${back}`,
		['neko@example.org failed 550', 'inu@example.org failed 550 5.1.1', 'tora@example.org failed 552 5.2.2'],
	],
	[
		'reasons above their recipients',
		{'Auto-Submitted': 'auto-replied'},
		`Your message could not be delivered.

550 5.1.1 User unknown:
  neko@example.org
552 5.2.2 mailbox full:
  inu@example.org
`,
		['neko@example.org failed 550 5.1.1', 'inu@example.org failed 552 5.2.2'],
	],
	[
		'Exim, delayed',
		{Subject: 'Warning: message 1kXYZ delayed 24 hours'},
		`This message was created automatically by mail delivery software.
A message that you sent has not yet been delivered to one or more of its
recipients after more than 24 hours on the queue on mail.example.org.

The message identifier is:     1kXYZ
The subject of the message is: Hello

The address to which the message has not yet been delivered is:

  neko@example.org
    host mx.example.org [192.0.2.20]
    Delay reason: SMTP error from remote mail server after initial connection:
    421 too many connections

No action is required on your part. Delivery attempts will continue for
some time, and this warning may be repeated at intervals.
`,
		['neko@example.org delayed 421 - - mx.example.org'],
	],
	[
		'GMX, 1&1',
		{Subject: 'Mail delivery failed: returning message to sender'},
		`This message was created automatically by mail delivery software.

A message that you sent could not be delivered to
one or more of its recipients. This is a permanent error. The following address
failed:

"neko@example.org":
SMTP error from remote server after RCPT command:
host: mx.example.org
5.1.1 <neko@example.org>... User Unknown


"inu@example.org":
SMTP error from remote server after RCPT command:
host: mx.example.org
5.2.2 <inu@example.org>... Mailbox Full

--- The header of the original message is following. ---

${back}`,
		['neko@example.org failed - 5.1.1 rcpt mx.example.org', 'inu@example.org failed - 5.2.2 rcpt mx.example.org'],
	],
	[
		'Gmail of old',
		{Subject: 'Delivery Status Notification (Failure)', 'X-Failed-Recipients': 'neko@example.org'},
		`Delivery to the following recipient failed permanently:

     neko@example.org

Technical details of permanent failure:
Google tried to deliver your message, but it was rejected by the server for the recipient domain example.org by mx.example.org. [192.0.2.153].

The error that the other server returned was:
550 5.1.1 <neko@example.org>... User Unknown

----- Original message -----

${back}`,
		['neko@example.org failed 550 5.1.1 - mx.example.org'],
	],
	[
		'Gmail, delayed',
		{Subject: 'Delivery Status Notification (Delay)', 'X-Failed-Recipients': 'neko@example.org'},
		`This is an automatically generated Delivery Status Notification

THIS IS A WARNING MESSAGE ONLY.

YOU DO NOT NEED TO RESEND YOUR MESSAGE.

Delivery to the following recipient has been delayed:

     neko@example.org

Message will be retried for 2 more day(s)

----- Original message -----

${back}`,
		['neko@example.org delayed'],
	],
	[
		'Gmail, incomplete',
		{
			From: 'Mail Delivery Subsystem <mailer-daemon@googlemail.com>',
			Subject: 'Delivery Status Notification (Delay)',
		},
		`** Delivery incomplete **

There was a temporary problem delivering your message to neko@example.org. Gmail will retry for 47 more hours. You'll be notified if the delivery fails permanently.

The response was:

The recipient server did not accept our requests to connect.
`,
		['neko@example.org delayed'],
	],
	[
		'Gmail, address not found',
		{
			From: 'Mail Delivery Subsystem <mailer-daemon@googlemail.com>',
			Subject: 'Delivery Status Notification (Failure)',
		},
		`** Address not found **

Your message wasn't delivered to neko@example.org because the address couldn't be found, or is unable to receive mail.

The response from the remote server was:

550 5.1.1 The email account that you tried to reach does not exist.
`,
		['neko@example.org failed 550 5.1.1'],
	],
	[
		'qmail',
		{Subject: 'failure notice', 'Return-Path': '<>'},
		`Hi. This is the qmail-send program at mx.example.net.
I'm afraid I wasn't able to deliver your message to the following addresses.
This is a permanent error; I've given up. Sorry it didn't work out.

<neko@example.org>:
192.0.2.15 does not like recipient.
Remote host said: 550 5.1.1 User unknown
Giving up on 192.0.2.15.

<inu@example.org>:
192.0.2.15 failed after I sent the message.
Remote host said: 554 5.7.1 Rejected as spam

--- Below this line is a copy of the message.

${back}`,
		['neko@example.org failed 550 5.1.1 rcpt 192.0.2.15', 'inu@example.org failed 554 5.7.1 dot 192.0.2.15'],
	],
	[
		'Yahoo!',
		{Subject: 'Failure Notice'},
		`Sorry, we were unable to deliver your message to the following address.

<neko@example.org>:
Remote host said: 550 5.1.1 <neko@example.org>... User Unknown [RCPT_TO]

--- Below this line is a copy of the message.

${back}`,
		['neko@example.org failed 550 5.1.1 rcpt'],
	],
	[
		'DragonFly',
		{From: 'MAILER-DAEMON <>', Subject: 'Mail delivery failed'},
		`This is the DragonFly Mail Agent v0.13 at df.example.net.

There was an error delivering your mail to <neko@example.org>.

mx.example.org [192.0.2.27] did not like our RCPT TO:
550 5.1.1 <neko@example.org>: Recipient address rejected: User unknown

Message headers follow.

${back}`,
		['neko@example.org failed 550 5.1.1 rcpt mx.example.org'],
	],
	[
		'Exchange 5.5',
		{From: 'System Administrator <postmaster@example.org>', Subject: 'Undeliverable: Hello'},
		`Your message

  To:      neko@example.org
  Subject: Hello
  Sent:    Thu, 29 Apr 2010 23:34:45 +0900

did not reach the following recipient(s):

neko@example.org on Thu, 29 Apr 2010 23:34:45 +0900
    The recipient name is not recognized
	The MTS-ID of the original message is: c=jp;a= ;p=example;l=EXCHANGE000000
    MSEXCH:IMS:EXAMPLE:MAIL:EX 0 (000C05A6) Unknown Recipient
`,
		['neko@example.org failed'],
	],
	[
		'Exchange 2007',
		{From: 'postmaster@example.org', Subject: 'Undeliverable: Hello'},
		`Delivery has failed to these recipients or distribution lists:

neko@example.org<mailto:neko@example.org>
The recipient's e-mail address was not found in the recipient's e-mail system.

Sent by Microsoft Exchange Server 2007

Diagnostic information for administrators:

Generating server: ex.example.org

neko@example.org
#550 5.1.1 RESOLVER.ADR.RecipNotFound; not found ##

inu@example.org
mx.example.org #<mx.example.org #5.2.2 smtp;552 5.2.2 mailbox full> #SMTP#

Original message headers:

${back}`,
		['neko@example.org failed 550 5.1.1', 'inu@example.org failed 552 5.2.2'],
	],
	[
		'Exchange in French',
		{From: 'postmaster@example.org', Subject: 'Non remis : Bonjour', 'Content-Type': 'text/plain; charset=utf-8'},
		`Échec de la remise pour ces destinataires ou groupes :

neko@example.org
L’adresse de messagerie entrée est introuvable.

Informations de diagnostic pour les administrateurs :

Serveur de génération : ex.example.org

neko@example.org
#550 5.1.1 RESOLVER.ADR.RecipNotFound; not found ##

En-têtes de message d’origine :

${back}`,
		['neko@example.org failed 550 5.1.1'],
	],
	[
		'Sendmail 8',
		{Subject: 'Returned mail: see transcript for details'},
		`The original message was received at Thu, 29 Apr 2010 23:34:45 +0900
from localhost [127.0.0.1]

   ----- The following addresses had permanent fatal errors -----
<neko@example.org>
    (reason: 550 5.1.1 <neko@example.org>... User unknown)
    (expanded from: <all@example.net>)
<inu@example.org>
    (reason: 552 5.2.2 Mailbox full)

   ----- Transcript of session follows -----
... while talking to mx.example.org.:
>>> RCPT To:<neko@example.org>
<<< 550 5.1.1 <neko@example.org>... User unknown
550 5.1.1 <neko@example.org>... User unknown
>>> RCPT To:<inu@example.org>
<<< 552 5.2.2 Mailbox full
`,
		[
			'neko@example.org failed 550 5.1.1 rcpt mx.example.org for all@example.net',
			'inu@example.org failed 552 5.2.2 rcpt mx.example.org',
		],
	],
	[
		'Sendmail 8, refused after DATA',
		{Subject: 'Returned mail: see transcript for details'},
		`   ----- The following addresses had permanent fatal errors -----
<neko@example.org>

   ----- Transcript of session follows -----
... while talking to mx.example.org.:
>>> DATA
<<< 554 5.7.1 Message rejected
554 5.0.0 Service unavailable
`,
		['neko@example.org failed 554 5.7.1 dot mx.example.org'],
	],
	[
		'Sendmail 8, delayed',
		{Subject: 'Warning: could not send message for past 4 hours'},
		`    **********************************************
    **      THIS IS A WARNING MESSAGE ONLY      **
    **  YOU DO NOT NEED TO RESEND YOUR MESSAGE  **
    **********************************************

   ----- The following addresses had transient non-fatal errors -----
<neko@example.org>

   ----- Transcript of session follows -----
<neko@example.org>... Deferred: Connection timed out with mx.example.org.
Warning: message still undelivered after 4 hours
Will keep trying until message is 5 days old
`,
		['neko@example.org delayed'],
	],
	[
		'Sendmail 5',
		{Subject: 'Returned mail: User unknown'},
		`   ----- Transcript of session follows -----
While talking to mx.example.org:
>>> RCPT To:<neko@example.org>
<<< 550 <neko@example.org>... User unknown
550 <neko@example.org>... User unknown

   ----- Unsent message follows -----
${back}`,
		['neko@example.org failed 550 - rcpt mx.example.org'],
	],
	[
		'Sendmail 5, whose transcript names nobody',
		{Subject: 'Returned mail: Cannot send message for 3 days'},
		`   ----- Transcript of session follows -----
421 example.net (smtp)... Deferred: Connection timed out during user open with example.net

   ----- Unsent message follows -----
${back}`,
		['other@example.net failed 421'],
	],
	[
		'Postfix',
		{From: 'MAILER-DAEMON@mail.example.net (Mail Delivery System)', Subject: 'Undelivered Mail Returned to Sender'},
		`This is the mail system at host mail.example.net.

I'm sorry to have to inform you that your message could not
be delivered to one or more recipients. It's attached below.

                   The mail system

<neko@example.org> (expanded from <all@example.net>): host
    mx.example.org[192.0.2.20] said: 550 5.1.1 <neko@example.org>: Recipient
    address rejected: User unknown (in reply to RCPT TO command)

<inu@example.org>: host mx.example.org[192.0.2.20] said: 552 5.2.2
    Mailbox full (in reply to end of DATA command)
`,
		[
			'neko@example.org failed 550 5.1.1 rcpt mx.example.org for all@example.net',
			'inu@example.org failed 552 5.2.2 dot mx.example.org',
		],
	],
	[
		'Domino',
		{Subject: 'DELIVERY FAILURE: User neko (neko@example.org) not listed in Domino Directory'},
		`Your message

  Subject: Hello

was not delivered to:

  neko@example.org

because:

  User neko (neko@example.org) not listed in Domino Directory

`,
		['neko@example.org failed'],
	],
	[
		'Notes',
		{Subject: 'Undeliverable message'},
		`------- Failure Reasons  --------

User not listed in public Name & Address Book
neko@example.org

------- Returned Message --------

${back}`,
		['neko@example.org failed'],
	],
	[
		'Messaging Server',
		{From: 'postmaster@example.org', Subject: 'Delivery Notification: Delivery has failed'},
		`This report relates to a message you sent with the following header fields:

  Message-id: <1@example.com>
  From: Sender <b0sender@bounce.example.com>
  To: neko@example.org

Your message cannot be delivered to the following recipients:

  Recipient address: neko@example.org
  Original address: all@example.net
  Reason: Remote SMTP server has rejected address
  Diagnostic code: smtp;550 5.1.1 <neko@example.org>... User Unknown
  Remote system: dns;mx.example.org (TCP|192.0.2.1|47323|192.0.2.225|25)
`,
		['neko@example.org failed 550 5.1.1 - mx.example.org for all@example.net'],
	],
	[
		'm-FILTER',
		{From: 'POSTMASTER <postmaster@example.org>', Subject: 'failure notice'},
		`neko@example.org


-------server message
550 5.1.1 <neko@example.org>: Recipient address rejected: User unknown

-------SMTP command
RCPT

-------original message
${back}`,
		['neko@example.org failed 550 5.1.1 rcpt'],
	],
	[
		'Zoho',
		{From: 'mailer-daemon@mail.zoho.com', Subject: 'Undelivered Mail Returned to Sender'},
		`This message was created automatically by mail delivery software.
 A message that you sent could not be delivered to one or more of its recipients. This is a permanent error.

neko@example.org Invalid Address, ERROR_CODE :550, ERROR_CODE :5.1.1 <neko@example.org>... User Unknown
inu@example.org Invalid Address, ERROR_CODE :552, ERROR_CODE :5.2.2 Mailbox Full

Received:from mail.zoho.com by mx.zohomail.com
`,
		['neko@example.org failed 550 5.1.1', 'inu@example.org failed 552 5.2.2'],
	],
	[
		'OpenSMTPD',
		{From: 'Mailer Daemon <MAILER-DAEMON@example.net>', Subject: 'Delivery status notification: error'},
		`    Hi!

    This is the MAILER-DAEMON, please DO NOT REPLY to this email.

    An error has occurred while attempting to deliver a message for
    the following list of recipients:

postmaster@example.org: 550 5.2.2 <postmaster@example.org>... Mailbox Full

    Below is a copy of the original message:

${back}`,
		['postmaster@example.org failed 550 5.2.2'],
	],
	[
		'Courier',
		{From: '"Courier mail server" <@example.org>', Subject: 'NOTICE: mail delivery status.'},
		`This is a delivery status notification from mx.example.net,
running the Courier mail server, version 0.65.2.

                           UNDELIVERABLE MAIL

Your message to the following recipients cannot be delivered:

<neko@example.org>:
    mx.example.org [192.0.2.95]:
>>> RCPT TO:<neko@example.org>
<<< 550 5.1.1 <neko@example.org>... User Unknown

---------------------------------------------------------------------------
`,
		['neko@example.org failed 550 5.1.1 rcpt mx.example.org'],
	],
	[
		'IMail',
		{From: '"Postmaster" <postmaster@example.org>', Subject: 'Undeliverable Mail', 'X-Mailer': '<SMTP32 v8.22>'},
		`Unknown user: neko@example.org


Original message follows.

${back}`,
		['neko@example.org failed'],
	],
	[
		'ezweb',
		{From: 'Postmaster@ezweb.ne.jp', Subject: 'Mail System Error - Returned Mail'},
		`Each of the following recipients was rejected by a remote
mail server.

    Recipient: <neko@ezweb.ne.jp>
    >>> RCPT TO:<neko@ezweb.ne.jp>
    <<< 550 <neko@ezweb.ne.jp>: User unknown
`,
		['neko@ezweb.ne.jp failed 550 - rcpt'],
	],
	[
		'KDDI',
		{From: 'no-reply@app.auone-net.jp', 'Return-Path': '<>', Subject: 'Mail'},
		`Your mail sent on: Thu, 29 Apr 2010 11:04:47 +0900
Could not be delivered to: <neko@example.org>
As their mailbox is full.
`,
		['neko@example.org failed'],
	],
	[
		'James',
		{Subject: '[BOUNCE]'},
		`Hi. This is the James mail server at mx.example.org.
I'm afraid I wasn't able to deliver your message to the following addresses.
This is a permanent error; I've given up. Sorry it didn't work out.  Below
I include the list of recipients and the reason why I was unable to deliver
your message.

Error message below:
550 - Requested action not taken: no such user here

Message details:
  Subject: Hello
  MAIL FROM: b0sender@bounce.example.com
  RCPT TO: neko@example.org
`,
		['neko@example.org failed 550'],
	],
	[
		'MailMarshal',
		{Subject: 'Undeliverable Mail: "Hello"'},
		`Your message:
   From:    b0sender@bounce.example.com
   Subject: Hello

Could not be delivered because of

550 5.1.1 User unknown

The following recipients were affected:
    neko@example.org

Additional Information
======================
`,
		['neko@example.org failed 550 5.1.1'],
	],
	[
		'hMailServer',
		{Subject: 'Message undeliverable: Hello'},
		`Your message did not reach some or all of the intended recipients.

   Sent: Thu, 29 Apr 2010 23:34:45 +0900
   Subject: Hello

The following recipient(s) could not be reached:

neko@example.org
   Error Type: SMTP
   Remote server (192.0.2.20) issued an error.
   hMailServer sent: RCPT TO:<neko@example.org>
   Remote server replied: 550 5.1.1 User unknown

hMailServer
`,
		['neko@example.org failed 550 5.1.1'],
	],
	[
		'CommuniGate Pro',
		{Subject: 'Undeliverable mail: Hello'},
		`Failed to deliver to 'neko@example.org'
SMTP module(domain example.org) reports:
 host mx.example.org says:
 550 5.1.1 unknown user
`,
		['neko@example.org failed 550 5.1.1 - mx.example.org'],
	],
	[
		'an address within a sentence',
		{Subject: 'Delivery failure'},
		`Dear sender, your message to neko@example.org was rejected because the account does not exist.
Questions? Write to support@example.org.
`,
		['neko@example.org failed'],
	],
];

for (const [family, header, text, expected] of families) {
	test(`readText: ${family}`, t => {
		t.deepEqual(
			linesOf(header, text).map(line => line.replace(/( -)+$/, '')),
			expected,
		);
	});
}
