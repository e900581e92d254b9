import {mkdir, writeFile} from 'node:fs/promises';
import path from 'node:path';
import test from 'ava';
import {mailboxCheck} from '../../src/doctor/doctor.ts';
import {temporaryFolder} from '../helpers/databases.ts';
import {freePort} from '../helpers/free-port.ts';
import {startSilentImap} from '../helpers/silent-imap.ts';

test('a Maildir that can be used, and a folder that is none', async t => {
	const folder = await temporaryFolder(t);
	const check = mailboxCheck({kind: 'maildir', path: folder}, null);
	const [missing] = await check.look();
	t.is(missing?.status, 'fail');
	t.is(missing?.detail, `${folder} is no Maildir: it has no folders new and cur`);
	for (const part of ['new', 'cur', 'tmp']) {
		await mkdir(path.join(folder, part));
	}
	await writeFile(path.join(folder, 'new/1.M1P1.host'), 'Subject: a\n');
	t.deepEqual(await check.look(), [{status: 'ok', detail: `maildir:${folder} can be read: 1 new mail`, fix: ''}]);
});

test('a server that is not there', async t => {
	const port = await freePort();
	const mailbox = {
		kind: 'imap',
		host: '127.0.0.1',
		port,
		tls: 'implicit',
		user: 'a',
		password: 'secret',
		folder: 'INBOX',
	};
	const [found] = await mailboxCheck(mailbox as Parameters<typeof mailboxCheck>[0], null).look();
	t.is(found?.status, 'fail');
	t.regex(found?.detail ?? '', /^127\.0\.0\.1:\d+ does not answer: .*ECONNREFUSED/);
	t.regex(found?.fix ?? '', /MAILCTL_BOUNCE_MAILBOX/);
});

test('a server that falls silent at the log-in, at IDLE or after it', async t => {
	const server = await startSilentImap(t, null);
	const look = async (patienceMs?: number) => (await mailboxCheck(server.mailbox, null, patienceMs).look())[0];
	t.like(await look(), {
		status: 'ok',
		detail: `imap://a@127.0.0.1:${server.mailbox.port}/INBOX can be read: 0 mails, new mail is reported at once`,
	});
	for (const where of ['login', 'idle', 'done'] as const) {
		server.silentAt = where;
		const found = await look(1000);
		t.is(found?.status, 'fail', where);
		t.regex(found?.detail ?? '', /^127\.0\.0\.1:\d+ does not answer: it hangs, nothing came for 1 s/);
	}
});
