import test from 'ava';
import fc from 'fast-check';
import type {Knex} from 'knex';
import {idFloor} from '../../src/mail/ids.ts';
import {
	countListed,
	dropTerms,
	eraseTerms,
	insertTerms,
	mergeTerms,
	readListed,
} from '../../src/store/message-terms.ts';
import {eraseMessages, removeMessages} from '../../src/store/retention.ts';
import type {Store} from '../../src/store/store.ts';
import {engines, newStore, storeTest} from '../helpers/databases.ts';
import {insertMessages, insertWorkspace} from '../helpers/messages.ts';
import {plansDuring, readsAll} from '../helpers/plans.ts';
import {changeRecipients} from '../helpers/recipient-rows.ts';
import {waitFor} from '../helpers/wait.ts';

const termsOf = async (store: Store, id: string | undefined): Promise<string[]> =>
	await store.reader('message_terms').where({message_id: id}).orderBy('term').pluck('term');

const termOf = (workspaceId: string, messageId: string, ...terms: string[]) => ({workspaceId, messageId, terms});

const all = ['m8:order_id=1042', 't:shop', 'v:1042', 'w:1042', 'w:receipt'];

/** Two messages with terms. */
async function prepare(store: Store): Promise<string[]> {
	const {workspaceId} = await insertWorkspace(store);
	const ids = await insertMessages(store, workspaceId, ['a@x.test', 'b@x.test']);
	await store.database('messages').update({metadata: '{"order_id":"1042"}', tags: '["shop"]'});
	await changeRecipients(store.database, all => all, {subject: 'Receipt 1042', next_attempt_at: null});
	await store.database('message_terms').delete();
	// One row each, as earlier versions wrote them.
	for (const id of ids) {
		await store.database.transaction(trx => insertTerms(trx, [termOf(workspaceId, id, ...all)]));
	}
	return ids;
}

storeTest(test, 'erasing a message leaves only its tags, removing it leaves nothing', async (t, store, engine) => {
	const [first, second] = await prepare(store);
	const at = '2026-06-09T10:15:30.123Z';
	const plans = await plansDuring(store, engine, () =>
		store.writer.transaction(trx => eraseMessages(trx, [first as string], at)),
	);
	const ofTerms = plans.filter(plan => plan.includes('message_terms'));
	t.true(ofTerms.length > 1);
	for (const plan of ofTerms) {
		t.false(readsAll(plan), plan);
	}
	t.deepEqual(await termsOf(store, first), ['t:shop']);
	t.deepEqual(await termsOf(store, second), all);

	const range = {after: '', before: idFloor('msg', Date.now() + 60_000), limit: 10};
	await store.writer.transaction(trx => removeMessages(trx, store.dialect, range));
	t.deepEqual(await store.reader('message_terms'), []);
});

storeTest(test, 'messages sent together share a row, and an erased one is removed from it', async (t, store) => {
	const {workspaceId} = await insertWorkspace(store);
	const ids = await insertMessages(store, workspaceId, ['a@x.test', 'b@x.test', 'c@x.test', 'd@x.test']);
	const [a = '', b = '', c = '', d = ''] = ids;
	await store.database('recipients').update({subject: 'Receipt'});
	const list = {workspaceId, term: 'w:receipt'};
	const listed = () => readListed(store.reader, list, {below: null}, 10);
	const add = (...some: string[]) =>
		store.writer.transaction(trx =>
			mergeTerms(
				trx,
				some.map(id => termOf(workspaceId, id, list.term)),
			),
		);
	await add(c, a);
	await add(b);
	await add(d);
	t.is((await store.reader('message_terms')).length, 3);
	t.deepEqual(await listed(), [d, c, b, a]);
	await add(c, b);
	await add(d);
	t.deepEqual(await listed(), [d, c, b, a], 'what is there already stays');

	const erase = (id: string) => store.writer.transaction(trx => eraseTerms(trx, [id]));
	await erase(c);
	t.deepEqual(await listed(), [d, b, a]);
	const heads: string[] = await store.reader('message_terms').pluck('message_id');
	t.false(heads.includes(c), 'nothing is kept under a message whose words are gone');
	await erase(b);
	await erase(d);
	t.deepEqual(await listed(), [a]);
	await erase(a);
	t.deepEqual(await store.reader('message_terms'), []);
});

storeTest(test, 'a removed message disappears from shared rows without affecting the others', async (t, store) => {
	const {workspaceId} = await insertWorkspace(store);
	const ids = await insertMessages(store, workspaceId, ['a@x.test', 'b@x.test', 'c@x.test', 'd@x.test']);
	const [a = '', b = '', c = '', d = ''] = ids;
	await store.database('recipients').update({subject: 'Receipt'});
	const list = {workspaceId, term: 'w:receipt'};
	const listed = () => readListed(store.reader, list, {below: null}, 10);
	await store.writer.transaction(trx =>
		mergeTerms(
			trx,
			ids.map(id => termOf(workspaceId, id, list.term)),
		),
	);
	// `b` and `c` wait.
	const gone = (which: string[]) => (recipients: Knex.QueryBuilder) => recipients.whereIn('message_id', which);
	await changeRecipients(store.database, gone([a, d]), {state: 'delivered', next_attempt_at: null});
	const range = {after: '', before: idFloor('msg', Date.now() + 60_000), limit: 10};
	await store.writer.transaction(trx => removeMessages(trx, store.dialect, range));
	t.deepEqual(await listed(), [c, b], 'what waits is found, though the newest of its row went');

	await changeRecipients(store.database, gone([b]), {state: 'delivered', next_attempt_at: null});
	await store.writer.transaction(trx => removeMessages(trx, store.dialect, range));
	await store.writer.transaction(trx => eraseTerms(trx, [c]));
	t.deepEqual(await store.reader('message_terms').where({term: list.term}), [], 'nothing is left of what is gone');
});

if (engines.includes('postgres')) {
	test('two messages erased at the same time both disappear from the lists', async t => {
		const store = await newStore(t, 'postgres');
		const {workspaceId} = await insertWorkspace(store);
		const ids = await insertMessages(store, workspaceId, ['a@x.test', 'b@x.test', 'c@x.test']);
		const [a = '', b = '', c = ''] = ids;
		await store.database('recipients').update({subject: 'Receipt'});
		const list = {workspaceId, term: 'w:receipt'};
		await store.writer.transaction(trx =>
			mergeTerms(
				trx,
				ids.map(id => termOf(workspaceId, id, list.term)),
			),
		);
		const first = await store.reader.transaction();
		t.teardown(() => (first.isCompleted() ? undefined : first.rollback()));
		await eraseTerms(first, [a]);
		const second = store.writer.transaction(trx => eraseTerms(trx, [b]));
		await waitFor('the second to wait', async () => {
			const mine = store.reader('pg_stat_activity').whereRaw('datname = current_database()');
			return (await mine.where({wait_event_type: 'Lock'})).length > 0;
		});
		await first.commit();
		await second;
		t.deepEqual(await readListed(store.reader, list, {below: null}, 10), [c]);
	});
}

storeTest(test, 'reads a list in order, however its messages were added', async (t, store) => {
	const start = Date.UTC(2026, 5, 9);
	const word = {workspaceId: 'ws', term: 'w:x'};
	const property = fc.asyncProperty(
		fc.array(fc.array(fc.integer({min: 0, max: 3000}), {minLength: 1, maxLength: 6}), {maxLength: 30}),
		fc.integer({min: 1, max: 7}),
		fc.integer({min: 0, max: 3000}),
		async (groups, pageSize, from) => {
			await store.database('message_terms').delete();
			const idOf = (ms: number) => idFloor('msg', start + ms);
			for (const group of groups) {
				const messages = [...new Set(group)].map(ms => termOf(word.workspaceId, idOf(ms), word.term, 'w:y'));
				await store.writer.transaction(trx => mergeTerms(trx, messages));
			}
			const range = {from: idOf(from)};
			const found: string[] = [];
			for (let below: string | null = null; ; below = found.at(-1) ?? null) {
				const page = await readListed(store.reader, word, {...range, below}, pageSize);
				found.push(...page);
				if (page.length < pageSize) {
					break;
				}
			}
			const expected = [...new Set(groups.flat())].filter(ms => ms >= from).sort((a, b) => b - a);
			t.deepEqual(found, expected.map(idOf));
			const atLeast = await countListed(store.reader, word, {...range, below: null}, 1000);
			t.true(atLeast >= expected.length);
		},
	);
	await fc.assert(property, {numRuns: 60});
});

storeTest(test, 'counting a list reads no more rows than the count needs', async (t, store) => {
	const word = {workspaceId: 'ws', term: 'w:x'};
	const start = Date.UTC(2026, 5, 9);
	await store.writer.transaction(trx =>
		mergeTerms(
			trx,
			Array.from({length: 5000}, (_, index) =>
				termOf(
					word.workspaceId,
					`${idFloor('msg', start + Math.floor(index / 100) * 1024).slice(0, 26)}${String(index).padStart(4, '0')}`,
					word.term,
				),
			),
		),
	);
	const rows = (await store.reader('message_terms')).length;
	t.true(rows <= 60, `${rows}`);
	let asked = 0;
	store.reader.on('query', ({bindings = []}: {bindings?: readonly unknown[]}) => {
		asked += Number(bindings.at(-1));
	});
	const count = async (most: number) => await countListed(store.reader, word, {from: null, below: null}, most);
	t.true((await count(1000)) >= 1000);
	t.true(asked <= 50, `${asked} rows for 1,000 messages`);
	t.is(await count(10_000), 5000, 'to the end');
});

storeTest(
	test,
	'erases and removes many messages with few statements, however many words they have',
	async (t, store) => {
		const {workspaceId} = await insertWorkspace(store);
		const ids = await insertMessages(
			store,
			workspaceId,
			Array.from({length: 400}, (_, index) => `a${index}@x.test`),
		);
		const metadata = Object.fromEntries(Array.from({length: 50}, (_, index) => [`k${index}`, 'v']));
		await store.database('messages').update({metadata: JSON.stringify(metadata)});
		const listed = Object.keys(metadata).map(key => `m${key.length}:${key}=v`);
		const list = () =>
			store.writer.transaction(trx =>
				mergeTerms(
					trx,
					ids.map(id => termOf(workspaceId, id, ...listed)),
				),
			);
		const stays = ids.at(-1) as string;
		for (const take of [eraseTerms, dropTerms]) {
			await list();
			let statements = 0;
			await store.writer.transaction(async trx => {
				trx.on('query', () => statements++);
				await take(
					trx,
					ids.filter(id => id !== stays),
				);
			});
			t.true(statements < 60, `${take.name}: ${statements}`);
			const found = await readListed(store.reader, {workspaceId, term: listed[0] as string}, {below: null}, 1000);
			if (take === eraseTerms) {
				t.deepEqual(found, [stays]);
			}
		}
	},
);
