import {appendFile, open, rename, writeFile} from 'node:fs/promises';
import path from 'node:path';
import test, {type ExecutionContext} from 'ava';
import {isMbox, type MboxPosition, mailsOfMbox, startOf} from '../../src/inbound/mbox-file.ts';
import {temporaryFolder} from '../helpers/databases.ts';

const entry = (subject: string, sender = 'MAILER-DAEMON') =>
	`From ${sender} Fri Nov 20 10:00:00 2026\nSubject: ${subject}\n\nIt could not be delivered.\n\n`;

/** Reads as `mailctl bounce ingest` does: from the position on. */
async function read(file: string, position: MboxPosition | null) {
	const handle = await open(file);
	const subjects: string[] = [];
	let last = position;
	try {
		for await (const {found, position: at} of mailsOfMbox(handle, await startOf(handle, position), () => undefined)) {
			subjects.push(/^Subject: (.*)\r$/m.exec(found.raw.toString())?.[1] ?? '');
			last = at;
		}
	} finally {
		await handle.close();
	}
	return {subjects, position: last};
}

async function newMbox(t: ExecutionContext, content: string): Promise<string> {
	const file = path.join(await temporaryFolder(t), 'mbox');
	await writeFile(file, content);
	return file;
}

test('an mbox is read on from where it was read before, its last mail once more', async t => {
	const file = await newMbox(t, entry('one') + entry('two', 'b@x.example'));
	const first = await read(file, null);
	t.deepEqual(first.subjects, ['one', 'two']);
	t.deepEqual((await read(file, first.position)).subjects, ['two']);
	await appendFile(file, entry('three'));
	const second = await read(file, first.position);
	t.deepEqual(second.subjects, ['two', 'three']);
	t.deepEqual((await read(file, second.position)).subjects, ['three']);
});

test('a mail that was half written is read whole the next time', async t => {
	const whole = entry('two');
	const file = await newMbox(t, entry('one') + whole.slice(0, -30));
	const {position} = await read(file, null);
	await appendFile(file, whole.slice(-30) + entry('three'));
	t.deepEqual((await read(file, position)).subjects, ['two', 'three']);
});

test('a file that is shorter, another one, or written anew is read from its beginning', async t => {
	const file = await newMbox(t, entry('one') + entry('two', 'b@x.example'));
	const {position} = await read(file, null);
	await writeFile(file, entry('new'));
	t.deepEqual((await read(file, position)).subjects, ['new']);
	await writeFile(file, entry('other') + entry('mails', 'c@x.example') + entry('here'));
	t.deepEqual((await read(file, position)).subjects, ['other', 'mails', 'here']);

	await writeFile(`${file}.next`, entry('one') + entry('two', 'b@x.example'));
	await rename(`${file}.next`, file);
	t.deepEqual((await read(file, position)).subjects, ['one', 'two']);
});

test('only what begins with a From line is an mbox', async t => {
	const isOne = async (content: string) => {
		const handle = await open(await newMbox(t, content));
		return await isMbox(handle).finally(() => handle.close());
	};
	t.true(await isOne(entry('one')));
	t.true(await isOne(entry('one').replaceAll('\n', '\r\n')));
	t.false(await isOne('Subject: a\n\nFrom a@b.example Fri Nov 20 10:00:00 2026\n'));
	t.false(await isOne('From here to there\n'));
	t.false(await isOne(''));
});
