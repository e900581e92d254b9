import {createHash, randomBytes} from 'node:crypto';
import test from 'ava';
import {createTransport, type Transporter} from 'nodemailer';
import {startPostfix} from '../helpers/peers/postfix.ts';
import {waitFor} from '../helpers/wait.ts';

/**
 * Twenty messages with every kind of byte that a server might touch: dots, long lines, trailing blanks, binary parts.
 */
function sampleMails(): Map<string, Buffer> {
	const mails = new Map<string, Buffer>();
	for (let n = 0; n < 20; n++) {
		const lines = [
			'From: Shop <no-reply@shop.example>',
			`To: user${n}@mail.example`,
			`Subject: =?utf-8?Q?Gr=C3=BC=C3=9Fe_${n}?=`,
			`Message-ID: <${n}.${randomBytes(6).toString('hex')}@shop.example>`,
			'MIME-Version: 1.0',
			'Content-Type: text/plain; charset=utf-8',
			'Content-Transfer-Encoding: base64',
			'',
			'.',
			'..',
			'.leading dot',
			'From the first column',
			'blanks at the end \t ',
			'x'.repeat(990),
			'',
			...(randomBytes(n * 1000)
				.toString('base64')
				.match(/.{1,76}/g) ?? []),
			'',
		];
		mails.set(`user${n}@mail.example`, Buffer.from(`${lines.join('\r\n')}\r\n`));
	}

	return mails;
}

async function sendAll(client: Transporter, mails: Map<string, Buffer>): Promise<void> {
	for (const [to, raw] of mails) {
		await client.sendMail({envelope: {from: 'bounce@shop.example', to}, raw});
	}

	client.close();
}

const hash = (bytes: Buffer) => createHash('sha256').update(bytes).digest('hex');

test('Postfix as MX stores messages byte for byte in Maildirs', async t => {
	const mails = sampleMails();
	const addresses = [...mails.keys()];
	const mx = await startPostfix(t, {
		hostname: 'mx.mail.example',
		domains: ['mail.example'],
		mailboxes: addresses.slice(0, 10),
	});
	if (!mx) {
		return;
	}

	const client = createTransport({
		host: '127.0.0.1',
		port: mx.port,
		pool: true,
		requireTLS: true,
		tls: {rejectUnauthorized: false},
	});
	await sendAll(client, mails);
	await waitFor('all mails lie in Maildirs', async () => (await mx.count()) === mails.size);

	const stored = await mx.mails();
	t.deepEqual(stored.map(mail => mail.deliveredTo).sort(), [...addresses].sort());
	for (const mail of stored) {
		t.is(hash(mail.bytes), hash(mails.get(mail.deliveredTo) ?? Buffer.alloc(0)), mail.deliveredTo);
		t.is(mail.returnPath, 'bounce@shop.example');
		t.regex(mail.received[0] ?? '', /with ESMTPS/);
		const owner = addresses.indexOf(mail.deliveredTo) < 10 ? mail.deliveredTo : 'everyone';
		t.true(mail.file.startsWith(`${mx.maildir(owner)}/`), mail.file);
	}
});

test('Postfix as MX refuses to relay', async t => {
	const mx = await startPostfix(t, {hostname: 'mx.mail.example', domains: ['mail.example']});
	if (!mx) {
		return;
	}

	const client = createTransport({host: '127.0.0.1', port: mx.port, tls: {rejectUnauthorized: false}});
	await t.throwsAsync(
		client.sendMail({envelope: {from: 'a@shop.example', to: 'a@other.example'}, raw: 'Subject: x\r\n\r\nx\r\n'}),
		{
			message: /Relay access denied/,
		},
	);
	client.close();
});

test('Postfix as relay requires STARTTLS and the password, and relays messages', async t => {
	const mails = sampleMails();
	const mx = await startPostfix(t, {hostname: 'mx.mail.example', domains: ['mail.example']});
	const auth = {user: 'mailctl', password: 'pa ss:w@rd/ü'};
	const smarthost = mx && (await startPostfix(t, {hostname: 'smtp.provider.example', auth, relayTo: mx.port}));
	if (!smarthost) {
		return;
	}

	const smtp = {host: '127.0.0.1', port: smarthost.port, tls: {rejectUnauthorized: false}};
	const raw = 'Subject: x\r\n\r\nx\r\n';
	const envelope = {from: 'a@shop.example', to: 'user0@mail.example'};
	await t.throwsAsync(createTransport({...smtp, auth: {user: 'mailctl', pass: 'wrong'}}).sendMail({envelope, raw}), {
		code: 'EAUTH',
		message: /535/,
	});
	await t.throwsAsync(createTransport(smtp).sendMail({envelope, raw}), {message: /Access denied/});
	await t.throwsAsync(
		createTransport({...smtp, ignoreTLS: true, auth: {user: auth.user, pass: auth.password}}).sendMail({
			envelope,
			raw,
		}),
		{message: /Access denied/},
	);

	for (const authMethod of ['PLAIN', 'LOGIN']) {
		const client = createTransport({
			...smtp,
			pool: true,
			requireTLS: true,
			authMethod,
			auth: {user: auth.user, pass: auth.password},
		});
		await sendAll(client, mails);
	}

	await waitFor('all mails lie in Maildirs', async () => (await mx.count()) === 2 * mails.size);
	for (const mail of await mx.mails()) {
		t.is(hash(mail.bytes), hash(mails.get(mail.deliveredTo) ?? Buffer.alloc(0)), mail.deliveredTo);
		t.is(mail.received.length, 2);
		t.regex(mail.received[1] ?? '', /with ESMTPSA/);
	}
});
