import test from 'ava';
import {apiKeyHash, apiKeyMode} from '../../../src/mail/api-key.ts';
import {createKey, revokeKey, rotateKey} from '../../../src/resources/keys/rules.ts';
import {deleteApiKey, findApiKey, listApiKeys} from '../../../src/resources/keys/store.ts';
import {performIn, Refused} from '../../../src/resources/operation.ts';
import {createWorkspace} from '../../../src/resources/workspaces/rules.ts';
import type {Store} from '../../../src/store/store.ts';
import {storeTest} from '../../helpers/databases.ts';
import {testTools, testVault} from '../../helpers/tools.ts';

async function prepare(store: Store) {
	const tools = testTools();
	const write = store.writer.transaction;
	const [acme, other] = await write(async trx => [
		(await createWorkspace(trx, tools, {name: 'acme'}))?.id as string,
		(await createWorkspace(trx, tools, {name: 'other'}))?.id as string,
	]);
	const workspaceId = acme as string;
	const context = {face: 'cli', mode: 'live', tools, vault: async () => testVault} as const;
	const create = (expires_at: string | null = null) =>
		write(trx => {
			const input = {
				name: 'app',
				mode: 'live',
				scopes: ['messages:send' as const],
				rate_limit: '5/1',
				expires_at,
			} as const;
			return performIn(createKey, {...context, workspaceId, trx}, input);
		});
	return {context, tools, write, create, workspaceId, other: other as string};
}

storeTest(test, 'stores only the hash and the prefix of a key', async (t, store) => {
	const {create, workspaceId} = await prepare(store);
	const {row, key} = await create();
	t.is(apiKeyMode(key), 'live');
	t.is(row.hash, apiKeyHash(key));
	t.is(row.hint, key.slice(0, 13));
	t.deepEqual(await findApiKey(store.reader, workspaceId, row.id), row);
	t.false(JSON.stringify(await store.reader('api_keys').select()).includes(key));
});

storeTest(test, 'revokes a key once, and only from its own workspace', async (t, store) => {
	const {context, write, create, workspaceId, other} = await prepare(store);
	const {row} = await create();
	const revoke = (workspace: string) =>
		write(trx => performIn(revokeKey, {...context, workspaceId: workspace, trx}, {id: row.id}));
	t.is((await t.throwsAsync(revoke(other), {instanceOf: Refused}))?.wrong, `key ${row.id} not found`);
	t.like(await revoke(workspaceId), {id: row.id, revoked_at: '2026-06-09T10:00:00.000Z'});
	t.is(
		(await t.throwsAsync(revoke(workspaceId), {instanceOf: Refused}))?.wrong,
		`the key ${row.id} is already revoked`,
	);
});

storeTest(
	test,
	'rotates to a key with the same permissions and expires the old one after the overlap',
	async (t, store) => {
		const {context, tools, write, create, workspaceId, other} = await prepare(store);
		const {row} = await create();
		const rotate = (workspace: string, id = row.id) =>
			write(trx => performIn(rotateKey, {...context, workspaceId: workspace, trx}, {id, overlap: 3600}));
		t.is((await t.throwsAsync(rotate(other), {instanceOf: Refused}))?.wrong, `key ${row.id} not found`);
		const rotated = await rotate(workspaceId);
		t.like(rotated, {
			row: {name: 'app', mode: 'live', scopes: ['messages:send'], rate_limit: '5/1', expires_at: null},
		});
		t.is((await findApiKey(store.reader, workspaceId, row.id))?.expires_at, '2026-06-09T11:00:00.000Z');

		tools.advance(3_600_000);
		t.is(
			(await t.throwsAsync(rotate(workspaceId), {instanceOf: Refused}))?.wrong,
			`the key ${row.id} has expired or been revoked`,
		);
		const short = await create('2026-06-09T11:00:01.000Z');
		await rotate(workspaceId, short.row.id);
		const kept = await findApiKey(store.reader, workspaceId, short.row.id);
		t.is(kept?.expires_at, '2026-06-09T11:00:01.000Z', 'the overlap lengthens no life');
	},
);

storeTest(test, 'lists the keys of a workspace, newest first, and deletes them', async (t, store) => {
	const {write, create, workspaceId, other} = await prepare(store);
	const [first, second] = [await create(), await create()];
	const ids = async (workspace: string) => (await listApiKeys(store.reader, workspace)).map(({id}) => id);
	t.deepEqual(await ids(workspaceId), [second.row.id, first.row.id]);
	t.deepEqual(await ids(other), []);
	await write(trx => deleteApiKey(trx, other, first.row.id));
	await write(trx => deleteApiKey(trx, workspaceId, second.row.id));
	t.deepEqual(await ids(workspaceId), [first.row.id]);
});
