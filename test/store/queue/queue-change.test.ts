import test from 'ava';
import type {Knex} from 'knex';
import {storeTime} from '../../../src/kit/time.ts';
import {lockLate} from '../../../src/store/engine/dialect.ts';
import {
	endWaiting,
	findClaimed,
	holdAll,
	holdRecipients,
	makeDue,
	releaseHeld,
	type Step,
} from '../../../src/store/queue/open-recipients.ts';
import {findNamed, findWaiting, listQueue, readQueueSize} from '../../../src/store/queue/queue-summary.ts';
import type {Store} from '../../../src/store/store.ts';
import {engines, newStore, storeTest} from '../../helpers/databases.ts';
import {insertMessages, insertWorkspace, newId} from '../../helpers/messages.ts';
import {changeRecipients, recipientRows} from '../../helpers/recipient-rows.ts';
import {waitFor} from '../../helpers/wait.ts';

const now = Date.now();
const at = storeTime(now);
const later = storeTime(now + 600_000);

/** One recipient each: due, deferred, in flight, held, delivered. */
async function prepare(store: Store) {
	const {workspaceId} = await insertWorkspace(store);
	const names = ['due', 'deferred', 'tried', 'held', 'over'] as const;
	const messages = await insertMessages(
		store,
		workspaceId,
		names.map(name => `${name}@x.test`),
		{due: now - 1000},
	);
	const rows: Array<{id: string; message_id: string; address: string}> = await recipientRows(store.reader).select();
	const idOf = (name: string) => rows.find(({address}) => address === `${name}@x.test`)?.id ?? '';
	const set = (name: string, values: object) =>
		changeRecipients(store.database, all => all.where({id: idOf(name)}), values);
	await set('deferred', {state: 'queued', next_attempt_at: later});
	await set('tried', {state: 'queued', next_attempt_at: later, claimed_by: 'req_alive'});
	await set('held', {held_at: at});
	await set('over', {state: 'delivered', next_attempt_at: null});
	const all = rows.map(({id}) => id);
	const nameOf = (id: string) => rows.find(row => row.id === id)?.address.split('@')[0];
	const step: Step = {ids: all, now: at, silentSince: null};
	const changed = async (work: Parameters<typeof store.writer.transaction<ReadonlyArray<{id: string}>>>[0]) =>
		(await store.writer.transaction(work)).map(({id}) => nameOf(id)).sort();
	return {workspaceId, messages, all, idOf, step, changed};
}

storeTest(test, 'hold keeps the state and the due time, and skips recipients in flight', async (t, store) => {
	const {step, changed, idOf, all} = await prepare(store);
	t.deepEqual(await changed(trx => holdRecipients(trx, step)), ['deferred', 'due']);
	t.like(
		await recipientRows(store.reader)
			.where({id: idOf('deferred')})
			.first(),
		{
			state: 'queued',
			next_attempt_at: later,
			held_at: at,
		},
	);
	t.deepEqual(await findClaimed(store.reader, all), [idOf('tried')]);
	t.deepEqual(await changed(trx => holdRecipients(trx, step)), []);
	t.deepEqual(await changed(trx => releaseHeld(trx, step)), ['deferred', 'due', 'held']);
	t.is(
		(
			await recipientRows(store.reader)
				.where({id: idOf('deferred')})
				.first()
		).next_attempt_at,
		later,
	);
});

storeTest(test, 'flush makes deferred recipients due, and no others', async (t, store) => {
	const {step, changed, idOf} = await prepare(store);
	t.deepEqual(await changed(trx => makeDue(trx, step)), ['deferred']);
	t.is(
		(
			await recipientRows(store.reader)
				.where({id: idOf('deferred')})
				.first()
		).next_attempt_at,
		at,
	);
	t.is(
		(
			await recipientRows(store.reader)
				.where({id: idOf('tried')})
				.first()
		).next_attempt_at,
		later,
	);
});

storeTest(test, 'ends waiting and held recipients, but not those in flight or finished', async (t, store) => {
	const {step, changed, idOf} = await prepare(store);
	t.deepEqual(await changed(trx => endWaiting(trx, step, 'bounced')), ['deferred', 'due', 'held']);
	t.like(
		await recipientRows(store.reader)
			.where({id: idOf('held')})
			.first(),
		{
			state: 'bounced',
			state_at: at,
			next_attempt_at: null,
			held_at: null,
		},
	);
	t.deepEqual(await changed(trx => endWaiting(trx, step, 'bounced')), []);
	t.is(
		(
			await recipientRows(store.reader)
				.where({id: idOf('over')})
				.first()
		).state,
		'delivered',
	);
});

storeTest(test, 'ignores the claims of a dead node', async (t, store) => {
	const {step, changed} = await prepare(store);
	const node = {id: 'req_alive', host: 'h', pid: 1, started_at: at, seen_at: at};
	await store.database('nodes').insert(node);
	t.deepEqual(await changed(trx => holdRecipients(trx, {...step, silentSince: at})), ['deferred', 'due']);
	await store.database('nodes').update({seen_at: storeTime(now - 1)});
	t.deepEqual(await changed(trx => holdRecipients(trx, {...step, silentSince: at})), ['tried']);
	t.deepEqual(await findClaimed(store.reader, step.ids), []);
});

storeTest(test, 'the size counts each recipient once', async (t, store) => {
	await prepare(store);
	t.deepEqual(await readQueueSize(store.reader, at), {
		...{ready: 1, deferred: 1, inFlight: 1, held: 1},
		byPriority: {high: 0, normal: 1, low: 0},
	});
});

storeTest(test, 'finds recipients in the queue by filters and ids', async (t, store) => {
	const {workspaceId, messages, idOf} = await prepare(store);
	const other = await insertWorkspace(store, 'other');
	await insertMessages(store, other.workspaceId, ['a@y.test']);
	t.is((await findWaiting(store.reader, {})).length, 5);
	t.is((await findWaiting(store.reader, {workspaceId})).length, 4);
	t.is((await findWaiting(store.reader, {destination: 'y.test'})).length, 1);
	t.deepEqual(await findWaiting(store.reader, {before: now - 60_000}), []);
	t.is((await listQueue(store.reader, {held: true, limit: 10})).length, 1);
	t.is((await listQueue(store.reader, {destinations: ['y.test'], limit: 10})).length, 1);

	const names = [idOf('due'), messages[4] ?? '', newId('rcp')];
	t.deepEqual(
		(await findNamed(store.reader, names, undefined)).map(({id, isQueued}) => [id, isQueued]),
		[
			[idOf('due'), true],
			[idOf('over'), false],
		],
	);
	t.deepEqual(await findNamed(store.reader, names, other.workspaceId), []);
});

storeTest(
	test,
	'holds all waiting recipients, even those claimed by dead nodes, and counts them by workspace',
	async (t, store) => {
		const {workspaceId, idOf} = await prepare(store);
		const {workspaceId: other} = await insertWorkspace(store, 'other');
		await insertMessages(store, other, ['one@y.test', 'two@y.test'], {due: now});
		const held = await store.writer.transaction(trx => holdAll(trx, later));
		t.deepEqual(Object.fromEntries(held.map(({workspaceId, recipients}) => [workspaceId, recipients])), {
			[workspaceId]: 3,
			[other]: 2,
		});
		t.deepEqual(await readQueueSize(store.reader, later), {
			...{ready: 0, deferred: 0, inFlight: 0, held: 6},
			byPriority: {high: 0, normal: 0, low: 0},
		});
		const heldAt = async (name: string) =>
			await recipientRows(store.reader)
				.where({id: idOf(name)})
				.first('held_at', 'claimed_by');
		t.deepEqual(await heldAt('tried'), {held_at: later, claimed_by: null});
		t.deepEqual(await heldAt('held'), {held_at: at, claimed_by: null});
		t.deepEqual(await heldAt('over'), {held_at: null, claimed_by: null});
	},
);

if (engines.includes('postgres')) {
	const waits = async (store: Store) => {
		const mine = store.reader('pg_stat_activity').whereRaw('datname = current_database()');
		return (await mine.where({wait_event_type: 'Lock'})).length > 0;
	};

	for (const change of [holdRecipients, (trx: Knex.Transaction, step: Step) => endWaiting(trx, step, 'errored')]) {
		test(`a late outcome of a dead daemon and ${change.name || 'an end'} lock in the same order`, async t => {
			const store = await newStore(t, 'postgres');
			const {idOf, step} = await prepare(store);
			const tried = idOf('tried');
			const late = await store.reader.transaction();
			t.teardown(() => (late.isCompleted() ? undefined : late.rollback()));
			await late('claims').where({recipient_id: tried}).delete();
			let runs = 0;
			const changed = store.writer.transaction(async trx => {
				runs++;
				return await change(trx, {...step, ids: [tried], silentSince: at});
			});
			await waitFor('the change to wait', () => waits(store));
			await late('queue').where({recipient_id: tried}).update({next_attempt_at: later});
			await late.commit();
			t.deepEqual(
				(await changed).map(({id}) => id),
				[tried],
			);
			t.is(runs, 1, 'neither was ended for a deadlock');
		});
	}

	test('restarts the transaction rather than wait for a claim found after locking the queue', async t => {
		const store = await newStore(t, 'postgres');
		const {idOf} = await prepare(store);
		const rows = (trx: Knex) => trx('claims').where({recipient_id: idOf('tried')});
		const outcome = await store.reader.transaction();
		t.teardown(() => (outcome.isCompleted() ? undefined : outcome.rollback()));
		await rows(outcome).forUpdate();
		let runs = 0;
		const locked = await store.writer.transaction(async trx => {
			if (++runs === 2) {
				await outcome.commit();
			}
			return await lockLate(rows(trx));
		});
		t.is(locked.length, 1);
		t.is(runs, 2, 'the transaction was repeated');
	});
}
