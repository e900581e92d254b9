import test from 'ava';
import type {Knex} from 'knex';
import {unanswered} from '../../../src/store/postgres/postgres-client.ts';
import type {Store} from '../../../src/store/store.ts';
import {engines, newStore, onWriting} from '../../helpers/databases.ts';

// Statements whose result is not awaited: PostgreSQL gets them without a round trip each, SQLite runs them as one.
for (const engine of engines) {
	const thingsIn = async (store: Store) => (await store.reader('things').orderBy('id').pluck('id')) as number[];
	const insert = (trx: Knex.Transaction, id: number) =>
		trx.raw('insert into things (id) values (?)', [id]).options(unanswered);

	test(`a pipelined statement that fails rolls back its transaction (${engine})`, async t => {
		const store = await newStore(t, engine);
		await store.database.raw('create table things (id integer primary key)');
		// So often that PostgreSQL's statement has a name.
		for (let id = 1; id <= 5; id++) {
			await store.writer.transaction(trx => insert(trx, id));
		}
		const ends: Array<(trx: Knex.Transaction) => Promise<unknown>> = [
			// Ends with the failure, with a pipelined statement, with one that returns a result, or with another error.
			trx => Promise.resolve(trx),
			trx => insert(trx, 7),
			trx => trx('things').select('id'),
			trx => Promise.reject(new Error(`${trx.isTransaction}`)),
		];
		for (const [index, end] of ends.entries()) {
			const error = await t.throwsAsync(
				store.writer.transaction(async trx => {
					await insert(trx, 6);
					await insert(trx, 1);
					await insert(trx, 7);
					await end(trx);
				}),
			);
			t.regex(error.message, index === 3 ? /^true$/ : /duplicate key|UNIQUE constraint/);
			t.deepEqual(await thingsIn(store), [1, 2, 3, 4, 5]);
		}
		await store.writer.transaction(trx => insert(trx, 6));
		t.deepEqual(await thingsIn(store), [1, 2, 3, 4, 5, 6]);
	});
}

if (engines.includes('postgres')) {
	test('PostgreSQL: writes nothing outside a transaction', async t => {
		const store = await newStore(t, 'postgres');
		const error = await t.throwsAsync(
			store.writer.transaction(async trx => {
				// Simulates a failed BEGIN.
				await trx.raw('rollback');
				await trx('changes').update({generation: 7}).options(unanswered);
				await trx('changes').update({generation: 8}).options(unanswered);
			}),
		);
		t.is((error as Error & {code: string}).code, '25006');
		t.is((await store.reader('changes').first()).generation, 1);
	});

	test('PostgreSQL: a transaction fails even if its code ignores the error of a statement', async t => {
		const store = await newStore(t, 'postgres');
		const error = await t.throwsAsync(
			store.writer.transaction(async trx => {
				await trx('changes').update({generation: 7});
				await trx.raw('select 1 / 0').catch(() => undefined);
			}),
		);
		t.is((error as Error & {code: string}).code, '22012');
		t.is((await store.reader('changes').first()).generation, 1);
	});

	test('PostgreSQL: sends pipelined statements without waiting for earlier results', async t => {
		const store = await newStore(t, 'postgres');
		const sent: string[] = [];
		onWriting(store, 'query', ({sql}) => sent.push(sql));
		// The lock delays the result until the test releases it, however slow this process is.
		const lock = 'select pg_advisory_xact_lock(1)';
		const holder = await store.reader.transaction();
		t.teardown(() => (holder.isCompleted() ? undefined : holder.rollback()));
		await holder.raw(lock);
		await store.writer.transaction(async trx => {
			const asked = trx.raw(lock).then(() => sent.push('answered'));
			await trx('changes').update({generation: 7}).options(unanswered);
			await trx('changes').update({generation: 8}).options(unanswered);
			t.is(sent.filter(sql => sql.startsWith('update')).length, 2);
			t.false(sent.includes('answered'));
			await holder.commit();
			await asked;
		});
		t.is((await store.reader('changes').first()).generation, 8);
	});
}
