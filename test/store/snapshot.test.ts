import {closeSync, openSync, statSync, writeSync} from 'node:fs';
import path from 'node:path';
import test from 'ava';
import {migrations} from '../../migrations/index.ts';
import {copyStore, openStore} from '../../src/store/store.ts';
import {newStore, temporaryFolder} from '../helpers/databases.ts';
import {insertMessages, insertWorkspace} from '../helpers/messages.ts';

test('a copy contains only committed data while others write', async t => {
	const store = await newStore(t, 'sqlite');
	const file = path.join(await temporaryFolder(t), 'copy.db');
	const {workspaceId} = await insertWorkspace(store);
	await insertMessages(store, workspaceId, ['a@x.test']);
	let schema = '';
	await store.writer.transaction(async trx => {
		await trx('workspaces').insert({id: 'ws_open', name: 'open', created_at: ''});
		schema = await copyStore(store.reader, file);
	});
	t.deepEqual([schema], [migrations.at(-1)?.[0]]);
	t.is(statSync(file).mode & 0o777, 0o600);
	const recipient = await openStore({file});
	t.teardown(() => recipient.close());
	t.is((await recipient.reader('recipients')).length, 1);
	t.deepEqual(await recipient.reader('workspaces').where({id: 'ws_open'}), [], 'it was not committed');
	const pragma = async (name: string) => Object.values((await recipient.reader.raw(`pragma ${name}`))[0])[0];
	t.is(await pragma('auto_vacuum'), 2);
	t.is(await pragma('journal_mode'), 'wal');
});

test('refuses to copy a damaged store', async t => {
	const file = path.join(await temporaryFolder(t), 'mailctl.db');
	const first = await openStore({file});
	await first.database.raw('create table pages (id integer primary key, content text)');
	await first.database.raw('create index contents on pages (content)');
	await first.database('pages').insert(Array.from({length: 300}, (_, id) => ({id, content: 'x'.repeat(100)})));
	await first.close();
	const handle = openSync(file, 'r+');
	writeSync(handle, Buffer.alloc(4096, 0xff), 0, 4096, 6 * 4096);
	closeSync(handle);
	const store = await openStore({file});
	t.teardown(() => store.close());
	await t.throwsAsync(copyStore(store.reader, `${file}.copy`), {code: 'SQLITE_CORRUPT'});
});
