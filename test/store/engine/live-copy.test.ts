import {statSync, writeFileSync} from 'node:fs';
import path from 'node:path';
import test, {type ExecutionContext} from 'ava';
import createKnex from 'knex';
import {sqliteDialect} from '../../../src/store/engine/dialect.ts';
import {CopyDisturbedError, copyLive} from '../../../src/store/engine/live-copy.ts';
import {sqliteConfig} from '../../../src/store/engine/sqlite.ts';
import {createWriter} from '../../../src/store/engine/writer.ts';
import {temporaryFolder} from '../../helpers/databases.ts';

/** A table of some thousand pages, and a function that copies it. */
async function newLab(t: ExecutionContext) {
	const folder = await temporaryFolder(t);
	const [source, file] = [path.join(folder, 'source.db'), path.join(folder, 'copy.db')];
	for (const name of [source, file]) {
		writeFileSync(name, '');
	}
	const connect = (name: string) => {
		const knex = createKnex(sqliteConfig(name, 1));
		t.teardown(() => knex.destroy());
		return knex;
	};
	const database = connect(source);
	const writer = createWriter(database, sqliteDialect);
	await database.raw('create table rows (n integer primary key, content blob)');
	const add = async (n: number) =>
		await writer.transaction(async trx => void (await trx('rows').insert({n, content: Buffer.alloc(3000)})));
	await writer.transaction(async trx => {
		for (let n = 1; n <= 2000; n++) {
			await trx('rows').insert({n, content: Buffer.alloc(3000)});
		}
	});
	return {
		...{add, connect, file, source},
		copy: (throwIfCanceled: () => void) =>
			copyLive({database, writer, file, throwIfCanceled, monotonic: () => performance.now()}),
	};
}

test('a copy contains writes committed meanwhile and does not let the log grow', async t => {
	const {add, connect, copy, file, source} = await newLab(t);
	const added: Array<Promise<void>> = [];
	let [steps, most] = [0, 0];
	await copy(() => {
		steps++;
		added.push(add(2000 + steps));
		most = Math.max(most, statSync(`${source}-wal`).size);
	});
	await Promise.all(added);
	t.true(steps > 5, String(steps));
	t.true(most < 10e6, String(most));
	const copied = connect(file);
	const [{n, last}] = await copied.raw('select count(*) as n, max(n) as last from rows');
	t.is(n, last, 'no row is missing between the first and the last');
	t.true(last >= 2000 + steps - 1, `${last} after ${steps} steps`);
	t.deepEqual(await copied.raw('pragma integrity_check'), [{integrity_check: 'ok'}]);
});

test('gives up a copy that others keep disturbing, and stops a canceled one at once', async t => {
	const {add, connect, copy, source} = await newLab(t);
	const other = connect(source);
	let n = 0;
	const disturbed = copy(() => {
		n--;
		void other('rows')
			.insert({n, content: null})
			.then(() => undefined);
	});
	await t.throwsAsync(disturbed, {instanceOf: CopyDisturbedError});
	let steps = 0;
	const unwanted = copy(() => {
		steps++;
		throw new Error('nobody wants it');
	});
	await t.throwsAsync(unwanted, {message: 'nobody wants it'});
	t.is(steps, 1);
	await t.notThrowsAsync(add(5000), 'the writer goes on');
});
