import test from 'ava';
import {schemaState} from '../../src/store/migrate.ts';
import {prepareSchema} from '../../src/store/prepare-schema.ts';
import {openStore} from '../../src/store/store.ts';
import {engines, newLocation, newStore} from '../helpers/databases.ts';

for (const engine of engines) {
	test(`of several that meet an empty store one makes its tables (${engine})`, async t => {
		const location = await newLocation(t, engine);
		const stores = await Promise.all([1, 2, 3, 4].map(() => openStore(location)));
		t.teardown(() => Promise.all(stores.map(store => store.close())));
		const states = await Promise.all(stores.map(store => prepareSchema(store.database)));
		t.deepEqual(states, ['current', 'current', 'current', 'current']);
	});

	test(`a store that has tables is left as it is (${engine})`, async t => {
		const {database} = await newStore(t, engine);
		t.is(await prepareSchema(database), 'current');
		const last = await database('migrations').orderBy('id', 'desc').first();
		await database('migrations').where({id: last.id}).delete();
		t.is(await prepareSchema(database), 'older');
		t.is(await schemaState(database), 'older');
		await database('migrations').insert({name: '999_future', batch: 9, migration_time: last.migration_time});
		t.is(await prepareSchema(database), 'newer');
	});
}
