import test from 'ava';
import {up} from '../../migrations/016_message_terms.ts';
import {idFloor} from '../../src/mail/ids.ts';
import {eraseMessages} from '../../src/store/erasures.ts';
import {removeMessages} from '../../src/store/retention.ts';
import type {Store} from '../../src/store/store.ts';
import {changeCopies} from '../helpers/copies.ts';
import {storeTest} from '../helpers/databases.ts';
import {insertMessages, insertWorkspace} from '../helpers/messages.ts';
import {plansDuring, readsAll} from '../helpers/plans.ts';

const termsOf = async (store: Store, id: string | undefined): Promise<string[]> =>
	await store.reader('message_terms').where({message_id: id}).orderBy('term').pluck('term');

/** Two messages with terms, as the migration finds them in an older store. */
async function prepare(store: Store): Promise<string[]> {
	const {workspaceId} = await insertWorkspace(store);
	const ids = await insertMessages(store, workspaceId, ['a@x.test', 'b@x.test']);
	await store.database('messages').update({metadata: '{"order_id":"1042"}', tags: '["shop"]'});
	await changeCopies(store.database, all => all, {subject: 'Receipt 1042', next_attempt_at: null});
	await store.database.schema.dropTable('message_terms');
	await store.database.transaction(up);
	return ids;
}

const all = ['m8:order_id=1042', 't:shop', 'w:1042', 'w:receipt'];

storeTest(test, 'the migration indexes what is there', async (t, store) => {
	const ids = await prepare(store);
	for (const id of ids) {
		t.deepEqual(await termsOf(store, id), all);
	}
});

storeTest(test, 'an erased message keeps its tags alone, a removed one nothing', async (t, store, engine) => {
	const [first, second] = await prepare(store);
	const at = '2026-06-09T10:15:30.123Z';
	const plans = await plansDuring(store, engine, () =>
		store.writer.transaction(trx => eraseMessages(trx, [first as string], at)),
	);
	const [deleting = ''] = plans.filter(plan => plan.includes('delete from message_terms'));
	t.regex(deleting, /message_terms/);
	t.false(readsAll(deleting), deleting);
	t.deepEqual(await termsOf(store, first), ['t:shop']);
	t.deepEqual(await termsOf(store, second), all);

	const range = {after: '', before: idFloor('msg', Date.now() + 60_000), limit: 10};
	await store.writer.transaction(trx => removeMessages(trx, store.dialect, range));
	t.deepEqual(await store.reader('message_terms'), []);
});
