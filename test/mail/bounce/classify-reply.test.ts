import test from 'ava';
import fc from 'fast-check';
import {statedWaitMs} from '../../../src/deliver/verdict.ts';
import {suppresses} from '../../../src/mail/bounce.ts';
import type {BounceCategory, Phase} from '../../../src/mail/outcome.ts';
import {type SmtpReply, smtpReply} from '../../../src/mail/outcome.ts';
import {classify} from '../../helpers/classify.ts';

function classifyReply(reply: SmtpReply, phase: Phase, host: string): BounceCategory {
	return classify({phase, ...reply, status: null, host}).category;
}

type Row = readonly [reply: string, category: BounceCategory, phase?: Phase, host?: string];

const rows: readonly Row[] = [
	// Codes.
	['550 5.1.1 <u@d.test> whatever', 'unknown_user'],
	['550 5.1.3 bad address syntax', 'unknown_user'],
	['550 5.1.6 has moved', 'moved'],
	['550 5.1.2 bad destination', 'unknown_domain'],
	['556 5.1.10 null MX', 'unknown_domain'],
	['550 5.1.10 RESOLVER.ADR.RecipientNotFound', 'unknown_user', 'rcpt', 'x.mail.protection.outlook.com'],
	['550 5.4.1 Recipient address rejected: Access denied', 'unknown_user', 'rcpt', 'x.mail.protection.outlook.com'],
	['550 5.4.1 no answer from host', 'network'],
	['550 5.4.1 [mx.test]', 'undetermined'],
	['550 5.7.13 account disabled', 'disabled'],
	['550 5.7.17 owner changed', 'disabled'],
	['550 5.7.18 owner changed', 'disabled'],
	['552 5.2.2 full', 'mailbox_full'],
	['550 5.2.1 The email account that you tried to reach is disabled', 'disabled'],
	['450 4.2.1 The user you are trying to contact is receiving mail at a rate that', 'rate'],
	['550 5.2.3 too long', 'too_big'],
	['552 5.3.4 too big', 'too_big'],
	['550 5.1.8 sender domain not found', 'sender'],
	['550 5.5.0 Requested action not taken: mailbox unavailable', 'unknown_user'],
	['550 5.7.26 unauthenticated mail', 'auth'],
	['550 5.7.515 Access denied, sending domain does not meet the required level', 'auth'],
	['550 5.7.1 no', 'policy'],
	['554 5.6.0 broken', 'protocol'],

	// A reason that concerns the sender wins over the code.
	['550 5.1.1 <u@d.test> - 203.0.113.222 has sent to too many recipients this hour. IB607', 'rate'],
	['550 5.1.1 blocked using zen.spamhaus.org', 'block'],
	['550 5.7.1 Service unavailable; client host blocked, poor reputation', 'reputation'],
	['554 5.7.1 Relay access denied', 'relay_denied'],
	['550 message content rejected as spam', 'spam_content', 'dot'],
	['550 5.7.1 SPF check failed', 'auth'],
	['450 4.7.27 no', 'auth'],
	['554 shop.test does not exist', 'sender', 'dot'],
	['554 5.1.8 shop.test does not exist', 'sender', 'dot'],
	['550 shop.test does not exist', 'sender', 'mail'],
	['550 5.1.1 User john.doe does not exist', 'unknown_user', 'dot'],
	['550 5.1.1 john.doe does not exist', 'unknown_user', 'dot'],
	['550 Mailbox john.doe does not exist here', 'unknown_user', 'dot'],
	['550 5.1.1 Sender address rejected: Domain not found', 'sender'],

	// So does a reason that concerns the size.
	['552 5.1.1 Recipient overquota. OFR_417', 'mailbox_full'],
	['550 mailbox is full', 'mailbox_full'],
	['552 message size exceeds limit', 'too_big'],

	// The text says that the recipient does not exist.
	['550 User unknown', 'unknown_user'],
	['550 No such user here', 'unknown_user'],
	['550 5.7.1 unknown recipient', 'unknown_user'],
	['553 5.3.0 <u@d.test>... Addressee unknown, no such person', 'unknown_user'],
	["550 Mailbox doesn't exist", 'unknown_user'],
	['550 this account has been deactivated', 'disabled'],
	['550 Boite inconnue', 'unknown_user'],
	['550 Unrouteable address', 'unknown_user'],
	['550 Verification failed for <a@b.test>\nUnrouteable address\nSender verify failed', 'sender'],
	['524 5.2.4 Mailing list expansion problem: <u@d.test>', 'unknown_user'],
	['424 4.2.4 Mailing list expansion problem: <u@d.test>', 'undetermined'],
	['550 5.2.4 Mailing list expansion problem', 'undetermined'],
	// OpenSMTPD says this of a domain that it does not serve, other servers of a recipient.
	['550 Invalid recipient: <u@d.test>', 'undetermined'],
	['550 u@d.test not listed in Domino Directory', 'unknown_user'],
	[
		'550 The account or domain may not exist, they may be blacklisted, or missing the proper dns entries.',
		'unknown_user',
	],

	// Texts without a reason.
	['554 5.7.1 <u@d.test>: Recipient address rejected: go away', 'policy'],
	['550 5.7.1 The group you tried to contact may not exist or you may not have permission to post', 'policy'],
	['550 Unknown user u@docomo.ne.jp', 'undetermined', 'dot', 'mfsmax.docomo.ne.jp'],
	['550 5.1.1 <spam-policy@d.test> user unknown', 'unknown_user'],
	['550 no', 'undetermined'],
	['554 no', 'spam_content', 'dot'],

	// Not a verdict on the recipient, or not yet.
	['450 4.1.1 user unknown', 'undetermined'],
	['451 4.7.1 Greylisting in action', 'greylist'],
	['421 too busy', 'rate'],
	['452 4.2.2 mailbox full', 'mailbox_full'],
	['451 4.3.0 queue file write error', 'system'],
	['550 5.1.1 user unknown', 'undetermined', 'greeting'],
	['554 5.7.1 blocked, see spamhaus', 'block', 'greeting'],
];
for (const [text, category, phase = 'rcpt', host = 'mx.test'] of rows) {
	test(`${text} at ${phase} → ${category}`, t => {
		t.is(classifyReply(smtpReply(Number(text.slice(0, 3)), [text.slice(4)]), phase, host), category);
	});
}

test('suppresses for unknown users and domains and moved or disabled mailboxes only', t => {
	const all: BounceCategory[] = [
		'unknown_user',
		'unknown_domain',
		'moved',
		'disabled',
		'mailbox_full',
		'block',
		'undetermined',
		'sender',
		'protocol',
		'policy',
	];
	t.deepEqual(all.filter(suppresses), ['unknown_user', 'unknown_domain', 'moved', 'disabled']);
});

test('assigns a category to any reply, and never suppresses on a 4xx reply', t => {
	const word = fc.constantFrom(
		'user',
		'unknown',
		'mailbox',
		'does not exist',
		'5.1.1',
		'4.2.2',
		'spam',
		'quota',
		'x@y.test',
		' ',
		'<',
		'.'.repeat(40),
	);
	fc.assert(
		fc.property(fc.integer({min: 400, max: 499}), fc.array(fc.oneof(word, fc.string())), (code, words) => {
			t.false(suppresses(classifyReply(smtpReply(code, [words.join(' ')]), 'rcpt', 'mx.test')));
		}),
	);
});

const minute = 60_000;
const waits: ReadonlyArray<readonly [text: string, ms: number | null]> = [
	['try again in 300 seconds', 5 * minute],
	['Greylisted for 5 minutes', 5 * minute],
	['please retry after 00600 s', 10 * minute],
	['wait 2 hours', 60 * minute],
	['in 1 s', minute],
	['blocked for 10 messages', null],
	['try again later', null],
	['in 12 steps', null],
	['error 450', null],
];
for (const [text, ms] of waits) {
	test(`reads the wait stated in "${text}"`, t => {
		t.is(statedWaitMs(text), ms);
	});
}
