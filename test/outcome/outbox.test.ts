import test from 'ava';
import {storeTime} from '../../src/kit/time.ts';
import {defaultWebhookEvents, eventTypes, webhookEventTypes} from '../../src/mail/message.ts';
import {type AnnouncedEvent, announce, type EventWriter} from '../../src/outcome/outbox.ts';
import type {Store} from '../../src/store/store.ts';
import {conforms} from '../helpers/conforms.ts';
import {sqliteTest, storeTest} from '../helpers/databases.ts';
import {insertMessages, insertWorkspace, newId} from '../helpers/messages.ts';
import {deliveryRows, insertEndpoint} from '../helpers/webhooks.ts';

const at = Date.UTC(2026, 5, 9, 10, 15, 30, 987);

function event(workspaceId: string, messageId: string, fields: Partial<AnnouncedEvent> = {}): AnnouncedEvent {
	return {
		id: newId('evt'),
		workspaceId,
		messageId,
		recipientId: null,
		recipient: 'Ada@a.test',
		type: 'delivered',
		occurredAt: storeTime(at),
		recordedAt: storeTime(at + 5000),
		detail: null,
		isCounted: false,
		...fields,
	};
}

/** Announces in a transaction of its own; returns the endpoints reported as due afterwards. */
async function announced(store: Store, events: readonly AnnouncedEvent[]): Promise<string[]> {
	const due: string[] = [];
	const eventWriter: EventWriter = {newId, onDue: ids => due.push(...ids)};
	await store.writer.transaction(async trx => {
		await announce(trx, events, eventWriter);
		if (due.length > 0) {
			throw new Error('said before the commit');
		}
	});
	await new Promise(resolve => setImmediate(resolve));
	return due;
}

const bodiesOf = async (store: Store) =>
	(await store.reader('webhook_deliveries').orderBy('id').select('endpoint_id', 'body')).map(
		({endpoint_id: endpoint, body}) => [endpoint, Buffer.from(body).toString()] as const,
	);

storeTest(test, 'sends exactly the five fields, with the metadata as it was given', async (t, store) => {
	conforms(t, 'webhook-status.pending');
	const {workspaceId} = await insertWorkspace(store);
	const endpoint = await insertEndpoint(store, workspaceId);
	const [one = '', other = ''] = await insertMessages(store, workspaceId, ['ada@a.test', 'bob@a.test']);
	const metadata = '{"b":"Größe \\u2028 \\"x\\"","a":"","1":"2","__proto__x":"y"}';
	await store.database('messages').where({id: one}).update({metadata});
	t.deepEqual(await announced(store, [event(workspaceId, one), event(workspaceId, other)]), [endpoint]);
	const head = (id: string) =>
		`{"type":"delivered","message_id":"${id}","recipient":"Ada@a.test","occurred_at":"2026-06-09T10:15:30+00:00"`;
	t.deepEqual(await bodiesOf(store), [
		[endpoint, `${head(one)},"metadata":${metadata}}`],
		[endpoint, `${head(other)},"metadata":{}}`],
	]);
	t.like((await deliveryRows(store.reader).orderBy('id').first()) as object, {
		workspace_id: workspaceId,
		message_id: one,
		event_type: 'delivered',
		state: 'pending',
		attempts: 0,
		generation: 0,
		claimed_by: null,
		next_attempt_at: storeTime(at + 5000),
		created_at: storeTime(at + 5000),
	});
});

storeTest(
	test,
	'sends each event to every active endpoint of its workspace that subscribes to it',
	async (t, store) => {
		const [{workspaceId}, other] = [await insertWorkspace(store, 'one'), await insertWorkspace(store, 'other')];
		const all = await insertEndpoint(store, workspaceId, {events: webhookEventTypes});
		const twin = await insertEndpoint(store, workspaceId, {events: ['bounced', 'clicked']});
		await insertEndpoint(store, workspaceId, {events: webhookEventTypes, disabled_at: storeTime(at)});
		const deleted = await insertEndpoint(store, workspaceId, {events: webhookEventTypes});
		await store
			.database('webhook_endpoints')
			.where({id: deleted})
			.update({deleted_at: storeTime(at)});
		const foreign = await insertEndpoint(store, other.workspaceId, {events: webhookEventTypes});
		const [id = ''] = await insertMessages(store, workspaceId, ['ada@a.test']);
		const [foreignId = ''] = await insertMessages(store, other.workspaceId, ['ada@a.test']);

		const due = await announced(store, [
			...eventTypes.map(type => event(workspaceId, id, {type})),
			event(other.workspaceId, foreignId, {type: 'opened'}),
		]);
		t.deepEqual(due.toSorted(), [all, twin, foreign].toSorted());
		const rows: Array<{endpoint_id: string; event_type: string}> = await store
			.reader('webhook_deliveries')
			.select('endpoint_id', 'event_type');
		const typesOf = (endpoint: string) =>
			rows
				.filter(row => row.endpoint_id === endpoint)
				.map(row => row.event_type)
				.toSorted();
		t.deepEqual(typesOf(all), [...defaultWebhookEvents].toSorted());
		t.deepEqual(typesOf(twin), ['bounced', 'clicked']);
		t.deepEqual(typesOf(foreign), ['opened']);
		t.is(rows.length, 8);
		t.is((await store.reader('events')).length, eventTypes.length + 1);
	},
);

sqliteTest(test, 'sends only events of test messages to an endpoint of a test key', async (t, store) => {
	const {workspaceId} = await insertWorkspace(store);
	const live = await insertEndpoint(store, workspaceId);
	const tried = await insertEndpoint(store, workspaceId, {mode: 'test'});
	const [real = '', test = ''] = await insertMessages(store, workspaceId, ['ada@a.test', 'bob@a.test']);
	await store.database('messages').where({id: test}).update({mode: 'test'});
	await announced(store, [event(workspaceId, real), event(workspaceId, test)]);
	const rows = await store.reader('webhook_deliveries').select('endpoint_id as endpoint', 'message_id as message');
	const messagesOf = (id: string) => rows.filter(({endpoint}) => endpoint === id).map(({message}) => message);
	t.deepEqual(messagesOf(live).toSorted(), [real, test].toSorted());
	t.deepEqual(messagesOf(tried), [test]);
});

storeTest(test, 'writes and notifies nothing without an endpoint or after a rollback', async (t, store) => {
	const {workspaceId} = await insertWorkspace(store);
	const [id = ''] = await insertMessages(store, workspaceId, ['ada@a.test']);
	t.deepEqual(await announced(store, [event(workspaceId, id)]), []);
	t.is((await store.reader('webhook_deliveries')).length, 0);

	await insertEndpoint(store, workspaceId);
	const due: string[] = [];
	await t.throwsAsync(
		store.writer.transaction(async trx => {
			await announce(trx, [event(workspaceId, id)], {newId, onDue: ids => due.push(...ids)});
			throw new Error('no');
		}),
		{message: 'no'},
	);
	t.is((await store.reader('webhook_deliveries')).length, 0);
	t.deepEqual(due, []);
});

storeTest(test, 'writes thousands of rows at once', async (t, store) => {
	const {workspaceId} = await insertWorkspace(store);
	for (let n = 0; n < 50; n++) {
		await insertEndpoint(store, workspaceId);
	}
	const ids = await insertMessages(store, workspaceId, new Array(100).fill('ada@a.test'));
	const due = await announced(
		store,
		ids.map(id => event(workspaceId, id)),
	);
	t.is(due.length, 50);
	const row: {n: number | string} | undefined = await store
		.reader('webhook_deliveries')
		.first(store.reader.raw('count(*) as n'));
	t.is(Number(row?.n), 5000);
});

sqliteTest(test, 'sends more detail in the full format and leaves the other format unchanged', async (t, store) => {
	const {workspaceId} = await insertWorkspace(store);
	const events = ['bounced', 'gave_up'] as const;
	const usual = await insertEndpoint(store, workspaceId, {events});
	const full = await insertEndpoint(store, workspaceId, {events, format: 'full'});
	const [id = ''] = await insertMessages(store, workspaceId, ['ada@a.test']);
	await store
		.database('messages')
		.where({id})
		.update({metadata: '{"a":"b"}', tags: '["x","ü"]', template_id: 'tpl_1'});
	await store.database('recipients').where({message_id: id}).update({subject: 'Hello "Ada"'});
	const detail = {
		...{role: 'to', type: 'transient', category: 'expired', enhanced: '4.4.7', reply: null},
		...{reason: 'time is up', host: 'mx.a.test'},
	};
	const bounced = event(workspaceId, id, {type: 'bounced', detail: JSON.stringify(detail)});
	await announced(store, [bounced]);
	const bodies = (await bodiesOf(store)).map(([endpoint, body]) => [endpoint, JSON.parse(body)] as const);
	const shared = {
		...{message_id: id, recipient: 'Ada@a.test', occurred_at: '2026-06-09T10:15:30+00:00', metadata: {a: 'b'}},
	};
	t.deepEqual(
		bodies.filter(([endpoint]) => endpoint === usual).map(([, body]) => body),
		[
			{type: 'bounced', ...shared},
			{type: 'gave_up', ...shared},
		],
	);
	const more = {
		...{workspace: workspaceId, subject: 'Hello "Ada"', template_id: 'tpl_1', tags: ['x', 'ü'], role: 'to'},
		detail: {
			...{type: 'transient', category: 'expired', status: '4.4.7', reply: 'time is up', host: 'mx.a.test'},
			suppressed: false,
		},
	};
	const [one, other] = bodies.filter(([endpoint]) => endpoint === full).map(([, body]) => body);
	t.deepEqual(one, {type: 'bounced', ...shared, event_id: bounced.id, ...more});
	t.deepEqual({...other, event_id: null}, {type: 'gave_up', ...shared, event_id: null, ...more});
	t.not(other.event_id, bounced.id);
});

sqliteTest(test, 'does not send gave_up after a permanent rejection or an operator’s decision', async (t, store) => {
	const {workspaceId} = await insertWorkspace(store);
	await insertEndpoint(store, workspaceId, {events: ['gave_up']});
	const [id = ''] = await insertMessages(store, workspaceId, ['ada@a.test']);
	const given: Array<[object, boolean]> = [
		[{type: 'permanent', category: 'unknown_user', code: 550, enhanced: '5.1.1'}, false],
		[{type: 'permanent', category: 'unknown_user', code: 450, enhanced: '4.1.1'}, false],
		[{type: 'transient', category: 'operator', reason: 'failed'}, false],
		[{type: 'transient', category: 'policy', code: 550, enhanced: '5.7.1'}, false],
		[{type: 'transient', category: 'mailbox_full', code: 452, enhanced: '4.2.2'}, true],
		[{type: 'permanent', category: 'expired', escalated: {messages: 3}, enhanced: '4.4.7'}, true],
	];
	for (const [detail, gaveUp] of given) {
		await announced(store, [event(workspaceId, id, {type: 'bounced', detail: JSON.stringify(detail)})]);
		t.is(await store.database('webhook_deliveries').delete(), gaveUp ? 1 : 0, JSON.stringify(detail));
	}
});
