import test, {type ExecutionContext} from 'ava';
import {watchWal} from '../../src/daemon/store-faults.ts';
import {walCheck} from '../../src/doctor/machine.ts';
import {storeTime} from '../../src/kit/time.ts';
import {insertSuppressions} from '../../src/resources/suppressions/store.ts';
import {exportPages} from '../../src/resources/suppressions/suppression-file.ts';
import {openStore} from '../../src/store/store.ts';
import {newStore} from '../helpers/databases.ts';
import {insertWorkspace, newId} from '../helpers/messages.ts';

const most = 256 * 1024;
/** A log of this size is left alone. */
const small = 64 * 1024;

/** No checks but the test's: another one in between would count. */
const noLooks = 3_600_000;

/** A store that is written and read, and the reports about its write-ahead log. */
async function watched(t: ExecutionContext) {
	const store = await newStore(t, 'sqlite');
	const {wal} = store;
	if (wal === null) {
		throw new Error('SQLite has a write-ahead log');
	}
	const other = await openStore({file: wal.file.replace(/-wal$/, '')});
	t.teardown(() => other.close());
	await store.database.schema.createTable('scratch', table => table.binary('content'));
	await wal.checkpoint();
	const reported: string[] = [];
	const note = ({event, bytes}: {event: string; bytes: number}) =>
		void reported.push(`${event === 'wal_large' ? 'large' : 'emptied'} ${bytes}`);
	const watch = watchWal({
		wal,
		max: most,
		lookMs: noLooks,
		logger: {warn: note, info: note} as never,
		storeFailed: error => t.fail(String(error)),
	});
	t.teardown(watch.stop);
	return {
		store,
		wal,
		watch,
		reported,
		async look(times: number): Promise<void> {
			for (let n = 0; n < times; n++) {
				await watch.now();
			}
		},
		write: (bytes: number) =>
			store.writer.transaction(async trx => void (await trx('scratch').insert({content: Buffer.alloc(bytes)}))),
		/** Another connection reads until the returned function is called. */
		async read(): Promise<() => Promise<void>> {
			await other.database.raw('begin');
			await other.database('scratch').count();
			return async () => void (await other.database.raw('commit'));
		},
	};
}

test('reports a log as it doubles while a reader blocks it, and empties it afterwards', async t => {
	const {wal, reported, look, write, read} = await watched(t);
	const leave = await read();
	await write(most);
	await look(4);
	t.deepEqual(reported, []);
	await look(10);
	const first = wal.bytes();
	t.deepEqual(reported, [`large ${first}`]);
	await write(3 * most);
	await look(10);
	const second = wal.bytes();
	t.deepEqual(reported, [`large ${first}`, `large ${second}`]);

	await leave();
	await look(1);
	t.is(wal.bytes(), 0);
	t.deepEqual(reported.slice(2), [`emptied ${second}`]);
	await look(10);
	t.is(reported.length, 3);
});

test('silently empties a large log without readers, and leaves a small one', async t => {
	const {wal, reported, look, write} = await watched(t);
	await write(1);
	const small = wal.bytes();
	t.true(small > 0);
	await look(1);
	t.is(wal.bytes(), small);
	await write(most);
	await look(1);
	t.is(wal.bytes(), 0);
	t.deepEqual(reported, []);
});

test('reports an error of the check and repeats the check', async t => {
	const fault = new Error('EIO');
	const reported: unknown[] = [];
	const watch = watchWal({
		wal: {
			file: 'mailctl.db-wal',
			bytes() {
				throw fault;
			},
			hold() {},
			checkpoint: async () => true,
		},
		logger: {warn: () => t.fail(), info: () => t.fail()} as never,
		storeFailed: error => void reported.push(error),
	});
	t.teardown(watch.stop);
	await watch.now();
	await watch.now();
	t.deepEqual(reported.slice(0, 2), [fault, fault]);
});

test('emptying the log does not block writers while there is a reader', async t => {
	const {wal, write, read} = await watched(t);
	const leave = await read();
	await write(small);
	const state = {isOver: false};
	const emptying = wal.checkpoint().finally(() => {
		state.isOver = true;
	});
	// A write would fail if emptying held the write lock until the reader is done.
	do {
		await write(1);
	} while (!state.isOver);
	t.false(await emptying);
	await leave();
	t.true(await wal.checkpoint());
	t.is(wal.bytes(), 0);
});

test('an open transaction survives emptying the log without losing anything', async t => {
	const {wal, store} = await watched(t);
	await store.writer.transaction(async trx => {
		await trx('scratch').insert({content: 'before'});
		t.false(await wal.checkpoint());
		await trx('scratch').insert({content: 'after'});
	});
	t.true(await wal.checkpoint());
	t.is(wal.bytes(), 0);
	t.deepEqual(await store.reader('scratch').pluck('content'), ['before', 'after']);
});

test('the log can be emptied between two pages of an export, which stays complete', async t => {
	const {wal, store, write} = await watched(t);
	const {workspaceId} = await insertWorkspace(store);
	const ids = Array.from({length: 2500}, () => newId('sup')).toSorted();
	const createdAt = storeTime(0);
	const entries = ids.map(id => ({
		...{id, workspaceId, address: `${id}@a.test`, addressKey: `${id}@a.test`},
		...({reason: 'manual', source: 'api', mode: 'live', createdAt} as const),
	}));
	await store.writer.transaction(trx => insertSuppressions(trx, entries));
	const exported: string[] = [];
	for await (const page of exportPages(store.reader, {workspaceId, mode: 'live', reason: undefined})) {
		exported.push(...page.map(({id}) => id));
		await write(small);
		t.true(await wal.checkpoint());
		t.is(wal.bytes(), 0);
	}
	t.deepEqual(exported, ids.toReversed());
});

test('doctor warns about a large log and names the file', async t => {
	const {wal} = await watched(t);
	t.like(await walCheck(wal).run(), [{status: 'ok', fix: ''}]);
	const [found] = await walCheck({...wal, bytes: () => 800 * 1024 * 1024}).run();
	t.is(found?.status, 'warn');
	t.regex(found?.detail ?? '', /mailctl\.db-wal is 800 MB/);
	t.regex(found?.fix ?? '', /fuser -v \S+mailctl\.db-wal/);
});
