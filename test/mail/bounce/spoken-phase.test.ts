import test from 'ava';
import {phaseIn} from '../../../src/mail/classify-reply.ts';

for (const [text, phase] of [
	['said: 550 no (in reply to RCPT TO command)', 'rcpt'],
	['said: 550 no (in\n    reply to end of\n    DATA command)', 'dot'],
	['said: 550 no (in reply to MAIL FROM command)', 'mail'],
	['said: 550 no (in reply to DATA command)', 'data'],
	['SMTP error from remote mail server after RCPT TO:<a@b>:\n 550 no', 'rcpt'],
	['SMTP error from remote mail server after pipelined MAIL FROM:<a@b>:\n 550 no', 'mail'],
	['SMTP error from remote mail server after end of data: 550 no', 'dot'],
	['SMTP error from remote mailer after initial connection: 554 no', 'greeting'],
	['SMTP error from remote mail server after EHLO x: 550 no', 'ehlo'],
	['mx [192.0.2.1] did not like our RCPT TO:\n554 no', 'rcpt'],
	['... while talking to mx.example.:\n>>> MAIL From:<a@b>\n<<< 550 no', 'mail'],
	['... while talking to mx.example.:\n>>> DATA\n<<< 550 no', 'dot'],
	['mx [192.0.2.1] failed after I sent the message.\nRemote host said: 550 no', 'dot'],
	['host mx.example[192.0.2.1] refused to talk to me: 554 no', 'greeting'],
	['... while talking to mx.example.:\n>>> RCPT To:<a@b>\n<<< 250 ok\n>>> QUIT', null],
	['User unknown', null],
] as const) {
	test(`phase: ${text.replaceAll('\n', '/')}: ${phase}`, t => {
		t.is(phaseIn(text), phase);
	});
}
