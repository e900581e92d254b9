import test from 'ava';
import {createKey, revokeKey, rotateKey} from '../../src/admin/keys.ts';
import {createWorkspace} from '../../src/admin/workspaces.ts';
import {apiKeyHash, apiKeyMode} from '../../src/mail/api-key.ts';
import {deleteApiKey, findApiKey, listApiKeys} from '../../src/store/api-keys.ts';
import type {Store} from '../../src/store/store.ts';
import {storeTest} from '../helpers/databases.ts';
import {testTools} from '../helpers/tools.ts';

async function prepare(store: Store) {
	const tools = testTools();
	const write = store.writer.transaction;
	const [acme, other] = await write(async trx => [
		(await createWorkspace(trx, tools, {name: 'acme'}))?.id as string,
		(await createWorkspace(trx, tools, {name: 'other'}))?.id as string,
	]);
	const workspaceId = acme as string;
	const input = {workspaceId, name: 'app', mode: 'live', scopes: ['messages:send'], rateLimit: '5/1'} as const;
	const create = (expiresAt: string | null = null) => write(trx => createKey(trx, tools, {...input, expiresAt}));
	return {tools, write, create, workspaceId, other: other as string};
}

storeTest(test, 'the store keeps the hash of a key and its beginning, not the key', async (t, store) => {
	const {create, workspaceId} = await prepare(store);
	const {row, key} = await create();
	t.is(apiKeyMode(key), 'live');
	t.is(row.hash, apiKeyHash(key));
	t.is(row.hint, key.slice(0, 13));
	t.deepEqual(await findApiKey(store.reader, workspaceId, row.id), row);
	t.false(JSON.stringify(await store.reader('api_keys').select()).includes(key));
});

storeTest(test, 'a key is revoked once, and only in its workspace', async (t, store) => {
	const {tools, write, create, workspaceId, other} = await prepare(store);
	const {row} = await create();
	const revoke = (workspace: string) => write(trx => revokeKey(trx, tools, workspace, row.id));
	t.is(await revoke(other), 'missing');
	t.like(await revoke(workspaceId), {id: row.id, revoked_at: '2026-06-09T10:00:00.000Z'});
	t.is(await revoke(workspaceId), 'already');
});

storeTest(
	test,
	'rotation makes a key with the same rights and ends the old one after the overlap',
	async (t, store) => {
		const {tools, write, create, workspaceId, other} = await prepare(store);
		const {row} = await create();
		const rotate = (workspace: string, id = row.id) =>
			write(trx => rotateKey(trx, tools, {workspaceId: workspace, id, overlap: 3_600_000}));
		t.is(await rotate(other), 'missing');
		const rotated = await rotate(workspaceId);
		t.like(rotated, {row: {name: 'app', mode: 'live', scopes: ['messages:send'], rate_limit: '5/1', expires_at: null}});
		t.is((await findApiKey(store.reader, workspaceId, row.id))?.expires_at, '2026-06-09T11:00:00.000Z');

		tools.advance(3_600_000);
		t.is(await rotate(workspaceId), 'ended');
		const short = await create('2026-06-09T11:00:01.000Z');
		await rotate(workspaceId, short.row.id);
		const kept = await findApiKey(store.reader, workspaceId, short.row.id);
		t.is(kept?.expires_at, '2026-06-09T11:00:01.000Z', 'the overlap lengthens no life');
	},
);

storeTest(test, 'keys are listed by workspace, newest first, and can be deleted', async (t, store) => {
	const {write, create, workspaceId, other} = await prepare(store);
	const [first, second] = [await create(), await create()];
	const ids = async (workspace: string) => (await listApiKeys(store.reader, workspace)).map(({id}) => id);
	t.deepEqual(await ids(workspaceId), [second.row.id, first.row.id]);
	t.deepEqual(await ids(other), []);
	await write(trx => deleteApiKey(trx, other, first.row.id));
	await write(trx => deleteApiKey(trx, workspaceId, second.row.id));
	t.deepEqual(await ids(workspaceId), [first.row.id]);
});
