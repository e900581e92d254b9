import test from 'ava';
import fc from 'fast-check';
import {storeTime} from '../../src/kit/time.ts';
import {createIdSource, idTime} from '../../src/mail/ids.ts';
import {eventTypes} from '../../src/mail/message.ts';
import {findAtPosition, readStream} from '../../src/store/event-stream.ts';
import {
	insertEvents,
	type NewEvent,
	readEvents,
	readLastPosition,
	sharedRows,
	toEvents,
} from '../../src/store/timeline.ts';
import {storeTest} from '../helpers/databases.ts';
import {insertMessages, insertWorkspace} from '../helpers/messages.ts';

// All within a millisecond, like most ids of one outcome.
const newId = createIdSource({now: () => Date.UTC(2026, 10, 24), monotonic: () => 0});
const at = storeTime(Date.now());
const detailOf = (attempt: number, more: object = {}) =>
	JSON.stringify({recipient: 'ada@a.test', role: 'to', attempt, ...more});

/** The events of a successful attempt for a recipient. */
function goingOut(messageId: string, recipientId: string, attempt = 1): NewEvent[] {
	const queued = newId('evt');
	const recipient = {messageId, recipientId};
	const time = storeTime(idTime(queued));
	return [
		{...recipient, id: queued, type: 'queued', occurredAt: time, recordedAt: time, detail: null},
		{...recipient, id: newId('evt'), type: 'sent', occurredAt: at, recordedAt: at, detail: detailOf(attempt)},
		{
			...{...recipient, id: newId('evt'), type: 'delivered', occurredAt: at, recordedAt: at},
			detail: detailOf(attempt, {host: 'mx.a.test', code: 250}),
		},
	];
}

const shownAs = ({id, type, occurredAt, recordedAt, detail}: NewEvent) => ({
	...{id, type, occurredAt, recordedAt},
	detail: JSON.parse(detail ?? '{}'),
});

test('stores the events of an attempt in one row, whatever its outcome', t => {
	const [queued, sent, delivered] = goingOut('msg_1', 'rcp_1') as [NewEvent, NewEvent, NewEvent];
	t.is(sharedRows([queued, sent, delivered]).length, 1);
	t.is(sharedRows([queued, sent]).length, 1);
	t.is(sharedRows([queued, {...delivered, type: 'errored'}]).length, 1);
	t.is(sharedRows([sent, {...delivered, detail: detailOf(2)}]).length, 2, 'another attempt');
	t.is(sharedRows([sent, {...delivered, recordedAt: '2026'}]).length, 2, 'another transaction');
	t.is(sharedRows([sent, {...delivered, recipientId: 'rcp_2'}]).length, 2, 'another copy');
	const later = createIdSource({now: Date.now, monotonic: () => 0})('evt');
	t.is(sharedRows([sent, {...delivered, id: later}]).length, 2, 'another event may have its place between');
	t.is(sharedRows([delivered, {...delivered, type: 'opened'}]).length, 2, 'others have a row each');
	t.is(sharedRows([{...queued, detail: '{"n":1}'}, delivered]).length, 2, 'what says more than can be told');
	const bareSent = {...sent, detail: '{}', recordedAt: queued.recordedAt};
	t.is(sharedRows([bareSent, queued, delivered]).length, 2, 'a row has one detail for all its events');
});

test('reads back from rows the same events that were written', t => {
	const time = fc.constantFrom(at, '2026-06-09T10:15:30.123Z');
	const event: fc.Arbitrary<NewEvent> = fc.record({
		id: fc.constant(null).map(() => newId('evt')),
		messageId: fc.constantFrom('msg_1', 'msg_2'),
		recipientId: fc.constantFrom('rcp_1', 'rcp_2', null),
		type: fc.constantFrom('queued', 'sent', ...eventTypes),
		occurredAt: time,
		recordedAt: time,
		detail: fc.constantFrom(null, '{}', detailOf(1), detailOf(2), detailOf(1, {host: 'x'}), '{"role":"to","n":1}'),
	});
	fc.assert(
		fc.property(fc.array(event), events => {
			const rows = sharedRows(events);
			t.deepEqual(
				rows.flatMap(toEvents).map(({messageId: _m, recipientId: _r, ...one}) => one),
				events.map(shownAs),
			);
		}),
	);
});

storeTest(test, 'reads a timeline in order, in pages of any size, with old rows and shared ones', async (t, store) => {
	const {workspaceId} = await insertWorkspace(store);
	const [messageId = ''] = await insertMessages(store, workspaceId, ['ada@a.test']);
	// Others are delivered during one recipient's first attempt. An earlier version wrote the events of one of them.
	const [to, cc, old] = ['to', 'cc', 'old'].map(name => goingOut(messageId, `rcp_${name}`));
	const [toQueued, ...toEnd] = to as NewEvent[];
	const ids = Array.from({length: 7}, () => newId('evt'));
	const order = [toQueued, ...(cc ?? []).slice(1), ...(old ?? []).slice(1), ...toEnd] as NewEvent[];
	const events = order.map((event, n) => ({...event, id: ids[n] as string}));
	const ofRecipient = (name: string) => events.filter(({recipientId}) => recipientId === `rcp_${name}`);
	await store.writer.transaction(async trx => {
		await insertEvents(trx, ofRecipient('to'));
		await insertEvents(trx, ofRecipient('cc'));
		for (const event of ofRecipient('old')) {
			await insertEvents(trx, [event]);
		}
	});
	t.is((await store.reader('events')).length, 1 + 1 + 2);
	const expected = events.map(shownAs);
	t.deepEqual(await readEvents(store.reader, messageId, {after: null, limit: 100}), expected);
	for (let limit = 1; limit <= expected.length; limit++) {
		const read: object[] = [];
		for (let after: string | null = null; ; ) {
			const page = await readEvents(store.reader, messageId, {after, limit});
			read.push(...page);
			if (page.length < limit) {
				break;
			}
			after = page.at(-1)?.id ?? null;
		}
		t.deepEqual(read, expected, `by ${limit}`);
	}
	for (const [n, {id}] of expected.entries()) {
		t.deepEqual(await readEvents(store.reader, messageId, {after: id, limit: 100}), expected.slice(n + 1));
	}
});

storeTest(test, 'a stream read in pages has each event once, however many share a row', async (t, store) => {
	const {workspaceId} = await insertWorkspace(store);
	const [messageId = ''] = await insertMessages(store, workspaceId, ['ada@a.test']);
	const tries = Array.from({length: 450}, (_, n) => goingOut(messageId, `rcp_${n}`));
	const after = await readLastPosition(store.reader);
	await store.writer.transaction(trx => insertEvents(trx, tries.flat()));
	const upTo = await readLastPosition(store.reader);
	t.is(upTo, after + tries.length);
	const read: Array<[id: string, position: number]> = [];
	for (let position = after; position < upTo; ) {
		const part = await readStream(store.reader, workspaceId, {after: position, upTo});
		t.true(part.position > position && part.events.length <= 600);
		read.push(...part.events.map(event => [event.id, event.position] as [string, number]));
		position = part.position;
	}
	t.deepEqual(
		read,
		tries.flatMap((events, n) => events.map(({id}) => [id, after + 1 + n] as [string, number])),
	);
	t.deepEqual(await findAtPosition(store.reader, upTo), tries.at(-1)?.map(({id}) => id) ?? []);
});

storeTest(test, 'erasing the details of a row erases those of all its events', async (t, store) => {
	const {workspaceId} = await insertWorkspace(store);
	const [messageId = ''] = await insertMessages(store, workspaceId, ['ada@a.test']);
	await store.writer.transaction(trx => insertEvents(trx, goingOut(messageId, newId('rcp'))));
	await store.database('events').update({detail: null});
	const events = await readEvents(store.reader, messageId, {after: null, limit: 9});
	t.deepEqual(
		events.map(({type, detail}) => [type, detail]),
		[
			['queued', {}],
			['sent', {}],
			['delivered', {}],
		],
	);
});
