import {statSync} from 'node:fs';
import test from 'ava';
import {
	fileTask,
	inboundTask,
	keyTask,
	listenerTask,
	messageTask,
	paceTask,
	reputationTask,
} from '../../src/daemon/sweep.ts';
import {storeTime} from '../../src/kit/time.ts';
import {createIdSource, idFloor} from '../../src/mail/ids.ts';
import {notify} from '../../src/outcome/outbox.ts';
import {trimKept} from '../../src/resources/received/kept-store.ts';
import type {Writer} from '../../src/store/engine/writer.ts';
import {createDays} from '../../src/store/postgres/days.ts';
import {openStore, type Store} from '../../src/store/store.ts';
import {engines, newStore, storeTest} from '../helpers/databases.ts';
import {insertMessages, insertWorkspace, newId} from '../helpers/messages.ts';
import {plansDuring, readsAll} from '../helpers/plans.ts';
import {changeRecipients} from '../helpers/recipient-rows.ts';
import {insertDue, insertEndpoint} from '../helpers/webhooks.ts';

const day = 86_400_000;

type Options = Partial<Parameters<typeof messageTask>[0]> & {readonly store: Store};

/** Runs one sweep of the messages, by default when everything just inserted is 91 days old. */
async function sweepMessages(options: Options): Promise<number> {
	const step = messageTask({
		clock: {now: () => Date.now() + 91 * day},
		days: () => 90,
		removeCaptured: async () => {},
		removeCapturedOf: async () => {},
		...options,
	}).begin();
	let steps = 1;
	while (await step()) {
		steps++;
	}
	return steps;
}

const finish = async (store: Store) =>
	await changeRecipients(store.database, all => all, {state: 'sent', next_attempt_at: null});
const countOf = async (store: Store, table: string) => Number((await store.reader(table).count('* as n').first())?.n);

storeTest(test, 'removes webhook deliveries without a message at the same age', async (t, store) => {
	const {workspaceId} = await insertWorkspace(store);
	const endpointId = await insertEndpoint(store, workspaceId, {events: ['domain_changed']});
	const about = {workspaceId, messageId: null, recipient: null};
	const notice = {...about, type: 'domain_changed', at: storeTime(Date.now()), detail: {}} as const;
	await store.writer.transaction(trx => notify(trx, [notice, notice], {newId}));
	await insertDue(store, workspaceId, endpointId, 1);
	await sweepMessages({store, clock: {now: () => Date.now() + 89 * day}});
	t.is(await countOf(store, 'webhook_deliveries'), 3);
	await sweepMessages({store, clock: {now: () => Date.now() + 92 * day}});
	t.true((await countOf(store, 'webhook_deliveries')) <= 1, 'on PostgreSQL a whole day goes');
});

storeTest(test, 'removes old messages with everything that belongs to them, and nothing else', async (t, store) => {
	const {workspaceId} = await insertWorkspace(store);
	const [old] = (await insertMessages(store, workspaceId, ['a@x.test'])) as [string];
	await finish(store);
	const at = '2026-06-09T10:15:30.123Z';
	const {database} = store;
	const [endpoint, delivery] = [newId('whe'), newId('whd')];
	const recipient = await database('recipients').first();
	await database('attachments').insert({
		...{message_id: old, position: 0, filename: 'f', content_type: 'text/plain', content: Buffer.from('x')},
	});
	await database('events').insert({
		id: newId('evt'),
		message_id: old,
		type: 'sent',
		occurred_at: at,
		recorded_at: at,
	});
	await database('attempts').insert({
		recipient_id: recipient.id,
		n: 1,
		position: 0,
		at,
		phase: 'dot',
		reply: '',
		ms: 1,
	});
	await database('engagement').insert({
		...{recipient_id: recipient.id, kind: 'opened', url: '', n: 1, machine_n: 0, first_at: at, last_at: at},
	});
	await database('reports').insert({id: newId('evt'), message_id: old, kind: 'dsn', created_at: at});
	await database('reports').insert({id: newId('evt'), message_id: null, kind: 'dsn', created_at: at});
	await database('webhook_endpoints').insert({
		...{id: endpoint, workspace_id: workspaceId, url: 'https://a.test', events: '[]', secret: '', created_at: at},
	});
	await database('webhook_deliveries').insert({
		...{id: delivery, workspace_id: workspaceId, endpoint_id: endpoint, message_id: old, event_type: 'delivered'},
		...{body: Buffer.from('{}'), state: 'delivered', attempts: 1, generation: 1, created_at: at},
	});
	await database('webhook_attempts').insert({delivery_id: delivery, generation: 1, n: 1, at, ms: 1});

	t.is(await sweepMessages({store, clock: {now: () => Date.now() + 89 * day}}), 1);
	t.is(await sweepMessages({store, days: () => 0}), 1);
	t.is(await countOf(store, 'messages'), 1, 'it is not old enough, and 0 keeps all');

	const files: string[] = [];
	await sweepMessages({store, removeCaptured: async ids => void files.push(...ids)});
	t.deepEqual(files, [recipient.id]);
	for (const table of [
		...['messages', 'recipients', 'attachments', 'events', 'attempts', 'engagement'],
		...['webhook_deliveries', 'webhook_attempts'],
	]) {
		t.is(await countOf(store, table), 0, table);
	}
	t.is(await countOf(store, 'reports'), 1, 'one that belongs to no message');
	t.is(await countOf(store, 'webhook_endpoints'), 1);
	t.is(await countOf(store, 'workspaces'), 1);
});

storeTest(test, 'removes messages by their time of acceptance, to the millisecond', async (t, store) => {
	const {workspaceId} = await insertWorkspace(store);
	await insertMessages(store, workspaceId, ['a@x.test']);
	await finish(store);
	const row = await store.reader('messages').first();
	const recipient = await store.reader('recipients').first();
	const now = Date.UTC(2026, 5, 9);
	for (const age of [-1, 0, 1]) {
		const id = idFloor('msg', now - 90 * day - age);
		await store.database('messages').insert({...row, id});
		await store.database('recipients').insert({...recipient, id: newId('rcp'), message_id: id});
	}
	await sweepMessages({store, clock: {now: () => now}});
	const left = await store.reader('messages').orderBy('id').pluck('id');
	t.deepEqual(left.slice(0, 2), [idFloor('msg', now - 90 * day), idFloor('msg', now - 90 * day + 1)]);
	t.is(left.length, 3);
});

storeTest(test, 'keeps queued messages, however old, and still removes later ones', async (t, store) => {
	const {workspaceId} = await insertWorkspace(store);
	const ids = await insertMessages(
		store,
		workspaceId,
		Array.from({length: 40}, (_, index) => `u${index}@x.test`),
	);
	const waiting = ids.slice(0, 25);
	await changeRecipients(store.database, all => all.whereIn('message_id', ids.slice(25)), {
		state: 'sent',
		next_attempt_at: null,
	});
	const recipient = await store.reader('recipients').where({message_id: ids[30]}).first();
	const cc = newId('rcp');
	await store.database('recipients').insert({...recipient, id: cc, role: 'cc'});
	await changeRecipients(store.database, all => all.where({id: cc}), {next_attempt_at: '2099'});
	await changeRecipients(store.database, all => all.where({message_id: ids[31]}), {
		next_attempt_at: '2099',
		held_at: '2026',
	});
	t.is(await sweepMessages({store, messagesPerStep: 10}), 5);
	const left = await store.reader('messages').orderBy('id').pluck('id');
	t.deepEqual(left, [...waiting, ids[30], ids[31]].sort());
	await finish(store);
	await changeRecipients(store.database, all => all, {next_attempt_at: null});
	await sweepMessages({store, messagesPerStep: 10});
	t.is(await countOf(store, 'messages'), 0);
});

storeTest(test, 'two concurrent sweeps share the work', async (t, store) => {
	const {workspaceId} = await insertWorkspace(store);
	await insertMessages(
		store,
		workspaceId,
		Array.from({length: 300}, (_, index) => `u${index}@x.test`),
	);
	await finish(store);
	const taken: string[] = [];
	const removeCaptured = async (ids: readonly string[]) => void taken.push(...ids);
	// Two writers of one process stand for two nodes.
	const other = {...store, writer: {...store.writer, transaction: store.reader.transaction.bind(store.reader)}};
	const both = [store, ...(store.dialect.name === 'postgres' ? [other as Store] : [store])];
	await Promise.all(both.map(one => sweepMessages({store: one, messagesPerStep: 20, removeCaptured})));
	await sweepMessages({store, removeCaptured});
	t.is(await countOf(store, 'messages'), 0);
	t.is(new Set(taken).size, 300);
	t.is(taken.length, 300);
});

storeTest(test, 'no statement of a sweep scans a whole table', async (t, store, engine) => {
	const {workspaceId} = await insertWorkspace(store);
	await insertMessages(store, workspaceId, ['a@x.test', 'b@x.test']);
	await finish(store);
	const plans = await plansDuring(store, engine, () => sweepMessages({store}));
	t.true(plans.length >= 4);
	for (const plan of plans) {
		t.false(readsAll(plan), plan);
	}
});

storeTest(test, 'removes expired idempotency keys step by step, by index', async (t, store, engine) => {
	const {workspaceId} = await insertWorkspace(store);
	const now = Date.UTC(2026, 5, 9);
	const retention = 86_400_000;
	await store.database('idempotency_keys').insert(
		[-1, 0, 1, 2, 3, 4].map(age => ({
			...{workspace_id: workspaceId, mode: 'live', key: `key ${age}`, fingerprint: 'f', response: '{}'},
			...{message_id: newId('msg'), created_at: storeTime(now - retention - age)},
		})),
	);
	const step = keyTask({store, clock: {now: () => now}, retention: () => retention, rowsPerStep: 2}).begin();
	const plans = await plansDuring(store, engine, async () => {
		t.true(await step());
	});
	const left = async () => (await store.reader('idempotency_keys').orderBy('created_at').pluck('key')).join();
	t.is(await left(), 'key 2,key 1,key 0,key -1');
	t.true(await step());
	t.is(await left(), 'key 0,key -1');
	t.false(await step());
	t.is(await left(), 'key -1');
	t.false(await step());
	for (const plan of plans) {
		t.false(readsAll(plan), plan);
	}
});

storeTest(test, 'removes stale provider states and old warm-up days step by step', async (t, store) => {
	const now = Date.UTC(2026, 5, 9, 12);
	const site = {step: 0, window: 1, suspended_until: null};
	const aged = (ms: number) => storeTime(now - 30 * day - ms);
	await store.database('sites').insert([
		{...site, site: 'old 1', updated_at: aged(1)},
		{...site, site: 'old 2', updated_at: aged(2)},
		{...site, site: 'over', updated_at: aged(3), suspended_until: storeTime(now)},
		{...site, site: 'suspended', updated_at: aged(4), suspended_until: storeTime(now + 1)},
		{...site, site: 'young', updated_at: aged(0)},
	]);
	await store.database('warmup_days').insert(
		['2026-04-08', '2026-04-09', '2026-04-10', '2026-04-11', '2026-06-09'].map(date => ({
			...{source: '192.0.2.1', provider: 'google', day: date, n: 3},
		})),
	);
	const step = paceTask({store, clock: {now: () => now}, rowsPerStep: 2}).begin();
	const days = async () => (await store.reader('warmup_days').orderBy('day').pluck('day')).join();
	t.true(await step());
	t.is(await days(), '2026-04-10,2026-04-11,2026-06-09');
	t.is(await countOf(store, 'sites'), 3);
	t.false(await step());
	t.deepEqual(await store.reader('sites').orderBy('site').pluck('site'), ['suspended', 'young']);
	t.is(await days(), '2026-04-10,2026-04-11,2026-06-09', '60 days back is kept');
});

storeTest(
	test,
	'retains the newest inbound messages within both limits and 30 days, and processed ones for 7 days',
	async (t, store) => {
		const now = Date.UTC(2026, 10, 21);
		const step = async (caps: {messages: number; bytes: number}) => {
			const next = inboundTask({store, clock: {now: () => now}, caps, rowsPerStep: 3}).begin();
			while (await next()) {}
		};
		const insert = async (id: string, days: number, kept: string | null, isRead = true) => {
			const at = storeTime(now - days * day);
			await store.database('inbound').insert({
				...{
					id,
					digest: id,
					source: 'smtp',
					rcpt_to: '[]',
					raw: Buffer.alloc(10),
					size: 10,
					received_at: at,
					kept,
				},
				read_at: isRead ? at : null,
			});
		};
		for (let n = 0; n < 20; n++) {
			await insert(`kept ${String(n).padStart(2, '0')}`, n, 'unmatched');
		}
		await insert('old kept', 31, 'operator');
		await insert('read', 6, null);
		await insert('old read', 8, null);
		await insert('old and unread', 100, null, false);
		const left = async () => await store.reader('inbound').orderBy('received_at', 'desc').pluck('id');
		await step({messages: 100, bytes: 1000});
		t.is((await left()).length, 22);
		await step({messages: 12, bytes: 1000});
		t.deepEqual((await left()).filter(id => id.startsWith('kept')).at(-1), 'kept 11');
		await step({messages: 12, bytes: 59});
		const newest = ['kept 00', 'kept 01', 'kept 02', 'kept 03', 'kept 04'];
		t.deepEqual((await left()).toSorted(), [...newest, 'old and unread', 'read']);
	},
);

storeTest(test, 'a flood of reports does not displace messages to the operator, nor vice versa', async (t, store) => {
	const mails = (kept: string, count: number, days: number) =>
		Array.from({length: count}, (_, n) => ({
			...{
				id: `${kept} ${n}`,
				digest: 'x',
				source: 'smtp',
				rcpt_to: '[]',
				raw: Buffer.alloc(1),
				size: 1,
				kept,
			},
			...{received_at: storeTime(Date.now() - days * day), read_at: storeTime(Date.now())},
		}));
	await store.database('inbound').insert([...mails('operator', 5, 9), ...mails('unmatched', 60, 1)]);
	const left = async (kept: string) => Number((await store.reader('inbound').where({kept}).count('* as n'))[0]?.n);
	const trim = (caps: {messages: number; bytes: number}) =>
		store.writer.transaction(trx => trimKept(trx, caps, 1000));
	t.is(await trim({messages: 50, bytes: 1000}), 10);
	t.deepEqual([await left('operator'), await left('unmatched')], [5, 50]);
	await store.database('inbound').insert(mails('operator', 30, 0).map(mail => ({...mail, id: `new ${mail.id}`})));
	t.is(await trim({messages: 50, bytes: 1000}), 30);
	t.deepEqual([await left('operator'), await left('unmatched')], [5, 50]);
});

storeTest(test, 'the sweep of inbound messages scans no whole table', async (t, store, engine) => {
	const mail = {digest: 'x', source: 'smtp', rcpt_to: '[]', raw: Buffer.alloc(1), size: 1, kept: 'unmatched'};
	await store.database('inbound').insert({...mail, id: 'x', received_at: 'x', read_at: 'x'});
	const plans = await plansDuring(store, engine, async () => {
		const next = inboundTask({store, clock: {now: () => Date.now()}, caps: {messages: -1, bytes: -1}}).begin();
		await next();
	});
	t.true(plans.length > 2);
	for (const plan of plans) {
		// The number of retained messages is limited, so their index may be scanned.
		t.true(!readsAll(plan) || plan.includes('inbound_kept'), plan);
	}
});

storeTest(test, 'removes hourly counts after eight days, step by step', async (t, store) => {
	const now = Date.UTC(2026, 5, 9, 12, 30);
	const {workspaceId} = await insertWorkspace(store);
	const figures = {attempted: 1, hard: 0, delivered: 1, complained: 0};
	const hours = ['2026-06-01T09', '2026-06-01T10', '2026-06-01T11', '2026-06-01T12', '2026-06-09T12'].map(hour => ({
		workspace_id: workspaceId,
		hour,
	}));
	await store.database('reputation_hours').insert(hours.slice(2).map(hour => ({...hour, ...figures})));
	await store.database('usage_hours').insert(hours.map(hour => ({...hour, status: 'accepted', n: 1})));
	const step = reputationTask({store, clock: {now: () => now}, rowsPerStep: 2}).begin();
	t.true(await step());
	t.is(await countOf(store, 'usage_hours'), 3);
	t.false(await step());
	for (const table of ['reputation_hours', 'usage_hours']) {
		t.deepEqual(await store.reader(table).orderBy('hour').pluck('hour'), ['2026-06-01T12', '2026-06-09T12'], table);
	}
});

storeTest(test, 'returns free pages to the file system in steps, down to a tenth of the file', async (t, store) => {
	const {database, dialect, wal} = store;
	const pragma = async (name: string) => Object.values((await database.raw(`pragma ${name}`))[0])[0] as number;
	const task = fileTask({store, pagesPerStep: 100});
	const step = task.begin();
	if (dialect.name === 'postgres') {
		t.false(await step(), 'PostgreSQL sees to it by itself');
		return;
	}
	const file = wal?.file.replace(/-wal$/, '') ?? '';
	const onDisk = () => statSync(file).size;
	const other = await openStore({file});
	t.teardown(() => other.close());
	await database.schema.createTable('ballast', table => void table.binary('bytes'));
	for (let row = 0; row < 8; row++) {
		await database('ballast').insert({bytes: Buffer.alloc(400_000)});
	}
	const before = await pragma('page_count');
	await database('ballast').delete();
	t.true(await step());
	const after = await pragma('page_count');
	t.true(after <= before - 100 && after > before - 110, `${after} of ${before}`);
	while (await step()) {}
	const [pages, free] = [await pragma('page_count'), await pragma('freelist_count')];
	t.true(pages < before / 2, `${pages} of ${before}`);
	t.true(free > 0 && free <= Math.ceil(pages * 0.12), `${free} of ${pages}`);
	t.false(await step());
	t.is(onDisk(), pages * (await pragma('page_size')));
	t.is(wal?.bytes(), 0);

	await database('ballast').insert({bytes: Buffer.alloc(400_000)});
	await wal?.checkpoint();
	await database('ballast').delete();
	await other.database.raw('begin');
	await other.database('workspaces').count();
	const grown = onDisk();
	while (await task.begin()()) {}
	t.is(onDisk(), grown, 'somebody reads it');
	await other.database.raw('commit');
	await task.begin()();
	t.is(onDisk(), (await pragma('page_count')) * (await pragma('page_size')));
});

storeTest(test, 'removes the endpoint of a webhook listener that received nothing for an hour', async (t, store) => {
	const {workspaceId} = await insertWorkspace(store);
	const now = Date.now();
	const idAt = (prefix: 'whd', at: number) => createIdSource({now: () => at, monotonic: () => 0})(prefix);
	const urls = ['listen+http://localhost:1/', 'listen+http://localhost:2/', 'https://a.test/'];
	const ids = urls.map(() => newId('whe'));
	await store.database('webhook_endpoints').insert(
		urls.map((url, n) => ({
			id: ids[n],
			workspace_id: workspaceId,
			url,
			events: '[]',
			secret: 's',
			created_at: '',
		})),
	);
	// The first and the third are over an hour old, but the third has an ordinary endpoint. The second is new.
	await store.database('webhook_deliveries').insert(
		[3_700_000, 0, 3_700_000].map((age, n) => ({
			...{
				id: idAt('whd', now - age),
				workspace_id: workspaceId,
				endpoint_id: ids[n],
				event_type: 'delivered',
			},
			...{body: Buffer.from('{}'), state: 'pending', attempts: 0, generation: 1, created_at: ''},
		})),
	);
	const acting = {clock: {now: () => now}, newId, operator: {actor: 'daemon', from: 'here'}};
	t.false(await listenerTask({store, acting}).begin()());
	const left = await store.reader('webhook_endpoints').whereNull('deleted_at').orderBy('id').pluck('id');
	t.deepEqual(left, ids.slice(1).toSorted());
	t.deepEqual(await store.reader('audit').pluck('action'), ['webhook.removed']);
});

if (engines.includes('postgres')) {
	test('tries only once per sweep to drop a day that is being read', async t => {
		const store = await newStore(t, 'postgres');
		const {workspaceId} = await insertWorkspace(store);
		await store.writer.transaction(trx => createDays(trx, Date.now()));
		await insertMessages(store, workspaceId, ['a@x.test']);
		await finish(store);
		const reading = await store.reader.transaction();
		t.teardown(() => (reading.isCompleted() ? undefined : reading.rollback()));
		await reading('messages');
		let tries = 0;
		const writer: Writer = {
			...store.writer,
			transaction: work =>
				store.writer.transaction(async trx => {
					trx.on('query', ({sql}: {sql: string}) => {
						tries += sql.startsWith('drop table') ? 1 : 0;
					});
					return await work(trx);
				}),
		};
		await sweepMessages({store: {...store, writer}});
		t.is(tries, 1);
		t.is(await countOf(store, 'messages'), 1);
		await reading.commit();
		await sweepMessages({store});
		t.is(await countOf(store, 'messages'), 0);
	});
}
