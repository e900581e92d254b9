import test from 'ava';
import {read} from '../../helpers/report-mails.ts';
import {type Header, linesOf, mailOf} from './text/bounces.ts';

const person = {From: 'Neko <neko@example.org>'};

const replies: ReadonlyArray<readonly [Header, string]> = [
	[{Subject: 'Away until May 5', 'Auto-Submitted': 'auto-replied'}, 'I am away.'],
	[{Subject: 'Re: Hello', 'X-Autoreply': 'yes'}, 'Thank you for your message.'],
	[{Subject: 'Re: Hello', Precedence: 'auto_reply'}, 'Thank you for your message.'],
	[
		{Subject: 'Automatic reply: Hello', 'X-Auto-Response-Suppress': 'All'},
		'I no longer work here; my mailbox does not exist any more.',
	],
	[
		{Subject: 'Undeliverable? My address changed', 'Auto-Submitted': 'auto-replied', 'Return-Path': '<>'},
		'The user neko@example.org is unknown here now. Use inu@example.org.',
	],
	[{Subject: 'Out of Office: Hello'}, 'I am on holiday.'],
	[{Subject: 'Automatische Antwort: Hallo'}, 'Ich bin nicht im Büro.'],
	[{Subject: 'Abwesenheitsnotiz'}, 'Ich bin im Urlaub.'],
	[{Subject: 'Réponse automatique : Bonjour'}, 'Je suis en congés.'],
	[{Subject: 'Respuesta automática: Hola'}, 'Estoy fuera de la oficina.'],
	[{Subject: '=?UTF-8?B?6Ieq5YuV6L+U5L+h?='}, '不在です。'],
	[{Subject: 'Please confirm your message', 'X-Delivery-Agent': 'TMDA/1.1'}, 'Reply to this to be let in.'],
];

for (const [header, text] of replies) {
	test(`recognizes an automatic reply by ${JSON.stringify(header)}`, t => {
		t.is(read(mailOf({...person, ...header}, text)).kind, 'auto_reply');
		t.deepEqual(linesOf({...person, ...header}, text), []);
	});
}

const exim = `This message was created automatically by mail delivery software.

A message that you sent could not be delivered to one or more of its
recipients. This is a permanent error. The following address(es) failed:

  neko@example.org
    Unrouteable address
`;

test('does not take a bounce marked "auto-replied" for an automatic reply', t => {
	const header = {
		Subject: 'Mail delivery failed',
		'Auto-Submitted': 'auto-replied',
		'X-Auto-Response-Suppress': 'All',
	};
	t.is(read(mailOf(header, exim)).kind, 'text');
	t.is(linesOf(header, exim).length, 1);
});

test('does not take a message with a delivery status for an automatic reply', t => {
	const type = 'multipart/report; boundary=b';
	const body =
		'--b\n\nHello\n--b\nContent-Type: message/delivery-status\n\nReporting-MTA: dns; mx.example.org\n\n--b--\n';
	t.is(read(mailOf({...person, 'Auto-Submitted': 'auto-replied', 'Content-Type': type}, body)).kind, 'other');
});

const others: ReadonlyArray<readonly [string, Header, string]> = [
	['a person behind Exchange', {...person, Subject: 'Re: Hello', 'X-Auto-Response-Suppress': 'All'}, 'I like it.'],
	[
		'a question about a bounce',
		{...person, Subject: 'Undelivered mail?'},
		`Hi,\n\nI got this when I wrote to you, what is wrong?\n\n${exim}`,
	],
	['a reply to a bounce', {...person, Subject: 'Re: Mail delivery failed'}, exim],
	['a forwarded bounce', {...person, Subject: 'Fwd: Mail delivery failed'}, `FYI\n\n${exim}`],
	[
		'a newsletter on bounces',
		{...person, Subject: 'Returned mail: what 550 5.1.1 means', 'List-Unsubscribe': '<https://example.org/u>'},
		'550 5.1.1 <neko@example.org>: user unknown is what a server says if the mailbox does not exist.',
	],
	[
		'a letter that names a failure',
		{...person, Subject: 'Hello'},
		'The mail to inu@example.org could not be delivered: user unknown.',
	],
	[
		'a notice of a postmaster',
		{From: 'postmaster@example.org', Subject: 'Maintenance on Sunday'},
		'Write to inu@example.org with questions.',
	],
	[
		'a parcel',
		{From: 'Parcels <noreply@parcels.example>', Subject: 'Delivery failed: your parcel could not be delivered'},
		'Dear customer, your parcel could not be delivered: address unknown. Write to inu@example.org.',
	],
	[
		'a colleague who pastes a bounce',
		{...person, Subject: 'undeliverable mail'},
		'See below.\n\n   ----- The following addresses had permanent fatal errors -----\n<inu@example.org>\n    (reason: 550 5.1.1 User unknown)\n',
	],
	[
		'a newsletter whose name sounds like a daemon',
		{From: 'Mail System News <news@example.org>', Subject: 'How to avoid undeliverable mail'},
		'550 5.1.1 user unknown means that the mailbox inu@example.org does not exist.',
	],
	[
		"a postmaster's sum of the day",
		{
			From: 'postmaster@example.org',
			Subject: 'Postfix log summaries for Nov 21',
			'Auto-Submitted': 'auto-generated',
		},
		'message reject detail\n 550 5.1.1 <inu@example.org>: User unknown in local recipient table\n',
	],
	[
		'a notice of Postfix on a session of others',
		{Subject: 'Postfix SMTP server: errors from host.example[192.0.2.1]', 'Return-Path': '<>'},
		'Transcript of session follows.\n\n In:  RCPT TO:<inu@example.org>\n Out: 550 5.1.1 <inu@example.org>: User unknown\n',
	],
	[
		'a mail that lures with a mailbox that is full',
		{From: 'Mail Administrator <admin@example.net>', Subject: 'Your mailbox is full'},
		'Your mailbox inu@example.org has been disabled. Write to help@example.net.',
	],
	[
		'a letter with a quoted bounce below it',
		{...person, Subject: 'Delivery problem', 'Return-Path': '<neko@example.org>'},
		`Dear team,\nplease have a look.\nThanks, Neko\n\n${exim.replaceAll(/^/gm, '> ')}`,
	],
];

for (const [name, header, text] of others) {
	test(`neither a bounce nor an automatic reply: ${name}`, t => {
		t.deepEqual(linesOf(header, text), []);
		t.is(read(mailOf(header, text)).kind, 'other');
	});
}
