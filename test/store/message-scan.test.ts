import test from 'ava';
import {dayMs, storeTime} from '../../src/kit/time.ts';
import {idFloor} from '../../src/mail/ids.ts';
import {recipientStates} from '../../src/mail/message.ts';
import {type MessageFilter, maxScanned, scanMessages} from '../../src/store/message-scan.ts';
import {insertTerms} from '../../src/store/message-terms.ts';
import {reschedule} from '../../src/store/queue/open-recipients.ts';
import type {Store} from '../../src/store/store.ts';
import {sqliteTest, storeTest} from '../helpers/databases.ts';
import {insertMessages, insertWorkspace} from '../helpers/messages.ts';
import {planOfQuery, plansDuring, readsAll} from '../helpers/plans.ts';
import {changeRecipients, listStates} from '../helpers/recipient-rows.ts';

type Filters = Omit<MessageFilter, 'workspaceId'>;

/** Every id of the list, page by page. */
async function walk(store: Store, filter: MessageFilter, limit: number): Promise<{ids: string[]; pages: number}> {
	const ids: string[] = [];
	let after: string | null = null;
	let pages = 0;
	do {
		const page = await scanMessages(store.reader, filter, {after, limit});
		ids.push(...page.ids);
		after = page.next;
		pages++;
	} while (after !== null);
	return {ids, pages};
}

/** Inserts the given number of messages to a hundred addresses. */
async function insertMany(store: Store, workspaceId: string, count: number): Promise<string[]> {
	const addresses = Array.from({length: count}, (_, index) => `u${index % 100}@x.test`);
	const ids: string[] = [];
	for (let start = 0; start < count; start += 2000) {
		ids.push(...(await insertMessages(store, workspaceId, addresses.slice(start, start + 2000))));
	}
	return ids;
}

/** Inserts messages with two senders, three templates and every state. */
async function fill(store: Store, workspaceId: string, count: number): Promise<string[]> {
	const ids = await insertMany(store, workspaceId, count);
	await store.database.raw(
		`update messages set template_id = 'tpl_' || (cast(substr(to_key, 2, 1) as integer) % 3),
			from_key = 'f' || (cast(substr(to_key, 2, 1) as integer) % 2) || '@x.test',
			mode = case when to_key like '%5@x.test' or to_key = 'u12@x.test' then 'test' else 'live' end`,
	);
	for (const [index, state] of recipientStates.entries()) {
		await changeRecipients(store.database, all => all.whereLike('address_key', `u%${index}@x.test`), {
			state,
			next_attempt_at: null,
		});
	}
	// All have one word, and one in ten has another.
	const messages = ids.map((messageId, index) => ({
		...{workspaceId, messageId},
		terms: index % 10 === 2 ? ['w:receipt', 'w:rare'] : ['w:receipt'],
	}));
	// Neighbors share rows, like messages sent together, and the rows of one second interleave.
	await store.writer.transaction(async trx => {
		for (const remainder of [0, 1, 2]) {
			const together = messages.filter((_, index) => index % 3 === remainder);
			for (let start = 0; start < together.length; start += 7) {
				await insertTerms(trx, together.slice(start, start + 7));
			}
		}
	});
	if (store.dialect.name === 'postgres') {
		await store.database.raw('analyze');
	}
	return ids;
}

storeTest(
	test,
	'any combination of filters returns the messages that match all, in pages of any size',
	async (t, store) => {
		const {workspaceId} = await insertWorkspace(store);
		const other = await insertWorkspace(store, 'other');
		await insertMessages(store, other.workspaceId, ['u1@x.test']);
		const ids = await fill(store, workspaceId, 100);
		const rows = await store
			.reader('messages as m')
			.join('recipients as r', 'r.message_id', 'm.id')
			.where('m.workspace_id', workspaceId)
			.orderBy('m.id', 'desc')
			.select('m.id', 'm.to_key', 'm.from_key', 'm.template_id', 'm.mode', 'r.state');
		const isRare = (id: string) => ids.indexOf(id) % 10 === 2;
		const values = {toKey: 'u12@x.test', status: recipientStates[2], templateId: 'tpl_1', fromKey: 'f1@x.test'};
		const modes = [undefined, 'live', 'test'] as const;
		const words = [
			undefined,
			['w:receipt'],
			['w:rare', ['w:none', 'w:receipt']],
			[['w:none', 'w:rare', 'w:rare']],
			[['w:none', 'v:none']],
		] as const;
		for (let mask = 0; mask < 240; mask++) {
			const filter: Filters = {
				...(mask & 1 && {toKey: values.toKey}),
				...(mask & 2 && {status: values.status}),
				...(mask & 4 && {templateId: values.templateId}),
				...(mask & 8 && {fromKey: values.fromKey}),
				mode: modes[(mask >> 4) % 3],
				terms: words[Math.floor(mask / 48)],
			};
			const expected = rows
				.filter(
					row =>
						(filter.toKey ?? row.to_key) === row.to_key &&
						(filter.status ?? row.state) === row.state &&
						(filter.templateId ?? row.template_id) === row.template_id &&
						(filter.fromKey ?? row.from_key) === row.from_key &&
						(filter.mode ?? row.mode) === row.mode &&
						(filter.terms ?? []).every(asked =>
							[asked].flat().some(term => (term === 'w:rare' ? isRare(row.id) : term === 'w:receipt')),
						),
				)
				.map(row => row.id);
			for (const limit of mask < 16 ? [1, 7, 100] : [7]) {
				t.deepEqual(
					(await walk(store, {workspaceId, ...filter}, limit)).ids,
					expected,
					JSON.stringify({filter, limit}),
				);
			}
		}
		t.deepEqual((await walk(store, {workspaceId, toKey: 'nobody@x.test'}, 10)).ids, []);
		t.is((await walk(store, {workspaceId}, 100)).ids.length, ids.length);
	},
);

const schedule = (store: Store, messageId: string, sendAt: string | null) =>
	store.writer.transaction(async trx => {
		const ids = await trx('recipients').where({message_id: messageId}).pluck('id');
		await reschedule(trx, ids, {messageId, sendAt, now: storeTime(Date.now())});
	});

storeTest(
	test,
	'lists a scheduled message once until it is due, in pages and with any other filter',
	async (t, store) => {
		const {workspaceId} = await insertWorkspace(store);
		const other = await insertWorkspace(store, 'other');
		const [foreign = ''] = await insertMessages(store, other.workspaceId, ['u1@x.test']);
		const ids = await insertMessages(
			store,
			workspaceId,
			Array.from({length: 60}, (_, n) => `u${n % 2}@x.test`),
		);
		const [copied] = await store.reader('recipients').where({message_id: ids[6]}).select('*');
		const [queued] = await store.reader('queue').where({recipient_id: copied.id}).select('*');
		const copy = copied.id.replace(/.$/, '~');
		await store.database('recipients').insert({...copied, id: copy, role: 'cc'});
		await store.database('queue').insert({...queued, recipient_id: copy});
		for (const id of [foreign, ...ids.filter((_, n) => n % 3 === 0)]) {
			await schedule(store, id, '2098-01-01T00:00:00.000Z');
		}
		await schedule(store, ids[9] as string, '2097-01-01T00:00:00.000Z');
		await schedule(store, ids[12] as string, null);
		const left = ids.filter((_, n) => n % 3 === 0 && n !== 9 && n !== 12).reverse();
		const scheduledAfter = '2097-01-01T00:00:00.000Z';
		for (const limit of [1, 7, 100]) {
			t.deepEqual((await walk(store, {workspaceId, scheduledAfter}, limit)).ids, left, `${limit}`);
			const of = {workspaceId, scheduledAfter, toKey: 'u0@x.test', status: 'accepted'} as const;
			t.deepEqual(
				(await walk(store, of, limit)).ids,
				left.filter(id => ids.indexOf(id) % 2 === 0),
			);
		}
		t.deepEqual((await walk(store, {workspaceId, scheduledAfter, mode: 'test'}, 7)).ids, []);
		await store.database('queue').where({recipient_id: copied.id}).delete();
		t.true(
			(await walk(store, {workspaceId, scheduledAfter}, 7)).ids.includes(ids[6] as string),
			'a copy still waits',
		);
		await store.database('queue').delete();
		t.deepEqual((await walk(store, {workspaceId, scheduledAfter}, 7)).ids, []);
	},
);

storeTest(test, 'a time range is half-open, with millisecond precision', async (t, store) => {
	const {workspaceId} = await insertWorkspace(store);
	const [first] = (await insertMessages(store, workspaceId, ['a@x.test'])) as [string];
	const before = Date.now();
	while (Date.now() <= before + 1) {
		await new Promise(resolve => setImmediate(resolve));
	}
	const [second] = (await insertMessages(store, workspaceId, ['a@x.test'])) as [string];
	const between = before + 1;
	for (const filter of [
		{},
		{toKey: 'a@x.test'},
		{status: 'accepted' as const},
		{toKey: 'a@x.test', fromKey: 'a@shop.example'},
	]) {
		const list = async (range: Filters) => (await walk(store, {workspaceId, ...filter, ...range}, 10)).ids;
		t.deepEqual(await list({since: between}), [second]);
		t.deepEqual(await list({until: between}), [first]);
		t.deepEqual(await list({since: 0, until: between + 60_000}), [second, first]);
		t.deepEqual(await list({since: between, until: between}), []);
	}
});

storeTest(test, 'continues with older days after a page filled from the newest days', async (t, store) => {
	const {workspaceId} = await insertWorkspace(store);
	const [newest = ''] = await insertMessages(store, workspaceId, ['a@x.test']);
	const message = await store.reader('messages').where({id: newest}).first();
	const older = [20, 3, 3].map((days, index) => idFloor('msg', Date.now() - days * dayMs + index));
	await store.database('messages').insert(older.map(id => ({...message, id})));
	for (const limit of [1, 2, 3, 4]) {
		t.deepEqual((await walk(store, {workspaceId}, limit)).ids, [newest, ...older.toReversed()], `${limit}`);
	}
});

sqliteTest(
	test,
	'a page reads a limited part of the most selective index, and the next page continues there',
	async (t, store) => {
		const {workspaceId} = await insertWorkspace(store);
		const count = 2 * maxScanned + 500;
		const ids = await insertMany(store, workspaceId, count);
		// All are of one sender and in one state, but for the oldest one.
		await store.database('recipients').update({state: 'delivered'});
		await store.database('messages').update({from_key: 'f@x.test'});
		await store.database('recipients').where({message_id: ids[0]}).update({state: 'bounced'});
		await listStates(store.database);
		await store.database('messages').where({id: ids[1]}).update({from_key: 'g@x.test'});

		const many = {workspaceId, status: 'delivered', fromKey: 'f@x.test'} as const;
		const first = await scanMessages(store.reader, many, {after: null, limit: 100});
		t.deepEqual(first.ids, ids.slice(-100).reverse());
		t.is(first.next, ids.at(-100) ?? '');
		t.is((await walk(store, many, 10_000)).ids.length, count - 2);

		const none = {...many, templateId: 'tpl_x'};
		await store.database('messages').update({template_id: 'tpl_x'});
		await store.database('messages').where({id: ids[2]}).update({from_key: 'h@x.test'});
		await store.database('recipients').whereNot({message_id: ids[2]}).update({state: 'delivered'});
		await store.database('recipients').where({message_id: ids[2]}).update({state: 'bounced'});
		await listStates(store.database);
		const empty = await scanMessages(store.reader, {...none, fromKey: 'h@x.test'}, {after: null, limit: 10});
		t.deepEqual(empty, {ids: [], next: null}, 'the index of the rare sender is read, not that of the state');

		// Half of the messages have the sender, half have the state, none has both: the page is empty after a limited
		// number of rows and returns where to continue.
		await store.database.raw(`update messages set from_key = 'even@x.test' where to_key like '%0@x.test'
		or to_key like '%2@x.test' or to_key like '%4@x.test' or to_key like '%6@x.test' or to_key like '%8@x.test'`);
		await store.database.raw(`update recipients set state = case when message_id in
		(select id from messages where from_key = 'even@x.test') then 'delivered' else 'bounced' end`);
		await listStates(store.database);
		const sparse = {workspaceId, status: 'bounced', fromKey: 'even@x.test'} as const;
		const page = await scanMessages(store.reader, sparse, {after: null, limit: 10});
		t.deepEqual(page.ids, []);
		const bounced = ids.filter((_, index) => index % 2 === 1).reverse();
		const even = ids.filter((_, index) => index % 2 === 0).reverse();
		t.true([bounced[maxScanned - 1], even[maxScanned - 1]].includes(page.next ?? ''));
		t.deepEqual(await walk(store, sparse, 10), {ids: [], pages: 2});
	},
);

storeTest(test, 'every filter and combination reads an index in its order', async (t, store, engine) => {
	const {workspaceId} = await insertWorkspace(store);
	// SQLite has no statistics of rows.
	const [id] = await fill(store, workspaceId, engine === 'sqlite' ? 300 : 3000);
	const term = /(?:PRIMARY KEY|message_terms_pkey)/;
	const unindexed = store.reader('messages').where({reply_to: 'x'}).select('id');
	t.true(readsAll(await planOfQuery(store, engine, unindexed)), 'this test can fail');
	const range = {since: Date.now() - 60_000, until: Date.now() + 60_000};
	const [toKey, status, templateId, fromKey] = ['u12@x.test', 'sent', 'tpl_1', 'f1@x.test'] as const;
	await schedule(store, id as string, '2099');
	for (const [index, filter] of [
		[/messages_by_workspace/, {}],
		[/messages_by_workspace/, range],
		[/messages_by_recipient/, {toKey}],
		[/messages_by_recipient/, {toKey, ...range}],
		[term, {status}],
		[term, {status, ...range}],
		[/messages_by_template/, {templateId}],
		[/messages_by_sender/, {fromKey}],
		[/messages_by_recipient/, {toKey, status}],
		[/messages_by_recipient/, {toKey, fromKey, templateId, status, ...range}],
		[term, {status, templateId, fromKey}],
		[/messages_by_template/, {templateId, fromKey}],
		[term, {terms: ['w:receipt']}],
		[term, {terms: ['w:receipt'], ...range}],
		[term, {terms: ['w:receipt', 'w:rare'], templateId, status}],
		[/messages_by_recipient/, {toKey, terms: ['w:receipt']}],
		[/messages_by_workspace/, {id}],
		[/messages_of_tests/, {mode: 'test'}],
		[/messages_of_tests/, {mode: 'test', ...range}],
		[/messages_by_recipient/, {mode: 'test', toKey}],
		[/messages_by_workspace/, {mode: 'live'}],
		[/messages_by_recipient/, {mode: 'live', toKey}],
		[/queue_scheduled/, {scheduledAfter: '2026'}],
		[/queue_scheduled/, {scheduledAfter: '2026', ...range}],
		[/queue_scheduled/, {scheduledAfter: '2026', fromKey, status}],
	] as const) {
		const plans = await plansDuring(store, engine, () =>
			scanMessages(store.reader, {workspaceId, ...filter}, {after: null, limit: 25}),
		);
		const named = JSON.stringify(filter);
		// PostgreSQL searches the newest days first, and its statistics show nothing in earlier ones.
		const place = plans.findIndex(plan => !/count\(\*\)|sum\(|m\.id in/.test(plan));
		const first = plans[place] ?? '';
		t.regex(first, index, named);
		if (engine === 'postgres') {
			// Of columns that are compared as one row it would read on beyond the lower bound, in the versions before
			// 18.
			const [bounds = ''] = first.match(/Index Cond: .*/) ?? [];
			t.regex(
				bounds,
				'since' in filter || 'id' in filter
					? /_id = .*(?:id|message) >= .*(?:id|message) < /
					: /_id = .*(?:id|message) >= /,
				named,
			);
			const isKeyed = /_by_(?:recipient|template|sender)|_terms_/.test(index.source);
			t.is(bounds.match(/ = /g)?.length, isKeyed ? 2 : 1, `${named} ${bounds}`);
			t.notRegex(bounds, /ROW\(/, named);
		}
		for (const plan of plans) {
			t.false(readsAll(plan), `${named}\n${plan}`);
			// What is only counted, or looked up by its ids, may be sorted: it is little.
			if (plan === first) {
				t.notRegex(plan, /TEMP B-TREE|^ *-?>? *Sort/m, `${named}\n${plan}`);
			}
		}
	}
});
