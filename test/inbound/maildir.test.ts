import {chmod, mkdir, readdir, rename, writeFile} from 'node:fs/promises';
import path from 'node:path';
import process from 'node:process';
import test, {type ExecutionContext} from 'ava';
import {followMailbox} from '../../src/inbound/follow.ts';
import type {Round} from '../../src/inbound/imap.ts';
import {mailFiles} from '../../src/inbound/mail-files.ts';
import {mailboxFault, mailboxOf} from '../../src/inbound/mailboxes.ts';
import {temporaryFolder} from '../helpers/databases.ts';
import {waitFor} from '../helpers/wait.ts';

const mail = (subject: string) => `Subject: ${subject}\n\nIt could not be delivered.\n`;

async function newMaildir(t: ExecutionContext): Promise<string> {
	const folder = path.join(await temporaryFolder(t), 'box');
	for (const part of ['new', 'cur', 'tmp']) {
		await mkdir(path.join(folder, part), {recursive: true});
	}
	return folder;
}

function follow(t: ExecutionContext, folder: string) {
	const bodies: string[] = [];
	const rounds: Round[] = [];
	const failures: unknown[] = [];
	const unreadable: string[] = [];
	const following = followMailbox({
		mailbox: mailboxOf(
			{kind: 'maildir', path: folder},
			{
				async takeIn({raw}) {
					bodies.push(raw.toString());
					return {id: String(bodies.length), isNew: true};
				},
				checkpoint: {load: async () => null, save: async () => undefined},
				ca: null,
				onUnreadable: file => unreadable.push(file),
			},
		),
		intervalMs: 600_000,
		onRound: round => rounds.push(round),
		onFailure: error => failures.push(error),
	});
	t.teardown(following.stop);
	return {bodies, rounds, failures, unreadable};
}

test('mail of new is taken in and moved to cur, marked as seen; the rest stays', async t => {
	const folder = await newMaildir(t);
	await writeFile(path.join(folder, 'new', '1.M1P1.host'), mail('one'));
	await writeFile(path.join(folder, 'new', '2.M1P1.host,S=40:2,'), mail('two'));
	await writeFile(path.join(folder, 'tmp', '3.M1P1.host'), mail('half'));
	await writeFile(path.join(folder, 'cur', '0.M1P1.host:2,'), mail('old'));
	const {bodies, rounds} = follow(t, folder);
	await waitFor('it is read', () => rounds.length > 0);
	t.deepEqual(
		bodies,
		['one', 'two'].map(subject => mail(subject).replaceAll('\n', '\r\n')),
	);
	t.deepEqual(await readdir(path.join(folder, 'new')), []);
	t.deepEqual((await readdir(path.join(folder, 'cur'))).sort(), [
		'0.M1P1.host:2,',
		'1.M1P1.host:2,S',
		'2.M1P1.host,S=40:2,S',
	]);
	t.deepEqual(await readdir(path.join(folder, 'tmp')), ['3.M1P1.host']);
});

test('what comes is taken in at once', async t => {
	const folder = await newMaildir(t);
	const {bodies, rounds} = follow(t, folder);
	await waitFor('it is read', () => rounds.length > 0);
	await writeFile(path.join(folder, 'tmp', '1.M1P1.host'), mail('one'));
	await rename(path.join(folder, 'tmp', '1.M1P1.host'), path.join(folder, 'new', '1.M1P1.host'));
	await waitFor('the mail is taken in', () => bodies.length === 1);
	t.deepEqual(bodies, [mail('one').replaceAll('\n', '\r\n')]);
});

test('a mail that cannot be read is told and left where it is', async t => {
	const folder = await newMaildir(t);
	await writeFile(path.join(folder, 'new', '1.M1P1.host'), mail('one'));
	await chmod(path.join(folder, 'new', '1.M1P1.host'), 0);
	await writeFile(path.join(folder, 'new', '2.M1P1.host'), mail('two'));
	const {bodies, rounds, unreadable} = follow(t, folder);
	await waitFor('it is read', () => rounds.length > 0);
	// Root reads what nobody may.
	const isRoot = process.getuid?.() === 0;
	t.is(bodies.length, isRoot ? 2 : 1);
	t.is(unreadable.length, isRoot ? 0 : 1);
});

test('a folder that is no Maildir is a failure that says how to mend it', async t => {
	const folder = await temporaryFolder(t);
	const {failures} = follow(t, folder);
	await waitFor('it fails', () => failures.length > 0);
	t.deepEqual(mailboxFault(failures[0], {kind: 'maildir', path: '/box'}), {
		reason: '/box is no Maildir: it has no folders new and cur',
		fix: 'name a folder with new, cur and tmp in MAILCTL_BOUNCE_MAILBOX',
	});
});

test('the files of a folder: those below it too, of a Maildir only its mails, nothing that is hidden', async t => {
	const folder = await temporaryFolder(t);
	for (const part of ['a', 'box/new', 'box/cur', 'box/tmp', '.git']) {
		await mkdir(path.join(folder, part), {recursive: true});
	}
	for (const file of [
		'b.eml',
		'a/1.eml',
		'.hidden',
		'.git/config',
		'box/dovecot.index',
		'box/cur/1:2,S',
		'box/new/2',
		'box/tmp/3',
	]) {
		await writeFile(path.join(folder, file), mail(file));
	}
	const found: string[] = [];
	for await (const {path: file, inMaildir} of mailFiles(folder)) {
		found.push(`${path.relative(folder, file)}${inMaildir ? ' of a Maildir' : ''}`);
	}
	t.deepEqual(found, ['a/1.eml', 'b.eml', 'box/new/2 of a Maildir', 'box/cur/1:2,S of a Maildir']);
});
