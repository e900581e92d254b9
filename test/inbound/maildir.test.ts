import {mkdir, readdir, rename, rm, writeFile} from 'node:fs/promises';
import path from 'node:path';
import test, {type ExecutionContext} from 'ava';
import type {Round} from '../../src/inbound/imap-folder.ts';
import {mailFiles, moveToCur, newMails} from '../../src/inbound/mail-files.ts';
import {createMailbox, MailboxFollower, mailboxProblem} from '../../src/inbound/mailboxes.ts';
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

type Following = {readonly intervalMs?: number; readonly watch?: typeof import('node:fs').watch};

function follow(t: ExecutionContext, folder: string, {intervalMs = 600_000, watch}: Following = {}) {
	const bodies: string[] = [];
	const rounds: Round[] = [];
	const failures: unknown[] = [];
	const unwatched: unknown[] = [];
	const following = new MailboxFollower({
		waitLimitMs: 60_000,
		mailbox: createMailbox(
			{kind: 'maildir', path: folder},
			{
				async acceptMessage({raw}) {
					bodies.push(raw.toString());
					return {id: String(bodies.length), isNew: true};
				},
				checkpoint: {load: async () => null, save: async () => undefined},
				ca: null,
				observer: {mailUnreadable: file => t.fail(file), unwatched: error => unwatched.push(error)},
				...(watch && {watch}),
			},
		),
		intervalMs,
		observer: {mailboxRead: round => rounds.push(round), mailboxFailed: error => failures.push(error)},
	});
	t.teardown(() => following.stop());
	return {bodies, rounds, failures, unwatched};
}

test('reads messages in new and moves them to cur marked as seen, leaving the others', async t => {
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

test('reads a new message at once', async t => {
	const folder = await newMaildir(t);
	const {bodies, rounds} = follow(t, folder);
	await waitFor('it is read', () => rounds.length > 0);
	await writeFile(path.join(folder, 'tmp', '1.M1P1.host'), mail('one'));
	await rename(path.join(folder, 'tmp', '1.M1P1.host'), path.join(folder, 'new', '1.M1P1.host'));
	await waitFor('the mail is taken in', () => bodies.length === 1);
	t.deepEqual(bodies, [mail('one').replaceAll('\n', '\r\n')]);
});

test('falls back to polling if the folder cannot be watched, and reports it once', async t => {
	const folder = await newMaildir(t);
	const usedUp = () => {
		throw Object.assign(new Error('inotify watches are used up'), {code: 'ENOSPC'});
	};
	const {bodies, rounds, failures, unwatched} = follow(t, folder, {intervalMs: 5, watch: usedUp});
	await waitFor('it is read', () => rounds.length > 0);
	await writeFile(path.join(folder, 'tmp', '1.M1P1.host'), mail('one'));
	await rename(path.join(folder, 'tmp', '1.M1P1.host'), path.join(folder, 'new', '1.M1P1.host'));
	await waitFor('the mail is taken in', () => bodies.length === 1);
	// It is reopened, and cannot be watched this time either.
	await rename(path.join(folder, 'new'), path.join(folder, 'gone'));
	const read = rounds.length;
	await waitFor('it fails', () => failures.length > 0, 60_000);
	await rename(path.join(folder, 'gone'), path.join(folder, 'new'));
	await waitFor('it is read again', () => rounds.length > read + 1, 60_000);
	t.deepEqual(
		unwatched.map(error => (error as NodeJS.ErrnoException).code),
		['ENOSPC'],
	);
});

test('reports an unreadable message and leaves it in place', async t => {
	const folder = await newMaildir(t);
	const at = (name: string) => path.join(folder, 'new', name);
	for (const name of ['1', '2', '3']) {
		await writeFile(at(name), mail(name));
	}
	const unreadable: string[] = [];
	for await (const {name} of newMails(folder, new AbortController().signal, {
		mailUnreadable: file => unreadable.push(file),
	})) {
		await moveToCur(folder, name);
		if (name === '1') {
			// Even root cannot read this.
			await rm(at('2'));
			await mkdir(at('2'));
		}
	}
	t.deepEqual(unreadable, [at('2')]);
	t.deepEqual(await readdir(path.join(folder, 'new')), ['2']);
	t.deepEqual((await readdir(path.join(folder, 'cur'))).sort(), ['1:2,S', '3:2,S']);
});

test('explains how to fix a folder that is not a Maildir', async t => {
	const folder = await temporaryFolder(t);
	const {failures} = follow(t, folder);
	await waitFor('it fails', () => failures.length > 0);
	t.deepEqual(mailboxProblem(failures[0], {kind: 'maildir', path: '/box'}), {
		reason: '/box is not a Maildir: it does not contain the folders new and cur',
		fix: 'set MAILCTL_BOUNCE_MAILBOX to a folder with new, cur and tmp',
	});
});

test('lists files of subfolders, only the messages of a Maildir, and no hidden files', async t => {
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
	for await (const {path: file, isInMaildir} of mailFiles(folder)) {
		found.push(`${path.relative(folder, file)}${isInMaildir ? ' of a Maildir' : ''}`);
	}
	t.deepEqual(found, ['a/1.eml', 'b.eml', 'box/new/2 of a Maildir', 'box/cur/1:2,S of a Maildir']);
});
