import {mkdir, writeFile} from 'node:fs/promises';
import path from 'node:path';
import test from 'ava';
import {mailboxCheck} from '../../src/doctor/mailbox.ts';
import {temporaryFolder} from '../helpers/databases.ts';
import {freePort} from '../helpers/free-port.ts';
import {startSilentImap} from '../helpers/silent-imap.ts';

const now = Date.parse('2026-11-29T12:00:00Z');
const options = {ca: null, clock: {now: () => now}, readNote: async () => undefined};

test('accepts a usable Maildir and refuses a folder that is not one', async t => {
	const folder = await temporaryFolder(t);
	const check = mailboxCheck({kind: 'maildir', path: folder}, options);
	const [missing] = await check.run();
	t.is(missing?.status, 'fail');
	t.is(missing?.detail, `${folder} is not a Maildir: it does not contain the folders new and cur`);
	for (const part of ['new', 'cur', 'tmp']) {
		await mkdir(path.join(folder, part));
	}
	await writeFile(path.join(folder, 'new/1.M1P1.host'), 'Subject: a\n');
	t.deepEqual(await check.run(), [{status: 'ok', detail: `maildir:${folder} can be read: 1 new message`, fix: ''}]);
});

test('reports an unreachable server', async t => {
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
	const [found] = await mailboxCheck(mailbox as Parameters<typeof mailboxCheck>[0], options).run();
	t.is(found?.status, 'fail');
	t.regex(found?.detail ?? '', /^127\.0\.0\.1:\d+ does not respond: .*ECONNREFUSED/);
	t.regex(found?.fix ?? '', /MAILCTL_BOUNCE_MAILBOX/);
});

test('reports a server that goes silent at login, at IDLE or after it', async t => {
	const server = await startSilentImap(t, null);
	const look = async (waitLimitMs = 30_000) =>
		(await mailboxCheck(server.mailbox, {...options, waitLimitMs}).run())[0];
	t.like(await look(), {
		status: 'ok',
		detail: `imap://a@127.0.0.1:${server.mailbox.port}/INBOX can be read: 0 messages, new messages are reported at once`,
	});
	for (const where of ['login', 'idle', 'done'] as const) {
		server.silentAt = where;
		const found = await look(1000);
		t.is(found?.status, 'fail', where);
		t.regex(found?.detail ?? '', /^127\.0\.0\.1:\d+ does not respond: no data for 1 s/);
	}
});

test('reports a message that the server does not return, and skipped messages', async t => {
	const server = await startSilentImap(t, null);
	const where = `127.0.0.1:${server.mailbox.port}`;
	const note = {position: '7:2', skipped: 2, skipped_at: '2026-11-28T10:15:00.000Z', skip_reason: 'it is corrupt'};
	const check = mailboxCheck(server.mailbox, {...options, readNote: async () => note});
	server.letters.set(2, 'NO');
	const [works, skipped] = await check.run();
	t.is(works?.status, 'ok');
	t.like(skipped, {
		status: 'warn',
		detail: `2 messages were skipped in imap://a@${where}/INBOX, the last one 2026-11-28T10:15 UTC: it is corrupt`,
	});

	server.letters.set(3, 'NO');
	const [refused] = await check.run();
	t.is(refused?.status, 'fail');
	t.is(refused?.detail, `${where} does not return message UID 3 of INBOX: message 3 is corrupt`);
	server.letters.set(3, 'close');
	const [lost] = await check.run();
	t.regex(lost?.detail ?? '', /closed the connection while returning message UID 3 of INBOX: /);

	const later = {...options, clock: {now: () => now + 8 * 86_400_000}, readNote: async () => note};
	server.letters.clear();
	t.is((await mailboxCheck(server.mailbox, later).run()).length, 1);
});
