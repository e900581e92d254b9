import test from 'ava';
import {readStoreSize} from '../../src/store/engine/dialect.ts';
import {beat, listNodes} from '../../src/store/nodes.ts';
import {storeTest} from '../helpers/databases.ts';

storeTest(test, 'reads the size of the store', async (t, store) => {
	const before = await readStoreSize(store.reader);
	t.true(before > 100_000);
	await store.database.schema.createTable('filler', table => void table.binary('bytes'));
	await store.database('filler').insert({bytes: Buffer.alloc(3_000_000, 'abcdefg')});
	t.true((await readStoreSize(store.reader)) > before);
});

storeTest(test, 'lists nodes with the times they started and were last seen', async (t, store) => {
	const node = {id: 'n1', host: 'a.example', pid: 7, version: '0.1.0', roles: ['api', 'deliver']};
	const [startedAt, seenAt] = ['2026-11-23T10:00:00.000Z', '2026-11-23T10:00:05.000Z'];
	await store.writer.transaction(trx => beat(trx, node, startedAt));
	await store.writer.transaction(trx => beat(trx, node, seenAt));
	t.deepEqual(await listNodes(store.reader, seenAt), [{...node, startedAt, seenAt}]);
	t.deepEqual(await listNodes(store.reader, '2026-11-23T10:00:06.000Z'), []);
});
