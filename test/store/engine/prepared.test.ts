import test from 'ava';
import {engines, newStore} from '../../helpers/databases.ts';

for (const engine of engines) {
	test(`writes and reads a table whose columns another node changed (${engine})`, async t => {
		const store = await newStore(t, engine);
		await store.database.raw('create table things (id integer, name text)');
		const write = (id: number) =>
			store.writer.transaction(async trx => {
				await trx('things').insert({id, name: `thing ${id}`});
				return await trx('things').where({id});
			});
		const read = (id: number) => store.database('things').where({id});
		// So often that PostgreSQL's statements are prepared.
		for (let id = 1; id <= 5; id++) {
			await write(id);
			await read(id);
		}
		if (engine === 'postgres') {
			const prepared = 'select name from pg_prepared_statements';
			t.true((await store.database.raw(prepared)).rows.length > 0, 'they are');
			t.true((await store.writer.transaction(trx => trx.raw(prepared))).rows.length >= 2, 'they are');
		}

		await store.reader.raw('alter table things add colour text');
		t.deepEqual(await write(6), [{id: 6, name: 'thing 6', colour: null}]);
		await store.reader.raw('alter table things add weight integer');
		t.deepEqual(await read(6), [{id: 6, name: 'thing 6', colour: null, weight: null}]);
		t.is((await store.reader('things')).length, 6, 'what was repeated wrote once');
	});
}
