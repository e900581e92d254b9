import {createHash} from 'node:crypto';
import {readFileSync} from 'node:fs';
import test, {type ExecutionContext} from 'ava';
import type {Round} from '../../src/inbound/imap-folder.ts';
import type {FoundMail} from '../../src/inbound/mail-files.ts';
import {
	createMailbox,
	type ImapMailbox,
	imapProblem,
	MailboxFollower,
	openFolder,
} from '../../src/inbound/mailboxes.ts';
import {type ImapServer, startImapServer} from '../helpers/peers/dovecot-imap.ts';
import {waitFor} from '../helpers/wait.ts';

const mail = (subject: string) => `Return-Path: <>\nSubject: ${subject}\n\nIt could not be delivered.\n`;

function mailboxOn(server: ImapServer, more: Partial<ImapMailbox> = {}): ImapMailbox {
	const {securePort: port, user, password} = server;
	return {kind: 'imap', host: '127.0.0.1', port, tls: 'implicit', user, password, folder: 'INBOX', ...more};
}

/** Follows the mailbox until the test ends, and stores what it receives. */
function follow(t: ExecutionContext, server: ImapServer, more: Partial<ImapMailbox> = {}, intervalMs = 600_000) {
	const mails = new Map<string, FoundMail>();
	const rounds: Round[] = [];
	const failures: unknown[] = [];
	let position: string | null = null;
	const followed = createMailbox(mailboxOn(server, more), {
		async acceptMessage(found) {
			const id = createHash('sha256').update(found.raw).digest('hex');
			const isNew = !mails.has(id);
			mails.set(id, found);
			return {id, isNew};
		},
		checkpoint: {
			load: async () => position,
			async save(next) {
				position = next;
			},
		},
		ca: readFileSync(server.caFile, 'utf8'),
		observer: {mailUnreadable: (_, error) => t.fail(String(error)), unwatched: error => t.fail(String(error))},
	});
	const following = new MailboxFollower({
		mailbox: followed,
		waitLimitMs: 60_000,
		intervalMs,
		observer: {mailboxRead: round => rounds.push(round), mailboxFailed: error => failures.push(error)},
	});
	t.teardown(() => following.stop());
	return {
		stop: () => following.stop(),
		rounds,
		failures,
		position: () => position,
		subjects: () => [...mails.values()].map(({raw}) => /^Subject: (.*)\r$/m.exec(raw.toString())?.[1]),
		mails: () => [...mails.values()],
	};
}

for (const [way, more] of [
	['TLS from the first byte', (_: ImapServer) => ({})],
	['STARTTLS', ({port}: ImapServer) => ({tls: 'starttls', port}) as const],
	['no TLS', ({port}: ImapServer) => ({tls: 'none', port}) as const],
] as const) {
	test(`reads existing and new messages of a mailbox without changing it: ${way}`, async t => {
		const server = await startImapServer(t);
		if (!server) {
			return;
		}
		await server.deliver(mail('one'));
		await server.deliver(mail('two'));
		const {subjects, mails, rounds, failures} = follow(t, server, more(server));
		await waitFor('both are read', () => rounds.length > 0);
		t.deepEqual(failures, []);
		t.deepEqual(subjects(), ['one', 'two']);
		t.deepEqual(rounds[0], {taken: 2, known: 0, cut: 0, skipped: 0});
		t.is(mails()[0]?.raw.toString(), mail('one').replaceAll('\n', '\r\n'));
		t.is(mails()[0]?.mailFrom, '');

		// Without IDLE, it would be read after 10 minutes.
		await server.deliver(mail('three'));
		await waitFor('IDLE tells of the third', () => subjects().length === 3);
		t.deepEqual(subjects(), ['one', 'two', 'three']);
		t.is(
			rounds.reduce((sum, {known}) => sum + known, 0),
			0,
		);
		// Dovecot itself moves messages that a client may have seen from new to cur.
		t.deepEqual(
			(await server.files()).map(name => name.split(':2,')[1] ?? ''),
			['', '', ''],
		);
	});
}

test('reconnects after a server restart and reads nothing twice', async t => {
	const server = await startImapServer(t);
	if (!server) {
		return;
	}
	await server.deliver(mail('one'));
	const {subjects, rounds, failures} = follow(t, server);
	await waitFor('it is read', () => rounds.length > 0);
	await server.stop();
	await server.deliver(mail('two'));
	await waitFor('it is missed', () => failures.length > 0);
	await server.start();
	await waitFor('the second is read', () => subjects().length === 2);
	t.is(
		rounds.reduce((sum, {known}) => sum + known, 0),
		0,
	);
});

test('reads messages again if their UIDs changed, and recognizes them', async t => {
	const server = await startImapServer(t);
	if (!server) {
		return;
	}
	await server.deliver(mail('one'));
	await server.deliver(mail('two'));
	const {rounds, position, subjects} = follow(t, server);
	await waitFor('both are read', () => rounds.length > 0);
	const [validity] = (position() ?? '').split(':');
	await server.stop();
	await server.renumber();
	await server.start();
	await waitFor('both are read again', () => rounds.some(({known}) => known === 2));
	t.not((position() ?? '').split(':')[0], validity);
	t.deepEqual(subjects(), ['one', 'two']);
});

test('reads only the beginning of a message over 10 MiB', async t => {
	const server = await startImapServer(t);
	if (!server) {
		return;
	}
	await server.deliver(`${mail('large')}${`${'x'.repeat(79)}\n`.repeat(140_000)}`);
	await server.deliver(mail('small'));
	const {rounds, mails} = follow(t, server);
	await waitFor('both are read', () => rounds.length > 0);
	t.deepEqual(rounds[0], {taken: 2, known: 0, cut: 1, skipped: 0});
	t.deepEqual(
		mails().map(({isCut}) => isCut),
		[true, false],
	);
	t.true((mails()[0]?.raw.length ?? 0) <= 1024 * 1024 + 2);
});

test('stops while it waits for an unreachable server', async t => {
	const server = await startImapServer(t);
	if (!server) {
		return;
	}
	const {rounds, failures, stop} = follow(t, server);
	await waitFor('it is read', () => rounds.length > 0);
	await server.stop();
	await waitFor('it is missed', () => failures.length > 0);
	await stop();
	t.is(rounds.length, 1);
});

test('explains an error and how to fix it without revealing the password', async t => {
	const server = await startImapServer(t);
	if (!server) {
		return;
	}
	const ca = readFileSync(server.caFile, 'utf8');
	const faultOf = async (more: Partial<ImapMailbox>, authorities: string | null = ca) => {
		const mailbox = mailboxOn(server, more);
		const error = await t.throwsAsync(openFolder(mailbox, authorities), {any: true});
		return imapProblem(error, mailbox);
	};
	const faults = {
		login: await faultOf({password: 'wrong'}),
		folder: await faultOf({folder: 'Bounces/2026'}),
		certificate: await faultOf({}, null),
		starttls: await faultOf({port: server.port, tls: 'starttls'}, null),
		implicit: await faultOf({port: server.port}),
	};
	await server.stop();
	const gone = await faultOf({});
	t.regex(faults.login.reason, /^127\.0\.0\.1:\d+ rejected the login: /);
	t.regex(faults.login.fix, /user and password/);
	t.regex(faults.folder.reason, /^the folder Bounces\/2026 of 127\.0\.0\.1:\d+ cannot be read: /);
	t.regex(faults.certificate.reason, /^the certificate of 127\.0\.0\.1:\d+ is not trusted: /);
	t.regex(faults.certificate.fix, /MAILCTL_CA_FILE/);
	t.regex(faults.starttls.reason, /^the certificate of /);
	t.regex(faults.implicit.reason, /^TLS with /);
	t.regex(gone.reason, /^127\.0\.0\.1:\d+ does not respond: .*ECONNREFUSED/);
	for (const {reason, fix} of [...Object.values(faults), gone]) {
		t.log(`${reason}, ${fix}`);
		t.false(`${reason}${fix}`.includes(server.password));
	}
});

test('masks credentials that a server repeats in its error', t => {
	const mailbox: ImapMailbox = {
		...{kind: 'imap', host: 'imap.example', port: 993, tls: 'implicit', folder: 'INBOX'},
		...{user: 'bounces', password: 'top secret'},
	};
	const sent = Buffer.from('\0bounces\0top secret').toString('base64');
	const error = Object.assign(new Error('Command failed'), {
		authenticationFailed: true,
		responseText: `no such user: AUTHENTICATE PLAIN ${sent} (top secret), ${sent.slice(0, 20)}`,
	});
	t.is(
		imapProblem(error, mailbox).reason,
		'imap.example:993 rejected the login: no such user: AUTHENTICATE PLAIN **** (****), ****',
	);
});
