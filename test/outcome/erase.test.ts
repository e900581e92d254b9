import test from 'ava';
import type {Knex} from 'knex';
import {erasureTask} from '../../src/daemon/sweep.ts';
import {systemClock} from '../../src/kit/clock.ts';
import {storeTime} from '../../src/kit/time.ts';
import {submittedType} from '../../src/mail/message.ts';
import {messageIdTerm} from '../../src/mail/terms.ts';
import {createEngagementWrite} from '../../src/outcome/engagement.ts';
import {Eraser, type Person} from '../../src/outcome/erase.ts';
import {createUnsubscribeWrite} from '../../src/outcome/unsubscribe.ts';
import {listReceived} from '../../src/resources/received/store.ts';
import {listDeliveries} from '../../src/resources/webhooks/store.ts';
import {mergeTerms} from '../../src/store/message-terms.ts';
import {insertAttachments} from '../../src/store/messages.ts';
import {moveRecipients} from '../../src/store/recipients.ts';
import {rewriteAddresses} from '../../src/store/retention.ts';
import type {Store} from '../../src/store/store.ts';
import {readEvents} from '../../src/store/timeline.ts';
import {idOf, startApi, type TestApi} from '../helpers/api.ts';
import {engines, sqliteTest, storeTest} from '../helpers/databases.ts';
import {eventWriter, insertMessages, insertWorkspace} from '../helpers/messages.ts';
import {startTwoNodes} from '../helpers/nodes.ts';
import {plansDuring, readsAll} from '../helpers/plans.ts';
import {insertReceivedMail} from '../helpers/received-mail.ts';
import {changeRecipients, recipientRows} from '../helpers/recipient-rows.ts';
import {resultOf, schedulerOf} from '../helpers/scheduler.ts';
import {testOperator} from '../helpers/tools.ts';
import {waitFor} from '../helpers/wait.ts';
import {newId} from '../helpers/workspace.ts';

const at = storeTime(Date.UTC(2026, 5, 9, 10, 15, 30, 123));
const eraseOf = (store: Store, removeCaptured = async (_: readonly string[]) => {}) => {
	const eraser = new Eraser({store, clock: systemClock, eventWriter, removeCaptured});
	return (person: Person) => eraser.erase(person, testOperator);
};

/**
 * Every row of every table as one text, with the content of blobs. It is full of random ids without the letters i, l, o
 * and u: names searched for in it contain one of them, so that an id cannot match by chance.
 */
async function everything(store: Store, tables: readonly string[]): Promise<string> {
	const parts = await Promise.all(
		tables.map(async table => {
			const rows: object[] = await store.reader(table);
			return `${table} ${JSON.stringify(rows, (_, value) =>
				value?.type === 'Buffer' ? Buffer.from(value.data).toString('latin1') : value,
			)}`;
		}),
	);
	return parts.join('\n');
}

async function tablesOf({reader, dialect}: Store): Promise<string[]> {
	return dialect.name === 'sqlite'
		? await reader('sqlite_master').where({type: 'table'}).whereNot('name', 'like', 'sqlite_%').pluck('name')
		: await reader('pg_tables').where({schemaname: 'public'}).pluck('tablename');
}

/** What delivery, mail servers, reports, readers and webhooks leave behind about a message's recipients. */
async function leaveTraces({store, workspace}: TestApi, messageId: string): Promise<void> {
	const {database} = store;
	const endpoint = newId('whe');
	await database('webhook_endpoints').insert({
		...{
			id: endpoint,
			workspace_id: workspace.id,
			url: 'https://a.example',
			events: '[]',
			secret: 'x',
			created_at: at,
		},
	});
	const message = await database('messages').where({id: messageId}).first();
	const metadata = JSON.parse(message.metadata ?? '{}');
	for (const {id, address, role} of await recipientRows(database).where({message_id: messageId})) {
		await changeRecipients(database, all => all.where({id}), {last_reply: `450 <${address}> busy`, attempts: 1});
		if (role === 'to') {
			await database('recipients')
				.where({id})
				.update({subject: `Hello ${address}`});
		}
		await database('attempts').insert({
			...{
				recipient_id: id,
				n: 1,
				position: 0,
				at,
				host: `mx.${address.split('@')[1]}`,
				ip: '192.0.2.7',
				tls: null,
			},
			...{
				phase: 'rcpt',
				code: 450,
				enhanced: '4.2.0',
				reply: `450 <${address}> busy`,
				ms: 7,
				dialogue: `C: RCPT TO:<${address}>`,
			},
		});
		const eventId = newId('evt');
		const url = `https://shop.example/?u=${address}`;
		await database('events').insert({
			...{
				id: eventId,
				message_id: messageId,
				recipient_id: id,
				type: 'clicked',
				occurred_at: at,
				recorded_at: at,
			},
			detail: JSON.stringify({recipient: address, role, url}),
		});
		await database('engagement').insert(
			['opened', 'clicked'].map(kind => ({
				...{recipient_id: id, kind, url, n: 1, machine_n: 0, first_at: at, last_at: at},
			})),
		);
		const sha256 = `hash of ${id}`;
		await database('inbound').insert({
			...{
				id: `id of ${id}`,
				digest: sha256,
				source: 'smtp',
				mail_from: address,
				rcpt_to: '["b@x"]',
				received_at: at,
			},
			...{raw: Buffer.from(address), size: address.length, kept: 'unread', reading: JSON.stringify({address})},
		});
		// It is not known whose these are: they can only be found by the address.
		const kept = {
			digest: sha256,
			source: 'smtp',
			rcpt_to: '[]',
			size: 1,
			received_at: at,
			read_at: at,
			kept: 'unmatched',
		};
		await database('inbound').insert([
			{
				...kept,
				id: `named ${id}`,
				mail_from: null,
				raw: Buffer.from('?'),
				reading: JSON.stringify({recipient: address}),
			},
			{...kept, id: `sent ${id}`, mail_from: address, raw: Buffer.from('?')},
			{...kept, id: `holds ${id}`, mail_from: null, raw: Buffer.from(`To: <${address}>\r\n\r\nHello`)},
		]);
		await database('reports').insert({
			...{id: newId('evt'), workspace_id: workspace.id, message_id: messageId, recipient_id: id, kind: 'dsn'},
			...{
				inbound_sha256: sha256,
				detail: JSON.stringify({address}),
				matched: `<${address}> unknown`,
				created_at: at,
			},
		});
		for (const next of [null, at]) {
			const full = address.includes('@home.') && {subject: `Hello ${address}`, detail: {reply: address}};
			const body = {
				type: 'clicked',
				message_id: messageId,
				recipient: address,
				occurred_at: at,
				metadata,
				...full,
			};
			const deliveryId = newId('whd');
			await database('webhook_deliveries').insert({
				...{id: deliveryId, workspace_id: workspace.id, endpoint_id: endpoint, message_id: messageId},
				...{event_id: eventId, event_type: 'clicked', body: Buffer.from(JSON.stringify(body)), attempts: 0},
				...{state: next ? 'pending' : 'delivered', generation: 1, created_at: at},
			});
			if (next) {
				await database('webhook_queue').insert({
					...{delivery_id: deliveryId, endpoint_id: endpoint, next_attempt_at: next, generation: 1},
				});
			}
			await database('webhook_attempts').insert({
				...{
					delivery_id: deliveryId,
					generation: 1,
					n: 1,
					at,
					status: 500,
					error: 'the server responded with 500',
					ms: 1,
				},
				answer: `No such user: ${address}`,
			});
		}
	}
}

async function bodiesOf(store: Store, messageId: string): Promise<Array<{recipient: string; metadata: object}>> {
	const rows = await store.reader('webhook_deliveries').where({message_id: messageId}).orderBy('id');
	return rows.map(({body}) => JSON.parse(Buffer.from(body).toString()));
}

storeTest(test, 'keeps the names in messages to others, except that of the erased person', async (t, store) => {
	const api = await startApi(t, store);
	const send = async (replyTo: string) => {
		const names = {toName: 'Zoe', replyToName: 'Lois', headers: {'X-A': 'b'}, priority: 'low'};
		return idOf(await api.send({to: 'zoe@work.example', cc: ['lois@home.example'], replyTo, ...names}));
	};
	const [hers, ours] = [await send('Lois@Home.example'), await send('help@shop.example')];
	await eraseOf(store)({workspaceId: api.workspace.id, addressKey: 'lois@home.example'});
	const {body} = await api.get(`/v1/messages/${hers}`);
	t.like(body, {reply_to: 'erased@erased.invalid', to_name: 'Zoe', headers: {'X-A': 'b'}, priority: 'low'});
	t.false('reply_to_name' in (body as object));
	t.like((await api.get(`/v1/messages/${ours}`)).body, {reply_to: 'help@shop.example', reply_to_name: 'Lois'});
});

storeTest(test, 'erases everything about a person except what prevents messages to them', async (t, store) => {
	const api = await startApi(t, store);
	const {id: workspaceId} = api.workspace;
	const attachments = [{filename: 'lois.pdf', contentType: 'application/pdf', content: 'bG9pcw=='}];
	const to = idOf(
		await api.send({
			...{to: 'Lois@Home.example', cc: ['boss@work.example'], data: {name: 'lois'}, metadata: {who: 'lois'}},
			...{locale: 'de', timezone: 'Europe/Vienna', tags: ['kept'], attachments, replyTo: 'lois@HOME.example'},
		}),
	);
	const others = idOf(
		await api.send({
			...{to: 'zoe@work.example', cc: ['LOIS@home.example', 'boss@work.example']},
			...{data: {name: 'zoe'}, metadata: {who: 'zoe'}, replyTo: 'help@shop.example'},
		}),
	);
	await leaveTraces(api, to);
	await leaveTraces(api, others);
	const person = {workspace_id: workspaceId, address_key: 'lois@home.example'};
	await store.database('address_health').insert({...person, soft_messages: 1, updated_at: at});
	const kept = {...person, address: 'Lois@home.example', source: 'one-click', created_at: at};
	await store.database('suppressions').insert({...kept, id: newId('sup'), reason: 'unsubscribe'});
	await store.database('topic_optouts').insert({...kept, code: 'news'});

	const tables = (await tablesOf(store)).filter(name => !['suppressions', 'topic_optouts'].includes(name));
	t.regex(await everything(store, tables), /lois/i);
	const captured: string[] = [];
	const erase = eraseOf(store, async ids => void captured.push(...ids));
	t.deepEqual(await erase({workspaceId, addressKey: 'lois@home.example'}), {
		contact: true,
		messages: 1,
		recipients: 1,
		isLeft: false,
	});
	const left = await everything(store, tables);
	t.notRegex(left, /lois|home\.example/i);
	t.notRegex(left.replace(/^events.*$/m, ''), /Vienna/);
	t.deepEqual(captured.toSorted(), (await store.reader('recipients').pluck('id')).toSorted());

	t.like((await api.get(`/v1/messages/${to}`)).body, {
		...{status: 'suppressed', to: 'erased@erased.invalid', cc: ['boss@work.example'], data: {}, metadata: {}},
		...{subject: null, attachments: [], tags: ['kept']},
	});
	t.like((await api.get(`/v1/messages/${others}`)).body, {
		...{status: 'accepted', to: 'zoe@work.example', cc: ['erased@erased.invalid', 'boss@work.example']},
		...{data: {name: 'zoe'}, metadata: {who: 'zoe'}, subject: 'Hello zoe@work.example'},
		reply_to: 'help@shop.example',
	});
	t.deepEqual(
		(await bodiesOf(store, to)).map(({recipient, metadata}) => [recipient, metadata]),
		[
			['erased@erased.invalid', {}],
			['erased@erased.invalid', {}],
			['boss@work.example', {}],
			['boss@work.example', {}],
		],
	);
	const [zoe] = await bodiesOf(store, others);
	t.deepEqual(zoe, {
		...{
			type: 'clicked',
			message_id: others,
			recipient: 'zoe@work.example',
			occurred_at: at,
			metadata: {who: 'zoe'},
		},
	} as object as typeof zoe);
	t.deepEqual(
		(await bodiesOf(store, others)).map(({recipient}) => recipient.split('@')[0]),
		['zoe', 'zoe', 'erased', 'erased', 'boss', 'boss'],
	);

	const states = await recipientRows(store.reader).orderBy('id').select('state', 'next_attempt_at', 'message_id');
	t.deepEqual(
		states.map(row => [row.message_id === to ? 'to' : 'others', row.state, row.next_attempt_at !== null]),
		[
			['to', 'suppressed', false],
			['to', 'suppressed', false],
			['others', 'accepted', true],
			['others', 'suppressed', false],
			['others', 'accepted', true],
		],
		'the content is gone for every copy; of the other message only the one copy is',
	);
	const suppressed = await store.reader('events').where({type: 'suppressed'}).orderBy('id');
	t.deepEqual(
		suppressed.map(({detail}) => JSON.parse(detail)),
		[
			{role: 'to', reason: 'erased'},
			{role: 'cc', reason: 'erased'},
			{role: 'cc', reason: 'erased'},
		],
	);
	t.is((await store.reader('suppressions')).length, 1);
	t.is((await store.reader('topic_optouts')).length, 1);
	t.deepEqual(await erase({workspaceId, addressKey: 'lois@home.example'}), {
		contact: false,
		messages: 0,
		recipients: 0,
		isLeft: false,
	});
});

sqliteTest(test, 'leaves other addresses alone, and the same address in another workspace', async (t, store) => {
	const api = await startApi(t, store);
	const mine = idOf(await api.send({to: 'lois@example.org', data: {a: 1}, metadata: {b: '2'}}));
	await leaveTraces(api, mine);
	const before = await everything(store, await tablesOf(store));
	const erase = eraseOf(store);
	for (const person of [
		{workspaceId: newId('ws'), addressKey: 'lois@example.org'},
		{workspaceId: api.workspace.id, addressKey: 'lois@example.com'},
		{workspaceId: api.workspace.id, addressKey: 'hello@example.com'},
		{workspaceId: api.workspace.id, addressKey: 'erased@erased.invalid'},
	]) {
		t.deepEqual(await erase(person), {contact: false, messages: 0, recipients: 0, isLeft: false});
	}
	t.is(await everything(store, await tablesOf(store)), before);
});

sqliteTest(test, 'can erase the contact of the placeholder address itself', async (t, store) => {
	const api = await startApi(t, store);
	const {id: workspaceId} = api.workspace;
	await api.send({to: 'Erased@erased.invalid'});
	const result = await eraseOf(store)({workspaceId, addressKey: 'erased@erased.invalid'});
	t.deepEqual(result, {contact: true, messages: 0, recipients: 0, isLeft: false});
});

storeTest(
	test,
	'erases many messages in steps and completes an interrupted erasure the next time',
	async (t, store, engine) => {
		const api = await startApi(t, store);
		const {id: workspaceId} = api.workspace;
		for (let n = 0; n < 7; n++) {
			const sends = Array.from({length: 50}, () =>
				api.send({to: n < 6 ? 'lois@example.org' : 'zoe@example.org', cc: n < 6 ? [] : ['lois@example.org']}),
			);
			await Promise.all(sends);
		}
		let steps = 0;
		const failing = eraseOf(store, async () => {
			steps++;
			if (steps === 5) {
				throw new Error('power is gone');
			}
		});
		const person = {workspaceId, addressKey: 'lois@example.org'};
		await t.throwsAsync(failing(person), {message: 'power is gone'});
		const rest = async () =>
			Number(
				(await recipientRows(store.reader).where({address_key: 'lois@example.org'}).count('* as n').first())?.n,
			);
		const left = await rest();
		t.true(left > 0 && left < 350, String(left));
		t.deepEqual(
			await store.reader('contacts').where({address_key: 'lois@example.org'}),
			[],
			'the contact goes first',
		);

		const files: string[] = [];
		const erase = eraseOf(store, async ids => void files.push(...ids));
		const plans = await plansDuring(store, engine, async () => {
			t.deepEqual(await erase(person), {contact: true, messages: left, recipients: 0, isLeft: false});
		});
		t.is(await rest(), 0);
		t.is(files.length, left);
		for (const plan of plans) {
			// Nobody waits for a scan of the retained messages.
			t.true(!readsAll(plan) || /^select .{1,8} from .inbound./.test(plan), plan);
		}
		const untouched = await recipientRows(store.reader).where({address_key: 'zoe@example.org', state: 'accepted'});
		t.is(untouched.length, 50);
	},
);

const dataOf = ({body}: Awaited<ReturnType<TestApi['get']>>) => (body as {data: Array<{id: string}>}).data;

storeTest(test, 'hides a person once marked, and erases the rest in the sweep', async (t, store) => {
	const api = await startApi(t, store);
	const {id: workspaceId} = api.workspace;
	const [first, other] = [await api.send({to: 'lois@example.org'}), await api.send({to: 'zoe@example.org'})].map(
		idOf,
	);
	for (let n = 0; n < 60; n++) {
		await api.send({to: 'lois@example.org'});
	}
	await leaveTraces(api, first ?? '');
	await insertReceivedMail(store, newId, workspaceId, {terms: ['from:lois@example.org']});
	const person = {workspaceId, addressKey: 'lois@example.org'};
	const eraser = new Eraser({
		...{store, clock: systemClock, eventWriter, removeCaptured: async () => {}},
		waitLimitMs: -1,
	});
	const counted = {contact: true, messages: 61, recipients: 0, received: 1, isLeft: true};
	t.deepEqual(await eraser.erase(person, testOperator), counted);

	const {reader} = store;
	t.is((await reader('messages').where({to_key: person.addressKey})).length, 61, 'it is marked, no more');
	t.is((await api.get(`/v1/messages/${first}`)).status, 404);
	t.is((await api.get(`/v1/messages/${first}/events`)).status, 404);
	t.is((await api.get(`/v1/messages/${other}`)).status, 200);
	const list = await api.get('/v1/messages?limit=100');
	t.deepEqual(
		dataOf(list).map(({id}) => id),
		[other],
	);
	t.deepEqual(dataOf(await api.get('/v1/messages?recipient=lois%40example.org')), []);
	t.deepEqual(dataOf(await api.get('/v1/contacts?email=lois%40example.org')), []);
	t.deepEqual((await listReceived(reader, {workspaceId, terms: []})).rows, []);
	const endpoint = await reader('webhook_endpoints').where({workspace_id: workspaceId}).first('id');
	t.deepEqual(await listDeliveries(reader, endpoint.id, {after: null, limit: 100}), []);
	const waiting = await reader('queue').where({workspace_id: workspaceId}).pluck('recipient_id');
	t.is(waiting.length, 1, 'what waited for the person ends at once');

	const late = idOf(await api.send({to: 'lois@example.org'}));
	t.is((await api.get(`/v1/messages/${late}`)).status, 200, 'what comes later is no part of it');
	const clock = {now: () => systemClock.now() + 60_000};
	const step = erasureTask({reader, eraser, clock}).begin();
	let steps = 1;
	while (await step()) {
		steps++;
	}
	t.true(steps > 3, 'in steps');
	t.deepEqual(await reader('messages').where({to_key: person.addressKey}).pluck('id'), [late]);
	t.is(((await api.get(`/v1/messages/${first}`)).body as {to: string}).to, 'erased@erased.invalid');
	t.deepEqual(await reader('erasures'), []);
	t.deepEqual(await reader('received'), []);
});

storeTest(
	test,
	'erases a few messages in the transaction that marks the person, so that lists stay complete',
	async (t, store) => {
		const api = await startApi(t, store);
		const {id: workspaceId} = api.workspace;
		const sent = [idOf(await api.send({to: 'lois@example.org'})), idOf(await api.send({to: 'lois@example.org'}))];
		const eraser = new Eraser({
			...{store, clock: systemClock, eventWriter, removeCaptured: async () => {}},
			waitLimitMs: -1,
		});
		t.true((await eraser.erase({workspaceId, addressKey: 'lois@example.org'}, testOperator)).isLeft);
		t.deepEqual(
			dataOf(await api.get('/v1/messages')).map(({id}) => id),
			sent.toReversed(),
		);
		t.is(((await api.get(`/v1/messages/${sent[0]}`)).body as {to: string}).to, 'erased@erased.invalid');
	},
);

storeTest(test, 'drops the claim on a recipient being attempted and does not record the outcome', async (t, store) => {
	const api = await startApi(t, store);
	const {id: workspaceId} = api.workspace;
	const [first, second, complained] = [
		idOf(await api.send({to: 'lois@example.org'})),
		idOf(await api.send({to: 'zoe@example.org'})),
		idOf(await api.send({to: 'Lois@example.org'})),
	];
	const ends = new Map<string, () => void>();
	const lost: string[] = [];
	const {scheduler, recorded} = schedulerOf(
		store,
		recipient =>
			new Promise(resolve => {
				ends.set(recipient.address, () =>
					resolve(
						resultOf(recipient, {
							...{
								kind: 'bounced',
								type: 'permanent',
								category: 'unknown_user',
								reason: `550 ${recipient.address}?`,
							},
							suppresses: true,
						}),
					),
				);
			}),
		{observer: {lost: recipient => void lost.push(recipient.message_id)}},
	);
	await scheduler.start();
	await waitFor('all are tried', () => ends.size === 3);
	const timeline = (id: string) => readEvents(store.reader, id, {after: null, limit: 9});
	const before = await timeline(first);
	const {id: reported} = await recipientRows(store.reader).where({message_id: complained}).first();
	await store.writer.transaction(trx => moveRecipients(trx, [reported], 'complained', at));
	await eraseOf(store)({workspaceId, addressKey: 'lois@example.org'});
	for (const end of ends.values()) {
		end();
	}
	await waitFor('all tries ended', () => lost.length + recorded.length === 3);
	await scheduler.stop();
	t.deepEqual(lost.toSorted(), [first, complained]);
	const stateOf = async (id: string) => await recipientRows(store.reader).where({message_id: id}).first();
	t.like(await stateOf(first), {
		state: 'suppressed',
		next_attempt_at: null,
		claimed_by: null,
		subject: null,
		attempts: 0,
	});
	t.like(await stateOf(complained), {state: 'complained', next_attempt_at: null, claimed_by: null});
	t.like(await stateOf(second), {state: 'bounced'});
	t.notRegex(await everything(store, await tablesOf(store)), /lois/i);
	const after = await timeline(first);
	t.deepEqual(after.slice(0, 2), before);
	t.deepEqual(
		after.map(({type}) => type),
		['accepted', 'queued', 'suppressed'],
	);
	t.deepEqual(
		(await timeline(complained)).map(({type}) => type),
		['accepted', 'queued'],
	);
});

sqliteTest(test, 'keeps the outcome of messages that were already sent', async (t, store) => {
	const api = await startApi(t, store);
	const {id: workspaceId} = api.workspace;
	const id = idOf(await api.send({to: 'lois@example.org'}));
	await changeRecipients(store.database, all => all.where({message_id: id}), {
		state: 'delivered',
		next_attempt_at: null,
	});
	await eraseOf(store)({workspaceId, addressKey: 'lois@example.org'});
	t.like((await api.get(`/v1/messages/${id}`)).body, {status: 'delivered', to: 'erased@erased.invalid'});
	t.is((await store.reader('events').where({type: 'suppressed'})).length, 0);
});

if (engines.includes('postgres')) {
	test('erases what another node writes about a recipient at the same time', async t => {
		const [api, other] = await startTwoNodes(t);
		const {store} = api;
		const workspaceId = api.workspace.id;
		await store.database('workspaces').where({id: workspaceId}).update({track_opens_at: at});
		const address = 'lois@home.example';
		const whose = {workspaceId, role: 'to', address} as const;
		const opened = {
			...({
				type: 'opened',
				url: '',
				n: 1,
				machineN: 0,
				firstAt: at,
				lastAt: at,
				machine: false,
				userAgent: null,
			} as const),
			...whose,
		};
		const left = {...whose, topicId: null, addressKey: address, action: 'all', via: 'page', at} as const;
		const writes = [
			(trx: Knex.Transaction, messageId: string) =>
				createEngagementWrite(systemClock, eventWriter).apply(trx, [{...opened, messageId}]),
			(trx: Knex.Transaction, messageId: string) =>
				createUnsubscribeWrite(eventWriter).apply(trx, [{...left, messageId}]),
		];
		for (const write of writes) {
			const messageId = idOf(await api.send({to: address}));
			const trx = await other.store.database.transaction();
			await write(trx, messageId);
			let done = false;
			const erased = eraseOf(store)({workspaceId, addressKey: address}).then(() => {
				done = true;
			});
			await waitFor('the erasure to wait or to end', async () => done || (await isWaiting(store)));
			await trx.commit();
			await erased;
			t.notRegex(await everything(store, ['messages', 'recipients', 'events', 'engagement']), /lois/);
		}
	});
}

/** Whether anything waits for a lock in this database. */
async function isWaiting({reader}: Store): Promise<boolean> {
	const waiting = await reader('pg_stat_activity')
		.whereRaw('datname = current_database()')
		.where({wait_event_type: 'Lock'})
		.first('pid');
	return waiting !== undefined;
}

storeTest(test, 'ignores messages that another node removes at the same time', async (t, store) => {
	await t.notThrowsAsync(store.writer.transaction(trx => rewriteAddresses(trx, [newId('msg')], () => '')));
});

storeTest(
	test,
	'erases a person from messages with the same Message-ID in bounded steps, across pages',
	async (t, store) => {
		const {workspaceId} = await insertWorkspace(store);
		const addresses = ['ada@example.org', ...Array.from({length: 120}, (_, index) => `u${index}@example.org`)];
		const ids = await insertMessages(store, workspaceId, addresses);
		const raw = 'From: a@shop.example\r\nTo: ada@example.org\r\nSubject: Hello\r\n\r\nHello\r\n';
		const filename = '<one@shop.example>';
		await store.writer.transaction(async trx => {
			await insertAttachments(
				trx,
				ids.map(messageId => ({
					messageId,
					attachments: [{filename, contentType: submittedType, content: Buffer.from(raw)}],
				})),
			);
			await mergeTerms(
				trx,
				ids.map(messageId => ({workspaceId, messageId, terms: [messageIdTerm(filename)]})),
			);
		});
		let [transactions, most] = [0, 0];
		const counting: Pick<Store, 'reader' | 'writer'> = {
			reader: store.reader,
			writer: {
				...store.writer,
				transaction: work =>
					store.writer.transaction(async trx => {
						transactions++;
						let written = 0;
						trx.on('query', ({sql}: {sql: string}) => {
							written += sql.startsWith('update') && sql.includes('attachments') ? 1 : 0;
							most = Math.max(most, written);
						});
						return await work(trx);
					}),
			},
		};
		const eraser = new Eraser({
			store: counting,
			clock: systemClock,
			eventWriter,
			removeCaptured: async () => {},
		});
		const erased = await eraser.erase({workspaceId, addressKey: 'ada@example.org'}, testOperator);
		t.deepEqual(erased, {contact: false, messages: 1, recipients: 0, isLeft: false});
		t.true(transactions >= 4, `${transactions}`);
		t.true(most <= 50, `${most} mails in one transaction`);
		const left: Array<{content: Buffer}> = await store.reader('attachments').select('content');
		t.is(left.length, 120);
		t.false(left.some(({content}) => content.includes('ada@example.org')));
	},
);
