import path from 'node:path';
import test, {type ExecutionContext} from 'ava';
import {openStore} from '../../src/store/store.ts';
import {eventsOf, type Program, prepareProgram} from '../helpers/daemon.ts';
import {visitorOf} from '../helpers/dashboard.ts';
import {type ImapServer, startImapServer} from '../helpers/peers/dovecot-imap.ts';
import {insertReturned, type ReturnedMail} from '../helpers/returned-mails.ts';
import {startSilentImap} from '../helpers/silent-imap.ts';
import {waitFor} from '../helpers/wait.ts';

const domain = 'bounces.shop.example';

/** A program that polls the mailbox of the server. */
async function prepare(t: ExecutionContext, server: ImapServer): Promise<Program> {
	const login = `${encodeURIComponent(server.user)}:${encodeURIComponent(server.password)}`;
	const program = await prepareProgram(t, {
		MAILCTL_RETURN_PATH_DOMAIN: domain,
		MAILCTL_CA_FILE: server.caFile,
		// Only IDLE, a restart or a new connection brings mail.
		MAILCTL_BOUNCE_MAILBOX_INTERVAL: '1h',
		MAILCTL_BOUNCE_MAILBOX: `imap://${login}@127.0.0.1:${server.port}/INBOX?tls=starttls`,
	});
	await program.cliBytes('init');
	return program;
}

test('kill -9 while reading a mailbox: every message is ingested exactly once', async t => {
	const server = await startImapServer(t);
	if (!server) {
		return;
	}
	const program = await prepare(t, server);
	const count = 1000;
	for (let n = 0; n < count; n++) {
		await server.deliver(`Return-Path: <>\nSubject: failure ${n}\n\nIt could not be delivered.\n`);
	}
	const store = await openStore({file: path.join(program.folder, 'data/mailctl.db')});
	t.teardown(store.close);
	const rows = async () => Number((await store.reader('inbound').first(store.reader.raw('count(*) as n'))).n);
	for (const enough of [1, 200, 500]) {
		const daemon = await program.serve();
		await waitFor('some are taken in', async () => (await rows()) >= enough);
		await daemon.kill();
	}
	const last = await program.serve();
	await waitFor('all are taken in', async () => (await rows()) === count);
	await waitFor(
		'they are read',
		async () => (await store.reader('inbound').whereNull('read_at').first()) === undefined,
	);
	t.is(await last.stop(), 0);
	t.is(await rows(), count);
});

test('polls an IMAP mailbox, counts a bounce within seconds, and reports when the server goes and returns', async t => {
	const server = await startImapServer(t);
	if (!server) {
		return;
	}
	const program = await prepare(t, server);
	const [hard, ...others] = await insertReturned(path.join(program.folder, 'data'), 10, domain);
	const asStored = ({to, bytes}: ReturnedMail) =>
		`Return-Path: <>\nDelivered-To: ${to}\n${bytes.replaceAll('\r\n', '\n')}`;
	const suppressed = async (address: string) => {
		const {entry} = await program.cli<{entry: {reason: string} | null}>(
			...['suppression', 'check', address, '--workspace', 'sent'],
		);
		return entry?.reason;
	};

	const daemon = await program.serve();
	const metrics = async () => await (await fetch(`${daemon.url}/metrics`)).text();
	await waitFor('the mailbox is open', async () => /^mailctl_mailbox_up 1$/m.test(await metrics()));
	await server.deliver(asStored(hard as ReturnedMail));
	await waitFor('IDLE brings the bounce', async () => (await eventsOf(program, 'inbound_read')).length === 1);
	t.is(await suppressed('user0@nowhere.example'), 'hard_bounce');

	await server.stop();
	await server.deliver(asStored(others[0] as ReturnedMail));
	await waitFor('it is missed', async () => (await eventsOf(program, 'mailbox_failed')).length > 0);
	t.regex(await metrics(), /^mailctl_mailbox_up 0$/m);
	t.is((await fetch(`${daemon.url}/readyz`)).status, 200, 'mail goes out all the same');
	await server.start();
	await waitFor('it is found again', async () => (await eventsOf(program, 'mailbox_recovered')).length === 1);
	await waitFor('the second is read', async () => (await eventsOf(program, 'inbound_read')).length === 2);
	// A mail can be read before the look at the mailbox that found it is over.
	await waitFor('both count', async () => /^mailctl_mailbox_mails_total\{result="new"\} 2$/m.test(await metrics()));
	t.is(await daemon.stop(), 0);

	const next = await program.serve();
	await waitFor('it is polled again', async () => {
		const text = await (await fetch(`${next.url}/metrics`)).text();
		return /^mailctl_mailbox_up 1$/m.test(text) && /^mailctl_mailbox_mails_total\{result="new"\} 0$/m.test(text);
	});
	t.is(await next.stop(), 0);
	t.is((await eventsOf(program, 'inbound_read')).length, 2, 'nothing is read twice');
	t.deepEqual(
		(await server.files()).map(name => name.split(':2,')[1] ?? ''),
		['', ''],
		'nothing is marked or deleted',
	);

	const {stdout} = await program.run('doctor', '--json');
	const findings = JSON.parse(stdout) as Array<{check: string; status: string; detail: string}>;
	const found = findings.find(({check}) => check === 'mailbox');
	t.like(found, {status: 'ok'});
	t.regex(
		found?.detail ?? '',
		/^imap:\/\/bounces%40shop\.example@127\.0\.0\.1:\d+\/INBOX can be read: 2 messages, new messages are reported at once$/,
	);

	const log = await program.log();
	t.false(log.includes(server.password) || log.includes(encodeURIComponent(server.password)));
	t.regex(log, /"event":"mailbox_failed","mailbox":"imap:\/\/bounces%40shop\.example@127\.0\.0\.1:\d+\/INBOX"/);
});

test('metrics and checks report a mailbox whose login or IDLE hangs', async t => {
	const server = await startSilentImap(t, null);
	const program = await prepareProgram(t, {
		MAILCTL_RETURN_PATH_DOMAIN: domain,
		MAILCTL_BOUNCE_MAILBOX_INTERVAL: '1s',
		MAILCTL_BOUNCE_MAILBOX: `imap://a:secret@127.0.0.1:${server.mailbox.port}/INBOX?tls=none`,
	});
	const daemon = await program.serve();
	const isUp = async (up: 0 | 1) =>
		(await (await fetch(`${daemon.url}/metrics`)).text()).includes(`\nmailctl_mailbox_up ${up}\n`);
	await waitFor('the mailbox is open', () => isUp(1));
	server.silentAt = 'done';
	await waitFor('the hanging IDLE is a failure', () => isUp(0));
	server.silentAt = 'login';
	const visitor = await visitorOf({program, url: daemon.url}, 'admin');
	const {text} = await visitor.get('/health/checks');
	t.regex(
		text.replaceAll('<wbr>', ''),
		/fail<\/span><\/td><td[^>]*>mailbox<\/td><td.*?127\.0\.0\.1:\d+ does not respond: no data for/s,
	);
	t.true(await isUp(0), 'nor does the next log-in work');
	const [failed] = await eventsOf(program, 'mailbox_failed');
	t.regex(String(failed?.reason), /does not respond: no data for/);
	t.is(await daemon.stop(), 0);
});
