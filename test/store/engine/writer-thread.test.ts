import {existsSync} from 'node:fs';
import {Worker} from 'node:worker_threads';
import test, {type ExecutionContext} from 'ava';
import {sqliteDialect} from '../../../src/store/engine/dialect.ts';
import type {GroupWrite} from '../../../src/store/engine/writer.ts';
import {WriterThread} from '../../../src/store/engine/writer-thread.ts';
import type {Store} from '../../../src/store/store.ts';
import {newStore} from '../../helpers/databases.ts';
import {waitFor} from '../../helpers/wait.ts';
import {createNoteWrite, type Note, type Noted} from '../note-write.ts';

const fileOf = (store: Store): string => (store.database.client.config.connection as {filename: string}).filename;
const texts = async (store: Store): Promise<string[]> =>
	await store.reader('mta_sts').orderBy('domain').pluck('domain');

/** A store with a thread that writes notes, which is not started. */
async function stoppedThread(t: ExecutionContext) {
	const store = await newStore(t, 'sqlite');
	const news: string[] = [];
	const deaths: string[] = [];
	const thread = new WriterThread<string, string>({
		own: store.writer,
		spawn: ended =>
			new Worker(new URL('../noting-thread.js', import.meta.url), {workerData: {file: fileOf(store), ended}}),
		onNews: one => news.push(one),
		onDeath: error => deaths.push(error.message),
	});
	t.teardown(() => thread.stop());
	const write = createNoteWrite(() => 'here');
	const note = (text: string, more: Omit<Note, 'text'> = {}) => thread.writer.submit(write, {text, ...more});
	return {
		writer: thread.writer,
		start: () => thread.start(),
		stop: () => thread.stop(),
		halt: () => thread.halt(),
		obey: (live: string) => thread.obey(live),
		store,
		note,
		news,
		deaths,
	};
}

/** The same, ready. */
async function readyThread(t: ExecutionContext) {
	const thread = await stoppedThread(t);
	thread.start();
	let n = 0;
	await waitFor('the thread writes', async () => (await thread.note(`first ${n++}`)).where !== 'here');
	await thread.writer.transaction(trx => trx('mta_sts').delete());
	return thread;
}

test('writes submitted together share a transaction of the thread, and each gets its own result', async t => {
	const {note, store} = await readyThread(t);
	const large = Buffer.alloc(100_000, 7);
	const noted = await Promise.all(Array.from({length: 50}, (_, n) => note(`a${n}`, {bytes: large.subarray(0, n)})));
	t.deepEqual(
		noted,
		noted.map((_, n): Noted => ({together: 50, where: 'thread, at first', bytes: [n, n === 0 ? undefined : 7]})),
	);
	t.is((await texts(store)).length, 50);
});

test('a transaction sees exactly what was submitted before it', async t => {
	const {note, writer} = await readyThread(t);
	const seen: string[][] = [];
	const look = () =>
		writer.transaction(async trx => void seen.push(await trx('mta_sts').orderBy('domain').pluck('domain')));
	const own: GroupWrite<string, void> = {
		name: 'own',
		rank: 1,
		async apply(trx, items) {
			seen.push([...(await trx('mta_sts').orderBy('domain').pluck('domain')), ...items]);
			return items.map(() => undefined);
		},
	};
	await Promise.all([
		note('a'),
		note('b'),
		look(),
		note('c'),
		writer.submit(own, 'one'),
		writer.submit(own, 'another'),
		note('d'),
		note('e'),
		look(),
	]);
	t.deepEqual(seen, [
		['a', 'b'],
		['a', 'b', 'c', 'one', 'another'],
		['a', 'b', 'c', 'd', 'e'],
	]);
});

test('writes run here until the thread is ready, and stay in order', async t => {
	const {start, note, store} = await stoppedThread(t);
	const seen: string[] = [];
	start();
	let n = 0;
	// Three writes are always pending, so that some run here when the thread takes over.
	const one = async () => {
		while (seen.at(-1) !== 'thread, at first') {
			const text = String(n++).padStart(6, '0');
			const {where} = await note(text);
			seen.push(where);
		}
	};
	await Promise.all([one(), one(), one()]);
	t.is(seen[0], 'here');
	const inOrder = await store.reader('mta_sts').orderBy('rowid').pluck('domain');
	t.deepEqual(inOrder, inOrder.toSorted());
	t.deepEqual(seen, seen.toSorted());
});

test('a write that fails or cannot be cloned does not affect the others', async t => {
	const {note, store} = await readyThread(t);
	const settled = await Promise.allSettled([
		note('a'),
		note('b', {fault: 'SQLITE_ERROR'}),
		note('c', {act: () => undefined}),
		note('d'),
		note('a'),
	]);
	t.deepEqual(
		settled.map(one => (one.status === 'fulfilled' ? one.value.where : [one.reason.name, one.reason.code])),
		[
			'thread, at first',
			['Error', 'SQLITE_ERROR'],
			['DataCloneError', 25],
			'thread, at first',
			['Error', 'SQLITE_CONSTRAINT'],
		],
	);
	t.deepEqual(await texts(store), ['a', 'd']);
});

test('store errors keep their code and meaning across threads', async t => {
	const {note} = await readyThread(t);
	const full = await t.throwsAsync(note('a', {fault: 'SQLITE_FULL'}), {message: 'SQLITE_FULL: in the thread'});
	t.true(sqliteDialect.isUnavailable(full));
	t.is((full as NodeJS.ErrnoException).errno, 13);
	t.true(full.stack?.includes('note-write'), full.stack);
	const failing = await t.throwsAsync(note('a', {fault: 'SQLITE_IOERR'}));
	t.true(sqliteDialect.isDamage(failing));
});

test('passes settings to the thread and notifications back', async t => {
	const {note, news, obey} = await readyThread(t);
	t.is((await note('a', {news: 'of a'})).where, 'thread, at first');
	obey('later');
	t.is((await note('b')).where, 'thread, later');
	t.deepEqual(news, ['of a']);
});

test('a thread that dies fails its pending writes, is reported once and writes nothing more', async t => {
	const {note, deaths, store} = await readyThread(t);
	const settled = await Promise.allSettled([note('a', {deadly: true}), note('b')]);
	const late = await Promise.allSettled([note('c')]);
	t.deepEqual(
		[...settled, ...late].map(one => one.status === 'rejected' && one.reason.message),
		['broken', 'broken', 'broken'],
	);
	t.deepEqual(deaths, ['broken']);
	t.deepEqual(await texts(store), []);
});

test('stop waits for pending writes; later ones run here, and closing the store leaves no log', async t => {
	const {note, stop, store} = await readyThread(t);
	const last = [note('a'), note('b')];
	await stop();
	t.deepEqual(
		(await Promise.all(last)).map(({where}) => where),
		['thread, at first', 'thread, at first'],
	);
	t.is((await note('c')).where, 'here');
	t.true(existsSync(`${fileOf(store)}-wal`));
	await store.close();
	t.false(existsSync(`${fileOf(store)}-wal`));
});

test('a thread stopped before it is ready receives no writes', async t => {
	const {start, stop, note, deaths} = await stoppedThread(t);
	start();
	await Promise.all([stop(), note('a')]);
	t.is((await note('b')).where, 'here');
	t.deepEqual(deaths, []);
});

test('halt at the end of the process waits for running writes', async t => {
	const {note, halt, store} = await readyThread(t);
	void note('a');
	void note('b');
	await new Promise(resolve => setImmediate(resolve));
	halt();
	t.deepEqual(await texts(store), ['a', 'b']);
});
