import {type ChildProcess, spawn} from 'node:child_process';
import {once} from 'node:events';
import {mkdtempSync, writeFileSync} from 'node:fs';
import {tmpdir} from 'node:os';
import {join} from 'node:path';
import {pathToFileURL} from 'node:url';
import test, {type ExecutionContext} from 'ava';
import {isFolderLocked, lockFolder} from '../../../src/store/engine/sqlite.ts';

const self = {pid: process.pid, host: "o'brien", startedAt: '2026-06-09T10:15:30.123Z'};
const newFile = () => join(mkdtempSync(join(tmpdir(), 'mailctl-lock-')), 'daemon.lock');

/** A separate process that takes the lock, reports it in one line and keeps running. */
async function holder(t: ExecutionContext, file: string): Promise<{child: ChildProcess; line: string}> {
	const script = `
		const {lockFolder} = await import(${JSON.stringify(pathToFileURL('dist/src/store/engine/sqlite.js').href)});
		globalThis.lock = await lockFolder(${JSON.stringify(file)}, {pid: process.pid, host: 'box', startedAt: 'now'});
		console.log(JSON.stringify(lock));
		process.stdin.resume();`;
	const child = spawn(process.execPath, ['--input-type=module', '-e', script], {stdio: ['pipe', 'pipe', 'inherit']});
	t.teardown(() => child.kill('SIGKILL'));
	const [chunk] = await once(child.stdout, 'data');
	return {child, line: String(chunk).trim()};
}

test('a second process finds the lock held and learns by which process', async t => {
	const file = newFile();
	const {child, line} = await holder(t, file);
	t.is(line, '{"ok":true}');
	t.deepEqual(await lockFolder(file, self), {
		ok: false,
		holder: {pid: child.pid as number, host: 'box', startedAt: 'now'},
	});
});

test('kill -9 releases the lock at once', async t => {
	const file = newFile();
	t.false(await isFolderLocked(file));
	const {child} = await holder(t, file);
	t.true(await isFolderLocked(file));
	child.kill('SIGKILL');
	await once(child, 'exit');
	t.false(await isFolderLocked(file));
	const lock = await lockFolder(file, self);
	t.true(lock.ok);
	t.deepEqual(await lockFolder(file, {...self, pid: 1}), {ok: false, holder: self});
	if (lock.ok) {
		await lock.release();
	}

	t.true((await holder(t, file)).line.includes('"ok":true'));
});

test('exactly one of several processes gets the lock', async t => {
	const file = newFile();
	const lines = await Promise.all([1, 2, 3].map(async () => (await holder(t, file)).line));
	t.is(lines.filter(line => line === '{"ok":true}').length, 1, lines.join(' '));
});

test('fails if the file is not a database or cannot be created', async t => {
	const file = newFile();
	writeFileSync(file, 'no database, but long enough to be taken for one '.repeat(30));
	await t.throwsAsync(lockFolder(file, self), {code: 'SQLITE_NOTADB'});
	await t.throwsAsync(lockFolder(join(file, 'below'), self), {code: 'ENOTDIR'});
});
