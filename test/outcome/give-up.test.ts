import test from 'ava';
import {storeTime} from '../../src/kit/time.ts';
import {endByOperator, type OperatorEnd} from '../../src/outcome/settle.ts';
import {findWaiting} from '../../src/store/queue/queue-summary.ts';
import type {Store} from '../../src/store/store.ts';
import {storeTest} from '../helpers/databases.ts';
import {eventWriter, insertMessages, insertWorkspace} from '../helpers/messages.ts';
import {changeRecipients, recipientRows} from '../helpers/recipient-rows.ts';
import {insertEndpoint} from '../helpers/webhooks.ts';

const now = storeTime(Date.now());

async function given(store: Store, how: OperatorEnd) {
	const {workspaceId} = await insertWorkspace(store);
	await insertEndpoint(store, workspaceId, {events: ['delivered', 'bounced']});
	const [messageId = ''] = await insertMessages(store, workspaceId, ['ada@x.test']);
	await changeRecipients(store.database, all => all, {state: 'queued', attempts: 2});
	const ids = await findWaiting(store.reader, {});
	const ended = await store.writer.transaction(trx =>
		endByOperator(trx, {ids, now, silentSince: null}, how, eventWriter),
	);
	const [event] = await store.reader('events').where({message_id: messageId});
	return {
		ended,
		recipient: await recipientRows(store.reader).first(),
		event: {...event, detail: JSON.parse(event.detail)},
		posts: await store.reader('webhook_deliveries').pluck('event_type'),
		days: await store.reader('usage_days').select('status', 'n'),
		suppressions: await store.reader('suppressions'),
		again: await store.writer.transaction(trx =>
			endByOperator(trx, {ids, now, silentSince: null}, how, eventWriter),
		),
	};
}

storeTest(test, 'fail: records a transient bounce, notifies webhooks and suppresses nothing', async (t, store) => {
	const {ended, recipient, event, posts, days, suppressions, again} = await given(store, {
		kind: 'fail',
		reason: 'too old',
	});
	t.is(ended.length, 1);
	t.like(recipient, {state: 'bounced', state_at: now, next_attempt_at: null});
	t.like(event, {type: 'bounced', recipient_id: recipient.id, occurred_at: now});
	t.deepEqual(event.detail, {
		recipient: 'ada@x.test',
		role: 'to',
		attempt: 2,
		type: 'transient',
		category: 'operator',
		reason: 'too old',
	});
	t.deepEqual(posts, ['bounced']);
	t.deepEqual(days, [{status: 'bounced', n: 1}]);
	t.deepEqual(suppressions, []);
	t.deepEqual(again, []);
});

storeTest(test, 'drop: records an error without notifying webhooks', async (t, store) => {
	const {recipient, event, posts, days, suppressions} = await given(store, {kind: 'drop'});
	t.like(recipient, {state: 'errored', state_at: now, next_attempt_at: null});
	t.is(event.type, 'errored');
	t.deepEqual(event.detail, {recipient: 'ada@x.test', role: 'to', reason: 'dropped'});
	t.deepEqual([posts, days, suppressions], [[], [], []]);
});
