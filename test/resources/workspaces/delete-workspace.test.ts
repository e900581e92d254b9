import {readFileSync} from 'node:fs';
import test from 'ava';
import {systemClock} from '../../../src/kit/clock.ts';
import {listAudit} from '../../../src/resources/audit/store.ts';
import {listVerifiedDomains} from '../../../src/resources/domains/store.ts';
import {
	createRemoval,
	deleteWorkspace,
	type RemovalOptions,
} from '../../../src/resources/workspaces/delete-workspace.ts';
import {
	findIds,
	findWorkspace,
	findWorkspaceByName,
	listWorkspaces,
	type Workspace,
} from '../../../src/resources/workspaces/store.ts';
import type {Store} from '../../../src/store/store.ts';
import {codeOf, startApi} from '../../helpers/api.ts';
import {sqliteTest, storeTest} from '../../helpers/databases.ts';
import {insertMessages, newId} from '../../helpers/messages.ts';
import {insertReceivedMail} from '../../helpers/received-mail.ts';
import {changeRecipients} from '../../helpers/recipient-rows.ts';
import {testTools} from '../../helpers/tools.ts';
import {insertDue, insertEndpoint} from '../../helpers/webhooks.ts';
import {addKey, addWorkspace} from '../../helpers/workspace.ts';

const at = '2026-06-09T10:15:30.123Z';

/** The tables that have rows of workspaces. */
const tables = [...readFileSync('test/schema.sqlite.sql', 'utf8').matchAll(/^CREATE TABLE (\w+) \(([^;]*)/gm)].flatMap(
	([, table = '', columns = '']) => (/\bworkspace_id\b/.test(columns) && table !== 'audit' ? [table] : []),
);

/** Creates a workspace with rows in every table and only final messages. */
async function fill(store: Store, name: string, messages = 120): Promise<Workspace> {
	const {database} = store;
	const {id} = await addWorkspace(store, name);
	await addKey(store, id);
	const people = Array.from({length: messages}, (_, n) => `u${n}@x.example`);
	const [messageId] = await insertMessages(store, id, people);
	await changeRecipients(database, all => all, {state: 'delivered', next_attempt_at: null});
	await database('messages').where({id: messageId}).update({tags: '["vip"]'});
	await database('message_terms').insert({workspace_id: id, term: 't:vip', message_id: messageId});
	const [first = ''] = people;
	const person = {workspace_id: id, address: first, address_key: first, created_at: at};
	await database('contacts').insert({...person, id: newId('con'), updated_at: at});
	const suppression = {...person, reason: 'manual', source: 'api'};
	await database.batchInsert(
		'suppressions',
		people.map(address_key => ({...suppression, address_key, id: newId('sup')})),
		50,
	);
	await database('topics').insert({id: newId('usg'), workspace_id: id, code: 'news', name: 'N', created_at: at});
	await database('topic_optouts').insert({...person, code: 'news', source: 'one-click'});
	await database('layouts').insert({...{workspace_id: id, kind: 'partial', name: 'n', files: '{}'}, updated_at: at});
	await database('address_health').insert({
		...{workspace_id: id, address_key: 'u@x.example', soft_messages: 1, updated_at: at},
	});
	await database('idempotency_keys').insert({
		...{
			workspace_id: id,
			mode: 'live',
			key: 'k',
			fingerprint: 'f',
			response: '',
			message_id: messageId,
			created_at: at,
		},
	});
	await database('usage_days').insert({workspace_id: id, day: '2026-06-09', status: 'accepted', n: 1});
	await database('usage_hours').insert({workspace_id: id, hour: '2026-06-09T10', status: 'accepted', n: 1});
	await database('usage_months').insert({workspace_id: id, month: '2026-06', accepted: 1, test: 0});
	await database('reputation_hours').insert({
		...{workspace_id: id, hour: '2026-06-09T10', attempted: 1, hard: 0, delivered: 1, complained: 0},
	});
	await database('lane_waits').insert({
		...{
			destination: 'x.example',
			workspace_id: id,
			node: 'n',
			site: 's',
			waits_for: 'w',
			detail: '',
			updated_at: at,
		},
	});
	await database('reports').insert({
		...{id: newId('evt'), workspace_id: id, message_id: messageId, kind: 'dsn', created_at: at},
	});
	await database('smarthosts').insert({
		...{id: newId('smh'), workspace_id: id, provider: 'ses', token_hash: name, takes: '[]', created_at: at},
	});
	for (const [state, more] of Object.entries({unread: {}, retained: {read_at: at, kept: 'unmatched'}})) {
		const event = {
			source: 'provider',
			digest: 'd',
			rcpt_to: '[]',
			raw: Buffer.from('{}'),
			size: 2,
			received_at: at,
		};
		await database('inbound').insert({...event, ...more, id: `${state} ${id}`, workspace_id: id});
	}
	await database('inbound_addresses').insert({
		...{id: newId('inb'), workspace_id: id, address: `a@${name}.example`, created_at: at},
	});
	await insertReceivedMail(store, newId, id);
	const layout = {workspace_id: id, kind: 'partial', name: 'n'};
	await database('first_starts').insert({workspace_id: id, begun_at: at});
	await database('layout_uses').insert({...layout, uses: '[]', uses_at: at});
	await database('erasures').insert({...{workspace_id: id, address_key: 'x', below: 'msg_'}, created_at: at});
	const alert = {id: newId('alr'), workspace_id: id, way: 'mail', target: 'a', digest_at: at, created_at: at};
	await database('alerts').insert(alert);
	await database('alert_addresses').insert({workspace_id: id, address_key: `a@${name}.example`, confirmed_at: at});
	const news = {kind: 'webhook_dead', subject: name, detail: '', fix: '', began_at: at, seen_at: at, rings: 0};
	await database('conditions').insert({...news, workspace_id: id});
	const user = {id: newId('usr'), email: `ann@${name}.example`, role: 'admin', workspace_id: id, created_at: at};
	await database('users').insert(user);
	await database('user_sessions').insert({
		...{id: newId('ses'), user_id: user.id, token_hash: name, workspace_id: id, address: '', agent: ''},
		...{created_at: at, seen_at: at, confirmed_at: at},
	});
	await insertDue(store, id, await insertEndpoint(store, id), 3);
	return (await findWorkspace(store.reader, id)) as Workspace;
}

const rowsOf = async (store: Store, id: string) => {
	const counts = tables.map(
		async table => [table, (await store.reader(table).where({workspace_id: id})).length] as const,
	);
	return Object.fromEntries(await Promise.all(counts));
};

async function remove(store: Store, workspace: Workspace, options: Partial<RemovalOptions> = {}) {
	const deleted = await deleteWorkspace({store, tools: testTools()}, workspace);
	const step = createRemoval({store, clock: systemClock, removeCaptured: async () => {}, ...options});
	while (await step()) {
		// Nothing else waits for the store.
	}
	return deleted;
}

storeTest(test, 'deletes a workspace with all its rows, keeps the others and audits it', async (t, store) => {
	const [acme, other] = [await fill(store, 'acme'), await fill(store, 'other', 2)];
	const before = await rowsOf(store, other.id);
	t.deepEqual(
		Object.entries(await rowsOf(store, acme.id)).filter(([, rows]) => rows === 0),
		[['queue', 0]],
		'every table has rows of it, but nothing waits',
	);
	const captured: string[] = [];
	const recipients: string[] = await store
		.reader('recipients')
		.where({workspace_id: acme.id})
		.orderBy('id')
		.pluck('id');
	const removeCaptured = async (ids: readonly string[]) => void captured.push(...ids);
	t.deepEqual(await remove(store, acme, {removeCaptured}), {kind: 'deleted', messages: 120});
	t.deepEqual(captured.toSorted(), recipients);
	t.deepEqual(
		Object.entries(await rowsOf(store, acme.id)).filter(([, rows]) => rows > 0),
		[],
	);
	t.is(await findWorkspace(store.reader, acme.id), undefined);
	t.deepEqual(await rowsOf(store, other.id), before);
	t.like(await listAudit(store.reader, {workspaceId: acme.id, limit: 1}), [
		{action: 'workspace.deleted', target: acme.id, detail: {name: 'acme', messages: 120}},
	]);
});

storeTest(test, 'refuses to delete a workspace with queued messages, even if held or paused', async (t, store) => {
	const acme = await fill(store, 'acme', 2);
	await insertMessages(store, acme.id, ['a@x.example', 'b@x.example']);
	await changeRecipients(store.database, all => all.where({address: 'a@x.example'}), {held_at: at});
	const before = await rowsOf(store, acme.id);
	t.deepEqual(await remove(store, acme), {kind: 'waiting', recipients: 2});
	t.deepEqual(await rowsOf(store, acme.id), before);
	t.deepEqual(await findWorkspace(store.reader, acme.id), acme, 'it is not paused');
});

storeTest(
	test,
	'hides a deleted workspace at once, deletes its rows in steps and resumes after a restart',
	async (t, store) => {
		const acme = await fill(store, 'acme');
		const {reader} = store;
		t.deepEqual(await deleteWorkspace({store, tools: testTools()}, acme), {kind: 'deleted', messages: 120});
		t.is((await rowsOf(store, acme.id)).messages, 120, 'it is marked, no more');
		t.is(await findWorkspace(reader, acme.id), undefined);
		t.is(await findWorkspaceByName(reader, 'acme'), undefined);
		t.deepEqual(await listWorkspaces(reader), []);
		t.deepEqual(await listVerifiedDomains(reader), []);
		t.deepEqual(await findIds(reader, 'msg', {start: 'msg_', limit: 1}), []);
		t.like(await rowsOf(store, acme.id), {api_keys: 0, users: 0, inbound_addresses: 0, smarthosts: 0, alerts: 0});
		const again = await addWorkspace(store, 'acme');
		t.not(again.id, acme.id, 'its name is free');

		let steps = 0;
		const onStep = () => {
			steps++;
			if (steps === 2) {
				throw new Error('power is gone');
			}
		};
		const options = {store, clock: systemClock, removeCaptured: async () => {}};
		const interrupted = createRemoval({...options, onStep});
		t.true(await interrupted());
		await t.throwsAsync(interrupted, {message: 'power is gone'});
		const seen: number[] = [];
		const step = createRemoval({...options, onStep: messages => void seen.push(messages)});
		while (await step()) {
			// Nothing else waits for the store.
		}
		t.true(seen.every((messages, n) => messages - (seen[n - 1] ?? 0) <= 50));
		t.deepEqual(
			Object.values(await rowsOf(store, acme.id)).filter(rows => rows > 0),
			[],
		);
		t.deepEqual(
			(await listWorkspaces(reader)).map(({id}) => id),
			[again.id],
		);
	},
);

sqliteTest(test, 'accepts nothing for a deleted workspace, whatever is cached', async (t, store) => {
	const api = await startApi(t, store);
	t.is((await api.send()).status, 202);
	await changeRecipients(store.database, all => all, {state: 'delivered', next_attempt_at: null});
	const acme = (await findWorkspace(store.reader, api.workspace.id)) as Workspace;
	t.is((await deleteWorkspace({store, tools: testTools()}, acme)).kind, 'deleted');
	t.is(codeOf(await api.send()), 'sending_paused');
	t.is((await store.reader('messages')).length, 1);
});
