import {mkdir, writeFile} from 'node:fs/promises';
import path from 'node:path';
import {gzipSync} from 'node:zlib';
import test, {type ExecutionContext} from 'ava';
import type {IngestCounts} from '../../../src/resources/received/ingest-counts-cli.ts';
import {type Cli, golden, newCli, refused, storelessCli} from '../../helpers/cli.ts';
import {temporaryFolder} from '../../helpers/databases.ts';
import {insertReturned, type ReturnedMail} from '../../helpers/returned-mails.ts';
import {waitFor} from '../../helpers/wait.ts';
import {startReceiver} from '../../helpers/webhook-receiver.ts';

const domain = 'bounces.shop.example';

/** A data folder with ten recipients, and the report that came back for each. */
async function newShop(t: ExecutionContext, settings = {}): Promise<{cli: Cli; mails: ReturnedMail[]}> {
	const cli = await newCli(t, {MAILCTL_RETURN_PATH_DOMAIN: domain, ...settings});
	await cli.json('migrate');
	return {cli, mails: await insertReturned(path.join(cli.folder, 'data'), 10, domain)};
}

const mbox = (mails: readonly ReturnedMail[]) =>
	mails
		.map(
			({bytes}) =>
				`From MAILER-DAEMON Fri Nov 20 10:00:00 2026\n${bytes.replaceAll('\r\n', '\n').replace(/^(>*From )/gm, '>$1')}\n`,
		)
		.join('');

const countsOf = ({stdout}: {stdout: string}) => JSON.parse(stdout) as IngestCounts;

test('ingests an mbox, prints the results, and on the second run reads only what is new', async t => {
	const {cli, mails} = await newShop(t);
	await writeFile(path.join(cli.folder, 'mbox'), mbox(mails));
	golden(t, 'bounce-ingest', await cli.text('bounce', 'ingest', 'mbox'));
	const again = countsOf(await cli.run('bounce', 'ingest', 'mbox', '--json'));
	t.deepEqual({...again, mails: 0, known: 0}, {...again, mails: 0, known: 0, taken: 0, events: 0});
	t.is(again.known, 1, 'only the last mail is looked at again');
	t.is(countsOf(await cli.run('bounce', 'ingest', 'mbox', '--again', '--json')).known, 10);
	const suppressed = await cli.json<Array<{recipient: string}>>('suppression', 'list', '--workspace', 'sent');
	t.true(suppressed.some(({recipient}) => recipient === 'user0@nowhere.example'));
});

test('ingests messages, an mbox and a Maildir in a folder, and skips other files', async t => {
	const {cli, mails} = await newShop(t);
	for (const folder of ['in', 'in/box/new', 'in/box/cur', 'in/box/tmp']) {
		await mkdir(path.join(cli.folder, folder), {recursive: true});
	}
	const [one, two, three, four] = mails as [ReturnedMail, ReturnedMail, ReturnedMail, ReturnedMail];
	await writeFile(path.join(cli.folder, 'in/1.eml'), one.bytes);
	await writeFile(path.join(cli.folder, 'in/box/new/2'), two.bytes);
	await writeFile(path.join(cli.folder, 'in/old.mbox'), mbox([three, four]));
	await writeFile(path.join(cli.folder, 'in/expected.json'), '{\n  "kind": "dsn"\n}\n');
	await writeFile(path.join(cli.folder, 'in/picture.png'), Buffer.from([0x89, 0x50, 0, 0]));
	const {stdout, stderr, code} = await cli.run('bounce', 'ingest', 'in', '--json');
	t.is(code, 0, stderr);
	const counts = JSON.parse(stdout);
	t.like(counts, {mails: 4, taken: 4, files_without_mail: 2, files_failed: 0, waiting: 0});
});

test('ingests a message that a mail server pipes to standard input with --rcpt', async t => {
	const {cli, mails} = await newShop(t);
	const [hard] = mails as [ReturnedMail];
	// Servers write addresses as they like.
	const rcpt = `<${hard.to.replace(domain, domain.toUpperCase())}>`;
	const {code, stdout, stderr} = await cli.runWith(hard.bytes, 'bounce', 'ingest', '--rcpt', rcpt, '--json');
	t.is(code, 0, stderr);
	t.like(countsOf({stdout}), {mails: 1, taken: 1, bounces: 1, events: 1, unmatched: 0});
	const same = await cli.runWith(hard.bytes, 'bounce', 'ingest', '--rcpt', hard.to, '--json');
	t.like(countsOf(same), {mails: 1, known: 1, events: 0});
	const others = await cli.runWith(mbox(mails), 'bounce', 'ingest', '-', '--json');
	t.like(countsOf(others), {mails: 10});
});

test('exits with 75, a temporary failure to a mail server, while a message cannot be stored', async t => {
	const {cli, mails} = await newShop(t);
	const [hard] = mails as [ReturnedMail];
	const pipe = async () => await cli.runWith(hard.bytes, 'bounce', 'ingest', '--rcpt', hard.to);

	const store = await cli.store();
	const free = await store.database.transaction();
	await free.raw('create table held (x int)');
	refused(t, await pipe(), 75, /the message was not accepted: the store is busy/);
	await free.rollback();
	t.is((await pipe()).code, 0);

	const full = await newCli(t, {MAILCTL_DATA_DIR: path.join(cli.folder, 'data'), MAILCTL_MIN_FREE_DISK: '1024GiB'});
	const tooFull = await full.runWith(hard.bytes, 'bounce', 'ingest', '--rcpt', hard.to);
	refused(t, tooFull, 75, /less free space than MAILCTL_MIN_FREE_DISK/);

	await writeFile(path.join(cli.folder, 'file'), '');
	const broken = await newCli(t, {MAILCTL_DATA_DIR: path.join(cli.folder, 'file')});
	refused(t, await broken.runWith(hard.bytes, 'bounce', 'ingest', '--rcpt', hard.to), 75, /try again later/);
	const wrong = await newCli(t, {MAILCTL_BOUNCE_MAILBOX: 'pop3://x'});
	refused(t, await wrong.runWith(hard.bytes, 'bounce', 'ingest'), 75, /MAILCTL_BOUNCE_MAILBOX/);
});

test('counts an aggregate report with or without the message around it', async t => {
	const {cli} = await newShop(t);
	const xml =
		'<?xml version="1.0"?><feedback><report_metadata><org_name>r</org_name></report_metadata><policy_published/></feedback>';
	await writeFile(path.join(cli.folder, 'r.xml.gz'), gzipSync(xml));
	const counts = await cli.json('bounce', 'ingest', 'r.xml.gz');
	t.like(counts, {mails: 1, unreadable: 1, files_without_mail: 0});
	t.regex(await cli.text('bounce', 'unmatched'), /does not name the domain/);
});

test('refuses to ingest into a missing store, or one without a workspace', async t => {
	const {cli, mails} = await newShop(t);
	const [hard] = mails as [ReturnedMail];
	const mail = path.join(cli.folder, 'mail.eml');
	await writeFile(mail, hard.bytes);
	const elsewhere = await storelessCli(t);
	refused(t, await elsewhere.run('bounce', 'ingest', mail), 69, /no store at /);
	refused(t, await elsewhere.runWith(hard.bytes, 'bounce', 'ingest', '--rcpt', hard.to), 75, /no store at /);
	await elsewhere.json('migrate');
	refused(
		t,
		await elsewhere.run('bounce', 'ingest', mail),
		78,
		/set MAILCTL_DATA_DIR .* to the values that the daemon uses/,
	);
	refused(
		t,
		await elsewhere.runWith(hard.bytes, 'bounce', 'ingest', '--rcpt', hard.to),
		75,
		/this store has no workspace/,
	);
});

test('reports invalid arguments and names a file that cannot be read', async t => {
	const {cli} = await newShop(t);
	refused(t, await cli.run('bounce', 'ingest', 'nowhere'), 65, /nowhere does not exist, name an mbox/);
	refused(t, await cli.run('bounce', 'ingest', '--rcpt', 'a@b.example', 'file'), 64, /--rcpt needs a message/);
	refused(t, await cli.run('bounce', 'ingest', 'file', '-'), 64, /standard input and files cannot be combined/);
	refused(t, await cli.spawn('bounce', 'ingest'), 65, /no message found on standard input/);
	await writeFile(path.join(cli.folder, 'picture'), Buffer.from([0, 1, 2]));
	const {code, stdout, stderr} = await cli.run('bounce', 'ingest', 'picture');
	t.is(code, 65);
	t.regex(stdout, /^1 file without messages$/m);
	t.regex(stderr, /no message found in picture,/);
	await writeFile(path.join(cli.folder, 'bomb.gz'), gzipSync(Buffer.alloc(11 * 1024 * 1024)));
	const bomb = await cli.run('bounce', 'ingest', 'bomb.gz');
	t.is(bomb.code, 65);
	t.regex(bomb.stderr, /no message found in bomb\.gz: its content is larger than 10 MiB, name an mbox/);
	// Whoever opens it, root too, may not read its beginning.
	const unread = await cli.run('bounce', 'ingest', '/proc/self/mem', '--json');
	t.is(unread.code, 74);
	t.like(JSON.parse(unread.stdout), {mails: 0, files_failed: 1});
	t.regex(unread.stderr, /^mailctl: \/proc\/self\/mem: EIO.*\nmailctl: 1 of 1 files could not be read, /);
});

test('beside a running daemon, its webhooks are sent and its API rejects the new suppressions', async t => {
	const receiver = await startReceiver(t, await temporaryFolder(t), ['hooks.shop.example']);
	const {cli, mails} = await newShop(t, receiver.settings);
	const ofShop = ['--workspace', 'sent'];
	await cli.json('webhook', 'add', receiver.url('/hook'), '--event', 'bounced', '--event', 'complained', ...ofShop);
	const {key} = await cli.json<{key: string}>('key', 'create', '--name', 'one', ...ofShop);
	await writeFile(path.join(cli.folder, 'mbox'), mbox(mails));
	const daemon = await cli.serve();
	const counts = countsOf(await cli.run('bounce', 'ingest', 'mbox', '--json'));
	t.like(counts, {mails: 10, taken: 10, bounces: 6, complaints: 1, unmatched: 1, waiting: 0});
	await waitFor('a post of each of the six events', () => receiver.posts.length >= 6);
	const told = receiver.posts.map(({body}) => JSON.parse(body.toString()) as {type: string; recipient: string});
	t.deepEqual(told.map(({type, recipient}) => `${type} ${recipient}`).sort(), [
		'bounced user0@nowhere.example',
		'bounced user1@nowhere.example',
		'bounced user5@nowhere.example',
		'bounced user7@nowhere.example',
		'bounced user9@nowhere.example',
		'complained user3@nowhere.example',
	]);
	const listed = await fetch(`${daemon.url}/v1/suppressions`, {headers: {authorization: `Bearer ${key}`}});
	t.regex(await listed.text(), /user0@nowhere\.example/);
	t.is(daemon.stderr(), '');
	t.is(await daemon.stop(), 0);
});
