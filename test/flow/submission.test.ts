import {readdir, readFile, writeFile} from 'node:fs/promises';
import {join} from 'node:path';
import test, {type ExecutionContext} from 'ava';
import {type ParsedMail, simpleParser} from 'mailparser';
import {createTransport, type SendMailOptions} from 'nodemailer';
import {makeCertificate} from '../helpers/certificate.ts';
import {type Daemon, type Program, prepareProgram} from '../helpers/daemon.ts';
import {verifyWithDkimpy} from '../helpers/dkimpy.ts';
import {call, openShop, type Shop} from '../helpers/shop.ts';
import {talkTo} from '../helpers/smtp-talk.ts';
import {waitFor} from '../helpers/wait.ts';

type Running = {
	readonly program: Program;
	readonly shop: Shop;
	readonly daemon: Daemon;
	readonly port: number;
	/** A key that may submit. */
	readonly key: string;
	/** Submits as a program does: STARTTLS, log-in, one mail. Answers the reply after the dot. */
	readonly submit: (mail: SendMailOptions) => Promise<string>;
};

type Shown = {
	readonly message: Readonly<Record<string, unknown>>;
	readonly recipients: ReadonlyArray<{readonly address: string; readonly captured: string | null}>;
};

/** The program with a certificate for submission, capturing what it delivers. */
async function start(t: ExecutionContext): Promise<Running> {
	const program = await prepareProgram(t, {MAILCTL_PUBLIC_URL: 'https://mail.shop.example'});
	const tls = makeCertificate('mail.shop.example');
	const [cert, key] = [join(program.folder, 'cert.pem'), join(program.folder, 'key.pem')];
	await Promise.all([writeFile(cert, tls.cert), writeFile(key, tls.key)]);
	const shop = await openShop(program, 'test/fixtures/flow/templates');
	const made = await program.cli<{key: string}>(
		...['key', 'create', '--name', 'gitea', '--scope', 'messages:submit', '--scope', 'messages:read'],
	);
	const daemon = await program.serve({
		MAILCTL_SUBMISSION_LISTEN: '127.0.0.1:0',
		MAILCTL_SUBMISSION_TLS_CERT: cert,
		MAILCTL_SUBMISSION_TLS_KEY: key,
	});
	const {submission} = JSON.parse(await readFile(join(program.folder, 'data/daemon.json'), 'utf8'));
	const port = Number(submission.split(':')[1]);
	const transport = createTransport({
		host: '127.0.0.1',
		port,
		requireTLS: true,
		tls: {ca: tls.cert, servername: 'mail.shop.example'},
		auth: {user: 'gitea', pass: made.key},
	});
	const submit = async (mail: SendMailOptions) => (await transport.sendMail({from: shop.from, ...mail})).response;
	return {program, shop, daemon, port, key: made.key, submit};
}

/** The message and its mail, once it is delivered. */
async function deliveredOf(
	{program, daemon, key}: Running,
	id: string,
): Promise<Shown & {bytes: Buffer; mail: ParsedMail}> {
	await waitFor('it is delivered', async () => {
		const {body} = await call(`${daemon.url}/v1/messages/${id}`, key);
		return (body as {status: string}).status === 'delivered';
	});
	const shown = await program.cli<Shown>('message', 'show', id);
	const bytes = await readFile(shown.recipients[0]?.captured as string);
	return {...shown, bytes, mail: await simpleParser(bytes)};
}

const idOf = (response: string) => /msg_[0-9a-z]{26}/.exec(response)?.[0] ?? response;

async function listed({daemon, key}: Running): Promise<Array<{id: string; to: string}>> {
	const {body} = await call(`${daemon.url}/v1/messages`, key);
	return (body as {data: Array<{id: string; to: string}>}).data;
}

test('a program submits a mail: as it wrote it, signed, a message for each recipient', async t => {
	const running = await start(t);
	const response = await running.submit({
		from: `"Gitea, Größe" <${running.shop.from}>`,
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
		from: running.shop.from,
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
	t.is(mail.from?.text, `"Gitea, Größe" <${running.shop.from}>`);
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

	const all = await listed(running);
	t.deepEqual(all.map(({to}) => to).toSorted(), ['ann@recipient.example', 'hidden@recipient.example']);
	const hidden = await deliveredOf(running, all.find(({to}) => to.startsWith('hidden'))?.id ?? '');
	t.false(hidden.bytes.toString('latin1').includes('hidden@'), 'nor in its own copy');
	for (const signatures of (await verifyWithDkimpy(t, [bytes, hidden.bytes], running.shop.dkim)) ?? []) {
		t.deepEqual(
			signatures.map(({valid}) => valid),
			[true, true],
		);
	}
	const {body: content} = await call(`${running.daemon.url}/v1/messages/${idOf(response)}/content`, running.key);
	t.like(content, {subject: 'Grüße aus dem Laden', html: '<p>Schöne <b>Grüße</b></p>'});
	const raw = await running.program.cliBytes('message', 'raw', all[0]?.id ?? '');
	t.true(raw.equals(all[0]?.to.startsWith('hidden') ? hidden.bytes : bytes));

	const again = await running.program.cli<{id: string}>('message', 'resend', idOf(response));
	const resent = await deliveredOf(running, again.id);
	t.is(resent.mail.messageId, '<thread-1@gitea.example>');
	t.is(resent.message.resent_from, idOf(response));
});

test('8-bit mail and long lines leave as 7-bit in short ones; what a mail lacks is added', async t => {
	const running = await start(t);
	const raw = [
		`From: ${running.shop.from}`,
		'Subject: Größe',
		'List-Unsubscribe: <https://own.example/>',
		'',
		`Grüße ${'x'.repeat(2000)}`,
		'',
	];
	const response = await running.submit({
		envelope: {from: 'any@where.example', to: 'ann@recipient.example'},
		raw: Buffer.from(raw.join('\r\n'), 'utf8'),
	});
	const {bytes, mail} = await deliveredOf(running, idOf(response));
	t.notRegex(bytes.toString('latin1'), /[^\x00-\x7f]|[^\r\n]{999}/);
	t.is(mail.subject, 'Größe');
	t.is(mail.text?.trim(), `Grüße ${'x'.repeat(2000)}`);
	t.regex(mail.messageId ?? '', /^<m\w{44}@shop\.example>$/);
	t.true(mail.date instanceof Date);
	t.deepEqual(bytes.toString('latin1').match(/^List-Unsubscribe.*$/gm), ['List-Unsubscribe: <https://own.example/>']);
	for (const signatures of (await verifyWithDkimpy(t, [bytes], running.shop.dkim)) ?? []) {
		t.true(signatures.every(({valid}) => valid));
	}
});

test('a topic: one click on the mail’s own link, and the next one is refused', async t => {
	const running = await start(t);
	await running.program.cli('topic', 'create', '--code', 'news', '--name', 'News');
	const mail = {
		to: 'ann@recipient.example',
		subject: 'News',
		text: 'news',
		headers: {'X-Mailctl-Topic': 'news', 'List-Unsubscribe': '<https://own.example/>'},
	};
	const {bytes} = await deliveredOf(running, idOf(await running.submit(mail)));
	const [link = '', ...others] = bytes.toString('latin1').match(/(?<=^List-Unsubscribe: <)[^>]+/gm) ?? [];
	t.deepEqual(others, [], 'ours is the only one');
	const clicked = await fetch(link.replace('https://mail.shop.example', running.daemon.url), {
		method: 'POST',
		headers: {'content-type': 'application/x-www-form-urlencoded'},
		body: 'List-Unsubscribe=One-Click',
	});
	t.is(clicked.status, 200);
	await t.throwsAsync(running.submit(mail), {message: /550 5\.7\.1 ann@recipient\.example has unsubscribed/});
	t.regex(await running.submit({...mail, headers: {}}), /^250 /, 'without the topic it is another mail');
});

/** Erases a person, to whom this message is. What takes longer than a second is hidden at first, and shown again when it is over. */
async function erase({program}: Running, address: string, messageId: string): Promise<void> {
	await program.cli('contact', 'erase', address, '--yes');
	const isShown = async () => (await program.run('message', 'show', messageId)).code === 0;
	await waitFor('the erasure', isShown);
}

test('an erased person leaves nothing of a submitted mail', async t => {
	const running = await start(t);
	const mail = {to: 'ann@recipient.example', subject: 'For your eyes', text: 'secret words'};
	const id = idOf(await running.submit(mail));
	await deliveredOf(running, id);
	await erase(running, 'ann@recipient.example', id);
	const {message} = await running.program.cli<Shown>('message', 'show', id);
	t.like(message, {to: 'erased@erased.invalid', subject: null, attachments: []});
	const raw = String(await running.program.cliBytes('message', 'raw', id));
	t.notRegex(raw, /secret words|For your eyes|ann@/);
});

test('nor of one that others got too: To and Cc that named it are gone, the rest stays', async t => {
	const running = await start(t);
	const mail = {to: 'Ann <ann@recipient.example>, bob@recipient.example', cc: 'eve@recipient.example', text: 'hello'};
	await running.submit(mail);
	const messages = await listed(running);
	const idTo = (name: string) => messages.find(({to}) => to.startsWith(name))?.id ?? '';
	const id = idTo('bob');
	const [captured = ''] = (await deliveredOf(running, id)).recipients.map(recipient => recipient.captured);
	await erase(running, 'ann@recipient.example', idTo('ann'));
	const raw = String(await running.program.cliBytes('message', 'raw', id));
	t.notRegex(raw, /ann@/i);
	t.regex(raw, /^To: undisclosed-recipients:;\r\nCc: eve@recipient\.example\r$/m);
	t.regex(raw, /\r\nhello/);
	await t.throwsAsync(readFile(captured as string), {code: 'ENOENT'});
});

test('a mail is found by its own Message-ID, each of its messages, until it is erased', async t => {
	const running = await start(t);
	const {cli} = running.program;
	const mail = {subject: 'Run 7', text: 'failed', messageId: '<run-7@gitea.example>'};
	await running.submit({...mail, to: 'ann@recipient.example, bob@recipient.example'});
	await running.submit({...mail, messageId: '<run-8@gitea.example>', to: 'ann@recipient.example'});
	const all = await listed(running);
	const [, second, first] = all.map(({id}) => id);
	const byApi = async (messageId: string) => {
		const {body} = await call(
			`${running.daemon.url}/v1/messages?messageId=${encodeURIComponent(messageId)}`,
			running.key,
		);
		return (body as {data: Array<{id: string}>}).data.map(({id}) => id);
	};
	const byCommand = async (messageId: string) =>
		(await cli<Array<{id: string}>>('message', 'list', '--message-id', messageId)).map(({id}) => id);
	for (const found of [byApi, byCommand]) {
		t.deepEqual(await found('<run-7@gitea.example>'), [second, first]);
		t.deepEqual(await found('run-8@gitea.example'), [all[0]?.id]);
		t.deepEqual(await found('<run-9@gitea.example>'), []);
	}
	await erase(running, 'ann@recipient.example', all[0]?.id ?? '');
	t.deepEqual(await byApi('<run-8@gitea.example>'), []);
	t.is((await byCommand('<run-7@gitea.example>')).length, 1);
});

test('lists mark the template of submitted mail as built in, and template pull leaves it out', async t => {
	const running = await start(t);
	const {cli, folder} = running.program;
	await running.submit({to: 'ann@recipient.example', text: 'x'});
	const templates = await cli<Array<{id: string; name: string; built_in: boolean}>>('template', 'list');
	t.deepEqual(
		templates.filter(one => one.built_in).map(({id, name}) => [id, name]),
		[['tpl_submission', 'submission']],
	);
	t.true(templates.length > 1);
	await cli('template', 'pull', 'pulled');
	t.deepEqual(
		(await readdir(join(folder, 'pulled'))).toSorted(),
		templates
			.filter(one => !one.built_in)
			.map(({name}) => name)
			.toSorted(),
	);
});

test('SIGTERM while a mail is on its way: it is stored and answered, and sent after the restart', async t => {
	const running = await start(t);
	const talk = await talkTo(t, running.port);
	await talk.reply();
	await talk.say('EHLO peer.example');
	await talk.say(`AUTH PLAIN ${Buffer.from(`\0x\0${running.key}`).toString('base64')}`);
	await talk.say('MAIL FROM:<a@where.example>');
	await talk.say('RCPT TO:<ann@recipient.example>');
	await talk.say('DATA');
	talk.send(`From: ${running.shop.from}\r\nSubject: late\r\n\r\n`);
	const ended = running.daemon.stop();
	await waitFor('it takes nothing new', async () => !(await fetch(`${running.daemon.url}/healthz`).catch(() => null)));
	const reply = await talk.say('body\r\n.');
	t.regex(reply, /^250 2\.0\.0 Ok msg_/);
	t.is(await ended, 0);
	const daemon = await running.program.serve();
	const {message} = await deliveredOf({...running, daemon}, idOf(reply));
	t.is(message.subject, 'late');
});

test('settings that would let keys go unencrypted end the start', async t => {
	const program = await prepareProgram(t, {MAILCTL_SUBMISSION_LISTEN: '127.0.0.1:2525,0.0.0.0:587'});
	const {code, stderr} = await program.run('config', 'check');
	t.is(code, 78);
	t.regex(stderr, /MAILCTL_SUBMISSION_LISTEN names 0\.0\.0\.0:587, which needs TLS: set MAILCTL_SUBMISSION_TLS_CERT/);
});
