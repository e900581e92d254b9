import test from 'ava';
import type {Knex} from 'knex';
import {rowOfAddress} from '../../src/store/engine/rows.ts';
import type {Store} from '../../src/store/store.ts';
import {
	insertSuppressions,
	type NewSuppression,
	type SuppressionFilter,
	suppressionListQuery,
} from '../../src/store/suppressions.ts';
import {countOptOuts, purgeOptOuts, topicListQuery} from '../../src/store/topics.ts';
import {type Engine, storeTest} from '../helpers/databases.ts';
import {insertWorkspace, newId} from '../helpers/messages.ts';

const at = '2026-06-09T10:15:30.123Z';

function entry(workspaceId: string, address: string, fields: Partial<NewSuppression> = {}): NewSuppression {
	const id = newId('sup');
	return {id, workspaceId, address, addressKey: address, reason: 'manual', source: 'api', createdAt: at, ...fields};
}

storeTest(
	test,
	'an address keeps its first entry, also within one insertion; the ids of new ones are answered',
	async (t, store) => {
		const {workspaceId} = await insertWorkspace(store);
		const [b, a, again] = ['b@x.test', 'a@x.test', 'b@x.test'].map(address => entry(workspaceId, address)) as [
			NewSuppression,
			NewSuppression,
			NewSuppression,
		];
		const added = await store.writer.transaction(trx => insertSuppressions(trx, [b, a, again]));
		t.deepEqual(added, new Set([a.id, b.id]));
		const later = entry(workspaceId, 'a@x.test', {reason: 'complaint'});
		t.deepEqual(await store.writer.transaction(trx => insertSuppressions(trx, [later])), new Set());
		t.deepEqual(
			(await store.reader('suppressions').orderBy('id')).map(({id, reason}) => [id, reason]),
			[
				[b.id, 'manual'],
				[a.id, 'manual'],
			],
		);
		const other = await insertWorkspace(store, 'other');
		const theirs = entry(other.workspaceId, 'a@x.test');
		t.deepEqual(await store.writer.transaction(trx => insertSuppressions(trx, [theirs])), new Set([theirs.id]));
		t.deepEqual(await store.writer.transaction(trx => insertSuppressions(trx, [])), new Set());
	},
);

storeTest(test, 'an entry of a test key gives way to any other, also within one insertion', async (t, store) => {
	const {workspaceId} = await insertWorkspace(store);
	const insert = async (...entries: NewSuppression[]) => {
		const added = await store.writer.transaction(trx => insertSuppressions(trx, entries));
		const rows = await store.reader('suppressions').orderBy('address').select('id', 'reason', 'mode');
		return {added, rows};
	};
	const tried = entry(workspaceId, 'a@x.test', {mode: 'test'});
	const bounced = entry(workspaceId, 'a@x.test', {reason: 'hard_bounce'});
	t.deepEqual(await insert(tried), {
		added: new Set([tried.id]),
		rows: [{id: tried.id, reason: 'manual', mode: 'test'}],
	});
	t.deepEqual((await insert(entry(workspaceId, 'a@x.test', {mode: 'test'}))).added, new Set());
	const live = {id: bounced.id, reason: 'hard_bounce', mode: 'live'};
	t.deepEqual(await insert(bounced), {added: new Set([bounced.id]), rows: [live]});
	t.deepEqual(await insert(tried, entry(workspaceId, 'a@x.test')), {added: new Set(), rows: [live]});

	const [first, second] = [entry(workspaceId, 'b@x.test', {mode: 'test'}), entry(workspaceId, 'b@x.test')];
	t.deepEqual((await insert(first, second)).added, new Set([second.id]));
});

/** Two workspaces with as many entries as make an engine look for an index; as many topics and opt-outs. */
async function fill(store: Store, engine: Engine): Promise<string> {
	const {workspaceId} = await insertWorkspace(store);
	const other = await insertWorkspace(store, 'other');
	const reasons = ['manual', 'hard_bounce', 'complaint', 'unsubscribe'] as const;
	await store.writer.transaction(async trx => {
		for (const id of [workspaceId, other.workspaceId]) {
			const rows = Array.from({length: 3000}, (_, n) => ({
				reason: reasons[n % 4] ?? 'manual',
				address: `u${n}@x.test`,
			}));
			await insertSuppressions(
				trx,
				rows.map(({address, reason}) => entry(id, address, {reason})),
			);
			for (let n = 0; n < 200; n++) {
				await trx('topics').insert({id: newId('usg'), workspace_id: id, code: `c${n}`, name: 'x', created_at: at});
			}
		}
		// SQLite's stores have no statistics.
		await (engine === 'postgres' && trx.raw('analyze'));
	});
	return workspaceId;
}

async function planOf({reader}: Store, engine: Engine, query: Knex.QueryBuilder): Promise<string> {
	const {sql, bindings} = query.toSQL();
	const answer = await reader.raw(`explain ${engine === 'sqlite' ? 'query plan ' : ''}${sql}`, [...bindings]);
	const rows: Array<{detail?: string; 'QUERY PLAN'?: string}> = engine === 'sqlite' ? answer : answer.rows;
	return rows.map(row => row.detail ?? row['QUERY PLAN']).join('\n');
}

storeTest(test, 'each page of the lists is read along an index, without a sort', async (t, store, engine) => {
	const workspaceId = await fill(store, engine);
	const middle = newId('sup');
	const cases: ReadonlyArray<readonly [index: RegExp, filter: Partial<SuppressionFilter>]> = [
		[/suppressions_by_workspace|suppressions_pkey/, {}],
		[/suppressions_by_workspace|suppressions_pkey/, {after: middle}],
		[/suppressions_by_reason/, {reason: 'complaint'}],
		[/suppressions_by_reason/, {reason: 'complaint', after: middle}],
		[/suppressions_by_address/, {addressKey: 'u5@x.test'}],
		[/suppressions_by_address/, {addressKey: 'u5@x.test', reason: 'manual', after: middle}],
	];
	for (const [index, filter] of cases) {
		const query = suppressionListQuery(store.reader, {workspaceId, after: null, limit: 26, ...filter});
		const plan = await planOf(store, engine, query);
		t.regex(plan, index, plan);
		// One address has one row at most, which PostgreSQL sorts all the same.
		t.true(filter.addressKey !== undefined || !/TEMP B-TREE|Sort/.test(plan), plan);
	}
	const contact = {workspace_id: workspaceId, address_key: 'u5@x.test'};
	const contacts = await planOf(store, engine, rowOfAddress(store.reader, 'contacts', contact, middle));
	// PostgreSQL reads an empty table from end to end.
	t.regex(contacts, engine === 'sqlite' ? /contacts_by_address/ : /contacts/);
	const topics = await planOf(store, engine, topicListQuery(store.reader, {workspaceId, after: null, limit: 26}));
	t.regex(topics, /topics_by_workspace|topics_pkey/);
	t.notRegex(topics, /TEMP B-TREE|Sort/);
});

storeTest(test, 'opt-outs are counted by code and forgotten bit by bit', async (t, store) => {
	const {workspaceId} = await insertWorkspace(store);
	const other = await insertWorkspace(store, 'other');
	const optOut = (workspace_id: string, code: string, address: string) => ({
		...{workspace_id, code, address, address_key: address, source: 'one-click', created_at: at},
	});
	await store
		.database('topic_optouts')
		.insert([
			...[1, 2, 3, 4, 5].map(n => optOut(workspaceId, 'news', `u${n}@x.test`)),
			optOut(workspaceId, 'offers', 'u1@x.test'),
			optOut(other.workspaceId, 'news', 'u1@x.test'),
		]);
	t.deepEqual(
		await countOptOuts(store.reader, workspaceId),
		new Map([
			['news', 5],
			['offers', 1],
		]),
	);
	const forget = () => store.writer.transaction(trx => purgeOptOuts(trx, workspaceId, 'news', 3));
	t.deepEqual([await forget(), await forget(), await forget()], [3, 2, 0]);
	t.deepEqual(await countOptOuts(store.reader, workspaceId), new Map([['offers', 1]]));
	t.deepEqual(await countOptOuts(store.reader, other.workspaceId), new Map([['news', 1]]));
});
