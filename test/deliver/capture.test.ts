import {mkdtemp, readdir, readFile, rm, stat, writeFile} from 'node:fs/promises';
import {tmpdir} from 'node:os';
import path from 'node:path';
import test from 'ava';
import {capture} from '../../src/deliver/local-delivery.ts';
import {createIdSource} from '../../src/mail/ids.ts';
import {startLab, testDelivery} from '../helpers/delivery-lab.ts';

async function temporaryFolder(t: {teardown: (fn: () => Promise<void>) => void}): Promise<string> {
	const folder = await mkdtemp(path.join(tmpdir(), 'mailctl-capture-'));
	t.teardown(() => rm(folder, {recursive: true}));
	return folder;
}

const time = Date.UTC(2026, 5, 9, 10, 15, 30, 123);
const recipientId = createIdSource({now: () => time, monotonic: () => 0})('rcp');

test('writes the exact message to a private file named after the time and the recipient', async t => {
	const folder = path.join(await temporaryFolder(t), 'captured');
	const lab = await startLab(t, [], {mode: {kind: 'capture', folder}});
	const data = Buffer.from('Subject: x\r\n\r\n.\r\n\u00e9\r\n');
	const {outcome, attempts, sentAt} = await lab.deliver({recipientId, data});
	t.deepEqual(outcome, {kind: 'delivered'});
	t.deepEqual(attempts, []);
	t.truthy(sentAt);
	const name = `20260609T101530123Z-${recipientId}.eml`;
	t.deepEqual(await readdir(folder), [name]);
	t.deepEqual(await readFile(path.join(folder, name)), data);
	t.is((await stat(path.join(folder, name))).mode & 0o777, 0o600);
	await lab.deliver({recipientId, data});
	t.is((await readdir(folder)).length, 1, 'the same copy again is the same file');
});

test('defers the message if the folder is not writable', async t => {
	const folder = await temporaryFolder(t);
	await writeFile(path.join(folder, 'file'), '');
	t.like(await capture(path.join(folder, 'file'), testDelivery()), {kind: 'deferred', category: 'system'});
});

test('never uses an invalid id as a file name', async t => {
	const folder = await temporaryFolder(t);
	await t.throwsAsync(capture(folder, testDelivery({recipientId: 'rcp_/../../x'})));
	t.deepEqual(await readdir(folder), []);
});
