import test from 'ava';
import {dayMs, storeTime} from '../../src/kit/time.ts';
import {createIdSource} from '../../src/mail/ids.ts';
import {recordReceived} from '../../src/outcome/received.ts';
import {
	deleteReceived,
	eraseReceived,
	findInboxes,
	findReceived,
	insertInboundAddress,
	listReceived,
	openReceivedBytes,
	purgeReceived,
	readReceivedBytes,
} from '../../src/resources/received/store.ts';
import {storeTest} from '../helpers/databases.ts';
import {insertReceivedMail} from '../helpers/received-mail.ts';
import {insertEndpoint} from '../helpers/webhooks.ts';
import {addWorkspace} from '../helpers/workspace.ts';

const now = Date.now();
const idsAt = (time: number) => createIdSource({now: () => time, monotonic: () => time});
const page = {after: null, limit: 10};

storeTest(
	test,
	'stores a received message once per workspace, and finds it by sender, recipient and In-Reply-To',
	async (t, store) => {
		const [one, two] = [(await addWorkspace(store, 'one')).id, (await addWorkspace(store, 'two')).id];
		const newId = idsAt(now);
		const inboundId = 'a'.repeat(64);
		const id = await insertReceivedMail(store, newId, one, {
			inboundId,
			terms: ['from:a@x.test', 'to:b@x.test', 're:msg_1'],
		});
		await insertReceivedMail(store, newId, one, {inboundId});
		await insertReceivedMail(store, newId, two, {inboundId});
		const other = await insertReceivedMail(store, newId, one, {terms: ['from:a@x.test', 'to:c@x.test']});
		const listed = async (...terms: string[]) =>
			(await listReceived(store.reader, {workspaceId: one, terms}, page)).rows.map(mail => mail.id);
		t.deepEqual(await listed(), [other, id]);
		t.deepEqual(await listed('from:a@x.test'), [other, id]);
		t.deepEqual(await listed('from:a@x.test', 'to:b@x.test'), [id]);
		t.deepEqual(await listed('re:msg_1', 'to:c@x.test'), []);
		t.deepEqual(
			(await listReceived(store.reader, {workspaceId: one, terms: []}, {after: other, limit: 1})).rows.map(
				mail => mail.id,
			),
			[id],
		);
		t.is(
			(await listReceived(store.reader, {workspaceId: one, terms: [], since: now + dayMs}, page)).rows.length,
			0,
		);
		t.is(
			(await listReceived(store.reader, {workspaceId: one, terms: ['from:a@x.test'], until: now - dayMs}, page))
				.rows.length,
			0,
		);
		t.is(await findReceived(store.reader, two, id), undefined);
		t.is(await readReceivedBytes(store.reader, two, id), undefined);
		t.is(await openReceivedBytes(store.reader, two, id), undefined);
		t.is(await openReceivedBytes(store.reader, two, id, 0), undefined);
		t.is(await openReceivedBytes(store.reader, one, id, 2), undefined);
		const file = await openReceivedBytes(store.reader, one, id, 1);
		t.is(file?.size, 3);
		t.is(String((await file?.pieces.next())?.value), 'gif');
	},
);

storeTest(test, 'reads a large message in chunks, on demand', async (t, store) => {
	const {id: workspaceId} = await addWorkspace(store, 'one');
	const id = await insertReceivedMail(store, idsAt(now), workspaceId);
	const raw = Buffer.alloc(2.5 * 1024 * 1024, 'abcdefg');
	await store.writer.transaction(trx => trx('received').where({id}).update({raw}));
	const opened = await openReceivedBytes(store.reader, workspaceId, id);
	t.is(opened?.size, raw.length);
	const pieces = [];
	for await (const piece of opened?.pieces ?? []) {
		pieces.push(piece);
	}
	t.is(pieces.length, 3);
	t.true(Buffer.concat(pieces).equals(raw));

	const other = await openReceivedBytes(store.reader, workspaceId, id);
	await other?.pieces.next();
	await store.writer.transaction(trx => deleteReceived(trx, [id]));
	await t.throwsAsync(async () => await other?.pieces.next(), {message: /was deleted while it was being read/});
});

storeTest(
	test,
	'retention and erasure remove a received message with its attachments and webhook deliveries',
	async (t, store) => {
		const {id: workspaceId} = await addWorkspace(store, 'one');
		await insertEndpoint(store, workspaceId, {events: ['received']});
		const old = await insertReceivedMail(store, idsAt(now - 40 * dayMs), workspaceId, {terms: ['from:old@x.test']});
		const newId = idsAt(now);
		const fresh = await insertReceivedMail(store, newId, workspaceId, {terms: ['from:ada@x.test', 'to:b@x.test']});
		const mail = {
			...(await findReceived(store.reader, workspaceId, fresh)),
			id: newId('rcv'),
			inboundId: 'b'.repeat(64),
		};
		const posted = {...mail, files: [], terms: ['to:ada@x.test'], raw: Buffer.from('x')};
		const due: string[] = [];
		const writer = {newId, onDue: (ids: readonly string[]) => due.push(...ids)};
		await store.writer.transaction(trx =>
			recordReceived(trx, [{mail: posted as never, detail: {subject: 'secret'}}], writer),
		);
		const count = async (table: string) => (await store.reader(table)).length;
		t.deepEqual(
			[await count('received'), await count('webhook_deliveries'), await count('received_files')],
			[3, 1, 4],
		);
		t.is(due.length, 1);

		t.is(await store.writer.transaction(trx => purgeReceived(trx, now - 30 * dayMs, 10)), 1);
		t.is(await findReceived(store.reader, workspaceId, old), undefined);
		t.is(await store.writer.transaction(trx => eraseReceived(trx, workspaceId, 'ada@x.test', 10)), 2);
		for (const table of ['received', 'received_files', 'received_terms', 'webhook_deliveries', 'webhook_queue']) {
			t.is(await count(table), 0, table);
		}
	},
);

storeTest(test, 'an exact address takes precedence over a whole domain, and exists only once', async (t, store) => {
	const [one, two] = [(await addWorkspace(store, 'one')).id, (await addWorkspace(store, 'two')).id];
	const newId = idsAt(now);
	const add = (workspace: string, address: string) =>
		store.writer.transaction(trx =>
			insertInboundAddress(trx, {
				...{id: newId('inb'), workspace_id: workspace, address},
				created_at: storeTime(now),
			}),
		);
	t.deepEqual(
		[await add(one, '*@in.test'), await add(two, 'a@in.test'), await add(one, 'a@in.test')],
		[true, true, false],
	);
	const found = await findInboxes(store.reader, ['a@in.test', 'b@in.test', 'a@other.test']);
	t.deepEqual(
		[...found],
		[
			['a@in.test', two],
			['b@in.test', one],
		],
	);
});
