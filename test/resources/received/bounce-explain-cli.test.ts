import {mkdir, rename, writeFile} from 'node:fs/promises';
import path from 'node:path';
import {gzipSync} from 'node:zlib';
import test from 'ava';
import {dmarcMail, reporters} from '../../helpers/aggregate-mails.ts';
import {type Cli, golden, newCli, refused} from '../../helpers/cli.ts';
import {dsnOf, mailOf, multipartOf} from '../../helpers/report-mails.ts';

type View = {
	file?: string;
	kind: string;
	fault?: string;
	reports: Array<Record<string, unknown>>;
};

const status = `Reporting-MTA: dns; out.example

Original-Recipient: rfc822; info@shop.example
Final-Recipient: rfc822; neko@mx.example
Action: failed
Status: 5.1.1
Remote-MTA: dns; mx.example
Diagnostic-Code: smtp; 550 5.1.1 <neko@mx.example>: Recipient address rejected:
 User unknown in virtual mailbox table, and what follows is so long that it
 does not fit into one line of a terminal

Final-Recipient: rfc822; tora@mx.example
Action: delayed
Status: 4.2.2
Remote-MTA: dns; mx.example
Diagnostic-Code: smtp; 452 4.2.2 Mailbox full`;
const complaint = multipartOf({
	type: 'multipart/report; report-type=feedback-report',
	parts: [
		'Content-Type: text/plain\n\nThis is an abuse report.\n',
		'Content-Type: message/feedback-report\n\nFeedback-Type: abuse\nVersion: 1\nOriginal-Rcpt-To: neko@mx.example\n',
	],
});
const vacation = mailOf(
	'From: ann@office.example',
	'Subject: Out of office',
	'Auto-Submitted: auto-replied',
	'',
	'I am away.',
);

async function folderOf(cli: Cli, files: Readonly<Record<string, Buffer>>): Promise<string> {
	const folder = path.join(cli.folder, 'mails');
	for (const [name, bytes] of Object.entries(files)) {
		await mkdir(path.dirname(path.join(folder, name)), {recursive: true});
		await writeFile(path.join(folder, name), bytes);
	}
	return folder;
}

test('explains a DSN from standard input as one object, without a data folder', async t => {
	const cli = await newCli(t, {MAILCTL_DATA_DIR: '/proc/nowhere'});
	for (const args of [[], ['-']]) {
		const {code, stdout, stderr} = await cli.runWith(
			dsnOf(status).toString(),
			'bounce',
			'explain',
			...args,
			'--json',
		);
		t.is(code, 0, stderr);
		const view = JSON.parse(stdout) as View;
		t.is(view.kind, 'dsn');
		t.deepEqual(
			view.reports.map(({recipient, original_recipient, action, type, suppresses}) => [
				recipient,
				original_recipient,
				action,
				type,
				suppresses,
			]),
			[
				['neko@mx.example', 'info@shop.example', 'failed', 'permanent', true],
				['tora@mx.example', null, 'delayed', 'transient', false],
			],
		);
		t.like(view.reports[0], {status: '5.1.1', category: 'unknown_user', code: 550, host: 'mx.example'});
		t.true(typeof view.reports[0]?.reason === 'string' && typeof view.reports[0]?.rule === 'string');
	}
});

test('explains the files of a folder and its subfolders in name order, without hidden ones', async t => {
	const cli = await newCli(t);
	const folder = await folderOf(cli, {
		'b.eml': complaint,
		'a.eml': dsnOf(status),
		'c/d.eml': vacation,
		'e.bin': Buffer.from([0, 255, 254, 13, 0]),
		'f.eml': Buffer.alloc(0),
		'.hidden': complaint,
		'.git/x.eml': complaint,
	});
	const views = await cli.json<View[]>('bounce', 'explain', folder);
	t.deepEqual(
		views.map(({file, kind, reports}) => [path.relative(folder, file ?? ''), kind, reports.length]),
		[
			['a.eml', 'dsn', 2],
			['b.eml', 'arf', 1],
			['c/d.eml', 'auto_reply', 1],
			['e.bin', 'other', 0],
			['f.eml', 'other', 0],
		],
	);
	t.like(await cli.json<View[]>('bounce', 'explain', path.join(folder, 'c')), [
		{
			file: path.join(folder, 'c/d.eml'),
			kind: 'auto_reply',
			reports: [{recipient: 'ann@office.example', action: 'none', type: 'none', suppresses: false}],
		},
	]);
});

test('skips a file that cannot be read and explains the others', async t => {
	const cli = await newCli(t);
	const folder = await folderOf(cli, {'a.eml': complaint});
	const names = [path.join(folder, 'a.eml'), path.join(folder, 'missing.eml')];
	const {code, stdout, stderr} = await cli.run('bounce', 'explain', ...names, '--json');
	t.is(code, 0);
	t.is(stderr, `mailctl: ${names[1]} cannot be read and is skipped\n`);
	const views = JSON.parse(stdout) as View[];
	t.deepEqual(
		views.map(({file, kind}) => [file, kind]),
		[
			[names[0], 'arf'],
			[names[1], 'other'],
		],
	);
	t.like(views[0]?.reports[0], {action: 'complaint', type: 'none', suppresses: true, feedback_type: 'abuse'});
	t.deepEqual(views[1]?.reports, []);
});

test('explains why an archive is not a report', async t => {
	const cli = await newCli(t);
	await writeFile(path.join(cli.folder, 'bomb.gz'), gzipSync(Buffer.alloc(11 * 1024 * 1024)));
	const why = /no message found in bomb\.gz: its content is larger than 10 MiB/;
	refused(t, await cli.run('bounce', 'explain', 'bomb.gz'), 65, why);
	const {code, stdout, stderr} = await cli.run('bounce', 'explain', 'bomb.gz', 'bomb.gz', '--json');
	t.is(code, 0);
	t.regex(stderr, why);
	t.deepEqual(
		JSON.parse(stdout).map(({kind}: View) => kind),
		['other', 'other'],
	);
});

test('reads standard input among files, but only once', async t => {
	const cli = await newCli(t);
	const folder = await folderOf(cli, {'a.eml': complaint});
	const input = dsnOf(status).toString();
	const {code, stdout} = await cli.runWith(input, 'bounce', 'explain', folder, '-', 'missing.eml', '--json');
	t.is(code, 0);
	t.deepEqual(
		(JSON.parse(stdout) as View[]).map(({file, kind}) => [file, kind]),
		[
			[path.join(folder, 'a.eml'), 'arf'],
			['-', 'dsn'],
			['missing.eml', 'other'],
		],
	);
	refused(t, await cli.runWith(input, 'bounce', 'explain', '-', '-'), 64, /standard input can be read only once/);
});

test('reads the messages of a Maildir and skips a folder that cannot be listed', async t => {
	const cli = await newCli(t);
	const folder = await folderOf(cli, {
		'box/cur/1:2,S': complaint,
		'box/new/2': vacation,
		'box/tmp/3': complaint,
		'box/dovecot-uidlist': Buffer.from('3 V1 N1'),
		'z.eml': complaint,
	});
	// Nobody, root neither, can list a path so long.
	const [short, long] = [path.join(folder, 'x'), path.join(folder, 'x'.repeat(250))];
	await mkdir(path.join(short, ...new Array(15).fill('y'.repeat(250)), 'y'.repeat(200)), {recursive: true});
	await rename(short, long);
	t.teardown(() => rename(long, short));
	const {code, stdout, stderr} = await cli.run('bounce', 'explain', folder, '--json');
	t.is(code, 0);
	t.regex(stderr, /^mailctl: \S+ cannot be read and is skipped\n$/);
	t.deepEqual(
		(JSON.parse(stdout) as View[]).map(({file = '', kind}) => [path.relative(folder, file).slice(0, 10), kind]),
		[
			['box/new/2', 'auto_reply'],
			['box/cur/1:', 'arf'],
			['xxxxxxxxxx', 'other'],
			['z.eml', 'arf'],
		],
	);
});

test('explains three thousand files in one run', async t => {
	const cli = await newCli(t);
	const mail = dsnOf(status);
	const files = Array.from({length: 3000}, (_, i) => [`${String(i).padStart(4, '0')}.eml`, mail] as const);
	const views = await cli.json<View[]>('bounce', 'explain', await folderOf(cli, Object.fromEntries(files)));
	t.is(views.length, 3000);
	t.true(views.every(({reports}) => reports.length === 2));
});

test('prints the classification, its reason and its rule within 80 columns', async t => {
	const cli = await newCli(t);
	const folder = await folderOf(cli, {
		'1-dsn.eml': dsnOf(status),
		'2-complaint.eml': complaint,
		'3-vacation.eml': vacation,
		'4-text.eml': mailOf('Subject: Lunch?', '', 'At noon.'),
		'5-unsubscribe.eml': mailOf('From: neko@mx.example', 'Subject: unsubscribe', '', ''),
		'6-parts.eml': mailOf('Content-Type: multipart/mixed; boundary=b', '', '--b\n\na\n'.repeat(300)),
		'7-delivered.eml': dsnOf('Final-Recipient: rfc822; \x1b[31mneko@mx.example\nAction: relayed\nStatus: 2.0.0'),
		'8-long.eml': dsnOf(
			`Final-Recipient: rfc822; neko@mx.example\nAction: failed\nDiagnostic-Code: smtp; 550 ${'x'.repeat(100)}`,
		),
	});
	const day = {begin: 1_795_651_200, end: 1_795_737_599};
	const [reporter] = reporters as [(typeof reporters)[number]];
	const records = [{ip: '192.0.2.1', n: 2, dkim: 'pass', spf: 'pass'}] as const;
	const facts = {records, org: '', email: '', id: '1', domain: 'shop.example', ...day};
	await writeFile(path.join(folder, '9-dmarc.eml'), dmarcMail(reporter, facts));
	const text = (await cli.text('bounce', 'explain', folder)).replaceAll(folder, 'mails');
	t.deepEqual(
		text.split('\n').filter(line => line.length > 80),
		[],
	);
	t.false(text.includes('\x1b'));
	golden(t, 'bounce-explain', text);
	t.deepEqual(await cli.json('bounce', 'explain', path.join(folder, '9-dmarc.eml')), {kind: 'other', reports: []});
	const alone = path.join(await folderOf(cli, {'alone/report.xml': Buffer.from(reporter.xml(facts))}), 'alone');
	for (const name of [alone, path.join(alone, 'report.xml')]) {
		t.regex(await cli.text('bounce', 'explain', name), /^A DMARC aggregate report: /m, 'as bounce ingest takes it');
	}
});

test('explains an SMTP reply', async t => {
	const cli = await newCli(t);
	const reply = '550 5.1.1 <neko@mx.example>: User unknown';
	t.like(await cli.json('bounce', 'explain', '--reply', reply, '--mx', 'MX.example'), {
		reply,
		phase: 'rcpt',
		host: 'mx.example',
		code: 550,
		status: '5.1.1',
		category: 'unknown_user',
		type: 'permanent',
		suppresses: true,
	});
	t.like(await cli.json('bounce', 'explain', '--reply', reply, '--phase', 'mail'), {
		type: 'transient',
		suppresses: false,
	});
	golden(t, 'bounce-explain-reply', await cli.text('bounce', 'explain', '--reply', reply));
});

test('rejects missing files, replies that are not refusals, and options that do not fit together', async t => {
	const cli = await newCli(t);
	const explain = async (...args: readonly string[]) => await cli.run('bounce', 'explain', ...args);
	refused(t, await explain('missing.eml'), 65, /missing\.eml does not exist/);
	refused(
		t,
		await explain('--reply', '250 2.1.5 ok'),
		65,
		/the reply 250 is not a refusal, use one that starts with 4 or 5/,
	);
	refused(t, await explain('--reply', 'no'), 65, /the reply has no code, begin it with one/);
	refused(t, await explain('--reply', '550 no', '--phase', 'lunch'), 64, /--phase "lunch" is not allowed, use route/);
	refused(t, await explain('--phase', 'rcpt'), 64, /--phase and --mx need --reply/);
	refused(t, await explain('--reply', '550 no', 'a.eml'), 64, /cannot be combined/);
	await mkdir(path.join(cli.folder, 'empty'));
	refused(t, await explain('empty'), 65, /the folder contains no files/);
	t.deepEqual(await cli.json('bounce', 'explain', 'empty'), []);
});
