import test from 'ava';
import fc from 'fast-check';
import type {MakeJob} from '../../src/queue/renderers.ts';
import {cfblAddressOf, feedbackIdOf} from '../../src/threads/make.ts';

const job = {
	templateId: 'tpl_01jxa',
	workspaceId: 'ws_01jxa',
	topicCode: null,
	address: 'ann@a.example',
	recipientId: 'rcp_1',
	messageId: 'msg_1',
	from: 'orders@shop.example',
	returnPathDomain: 'bounce.shop.example',
} as unknown as MakeJob;

test('Feedback-ID: template, workspace, topic, sender', t => {
	t.is(feedbackIdOf(job, 'shop1'), 'tpl_01jxa:ws_01jxa:transactional:shop1');
	t.is(feedbackIdOf({...job, topicCode: 'news-2026'}, 'shop1'), 'tpl_01jxa:ws_01jxa:news-2026:shop1');
});

test('Feedback-ID tells recipients and messages not apart', t => {
	fc.assert(
		fc.property(fc.string(), fc.string(), fc.string(), (address, recipientId, messageId) => {
			const other = {...job, address, to: address, cc: [address], recipientId, messageId, data: address};
			t.is(feedbackIdOf(other, 'shop1'), feedbackIdOf(job, 'shop1'));
		}),
		{numRuns: 20},
	);
});

const own = 'fbl@bounces.mailer.example';
for (const [title, from, returnPathDomain, address, listening, expected] of [
	['its own domain', 'a@mailer.example', 'bounces.mailer.example', own, true, own],
	['the very domain', 'a@bounces.mailer.example', 'bounces.mailer.example', own, false, own],
	['the return path of the sender', 'a@shop.example', 'bounce.shop.example', own, true, 'fbl@bounce.shop.example'],
	['the same, and nobody listens', 'a@shop.example', 'bounce.shop.example', own, false, null],
	['nothing fits', 'a@shop.example', 'bounces.mailer.example', own, true, null],
	['a name that only ends alike', 'a@shop.example', 'workshop.example', 'fbl@ashop.example', true, null],
	['a domain above the sender', 'a@mail.shop.example', 'shop.example', 'fbl@shop.example', true, null],
] as const) {
	test(`CFBL-Address, ${title}: ${expected}`, t => {
		t.is(cfblAddressOf({...job, from, returnPathDomain}, {own: address, listening}), expected);
	});
}
