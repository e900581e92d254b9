import test from 'ava';
import {idFloor} from '../../src/mail/ids.ts';
import {storeTime} from '../../src/mail/time.ts';
import {dropDay, emptyBeside, findPast, makeDays} from '../../src/store/days.ts';
import {migrate} from '../../src/store/engine/migrate.ts';
import {readRecipients} from '../../src/store/message-recipients.ts';
import type {Store} from '../../src/store/store.ts';
import {openStore} from '../../src/store/store.ts';
import {claimDeliveries} from '../../src/store/webhooks/webhook-claims.ts';
import {listPosts} from '../../src/store/webhooks/webhook-deliveries.ts';
import {engines, migrateUpTo, newLocation} from '../helpers/databases.ts';
import {insertMessages, insertWorkspace, newId} from '../helpers/messages.ts';
import {changeRecipients} from '../helpers/recipient-rows.ts';
import {insertDue, insertEndpoint} from '../helpers/webhooks.ts';

const dayMs = 86_400_000;
const at = storeTime(Date.now());

/** What came of the first attempts of deliveries. */
async function insertPosts(store: Store, ids: readonly string[]): Promise<void> {
	for (const id of ids) {
		await store.database('webhook_attempts').insert({delivery_id: id, generation: 0, n: 1, at, status: 500, ms: 1});
	}
}

const partOf = async (store: Store, table: string) =>
	(await store.reader(table).first(store.reader.raw('tableoid::regclass::text as part')))?.part;

for (const engine of engines.filter(one => one === 'postgres')) {
	test(`what a former version stored is read, goes on and goes as one part (${engine})`, async t => {
		const store = await openStore(await newLocation(t, engine));
		t.teardown(() => store.close());
		await migrateUpTo(store, '025_queue');
		const {workspaceId} = await insertWorkspace(store);
		const [id = ''] = await insertMessages(store, workspaceId, ['one@a.test'], {isFormer: true});
		const told: string[] = [];
		t.deepEqual(await migrate(store.database, {tell: line => void told.push(line)}), [
			'026_days',
			'027_webhook_queue',
			'028_term_lists',
			'029_fewer_event_rows',
			'030_proofs',
		]);
		const reading = '0 MB are read once, about 1 s where 200 MB can be read in a second.';
		t.deepEqual(told, [`Mail by day: ${reading}`, `Copies: ${reading}`, `Messages: ${reading}`]);
		t.is(await partOf(store, 'messages'), 'messages_former');
		const now = Date.now();
		await store.writer.transaction(trx => makeDays(trx, now));
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

/** Days as the version before made them. */
async function makeFormerDays(store: Store, starts: readonly number[]): Promise<void> {
	for (const start of starts) {
		const name = new Date(start).toISOString().slice(0, 10).replaceAll('-', '');
		for (const [table, prefix] of [
			...['messages', 'events', 'attachments', 'message_terms'].map(one => [one, 'msg'] as const),
			...['recipients', 'attempts', 'engagement'].map(one => [one, 'rcp'] as const),
		]) {
			await store.database.raw(
				`create table ${table}_${name} partition of ${table}
				for values from ('${idFloor(prefix, start)}') to ('${idFloor(prefix, start + dayMs)}')`,
			);
		}
	}
}

for (const engine of engines.filter(one => one === 'postgres')) {
	test(`deliveries of a former version go on, and go with the last day that mail had then (${engine})`, async t => {
		const store = await openStore(await newLocation(t, engine));
		t.teardown(() => store.close());
		await migrateUpTo(store, '026_days');
		const {workspaceId} = await insertWorkspace(store);
		const [now, {transaction}] = [Date.now(), store.writer];
		const start = Math.floor(now / dayMs) * dayMs;
		await makeFormerDays(store, [start, start + dayMs]);
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
				...{state: 'pending', attempts: 1, generation: 2, next_attempt_at: at, created_at: at},
			});
		}
		await insertPosts(store, [idFloor('whd', now)]);
		await migrate(store.database);
		const parts = async () =>
			(
				await store
					.reader('webhook_deliveries')
					.orderBy('id')
					.select(store.reader.raw('tableoid::regclass::text as part'))
			).map(({part}) => part);
		const name = (time: number) => new Date(time).toISOString().slice(0, 10).replaceAll('-', '');
		const last = name(start + dayMs);
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
		await transaction(trx => makeDays(trx, now));
		await insertDue(store, workspaceId, endpointId, 1);
		const gone: string[] = [];
		for (let before = start + dayMs; before <= start + 2 * dayMs; before += dayMs) {
			const {day} = await findPast(store.reader, before);
			gone.push(day?.name ?? '');
			if (day) {
				await transaction(trx => emptyBeside(trx, day, 100));
				await transaction(trx => dropDay(trx, day));
			}
		}
		t.deepEqual(gone, [name(start), last]);
		t.deepEqual(await parts(), ['webhook_deliveries_other']);
	});
}
