import {execFile} from 'node:child_process';
import {existsSync} from 'node:fs';
import {readFile, unlink, writeFile} from 'node:fs/promises';
import {join} from 'node:path';
import {promisify} from 'node:util';
import test from 'ava';
import {simpleParser} from 'mailparser';
import {newCli, refused, storelessCli} from '../../helpers/cli.ts';
import {eventsOf, prepareProgram} from '../../helpers/daemon.ts';
import {waitFor} from '../../helpers/wait.ts';

type Shown = {readonly message: {readonly status: string; readonly subject: string}};

/** The arguments of curl after the shell has parsed the pasted command. */
async function shellWords(command: string): Promise<string[]> {
	const {stdout} = await promisify(execFile)('sh', ['-c', `curl() { printf '%s\\0' "$@"; }\n${command}`]);
	return stdout.split('\0').slice(0, -1);
}

test('the command in the welcome of a first start sends a message as printed; a second start prints none', async t => {
	const cli = await storelessCli(t);
	const first = await cli.serve();
	const file = join(cli.folder, 'data/first-keys.txt');
	const [command] = await waitFor('the welcome', async () =>
		/^curl [\s\S]*?\}\}\}'$/m.exec(await readFile(file, 'utf8').catch(() => '')),
	);
	t.true(
		(command as string)
			.split('\n')
			.slice(0, -1)
			.every(line => line.endsWith('\\')),
		'each line says that it goes on',
	);
	const words = await shellWords(command as string);
	t.deepEqual(
		[words[0], words[1], words[2], words[4], words[6]],
		['-sS', `${first.url}/v1/messages`, '-H', '-H', '-d'],
	);
	const headers = Object.fromEntries([words[3], words[5]].map(header => header?.split(': ') ?? []));
	const response = await fetch(words[1] as string, {method: 'POST', headers, body: words[7] ?? ''});
	t.is(response.status, 202);
	const {id} = (await response.json()) as {id: string};
	const shown = await waitFor('delivery', async () => {
		const answer = await cli.json<Shown>('message', 'show', id);
		return answer.message.status === 'delivered' && answer;
	});
	t.regex(shown.message.subject, /^Your first mail, Zoë$/);
	const mail = await simpleParser(await cli.text('message', 'raw', id));
	t.is(mail.subject, shown.message.subject);
	t.regex(mail.text ?? '', /Fountain pen/);
	const {link} = await cli.json<{link: string}>('user', 'link', 'admin@localhost');
	t.is(new URL(link).origin, first.url);
	t.regex(await cli.text('user', 'link', 'admin@localhost'), /ssh -L \d+:127\.0\.0\.1:\d+ HOST\n/);
	t.is(await first.stop(), 0);

	await unlink(file);
	const second = await cli.serve();
	t.is(await second.stop(), 0);
	t.is(second.stderr(), '');
	t.false(existsSync(file));
});

test('send with all options uses the daemon of the folder and waits until the message is final', async t => {
	const cli = await newCli(t);
	await cli.json('init');
	const base = ['send', '--from', 'hello@example.com', '--to', 'user@example.org', '--template', 'sample'];
	refused(t, await cli.run(...base), 69, /no daemon is running on this data folder, start it with mailctl serve/);
	const daemon = await cli.serve();
	const other = await cli.run('serve');
	t.is(other.code, 75);
	t.regex(other.stderr, /^mailctl: another daemon is running on the data folder /);

	await writeFile(join(cli.folder, 'note.txt'), 'attached');
	const sent = await cli.runWith(
		'{"name":"Ada","id":1234567890123456789,"price":1.50}',
		...[...base, '--data', '-', '--cc', 'a@example.org', '--cc', 'b@example.org', '--reply-to', 'help@example.com'],
		...[
			'--attach',
			'note.txt;cid=note',
			'--locale',
			'de',
			'--timezone',
			'Europe/Vienna',
			'--metadata',
			'order=7=x',
			'--wait',
		],
		...['--priority', 'high', '--to-name', 'Ada L.', '--reply-to-name', 'Help', '--header', 'X-Order: 7: a'],
	);
	t.is(sent.code, 0, sent.stderr);
	t.regex(sent.stdout, /^msg_[0-9a-z]{26}\n$/);
	const id = sent.stdout.trim();
	const shown = await cli.json<{message: object; recipients: object[]}>('message', 'show', id);
	t.like(shown.message, {
		status: 'delivered',
		mode: 'live',
		cc: ['a@example.org', 'b@example.org'],
		reply_to: 'help@example.com',
		attachments: [{filename: 'note.txt', content_type: 'text/plain'}],
		metadata: {order: '7=x'},
		priority: 'high',
		to_name: 'Ada L.',
		reply_to_name: 'Help',
		headers: {'X-Order': '7: a'},
		data: {name: 'Ada', price: 1.5},
	});
	t.regex(await cli.text('message', 'show', id, '--json'), /"id": ?1234567890123456789,\s*"price": ?1\.50/);
	t.is(shown.recipients.length, 3);
	const mail = await simpleParser(await cli.text('message', 'raw', id));
	t.regex(mail.subject ?? '', /^Ihre erste Mail, Ada$/);
	t.is(mail.attachments[0]?.content.toString(), 'attached');
	t.is(mail.attachments[0]?.cid, 'note');
	const answer = await cli.text(
		'message',
		'raw',
		await cli.text(...base, '--in-reply-to', id, '--wait').then(text => text.trim()),
	);
	t.is((await simpleParser(answer)).inReplyTo, mail.messageId);

	t.like(await cli.json(...base, '--mode', 'test', '--wait'), {status: 'delivered'});
	const keys = await cli.json<Array<{name: string}>>('key', 'list');
	t.false(
		keys.some(({name}) => name === 'mailctl send'),
		'the key of a send is gone when it is done',
	);

	const bounced = await cli.run(
		'send',
		'--from',
		'hello@example.com',
		'--to',
		'bounced+1@simulator.test',
		'--template',
		'sample',
		'--wait',
	);
	t.is(bounced.code, 69);
	t.regex(bounced.stdout, /^msg_/);
	t.regex(bounced.stderr, /^mailctl: the message is bounced, see mailctl message show msg_/);

	const from = ['send', '--to', 'user@example.org', '--template', 'sample', '--from'];
	refused(
		t,
		await cli.run(...from, 'nix@example.com'),
		65,
		/refused with sender_not_available: .*, see mailctl sender list/,
	);
	refused(t, await cli.run(...from, 'nix'), 65, /from: .*\n.*validation_failed/);
	refused(t, await cli.run(...base.slice(0, -1), 'nix'), 65, /template nix not found/);
	refused(t, await cli.run(...base, '--attach', 'nix.pdf'), 65, /nix\.pdf does not exist/);
	refused(t, await cli.run(...base, '--header', 'X'), 64, /--header "X" is not allowed, use NAME: VALUE/);
	refused(t, await cli.run(...base, '--in-reply-to', 'msg_1'), 65, /inReplyTo: must be a message of this workspace/);
	refused(
		t,
		await cli.run(...base, '--metadata', 'novalue'),
		64,
		/--metadata "novalue" is not allowed, use KEY=VALUE/,
	);
	await cli.json('workspace', 'pause', '--reason', 'test');
	refused(t, await cli.run(...base, '--priority', 'urgent'), 64, /--priority/);
	const paused = await waitFor('the pause is noticed', async () => {
		const result = await cli.run(...base);
		return result.code !== 0 && result;
	});
	refused(t, paused, 69, /refused with sending_paused: .*, see mailctl workspace show/);
	t.is(await daemon.stop(), 0);
});

test('warns once at startup if messages leave the machine with links that are not https', async t => {
	const relay = {MAILCTL_DELIVERY: 'relay', MAILCTL_RELAY_URL: 'smtp://127.0.0.1:9'};
	const program = await prepareProgram(t, relay);
	await (await program.serve()).stop();
	t.is((await eventsOf(program, 'public_url_not_https')).length, 1);
});
