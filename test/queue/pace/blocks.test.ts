import test from 'ava';
import type {Phase} from '../../../src/mail/outcome.ts';
import {isBlock} from '../../../src/queue/pace/blocks.ts';
import {classify} from '../../helpers/classify.ts';

function isBlocked(reply: string, phase: Phase = 'rcpt'): boolean {
	const [, code, enhanced = null] = /^(\d{3}) (\d\.\d{1,3}\.\d{1,3})?/.exec(reply) ?? [];
	const {category} = classify({phase, code: Number(code), enhanced, status: null, text: reply.slice(4), host: null});
	return isBlock(phase === 'mail' ? 'sender' : category, reply);
}

const blocks = [
	'550 IP is Hangup',
	'550 Blocked',
	'550 5.7.1 Blocked.',
	'554 HL:IPB',
	'553 RP:ADL',
	'550 Sorry, no access for this ip',
	'550 Envelope blocked',
	'550 Envelope blocked - https://community.mimecast.com/docs/DOC-1369#550 [abc.uk101]',
	'554 IP=192.0.2.1 - A problem occurred. (Ask your postmaster for help or to contact tosa@rx.t-online.de to clarify.) (BL)',
	'550 5.7.1 Service unavailable; Client host [192.0.2.1] blocked using zen.spamhaus.org; https://www.spamhaus.org/query/ip/192.0.2.1',
	'554 5.7.1 Your access to this mail system has been rejected due to the sending MTA’s poor reputation.',
	'554 Refused. You have a poor reputation',
	'550 5.7.1 Message rejected: blocked by Barracuda Reputation; https://www.barracudacentral.org/reputation/?ip=192.0.2.1',
	'550 5.7.1 Unfortunately, messages from [192.0.2.1] weren’t sent, since part of their network is on our block list (S3150).',
	'550 5.7.606 Access denied, banned sending IP [192.0.2.1]',
	'550 5.7.1 <ann@shop.example>: Client host rejected: Access denied, your network is blacklisted',
	'550 5.7.1 [192.0.2.1] The IP you’re using to send mail has a very low reputation',
	'550 5.7.1 [2001:db8::1] is blocked',
];
for (const reply of blocks) {
	test(`is a block of our address: ${reply}`, t => {
		t.true(isBlocked(reply));
	});
}

const others = [
	'550 5.7.1 Message rejected as spam by content filtering',
	'550 5.7.1 Message blocked for spam',
	'550 5.7.1 This message was blocked because its content has a bad reputation',
	'554 5.7.1 This message looks like spam to the recipient’s filter',
	'550 5.7.1 You have been blocked by the recipient',
	'550 Envelope blocked - User Entry - https://community.mimecast.com/docs/DOC-1369#550',
	'550 Envelope blocked - User Domain Entry',
	'550 5.7.1 Sender address rejected: blacklisted',
	'550 5.7.1 Your domain shop.example is blacklisted',
	'554 5.7.1 shop.example blocked using dbl.spamhaus.org',
	'550 5.7.1 very low reputation of the sending domain',
	'550 5.7.1 This mail was blocked: URL in blocklist',
	'550 5.1.1 User unknown',
	'550 no',
	'552 5.2.2 Mailbox of this server is full',
];
for (const reply of others) {
	test(`is not a block of our address: ${reply}`, t => {
		t.false(isBlocked(reply));
	});
}

test('treats a rejection at MAIL as a block of our address only if the reply says so', t => {
	t.true(isBlocked('550 5.7.1 192.0.2.1 is blocked', 'mail'));
	t.true(isBlocked('554 5.7.1 Client host [192.0.2.1] is listed by a blocklist', 'mail'));
	t.false(isBlocked('550 5.1.8 Sender address rejected: Domain not found', 'mail'));
	t.false(isBlocked('550 5.7.1 Access denied', 'mail'));
	t.false(isBlocked('550 5.1.0 sender unknown at this host', 'mail'));
});

test('judges arbitrary replies in little time', t => {
	// 1,024 characters of a reply are stored.
	for (const piece of ['a@', '1.', ':::', '[[', 'http://', 'spam ', 'domain-']) {
		t.is(typeof isBlock('block', piece.repeat(1024)), 'boolean');
	}
});
