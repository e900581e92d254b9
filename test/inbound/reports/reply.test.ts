import test from 'ava';
import {hostIn, replyIn} from '../../../src/inbound/reports/reply.ts';

for (const [text, code, enhanced] of [
	['550 5.1.1 User unknown', 550, '5.1.1'],
	['550-5.1.1 The account\n550 5.1.1 does not exist', 550, '5.1.1'],
	['550 #5.1.0 Address rejected.', 550, '5.1.0'],
	['#550 5.1.1 RESOLVER.ADR.RecipNotFound; not found ##', 550, '5.1.1'],
	["5.1.0 - Unknown address error 550-'5.7.1 <a@b.example>... Access denied'", 550, '5.7.1'],
	['<mx.example #5.0.0 smtp; 550 5.1.1 User unknown>', 550, '5.1.1'],
	["Remote Server returned '554 5.0.0 <mx.example #5.0.0 smtp; 550 5.2.1 Mailbox disabled>'", 550, '5.2.1'],
	['550 5.0.350 Remote server returned an error -> 552 5.2.2 Mailbox full', 552, '5.2.2'],
	['550 User unknown', 550, null],
	['250 2.0.0 Ok: queued as 4ZQ', 250, '2.0.0'],
	['RCPT To:<a@b.example>\n<<< 550 <a@b.example>: User unknown', 550, null],
	['host mx.example[192.0.2.1] said: 451 try again', 451, null],
	['5.4.4 nobody home', null, '5.4.4'],
	['ERROR_CODE :550, ERROR_CODE :5.1.1 User Unknown', 550, '5.1.1'],
	['connect to 10.5.1.1: Connection timed out', null, null],
	['Message expired after 432 hours', null, null],
	['', null, null],
] as const) {
	test(`${text || 'nothing'}: ${code}, ${enhanced}`, t => {
		t.like(replyIn(text), {code, enhanced});
	});
}

for (const [text, host] of [
	['host MX.example[192.0.2.1] said: 550', 'mx.example'],
	['host\n    mx.example[192.0.2.1]\n    said: 550', 'mx.example'],
	['    host mx.example [192.0.2.1]\n    SMTP error', 'mx.example'],
	['... while talking to mx.example.:', 'mx.example'],
	['... while talking to [192.0.2.1]:', '192.0.2.1'],
	['192.0.2.1 does not like recipient.', '192.0.2.1'],
	['server for the recipient domain b.example by mx.b.example. [192.0.2.1].', 'mx.b.example'],
	['the host was not found', null],
] as const) {
	test(`mail server in ${text.replaceAll('\n', '/')}: ${host}`, t => {
		t.is(hostIn(text), host);
	});
}
