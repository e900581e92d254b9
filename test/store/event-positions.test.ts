import test from 'ava';
import type {Knex} from 'knex';
import {storeTime} from '../../src/kit/time.ts';
import {idTime} from '../../src/mail/ids.ts';
import {findAtPosition, readStream} from '../../src/store/event-stream.ts';
import {insertMessages as insertAccepted} from '../../src/store/messages.ts';
import type {Store} from '../../src/store/store.ts';
import {createSettled, insertEvents, readLastPosition} from '../../src/store/timeline.ts';
import {storeTest} from '../helpers/databases.ts';
import {newEvent, startLateWrite} from '../helpers/events.ts';
import {insertMessages, insertWorkspace, newId} from '../helpers/messages.ts';
import {plansDuring, readsAll} from '../helpers/plans.ts';
import {waitFor} from '../helpers/wait.ts';

async function prepare(store: Store) {
	const {workspaceId} = await insertWorkspace(store);
	const [message = '', other = ''] = await insertMessages(store, workspaceId, ['a@x.test', 'b@x.test']);
	return {workspaceId, message, other};
}

/** Inserts a message like the one that acceptance inserts. */
async function insertMessage(trx: Knex.Transaction, workspaceId: string, id: string): Promise<void> {
	const none = {replyTo: null, cc: null, data: null, metadata: null, tags: null, topicId: null, topicCode: null};
	await insertAccepted(trx, [
		{
			...none,
			...{
				id,
				workspaceId,
				mode: 'live',
				from: 'a@x.test',
				fromKey: 'a@x.test',
				to: 'b@x.test',
				toKey: 'b@x.test',
			},
			...{
				templateId: 'tpl_x',
				versionId: 'tpv_x',
				locale: null,
				timezone: null,
				tracking: null,
				extras: null,
				sealed: null,
				attachments: 0,
			},
			...{resentFrom: null, createdAt: storeTime(idTime(id))},
		},
	]);
}

storeTest(test, 'reads the events of one workspace in the order they were written, page by page', async (t, store) => {
	const {workspaceId, message} = await prepare(store);
	const {workspaceId: foreign} = await insertWorkspace(store, 'other');
	const [foreignMessage = ''] = await insertMessages(store, foreign, ['c@x.test']);
	const start = await readLastPosition(store.reader);
	const events = Array.from({length: 450}, () => newEvent(message));
	for (let at = 0; at < events.length; at += 9) {
		await store.writer.transaction(trx =>
			insertEvents(trx, [...events.slice(at, at + 9), newEvent(foreignMessage)]),
		);
	}
	const last = await readLastPosition(store.reader);
	t.is(last, start + 500);
	t.is(await createSettled(store.reader)(), last);
	const read: string[] = [];
	for (let after = start, parts = 1; after < last; parts++) {
		const part = await readStream(store.reader, workspaceId, {after, upTo: last});
		read.push(...part.events.map(({id}) => id));
		t.true(part.position > after && parts <= 3);
		after = part.position;
	}
	t.deepEqual(
		read,
		events.map(({id}) => id),
	);
	const [first] = (await readStream(store.reader, workspaceId, {after: start, upTo: last})).events;
	t.like(first, {id: events[0]?.id, position: start + 1, messageId: message, mode: 'live', detail: {n: 1}});
	t.deepEqual(await findAtPosition(store.reader, start + 1), [events[0]?.id ?? '']);
	t.is(await findAtPosition(store.reader, last + 1), undefined);
});

storeTest(
	test,
	'limits a page even if all events belong to other workspaces, without full table scans',
	async (t, store, engine) => {
		const {workspaceId, message} = await prepare(store);
		const {workspaceId: idle} = await insertWorkspace(store, 'idle');
		for (let n = 0; n < 3; n++) {
			await store.writer.transaction(trx =>
				insertEvents(
					trx,
					Array.from({length: 2000}, () => newEvent(message)),
				),
			);
		}
		const upTo = await readLastPosition(store.reader);
		const part = await readStream(store.reader, idle, {after: 0, upTo});
		t.deepEqual(part, {events: [], position: 5000});
		t.deepEqual(await readStream(store.reader, idle, {after: 5000, upTo}), {events: [], position: upTo});
		if (engine === 'postgres') {
			await store.database.raw('analyze');
		}
		const plans = await plansDuring(store, engine, async () => {
			await readStream(store.reader, workspaceId, {after: upTo - 100, upTo});
			await findAtPosition(store.reader, upTo);
		});
		// Messages at the positions; PostgreSQL finds out first which ones the events are about; last comes that of the
		// position.
		t.is(plans.length, engine === 'postgres' ? 5 : 4);
		for (const plan of plans) {
			t.false(readsAll(plan), plan);
		}
		t.regex(plans[0] ?? '', /messages_(?:by|\w+)_position/);
		for (const plan of plans.slice(1, -1)) {
			t.regex(plan, /events_by_position/);
		}
	},
);

storeTest(test, 'never reuses a position, even after its event was removed', async (t, store) => {
	const {message, other} = await prepare(store);
	await store.writer.transaction(trx => insertEvents(trx, [newEvent(message)]));
	await store.writer.transaction(trx => insertEvents(trx, [newEvent(other)]));
	const last = await readLastPosition(store.reader);
	await store.database('messages').where({id: other}).delete();
	await store.writer.transaction(trx => insertEvents(trx, [newEvent(message)]));
	t.is(await readLastPosition(store.reader), last + 1);
	t.truthy(await findAtPosition(store.reader, last + 1));
});

storeTest(test, 'an event that was rolled back is not in the stream', async (t, store) => {
	const {workspaceId, message} = await prepare(store);
	const after = await readLastPosition(store.reader);
	await t.throwsAsync(
		store.writer.transaction(async trx => {
			await insertEvents(trx, [newEvent(message)]);
			throw new Error('no');
		}),
	);
	await store.writer.transaction(trx => insertEvents(trx, [newEvent(message)]));
	const upTo = await createSettled(store.reader)();
	t.is((await readStream(store.reader, workspaceId, {after, upTo})).events.length, 1);
});

storeTest(
	test,
	'a position is settled once every transaction that may write before it has ended',
	async (t, store, engine) => {
		const {workspaceId, message} = await prepare(store);
		const settled = createSettled(store.reader);
		const start = await settled();
		t.is(start, await readLastPosition(store.reader));
		if (engine === 'sqlite') {
			return; // It has one writer.
		}
		const late = await startLateWrite(t, store, message);
		const prompt = newEvent(message);
		await store.writer.transaction(trx => insertEvents(trx, [prompt]));
		t.is(await settled(), start);
		t.is(await settled(), start);
		t.is(await createSettled(store.reader)(), 0, 'who comes anew does not know what is settled');
		// Another one starts before the late one ends, so that there is always a running transaction.
		const later = await startLateWrite(t, store, message);
		await late.end();
		const upTo = await waitFor('the late one is settled', async () => {
			const now = await settled();
			return now > start && now;
		});
		t.is(upTo, start + 2);
		const {events} = await readStream(store.reader, workspaceId, {after: start, upTo});
		t.deepEqual(
			events.map(({id}) => id),
			[late.event.id, prompt.id],
		);
		await later.end();
		t.is(await settled(), start + 3);
		// The event of an acceptance is its message alone.
		const accept = await store.reader.transaction();
		t.teardown(() => (accept.isCompleted() ? undefined : accept.rollback()));
		const accepted = newId('msg');
		await insertMessage(accept, workspaceId, accepted);
		await store.writer.transaction(trx => insertEvents(trx, [newEvent(message)]));
		t.is(await settled(), start + 3);
		await accept.commit();
		t.is(await settled(), start + 5);
		const rest = await readStream(store.reader, workspaceId, {after: start + 3, upTo: start + 5});
		t.deepEqual(
			rest.events.map(({type, messageId}) => [type, messageId]),
			[
				['accepted', accepted],
				['delivered', message],
			],
		);
	},
);

storeTest(test, 'events of an earlier version have no position, later ones do', async (t, store) => {
	const {workspaceId, message} = await prepare(store);
	const {id, ...former} = newEvent(message);
	await store.database('events').insert({
		...{id, message_id: message, type: former.type, occurred_at: former.occurredAt},
		...{recorded_at: former.recordedAt, position: null},
	});
	t.is(await readLastPosition(store.reader), 0);
	const event = newEvent(message);
	await store.writer.transaction(trx => insertEvents(trx, [event]));
	const {events} = await readStream(store.reader, workspaceId, {after: 0, upTo: 1});
	t.deepEqual(
		events.map(one => [one.id, one.position]),
		[[event.id, 1]],
	);
});
