import {randomBytes} from 'node:crypto';
import test from 'ava';
import {freeId} from '../../src/config/secrets-file.ts';
import {deleteEndpoint} from '../../src/resources/webhooks/store.ts';
import {
	type ConfiguredKey,
	createVault,
	expectsKeys,
	matchKeys,
	resealRows,
	sealedColumns,
	sealingIds,
	storeKeys,
} from '../../src/store/sealed.ts';
import type {Store} from '../../src/store/store.ts';
import {storeTest} from '../helpers/databases.ts';
import {insertWorkspace} from '../helpers/messages.ts';
import {insertEndpoint} from '../helpers/webhooks.ts';

const now = '2026-06-09T10:00:00.000000Z';
const [one, two, three] = [randomBytes(32), randomBytes(32), randomBytes(32)];
/** Keys from MAILCTL_SECRET_KEY, which have no ids. */
const listed = (...keys: readonly Uint8Array[]): ConfiguredKey[] => keys.map(key => ({id: null, key}));

async function settle({reader, writer}: Store, keys: readonly ConfiguredKey[]) {
	const matched = await matchKeys(reader, keys, freeId);
	if (matched.ok) {
		await writer.transaction(trx => storeKeys(trx, matched.fresh, now));
	}
	return matched.ok ? matched.keys : matched.problem;
}

async function seal({database}: Store, workspaceId: string, key: Uint8Array, id = 1): Promise<void> {
	const vault = createVault({current: id, keys: {[id]: key}});
	const route = `smtp://app:${vault.seal(workspaceId, 'hunter2')}@relay.example`;
	await database('workspaces').where({id: workspaceId}).update({route});
}

storeTest(test, 'records the first key and rejects any other from then on', async (t, store) => {
	t.false(await expectsKeys(store.reader));
	t.deepEqual(await settle(store, listed(one)), {current: 1, keys: {1: one}});
	t.true(await expectsKeys(store.reader));
	t.deepEqual(await settle(store, listed(one)), {current: 1, keys: {1: one}});
	t.deepEqual(await settle(store, listed(two)), {kind: 'foreign'});
	t.is((await store.reader('secret_keys')).length, 1);
	t.notRegex(JSON.stringify(await store.reader('secret_keys')), new RegExp(one.toString('base64url')));
});

storeTest(test, 'a key keeps its id in any position of the list, even after an absence', async (t, store) => {
	await settle(store, listed(one));
	t.deepEqual(await settle(store, listed(two, one)), {current: 2, keys: {1: one, 2: two}});
	t.deepEqual(await settle(store, listed(one, two)), {current: 1, keys: {1: one, 2: two}});
	t.deepEqual(await settle(store, listed(two)), {current: 2, keys: {2: two}});
	t.deepEqual(await settle(store, listed(three, two)), {current: 3, keys: {2: two, 3: three}});
	t.deepEqual(await settle(store, listed(one, three)), {current: 1, keys: {1: one, 3: three}});
});

storeTest(test, 'refuses a file that swaps the ids of keys', async (t, store) => {
	await settle(store, [
		{id: 2, key: two},
		{id: 1, key: one},
	]);
	t.deepEqual(
		await settle(store, [
			{id: 2, key: three},
			{id: 1, key: one},
		]),
		{kind: 'exchanged', id: 2},
	);
	t.deepEqual(await settle(store, [{id: 3, key: one}]), {kind: 'exchanged', id: 3});
	t.is((await store.reader('secret_keys')).length, 2);
});

storeTest(test, 'requires a key while anything is sealed with it', async (t, store) => {
	const {workspaceId} = await insertWorkspace(store);
	await settle(store, listed(one));
	await seal(store, workspaceId, one);
	await settle(store, listed(two, one));
	t.deepEqual(await settle(store, listed(two)), {kind: 'missing', id: 1});
	const vault = createVault({current: 2, keys: {1: one, 2: two}});
	for (const column of sealedColumns) {
		await store.writer.transaction(trx => resealRows(trx, column, vault, {after: '', max: 10}));
	}
	t.deepEqual(await settle(store, listed(two)), {current: 2, keys: {2: two}});
});

storeTest(test, 'identifies the key of an older store by its sealed secrets', async (t, store) => {
	const {workspaceId} = await insertWorkspace(store);
	await seal(store, workspaceId, one);
	t.true(await expectsKeys(store.reader));
	t.deepEqual(await settle(store, listed(two)), {kind: 'foreign'});
	t.deepEqual(await settle(store, [{id: 1, key: two}]), {kind: 'foreign'});
	t.deepEqual(await settle(store, [{id: 2, key: one}]), {kind: 'foreign'});
	t.deepEqual(await store.reader('secret_keys'), []);
	t.deepEqual(await settle(store, listed(two, one)), {current: 2, keys: {1: one, 2: two}});
});

storeTest(test, 'reports damaged secrets, leaves them unchanged and continues', async (t, store) => {
	const {workspaceId} = await insertWorkspace(store);
	const {workspaceId: other} = await insertWorkspace(store, 'other');
	await seal(store, workspaceId, three);
	await seal(store, other, one);
	const vault = createVault({current: 2, keys: {1: one, 2: two}});
	const column = sealedColumns.find(({table}) => table === 'workspaces');
	if (!column) {
		return t.fail();
	}
	const ids = [workspaceId, other].toSorted();
	const reseal = (after: string, most: number) =>
		store.writer.transaction(trx => resealRows(trx, column, vault, {after, max: most}));
	t.deepEqual(await reseal('', 10), {resealed: 1, damaged: [workspaceId], last: null});
	t.deepEqual(await reseal('', 10), {resealed: 0, damaged: [workspaceId], last: null});
	t.is((await reseal('', 1)).last, ids[0] as string);
	t.deepEqual(await sealingIds(store.reader), [1, 2]);
});

storeTest(test, 'passes over the emptied secret of a removed endpoint', async (t, store) => {
	const {workspaceId} = await insertWorkspace(store);
	const endpointId = await insertEndpoint(store, workspaceId);
	t.true(await store.writer.transaction(trx => deleteEndpoint(trx, workspaceId, endpointId, now)));
	const vault = createVault({current: 1, keys: {1: one}});
	for (const column of sealedColumns.filter(({table}) => table === 'webhook_endpoints')) {
		const {damaged} = await store.writer.transaction(trx => resealRows(trx, column, vault, {after: '', max: 10}));
		t.deepEqual(damaged, []);
	}
});

storeTest(test, 'reseals every column that contains secrets', async (t, store, engine) => {
	const columns: Array<{table: string; column: string}> =
		engine === 'sqlite'
			? await store.reader.raw(
					`select m.name as "table", c.name as "column" from sqlite_master as m, pragma_table_info(m.name) as c
					where m.type = 'table'`,
				)
			: await store
					.reader('information_schema.columns')
					.where({table_schema: 'public'})
					.select({table: 'table_name', column: 'column_name'});
	const holdsSecrets = ({table, column}: {table: string; column: string}) =>
		/secret|password(?!_hash)|totp$/.test(column) ||
		(table === 'messages' && column === 'sealed') ||
		(table === 'workspaces' && column === 'route');
	const names = (all: ReadonlyArray<{table: string; column: string}>) =>
		all.map(({table, column}) => `${table}.${column}`).toSorted();
	t.deepEqual(names(sealedColumns), names(columns.filter(holdsSecrets)));
});
