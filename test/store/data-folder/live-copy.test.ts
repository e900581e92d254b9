import {existsSync, readdirSync, utimesSync, writeFileSync} from 'node:fs';
import path from 'node:path';
import test from 'ava';
import {watchLiveCopies} from '../../../src/daemon/live-copies.ts';
import {systemClock} from '../../../src/kit/clock.ts';
import {
	copiedBytes,
	isWanted,
	liveCopyFile,
	readCopyEnd,
	removeCopy,
	requestCopy,
	requestTimeoutMs,
	takeRequest,
} from '../../../src/store/data-folder/live-copy.ts';
import {openStore} from '../../../src/store/store.ts';
import {temporaryFolder} from '../../helpers/databases.ts';
import {waitFor} from '../../helpers/wait.ts';

const silent = {info() {}, warn() {}};

test('a request is accepted once, and removed by its command', async t => {
	const dataDir = await temporaryFolder(t);
	t.false(takeRequest(dataDir), 'no command has asked');
	t.true(requestCopy(dataDir));
	t.false(requestCopy(dataDir), 'another command has asked');
	t.true(isWanted(dataDir));
	t.true(takeRequest(dataDir));
	t.false(takeRequest(dataDir));
	removeCopy(dataDir);
	t.false(isWanted(dataDir));
	t.deepEqual(readdirSync(dataDir), []);
});

test('the daemon creates the requested copy and removes leftovers of a killed command', async t => {
	const dataDir = await temporaryFolder(t);
	const store = await openStore({file: path.join(dataDir, 'mailctl.db')});
	await store.database.raw('create table rows (n integer)');
	const holds: boolean[] = [];
	const copies = watchLiveCopies({
		...{settings: {dataDir}, store, clock: systemClock, minFreeDisk: () => 0, logger: silent},
		hold: isHeld => void holds.push(isHeld),
	});
	t.teardown(async () => {
		await copies.stop();
		await store.close();
	});
	t.true(requestCopy(dataDir));
	await waitFor('the copy', () => readCopyEnd(dataDir) !== null);
	t.deepEqual(readCopyEnd(dataDir), {ok: true});
	t.deepEqual(holds, [true, false]);
	const copy = await openStore({file: liveCopyFile(dataDir)});
	t.deepEqual(await copy.reader('rows'), []);
	await copy.close();

	const long = new Date(Date.now() - 2 * requestTimeoutMs);
	for (const name of ['request', '']) {
		utimesSync(path.join(dataDir, 'backup.partial', name), long, long);
	}
	await waitFor('the removal of the folder', () => !existsSync(path.join(dataDir, 'backup.partial')));
});

test('if the disk is full, the command is told to make its own copy', async t => {
	const dataDir = await temporaryFolder(t);
	const store = await openStore({file: path.join(dataDir, 'mailctl.db')});
	const copies = watchLiveCopies({
		...{settings: {dataDir}, store, clock: systemClock, minFreeDisk: () => 2 ** 60, logger: silent, hold() {}},
	});
	t.teardown(async () => {
		await copies.stop();
		await store.close();
	});
	requestCopy(dataDir);
	await waitFor('the result', () => readCopyEnd(dataDir) !== null);
	t.like(readCopyEnd(dataDir), {ok: false});
});

test('a command does not wait for a copy that a killed daemon had started', async t => {
	const dataDir = await temporaryFolder(t);
	const store = await openStore({file: path.join(dataDir, 'mailctl.db')});
	requestCopy(dataDir);
	takeRequest(dataDir);
	writeFileSync(liveCopyFile(dataDir), 'half a copy');
	const copies = watchLiveCopies({
		...{settings: {dataDir}, store, clock: systemClock, minFreeDisk: () => 0, logger: silent, hold() {}},
	});
	t.teardown(async () => {
		await copies.stop();
		await store.close();
	});
	await waitFor('the result', () => readCopyEnd(dataDir) !== null);
	t.like(readCopyEnd(dataDir), {ok: false});
	t.is(copiedBytes(dataDir), 0, 'the command needs the space');
});
