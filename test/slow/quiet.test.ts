import test from 'ava';
import {prepareProgram, welcomeOf} from '../helpers/daemon.ts';
import {startFakeMx} from '../helpers/fake-mx.ts';
import {call} from '../helpers/shop.ts';
import {waitFor} from '../helpers/wait.ts';

test('never prints or logs a secret, whatever fails', async t => {
	const relay = await startFakeMx(t, {extensions: ['AUTH PLAIN'], auth: line => `535 5.7.8 I do not know ${line}`});
	const mailbox = await startFakeMx(t); // No IMAP server: it says what nobody expects.
	const passwords = {
		relay: 'relay-hunter2',
		mailbox: 'mailbox-hunter2',
		variable: 'variable-hunter2',
		token: 'token-hunter2',
	};
	const program = await prepareProgram(t, {
		MAILCTL_DELIVERY: 'relay',
		MAILCTL_RELAY_URL: `smtp://user:${passwords.relay}@127.0.0.1:${relay.port}?tls=none`,
		MAILCTL_BOUNCE_MAILBOX: `imap://user:${passwords.mailbox}@127.0.0.1:${mailbox.port}/INBOX?tls=none`,
		MAILCTL_HOSTNAME: 'mail.shop.example',
		MAILCTL_LOG_LEVEL: 'trace',
	});
	const daemon = await program.serve();
	const {key, from, templateId} = await welcomeOf(program);
	const {secret} = await program.cli<{secret: string}>(
		...['webhook', 'add', `https://hooks.shop.example/${passwords.token}`, '--event', 'delivered'],
	);
	const send = (bearer: string, data: object) =>
		call(`${daemon.url}/v1/messages`, bearer, {from, to: 'ann@a.example', templateId, data});
	const sent = await send(key, {name: passwords.variable});
	t.is(sent.status, 202, JSON.stringify(sent.body));
	const wrongKey = `${key.slice(0, -1)}${key.endsWith('0') ? '1' : '0'}`;
	t.is((await send(wrongKey, {})).status, 401);
	for (const path of ['unsubscribe', 't/o', 't/c', 'v1/messages']) {
		await fetch(`${daemon.url}/${path}/${passwords.token}?key=${passwords.token}`);
	}
	await waitFor('the relay refuses us', async () => /route_stopped/.test(await program.log()));
	await waitFor('the mailbox fails', async () => /mailbox_failed/.test(await program.log()));

	const printed = [];
	for (const command of [
		['config', 'show'],
		['config', 'show', '--json'],
		['config', 'check'],
		['doctor'],
		['workspace', 'show'],
		['webhook', 'list'],
		['key', 'list', '--json'],
		['queue', 'why', 'a.example'],
		['serve'],
	]) {
		const {stdout, stderr} = await program.run(...command);
		printed.push(`${command.join(' ')}\n${stdout}${stderr}`);
	}
	t.is(await daemon.stop(), 0);
	printed.push(await program.log());
	const {token, ...others} = passwords;
	const base64 = Object.values(others).map(password => Buffer.from(`\0user\0${password}`).toString('base64'));
	for (const word of [...Object.values(others), ...base64, key, wrongKey, secret]) {
		for (const text of printed) {
			t.false(text.includes(word), `${word} in ${text.slice(0, 4000)}`);
		}
	}
	// The URL of an endpoint is shown to who may list it, and never logged.
	t.false(printed.at(-1)?.includes(token));
});
