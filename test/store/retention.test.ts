import test from 'ava';
import {storeTime} from '../../src/kit/time.ts';
import {insertDeliveries} from '../../src/resources/webhooks/store.ts';
import {removeMessages} from '../../src/store/retention.ts';
import {storeTest} from '../helpers/databases.ts';
import {insertMessages, insertWorkspace, newId} from '../helpers/messages.ts';
import {changeRecipients} from '../helpers/recipient-rows.ts';
import {insertEndpoint} from '../helpers/webhooks.ts';

storeTest(test, 'removes a message with more deliveries than a statement can have parameters', async (t, store) => {
	const {workspaceId} = await insertWorkspace(store);
	const [messageId = ''] = await insertMessages(store, workspaceId, ['one@a.test']);
	await changeRecipients(store.database, all => all, {state: 'sent', next_attempt_at: null});
	const endpointId = await insertEndpoint(store, workspaceId);
	const at = storeTime(Date.now());
	// PostgreSQL's limit; SQLite's is half of it.
	const deliveries = Array.from({length: 66_000}, () => ({
		...{id: newId('whd'), workspaceId, endpointId, messageId, eventId: newId('evt'), eventType: 'clicked' as const},
		...{body: '{}', dueAt: at, createdAt: at},
	}));
	await store.writer.transaction(trx => insertDeliveries(trx, deliveries));
	const all = {after: '', before: 'msg_~', limit: 50};
	const {messages} = await store.writer.transaction(trx => removeMessages(trx, store.dialect, all));
	t.is(messages, 1);
	for (const table of ['messages', 'webhook_deliveries', 'webhook_queue']) {
		t.is(await store.reader(table).first(), undefined, table);
	}
});
