import {mkdtempSync} from 'node:fs';
import {tmpdir} from 'node:os';
import {join} from 'node:path';
import test from 'ava';
import {openStore} from '../../src/store/store.ts';

async function smallStore() {
	const store = await openStore({file: join(mkdtempSync(join(tmpdir(), 'mailctl-full-')), 'mailctl.db')});
	const {database} = store;
	await database.raw('create table pages (id integer primary key, content blob)');
	const grow = async (pages: number) => {
		const [{page_count: now}] = await database.raw('pragma page_count');
		await database.raw(`pragma max_page_count = ${now + pages}`);
	};
	await grow(10);
	return {...store, grow};
}

const row = {content: Buffer.alloc(4096)};

test('a full disk rejects the transaction with its error, and the next one succeeds', async t => {
	const {writer, reader, grow, dialect, close} = await smallStore();
	t.teardown(close);
	const full = await t.throwsAsync(
		writer.transaction(async trx => {
			for (let n = 0; n < 30; n++) {
				await trx('pages').insert(row);
			}
		}),
		{message: /database or disk is full/},
	);
	t.is((full as NodeJS.ErrnoException).code, 'SQLITE_FULL');
	t.true(dialect.isUnavailable(full));
	t.deepEqual(await reader('pages'), []);
	await grow(100);
	await writer.transaction(trx => trx('pages').insert(row));
	t.is((await reader('pages')).length, 1);
});

test('an application error rolls back its transaction, and a failed commit leaves none open', async t => {
	const {writer, reader, database, close} = await smallStore();
	t.teardown(close);
	await t.throwsAsync(
		writer.transaction(async trx => {
			await trx('pages').insert(row);
			throw new Error('ours');
		}),
		{message: 'ours'},
	);
	await database.raw('create table child (id integer references pages (id) deferrable initially deferred)');
	await t.throwsAsync(
		writer.transaction(trx => trx('child').insert({id: 999})),
		{message: /FOREIGN KEY/},
	);
	t.deepEqual(await reader('child'), []);
	await writer.transaction(trx => trx('pages').insert(row));
	t.is((await reader('pages')).length, 1);
});
