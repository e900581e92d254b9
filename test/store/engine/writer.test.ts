import test from 'ava';
import {insertRows} from '../../../src/store/engine/rows.ts';
import type {GroupWrite} from '../../../src/store/engine/writer.ts';
import {openStore} from '../../../src/store/store.ts';
import {engines, newLocation, newStore, storeTest} from '../../helpers/databases.ts';
import {waitFor} from '../../helpers/wait.ts';

const batches: WeakMap<object, number[]> = new WeakMap();

function inserting(t: object): GroupWrite<{code: string; fails?: boolean}, string> {
	return {
		name: 'topic',
		rank: 1,
		async apply(trx, items) {
			batches.set(t, [...(batches.get(t) ?? []), items.length]);
			if (items.some(item => item.fails)) {
				throw new Error('not this one');
			}
			await insertRows(
				trx,
				'mta_sts',
				['domain', 'policy_id', 'mode', 'mx', 'fetched_at', 'expires_at'],
				items.map(item => [item.code, '1', 'none', '[]', '', '']),
			);
			return items.map(item => item.code.toUpperCase());
		},
	};
}

storeTest(test, 'items that arrive together share a transaction, and each gets its own result', async (t, store) => {
	const write = inserting(t);
	const codes = Array.from({length: 300}, (_, index) => `a${String(index).padStart(3, '0')}`);
	const results = await Promise.all(codes.map(code => store.writer.submit(write, {code})));
	t.deepEqual(
		results,
		codes.map(code => code.toUpperCase()),
	);
	t.deepEqual(batches.get(t), [128, 128, 44]);
	t.deepEqual(await store.reader('mta_sts').orderBy('domain').pluck('domain'), codes);
});

storeTest(test, 'a failed item does not affect the others', async (t, store) => {
	const write = inserting(t);
	const settled = await Promise.allSettled([
		store.writer.submit(write, {code: 'one'}),
		store.writer.submit(write, {code: 'two', fails: true}),
		store.writer.submit(write, {code: 'three'}),
		store.writer.submit(write, {code: 'one'}),
	]);
	t.deepEqual(
		settled.map(result => result.status),
		['fulfilled', 'rejected', 'fulfilled', 'rejected'],
	);
	t.deepEqual(await store.reader('mta_sts').orderBy('domain').pluck('domain'), ['one', 'three']);
});

storeTest(test, 'rolls back a transaction that throws', async (t, store) => {
	await t.throwsAsync(
		store.writer.transaction(async trx => {
			await trx('changes').update({generation: 7});
			throw new Error('no');
		}),
		{message: 'no'},
	);
	t.is((await store.reader('changes').first()).generation, 1);
});

storeTest(test, 'error messages contain no bound values', async (t, store) => {
	const workspace = {id: 'ws_1', name: 'whsec_SECRET', created_at: ''};
	await store.writer.transaction(trx => trx('workspaces').insert(workspace));
	const error = await t.throwsAsync(store.writer.transaction(trx => trx('workspaces').insert(workspace)));
	t.false(error.message.includes('SECRET'), error.message);
});

storeTest(test, 'two processes can read and then write in one transaction', async (t, store, engine) => {
	if (engine === 'postgres') {
		t.pass('One row lock decides there.');
		return;
	}
	const other = await openStore({file: (store.database.client.config.connection as {filename: string}).filename});
	t.teardown(() => other.close());
	const addOne = (one: typeof store) =>
		one.writer.transaction(async trx => {
			const {generation} = await trx('changes').first('generation');
			await trx('changes').update({generation: generation + 1});
		});
	await Promise.all(Array.from({length: 100}, (_, index) => addOne(index % 2 ? store : other)));
	t.is((await store.reader('changes').first()).generation, 101);
});

test('reports a store that cannot be opened', async t => {
	const location = await newLocation(t, 'sqlite');
	const file = 'file' in location ? location.file : '';
	await t.throwsAsync(openStore({file: `${file}/deeper/mailctl.db`}), {code: 'SQLITE_CANTOPEN'});
});

storeTest(test, 'stops running items one by one if the store becomes unavailable', async (t, store) => {
	let asked = 0;
	const write: GroupWrite<number, number> = {
		name: 'failing',
		rank: 1,
		async apply(_trx, items) {
			asked++;
			if (asked === 1) {
				throw new Error('one of them is bad');
			}
			const code = store.dialect.name === 'sqlite' ? 'SQLITE_BUSY' : '57P03';
			return items.length > 0 ? await Promise.reject(Object.assign(new Error('busy'), {code})) : items;
		},
	};
	const settled = await Promise.allSettled([1, 2, 3, 4].map(item => store.writer.submit(write, item)));
	t.true(settled.every(({status, ...rest}) => 'reason' in rest && store.dialect.isUnavailable(rest.reason)));
	t.is(asked, 2);
});

if (engines.includes('postgres')) {
	test('PostgreSQL: a lost connection fails its items as unavailable, and later ones are written', async t => {
		const store = await newStore(t, 'postgres');
		const write = inserting(t);
		const killed: GroupWrite<string, string> = {
			name: 'killed',
			rank: 1,
			async apply(trx, items) {
				const {rows} = await trx.raw('select pg_backend_pid() as pid');
				await store.reader.raw('select pg_terminate_backend(?)', [rows[0].pid]);
				await trx.raw('select 1');
				return items;
			},
		};
		const settled = await Promise.allSettled(['a', 'b', 'c'].map(item => store.writer.submit(killed, item)));
		for (const one of settled) {
			t.true(one.status === 'rejected' && store.dialect.isUnavailable(one.reason), JSON.stringify(one));
		}
		// The pool may hand out a dead connection before it notices. That fails as unavailable too, but only briefly.
		const written = async (code: string) =>
			await waitFor(`${code} is written`, () =>
				store.writer.submit(write, {code}).catch((error: unknown) => {
					t.true(store.dialect.isUnavailable(error), String(error));
					return null;
				}),
			);
		t.is(await written('one'), 'ONE');

		// Also while nothing is running.
		const {rows} = await store.writer.transaction(trx => trx.raw('select pg_backend_pid() as pid'));
		await store.reader.raw('select pg_terminate_backend(?)', [rows[0].pid]);
		t.is(await written('two'), 'TWO');
		t.is(await written('three'), 'THREE');
	});
}

if (engines.includes('postgres')) {
	test('PostgreSQL aborts a hung transaction, which fails as unavailable; later ones succeed', async t => {
		const store = await newStore(t, 'postgres');
		const asked = (sql: string) => store.writer.transaction(trx => trx.raw(sql));
		const setting = async (name: string) => Object.values((await asked(`show ${name}`)).rows[0])[0];
		t.is(await setting('idle_in_transaction_session_timeout'), '7s');
		t.is(await setting('lock_timeout'), '8s');

		const error = await t.throwsAsync(
			store.writer.transaction(async trx => {
				const {rows} = await trx.raw('select pg_backend_pid() as pid');
				await trx.raw(`set local idle_in_transaction_session_timeout = '100ms'`);
				const isGone = async () => !(await store.reader('pg_stat_activity').where({pid: rows[0].pid}).first());
				await waitFor('the server ends it', isGone);
				await trx('changes').update({generation: 7});
			}),
		);
		t.true(store.dialect.isUnavailable(error), String(error));
		await waitFor('the next one is written', () =>
			store.writer
				.transaction(trx => trx('changes').update({generation: 8}))
				.catch((fault: unknown) => {
					t.true(store.dialect.isUnavailable(fault), String(fault));
					return null;
				}),
		);
		t.like(await store.reader('changes').first(), {generation: 8});
	});
}
