import {readdir, readFile, writeFile} from 'node:fs/promises';
import {join} from 'node:path';
import test from 'ava';
import {type ParsedMail, simpleParser} from 'mailparser';
import {createTransport, type SendMailOptions} from 'nodemailer';
import {makeCertificate} from '../helpers/certificate.ts';
import {newCli} from '../helpers/cli.ts';
import {prepareProgram, welcomeOf} from '../helpers/daemon.ts';
import {temporaryFolder} from '../helpers/databases.ts';
import {verifyWithDkimpy} from '../helpers/dkimpy.ts';
import {type Service, serviceOf} from '../helpers/service.ts';
import {call} from '../helpers/shop.ts';
import {talkTo} from '../helpers/smtp-talk.ts';
import {waitFor} from '../helpers/wait.ts';

type Running = {
	readonly program: Service['program'];
	readonly url: string;
	/** The sender. */
	readonly from: string;
	/** The DKIM records to publish: TXT records by name. */
	readonly dkim: Readonly<Record<string, string>>;
	/** A key that may submit. */
	readonly key: string;
	/** Submits as a program does: STARTTLS, login, one message. Returns the reply after the final dot. */
	readonly submit: (mail: SendMailOptions) => Promise<string>;
};

type Shown = {
	readonly message: Readonly<Record<string, unknown>>;
	readonly recipients: ReadonlyArray<{readonly address: string; readonly captured: string | null}>;
};

const submitKey = ['key', 'create', '--name', 'gitea', '--scope', 'messages:submit', '--scope', 'messages:read'];
const tls = makeCertificate('mail.shop.example');
/** The program with a certificate for submission, capturing what it delivers. */
const service = serviceOf(test, {
	workspaces: {shop: []},
	async settings(scope) {
		const folder = await temporaryFolder(scope);
		const [cert, key] = [join(folder, 'cert.pem'), join(folder, 'key.pem')];
		await Promise.all([writeFile(cert, tls.cert), writeFile(key, tls.key)]);
		return {
			MAILCTL_PUBLIC_URL: 'https://mail.shop.example',
			MAILCTL_SUBMISSION_LISTEN: '127.0.0.1:0',
			MAILCTL_SUBMISSION_TLS_CERT: cert,
			MAILCTL_SUBMISSION_TLS_KEY: key,
		};
	},
});

let running: Promise<Running> | null = null;

/** The daemon that all tests share; each has its own recipients. */
function start(): Promise<Running> {
	running ??= prepare();
	return running;
}

async function prepare(): Promise<Running> {
	const {program, url, workspaces} = service();
	const from = workspaces.shop?.from ?? '';
	const {key} = await program.cli<{key: string}>(...submitKey);
	type DomainRecord = {readonly name: string; readonly value: string; readonly purpose: string};
	const {records} = await program.cli<{records: DomainRecord[]}>('domain', 'show', 'shop.example');
	const transport = createTransport({
		host: '127.0.0.1',
		port: await submissionPort(program),
		requireTLS: true,
		tls: {ca: tls.cert, servername: 'mail.shop.example'},
		auth: {user: 'gitea', pass: key},
	});
	return {
		...{program, url, from, key},
		dkim: Object.fromEntries(
			records.filter(({purpose}) => purpose === 'dkim').map(({name, value}) => [name, value]),
		),
		submit: async mail => (await transport.sendMail({from, ...mail})).response,
	};
}

async function submissionPort({folder}: Pick<Service['program'], 'folder'>): Promise<number> {
	const {submission} = JSON.parse(await readFile(join(folder, 'data/daemon.json'), 'utf8'));
	return Number(submission.split(':')[1]);
}

/** The message and its captured content once it is delivered. */
async function deliveredOf(
	{program, url, key}: Pick<Running, 'program' | 'url' | 'key'>,
	id: string,
): Promise<Shown & {bytes: Buffer; mail: ParsedMail}> {
	await waitFor('it is delivered', async () => {
		const {body} = await call(`${url}/v1/messages/${id}`, key);
		return (body as {status: string}).status === 'delivered';
	});
	const shown = await program.cli<Shown>('message', 'show', id);
	const bytes = await readFile(shown.recipients[0]?.captured as string);
	return {...shown, bytes, mail: await simpleParser(bytes)};
}

const idOf = (response: string) => /msg_[0-9a-z]{26}/.exec(response)?.[0] ?? response;

/** The messages to a person, the newest first. */
async function idsTo({url, key}: Running, to: string): Promise<string[]> {
	const {body} = await call(`${url}/v1/messages?recipient=${to}`, key);
	return (body as {data: Array<{id: string}>}).data.map(({id}) => id);
}

test('delivers a submitted message unchanged and signed, as one message for each recipient', async t => {
	const running = await start();
	const response = await running.submit({
		from: `"Gitea, Größe" <${running.from}>`,
		to: 'Ann <ann@recipient.example>',
		bcc: 'hidden@recipient.example',
		replyTo: 'help@shop.example',
		subject: 'Grüße aus dem Laden',
		messageId: '<thread-1@gitea.example>',
		text: 'Schöne Grüße\n.\nvon uns',
		html: '<p>Schöne <b>Grüße</b></p>',
		textEncoding: 'quoted-printable',
		attachments: [{filename: 'größe.txt', content: 'x'.repeat(2000)}],
		headers: {'X-Mailctl-Tag': 'ci', 'X-Mailctl-Metadata-Order-Id': '1042'},
	});
	t.regex(response, /^250 2\.0\.0 Ok msg_[0-9a-z]{26} and 1 more$/);
	const {message, recipients, bytes, mail} = await deliveredOf(running, idOf(response));
	t.like(message, {
		to: 'ann@recipient.example',
		from: running.from,
		reply_to: 'help@shop.example',
		cc: [],
		attachments: [],
		subject: 'Grüße aus dem Laden',
		template_name: 'submission',
		template_version: 1,
		data: {},
		metadata: {order_id: '1042', tag: 'ci'},
		tags: ['ci'],
	});
	t.is(recipients.length, 1);
	t.is(mail.from?.text, `"Gitea, Größe" <${running.from}>`);
	t.is(mail.messageId, '<thread-1@gitea.example>');
	t.is(mail.text?.trim(), 'Schöne Grüße\n.\nvon uns');
	t.is(mail.html, '<p>Schöne <b>Grüße</b></p>');
	t.deepEqual(
		mail.attachments.map(({filename, size}) => [filename, size]),
		[['größe.txt', 2000]],
	);
	t.notRegex(bytes.toString('latin1'), /hidden@|^bcc:|^x-mailctl-(?!ref)/im);
	t.regex(bytes.toString('latin1'), /^Received: by \S+ \(mailctl\) with ESMTPSA;/m);
	t.regex(bytes.toString('latin1'), /^List-Unsubscribe: <https:\/\/mail\.shop\.example\/unsubscribe\?token=/m);

	t.deepEqual(await idsTo(running, 'ann@recipient.example'), [idOf(response)]);
	const [hiddenId = ''] = await idsTo(running, 'hidden@recipient.example');
	const hidden = await deliveredOf(running, hiddenId);
	t.false(hidden.bytes.toString('latin1').includes('hidden@'), 'nor in its own copy');
	for (const signatures of (await verifyWithDkimpy(t, [bytes, hidden.bytes], running.dkim)) ?? []) {
		t.deepEqual(
			signatures.map(({valid}) => valid),
			[true, true],
		);
	}
	const {body: content} = await call(`${running.url}/v1/messages/${idOf(response)}/content`, running.key);
	t.like(content, {subject: 'Grüße aus dem Laden', html: '<p>Schöne <b>Grüße</b></p>'});
	t.true((await running.program.cliBytes('message', 'raw', hiddenId)).equals(hidden.bytes));

	const again = await running.program.cli<{id: string}>('message', 'resend', idOf(response));
	const resent = await deliveredOf(running, again.id);
	t.is(resent.mail.messageId, '<thread-1@gitea.example>');
	t.is(resent.message.resent_from, idOf(response));
});

test('converts 8-bit messages with long lines to 7-bit, and adds missing headers', async t => {
	const running = await start();
	const raw = [
		`From: ${running.from}`,
		'Subject: Größe',
		'List-Unsubscribe: <https://own.example/>',
		'',
		`Grüße ${'x'.repeat(2000)}`,
		'',
	];
	const response = await running.submit({
		envelope: {from: 'any@where.example', to: 'ben@recipient.example'},
		raw: Buffer.from(raw.join('\r\n'), 'utf8'),
	});
	const {bytes, mail} = await deliveredOf(running, idOf(response));
	t.notRegex(bytes.toString('latin1'), /[^\x00-\x7f]|[^\r\n]{999}/);
	t.is(mail.subject, 'Größe');
	t.is(mail.text?.trim(), `Grüße ${'x'.repeat(2000)}`);
	t.regex(mail.messageId ?? '', /^<m\w{44}@shop\.example>$/);
	t.true(mail.date instanceof Date);
	t.deepEqual(bytes.toString('latin1').match(/^List-Unsubscribe.*$/gm), ['List-Unsubscribe: <https://own.example/>']);
	for (const signatures of (await verifyWithDkimpy(t, [bytes], running.dkim)) ?? []) {
		t.true(signatures.every(({valid}) => valid));
	}
});

test('after a one-click unsubscribe from the topic of a submitted message, the next one is refused', async t => {
	const running = await start();
	await running.program.cli('topic', 'create', '--code', 'news', '--name', 'News');
	const mail = {
		to: 'cas@recipient.example',
		subject: 'News',
		text: 'news',
		headers: {'X-Mailctl-Topic': 'news', 'List-Unsubscribe': '<https://own.example/>'},
	};
	const {bytes} = await deliveredOf(running, idOf(await running.submit(mail)));
	const [link = '', ...others] = bytes.toString('latin1').match(/(?<=^List-Unsubscribe: <)[^>]+/gm) ?? [];
	t.deepEqual(others, [], 'ours is the only one');
	const clicked = await fetch(link.replace('https://mail.shop.example', running.url), {
		method: 'POST',
		headers: {'content-type': 'application/x-www-form-urlencoded'},
		body: 'List-Unsubscribe=One-Click',
	});
	t.is(clicked.status, 200);
	await t.throwsAsync(running.submit(mail), {message: /550 5\.7\.1 cas@recipient\.example has unsubscribed/});
	t.regex(await running.submit({...mail, headers: {}}), /^250 /, 'without the topic it is another mail');
});

/**
 * Erases the recipient of this message. An erasure that takes longer than a second hides the message until it has
 * finished.
 */
async function erase({program, url, key}: Running, address: string, messageId: string): Promise<void> {
	await program.cli('contact', 'erase', address, '--yes');
	await waitFor('the erasure', async () => (await call(`${url}/v1/messages/${messageId}`, key)).status === 200);
}

test('erasing a person removes them from submitted messages and keeps the rest for other recipients', async t => {
	const running = await start();
	const to = 'dan@recipient.example';
	const id = idOf(await running.submit({to, subject: 'For your eyes', text: 'secret words'}));
	await deliveredOf(running, id);
	await running.submit({to: `Dan <${to}>, bob@recipient.example`, cc: 'eve@recipient.example', text: 'hello'});
	const [others = ''] = await idsTo(running, 'bob@recipient.example');
	const [captured = ''] = (await deliveredOf(running, others)).recipients.map(recipient => recipient.captured);
	await erase(running, to, id);
	const {message} = await running.program.cli<Shown>('message', 'show', id);
	t.like(message, {to: 'erased@erased.invalid', subject: null, attachments: []});
	const raw = String(await running.program.cliBytes('message', 'raw', id));
	t.notRegex(raw, /secret words|For your eyes|dan@/);
	const rest = String(await running.program.cliBytes('message', 'raw', others));
	t.notRegex(rest, /dan@/i);
	t.regex(rest, /^To: undisclosed-recipients:;\r\nCc: eve@recipient\.example\r$/m);
	t.regex(rest, /\r\nhello/);
	await t.throwsAsync(readFile(captured as string), {code: 'ENOENT'});
});

test('finds every message of a submission by its own Message-ID until it is erased', async t => {
	const running = await start();
	const [to, other] = ['fay@recipient.example', 'gus@recipient.example'];
	const mail = {subject: 'Run 7', text: 'failed', messageId: '<run-7@gitea.example>'};
	await running.submit({...mail, to: `${to}, ${other}`});
	await running.submit({...mail, messageId: '<run-8@gitea.example>', to});
	const [last = '', first] = await idsTo(running, to);
	const [second] = await idsTo(running, other);
	const byApi = async (messageId: string) => {
		const {body} = await call(`${running.url}/v1/messages?messageId=${encodeURIComponent(messageId)}`, running.key);
		return (body as {data: Array<{id: string}>}).data.map(({id}) => id);
	};
	const byCommand = async (messageId: string) =>
		(await running.program.cli<Array<{id: string}>>('message', 'list', '--message-id', messageId)).map(
			({id}) => id,
		);
	for (const found of [byApi, byCommand]) {
		t.deepEqual(await found('<run-7@gitea.example>'), [second, first]);
		t.deepEqual(await found('run-8@gitea.example'), [last]);
		t.deepEqual(await found('<run-9@gitea.example>'), []);
	}
	await erase(running, to, last);
	t.deepEqual(await byApi('<run-8@gitea.example>'), []);
	t.is((await byCommand('<run-7@gitea.example>')).length, 1);
});

test('lists mark the template of submitted mail as built in, and template pull leaves it out', async t => {
	const running = await start();
	const {cli, folder} = running.program;
	await running.submit({to: 'hal@recipient.example', text: 'x'});
	const templates = await cli<Array<{id: string; name: string; built_in: boolean}>>('template', 'list');
	t.deepEqual(
		templates.map(one => [one.name, one.built_in]),
		[
			['submission', true],
			['plain', false],
		],
	);
	await cli('template', 'pull', 'pulled');
	t.deepEqual(await readdir(join(folder, 'pulled')), ['plain']);
});

test('on SIGTERM during a submission, stores and acknowledges it, and sends it after the restart', async t => {
	const program = await prepareProgram(t, {MAILCTL_SUBMISSION_LISTEN: '127.0.0.1:0'});
	const first = await program.serve();
	const {from} = await welcomeOf(program);
	const {key} = await program.cli<{key: string}>(...submitKey);
	const talk = await talkTo(t, await submissionPort(program));
	await talk.reply();
	await talk.say('EHLO peer.example');
	await talk.say(`AUTH PLAIN ${Buffer.from(`\0x\0${key}`).toString('base64')}`);
	await talk.say('MAIL FROM:<a@where.example>');
	await talk.say('RCPT TO:<ann@recipient.example>');
	await talk.say('DATA');
	talk.send(`From: ${from}\r\nSubject: late\r\n\r\n`);
	const ended = first.stop();
	await waitFor('it takes nothing new', async () => !(await fetch(`${first.url}/healthz`).catch(() => null)));
	const reply = await talk.say('body\r\n.');
	t.regex(reply, /^250 2\.0\.0 Ok msg_/);
	t.is(await ended, 0);
	const {url} = await program.serve();
	const {message} = await deliveredOf({program, url, key}, idOf(reply));
	t.is(message.subject, 'late');
});

test('refuses settings that would let keys be sent unencrypted', async t => {
	const cli = await newCli(t, {MAILCTL_SUBMISSION_LISTEN: '127.0.0.1:2525,0.0.0.0:587'});
	const {code, stderr} = await cli.run('config', 'check');
	t.is(code, 78);
	t.regex(stderr, /MAILCTL_SUBMISSION_LISTEN names 0\.0\.0\.0:587, which needs TLS: set MAILCTL_SUBMISSION_TLS_CERT/);
});
