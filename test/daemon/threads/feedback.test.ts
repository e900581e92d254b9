import test from 'ava';
import fc from 'fast-check';
import {toCfblAddress, toFeedbackId} from '../../../src/daemon/threads/message-composer.ts';
import type {MakeJob} from '../../../src/queue/renderers.ts';

const recipient = {
	template_id: 'tpl_01jxa',
	workspace_id: 'ws_01jxa',
	topic_code: null,
	address: 'ann@a.example',
	id: 'rcp_1',
	message_id: 'msg_1',
} as unknown as MakeJob['recipient'];

test('Feedback-ID names template, workspace, topic and sender', t => {
	t.is(toFeedbackId(recipient, 'shop1'), 'tpl_01jxa:ws_01jxa:transactional:shop1');
	t.is(toFeedbackId({...recipient, topic_code: 'news-2026'}, 'shop1'), 'tpl_01jxa:ws_01jxa:news-2026:shop1');
});

test('Feedback-ID does not distinguish recipients or messages', t => {
	fc.assert(
		fc.property(fc.string(), fc.string(), fc.string(), (address, id, message_id) => {
			const other = {...recipient, address, to_address: address, cc: address, id, message_id, data: address};
			t.is(toFeedbackId(other, 'shop1'), toFeedbackId(recipient, 'shop1'));
		}),
		{numRuns: 20},
	);
});

const own = 'fbl@bounces.mailer.example';
for (const [title, from, returnPathDomain, address, listening, expected] of [
	['its own domain', 'a@mailer.example', 'bounces.mailer.example', own, true, own],
	['the same domain', 'a@bounces.mailer.example', 'bounces.mailer.example', own, false, own],
	['the return path of the sender', 'a@shop.example', 'bounce.shop.example', own, true, 'fbl@bounce.shop.example'],
	['the return path without a listener', 'a@shop.example', 'bounce.shop.example', own, false, null],
	['nothing fits', 'a@shop.example', 'bounces.mailer.example', own, true, null],
	['a name with only the same ending', 'a@shop.example', 'workshop.example', 'fbl@ashop.example', true, null],
	['a parent domain of the sender', 'a@mail.shop.example', 'shop.example', 'fbl@shop.example', true, null],
] as const) {
	test(`CFBL-Address, ${title}: ${expected}`, t => {
		t.is(toCfblAddress(from, returnPathDomain, {own: address, isListening: listening}), expected);
	});
}
