import test from 'ava';
import {storeTime} from '../../src/kit/time.ts';
import {type IdPrefix, idFloor} from '../../src/mail/ids.ts';
import {claimDeliveries, listPosts} from '../../src/resources/webhooks/queue-store.ts';
import {createDays, dropDay, findPast, purgeRelated} from '../../src/store/postgres/days.ts';
import {readRecipients} from '../../src/store/recipients.ts';
import type {Store} from '../../src/store/store.ts';
import {engines, newStore} from '../helpers/databases.ts';
import {insertMessages, insertWorkspace, newId} from '../helpers/messages.ts';
import {changeRecipients} from '../helpers/recipient-rows.ts';
import {insertDue, insertEndpoint} from '../helpers/webhooks.ts';

const dayMs = 86_400_000;
const at = storeTime(Date.now());

/** Inserts the results of the first attempts of deliveries. */
async function insertPosts(store: Store, ids: readonly string[]): Promise<void> {
	for (const id of ids) {
		await store.database('webhook_attempts').insert({delivery_id: id, generation: 0, n: 1, at, status: 500, ms: 1});
	}
}

const partOf = async (store: Store, table: string) =>
	(await store.reader(table).first(store.reader.raw('tableoid::regclass::text as part')))?.part;

const startOf = (time: number) => Math.floor(time / dayMs) * dayMs;
const nameOf = (time: number) => new Date(time).toISOString().slice(0, 10).replaceAll('-', '');

const mailTables: ReadonlyArray<readonly [table: string, prefix: IdPrefix]> = [
	...(['messages', 'events', 'attachments', 'message_terms'] as const).map(one => [one, 'msg'] as const),
	...(['recipients', 'attempts', 'engagement'] as const).map(one => [one, 'rcp'] as const),
];
const deliveryTables = (['webhook_deliveries', 'webhook_attempts'] as const).map(one => [one, 'whd'] as const);

/** Creates a partition as earlier versions did: from the beginning, unless it is for one day. */
async function makePart(
	store: Store,
	tables: typeof mailTables,
	{name, from, to}: {readonly name: string; readonly from?: number; readonly to: number},
): Promise<void> {
	for (const [table, prefix] of tables) {
		await store.database.raw(
			`create table ${table}_${name} partition of ${table}
			for values from (${from === undefined ? 'minvalue' : `'${idFloor(prefix, from)}'`}) to ('${idFloor(prefix, to)}')`,
		);
	}
}

for (const engine of engines.filter(one => one === 'postgres')) {
	test(`messages of an earlier version stay readable and expire as one partition (${engine})`, async t => {
		const store = await newStore(t, engine);
		const now = Date.now();
		// All days until tomorrow are one part.
		await makePart(store, mailTables, {name: 'former', to: startOf(now) + 2 * dayMs});
		const {workspaceId} = await insertWorkspace(store);
		const [id = ''] = await insertMessages(store, workspaceId, ['one@a.test']);
		t.is(await partOf(store, 'messages'), 'messages_former');
		await store.writer.transaction(trx => createDays(trx, now));
		await insertMessages(store, workspaceId, ['two@a.test']);
		t.is((await store.reader('messages').count('* as n').first())?.n, '2');
		t.is((await readRecipients(store.reader, workspaceId, id)).length, 1);
		const names = await store.reader('pg_tables').whereLike('tablename', 'messages_%').pluck('tablename');
		t.is(names.length, 2 + 2, `${names} has the days after tomorrow`);
		await changeRecipients(store.database, all => all, {state: 'sent', next_attempt_at: null});
		t.is((await findPast(store.reader, now)).rowsBefore, now, 'its rows go one by one until it ends');
		const {day} = await findPast(store.reader, now + 3 * dayMs);
		t.is(day?.name, 'former');
		if (day) {
			await store.writer.transaction(trx => dropDay(trx, day));
		}
		t.is(await store.reader('recipients').first(), undefined);
	});
}

for (const engine of engines.filter(one => one === 'postgres')) {
	test(`deliveries of an earlier version continue and expire with its last day (${engine})`, async t => {
		const store = await newStore(t, engine);
		const {workspaceId} = await insertWorkspace(store);
		const [now, {transaction}] = [Date.now(), store.writer];
		const start = startOf(now);
		for (const from of [start, start + dayMs]) {
			await makePart(store, mailTables, {name: nameOf(from), from, to: from + dayMs});
		}
		const last = nameOf(start + dayMs);
		await makePart(store, deliveryTables, {name: last, to: start + 2 * dayMs});
		const endpointId = await insertEndpoint(store, workspaceId);
		const times = {today: now, ahead: start + 9 * dayMs};
		for (const [name, time] of Object.entries(times)) {
			await store.database('webhook_deliveries').insert({
				...{
					id: idFloor('whd', time),
					workspace_id: workspaceId,
					endpoint_id: endpointId,
					event_type: 'sent',
					body: name,
				},
				...{state: 'pending', attempts: 1, generation: 2, created_at: at},
			});
			await store.database('webhook_queue').insert({
				...{delivery_id: idFloor('whd', time), endpoint_id: endpointId, next_attempt_at: at, generation: 2},
			});
		}
		await insertPosts(store, [idFloor('whd', now)]);
		const parts = async () =>
			(
				await store
					.reader('webhook_deliveries')
					.orderBy('id')
					.select(store.reader.raw('tableoid::regclass::text as part'))
			).map(({part}) => part);
		t.deepEqual(await parts(), [`webhook_deliveries_${last}`, 'webhook_deliveries_other']);
		t.is((await listPosts(store.reader, idFloor('whd', now))).length, 1);
		const {deliveries} = await transaction(trx =>
			claimDeliveries(trx, newId('req'), {permits: [{endpointId, limit: 9}], now: at}),
		);
		t.deepEqual(
			deliveries.map(({generation, attempts}) => [generation, attempts]),
			[
				[2, 1],
				[2, 1],
			],
		);
		await transaction(trx => createDays(trx, now));
		await insertDue(store, workspaceId, endpointId, 1);
		const gone: string[] = [];
		for (let before = start + dayMs; before <= start + 2 * dayMs; before += dayMs) {
			const {day} = await findPast(store.reader, before);
			gone.push(day?.name ?? '');
			if (day) {
				await transaction(trx => purgeRelated(trx, day, 100));
				await transaction(trx => dropDay(trx, day));
			}
		}
		t.deepEqual(gone, [nameOf(start), last]);
		t.deepEqual(await parts(), ['webhook_deliveries_other']);
	});
}
