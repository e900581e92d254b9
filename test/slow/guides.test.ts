import {execFile} from 'node:child_process';
import {chmod, cp, mkdir, readFile, writeFile} from 'node:fs/promises';
import path from 'node:path';
import process from 'node:process';
import {promisify} from 'node:util';
import test, {type ExecutionContext} from 'ava';
import {type Daemon, type Program, prepareProgram, welcomeOf} from '../helpers/daemon.ts';
import {startFakeDns} from '../helpers/fake-dns.ts';
import {freePort} from '../helpers/free-port.ts';

const run = promisify(execFile);

/** The commands of a page's shell blocks, in order, without comments. Those of other programs are left out. */
async function commandsOf(page: string): Promise<string[]> {
	const text = await readFile(`docs/guide/${page}.md`, 'utf8');
	return [...text.matchAll(/^[ \t]*```sh\n([\s\S]*?)^[ \t]*```/gm)]
		.flatMap(([, block]) => `${block}`.split('\n'))
		.map(line => line.replace(/\s#.*/, '').trim())
		.filter(line => /^(mailctl|zcat) /.test(line))
		.filter(line => !/^mailctl doctor|--watch/.test(line));
}

type Lab = {
	readonly program: Program;
	readonly shell: (line: string) => Promise<{code: number; said: string}>;
	readonly daemon: {stop: () => Promise<void>; start: () => Promise<void>};
};

/** A running daemon in capture mode, a `mailctl` command, and what the pages assume. */
async function startLab(t: ExecutionContext): Promise<Lab> {
	const dns = await startFakeDns(t, {});
	const program = await prepareProgram(t, {
		MAILCTL_DNS_SERVERS: dns.server,
		MAILCTL_HOSTNAME: 'mail.shop.example',
		MAILCTL_RETURN_PATH_DOMAIN: 'bounces.shop.example',
	});
	let daemon: Daemon | null = await program.serve();
	const {from, templateId} = await welcomeOf(program);
	const place = (name: string) => path.join(program.folder, name);
	await mkdir(place('bin'));
	await writeFile(
		place('bin/mailctl'),
		`#!/bin/sh\nexec '${process.execPath}' '${path.resolve('bin/mailctl.js')}' "$@"\n`,
	);
	await chmod(place('bin/mailctl'), 0o755);
	await cp('config/sample-template', place('templates/receipt'), {recursive: true});
	await mkdir(place('saved'));
	await mkdir(place('backups'), {mode: 0o700});
	for (const name of ['cur', 'new', 'tmp']) {
		await mkdir(place(`Maildir/${name}`), {recursive: true});
	}
	const mail = await readFile('test/fixtures/bounces/mail/postfix-01.eml');
	await writeFile(place('saved/one.eml'), mail);
	await writeFile(
		place('bounces'),
		Buffer.concat([Buffer.from('From MAILER-DAEMON Mon Nov 23 10:00:00 2026\n'), mail]),
	);
	await run('sh', ['-c', `gzip -c '${place('bounces')}' > '${place('old.mbox.gz')}'`]);
	for (const name of ['bounces', 'complaints', 'unsubscribed']) {
		await writeFile(place(`${name}.csv`), `email\n${name}@example.org\n`);
	}
	const send = ['send', '--from', from, '--to', 'you@example.org', '--template', templateId, '--wait'];
	const message = (await program.cliBytes(...send)).toString().trim();
	const shown = await program.cli<{recipients: Array<{id: string}>}>('message', 'show', message);
	const endpoint = await program.cli<{id: string}>(
		'webhook',
		'add',
		`http://127.0.0.1:${await freePort()}/`,
		'--event',
		'delivered',
	);
	const known: ReadonlyArray<readonly [string, string]> = [
		['msg_…', message],
		['msg_06f3k2ab', message.slice(0, -3)],
		['rcp_…', shown.recipients[0]?.id ?? ''],
		['whe_…', endpoint.id],
		['/var/backups/mailctl', place('backups')],
		['/var/mail/bounces', place('bounces')],
	];
	const env = {...program.environment.env, PATH: `${place('bin')}:${process.env.PATH}`, HOME: program.folder};
	return {
		program,
		async shell(line) {
			const text = known.reduce((words, [name, value]) => words.replaceAll(name, value), line);
			return await run('sh', ['-ec', text], {env, cwd: program.folder, timeout: 180_000}).then(
				({stdout, stderr}) => ({code: 0, said: stdout + stderr}),
				error => ({code: error.code as number, said: `${error.stdout}${error.stderr}`}),
			);
		},
		daemon: {
			async stop() {
				t.is(await daemon?.stop(), 0);
				daemon = null;
			},
			async start() {
				daemon ??= await program.serve();
			},
		},
	};
}

/** Exit codes besides 0 that a command of a page may have here, and why. */
const others: ReadonlyArray<readonly [RegExp, number, string]> = [
	[/^mailctl domain (verify|show)/, 69, 'nobody publishes the records'],
	[/^mailctl webhook test/, 69, 'nothing listens at the endpoint'],
	[/^mailctl smarthost import/, 65, 'there is no file with the key of an account'],
	[/^mailctl template rollback/, 65, 'nobody changed the template, so there is one version'],
];

/** What must exist before the first command of a page. */
const needs: Readonly<Record<string, readonly string[]>> = {
	deliverability: ['mailctl domain add shop.example'],
	dmarc: ['mailctl domain add shop.example'],
	operating: ['mailctl workspace create --name acme', 'mailctl workspace create --name other'],
	queue: ['mailctl template create --name login-code', "mailctl topic create --code news --name 'Monthly news'"],
	templates: [
		'mkdir -p templates/_layouts/main templates/_partials',
		`echo '<mjml><mj-body>{{ content }}</mj-body></mjml>' > templates/_layouts/main/body.mjml`,
		`echo '{{ workspace.name }}' > templates/_partials/footer.liquid`,
	],
	smarthosts: [
		'mailctl workspace create --name acme',
		'mailctl sender add no-reply@shop.example --verified --workspace default',
		'echo smtp://user:pw@three.example:587 > route.txt',
		`echo '{"RecordType":"Bounce","Type":"HardBounce","Email":"ada@example.org"}' > bounce.json`,
	],
};

for (const page of [
	'backup',
	'declared',
	'deliverability',
	'dmarc',
	'domains',
	'going-live',
	'mailboxes',
	'migrating',
	'operating',
	'queue',
	'receiving',
	'simulator',
	'smarthosts',
	'submission',
	'templates',
	'troubleshooting',
	'webhooks',
]) {
	test(`the commands of docs/guide/${page}.md work, in order`, async t => {
		const {shell, daemon} = await startLab(t);
		for (const line of needs[page] ?? []) {
			const {code, said} = await shell(line);
			t.is(code, 0, `${line}: ${said}`);
		}
		const lines = await commandsOf(page);
		t.true(lines.length > 0);
		for (const line of lines) {
			if (line.startsWith('mailctl restore')) {
				await daemon.stop();
			}
			// The pages speak of one workspace; where another one is made for them, commands name the first.
			const named =
				needs[page]?.some(one => one.includes('workspace create')) &&
				/^mailctl (send|smarthost import) /.test(line);
			// On a terminal it asks.
			const sure = line.startsWith('mailctl restore') && !line.includes('--yes');
			const {code, said} = await shell(`${line}${named ? ' --workspace default' : ''}${sure ? ' --yes' : ''}`);
			const [, other] = others.find(([pattern]) => pattern.test(line)) ?? [];
			t.true(code === 0 || code === other, `${line}: exit ${code}, ${said}`);
			await daemon.start();
		}
	});
}
