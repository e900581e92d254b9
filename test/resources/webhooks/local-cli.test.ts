import {spawn} from 'node:child_process';
import {createHmac} from 'node:crypto';
import {once} from 'node:events';
import {resolve} from 'node:path';
import process from 'node:process';
import test, {type ExecutionContext} from 'ava';
import {type Cli, newCli, refused} from '../../helpers/cli.ts';
import {type Received, startReceiver} from '../../helpers/receiver.ts';
import {waitFor} from '../../helpers/wait.ts';

type Endpoint = {readonly id: string; readonly url: string; readonly signing_secret: string};
type Line = Endpoint & {readonly type?: string; readonly message_id?: string; readonly status?: number | null};

async function prepare(t: ExecutionContext, settings: Readonly<Record<string, string>> = {}): Promise<Cli> {
	const cli = await newCli(t, settings);
	await cli.json('init');
	return cli;
}

/** Sends with a test key, whose messages never leave the machine. */
async function send(cli: Cli, to: string): Promise<string> {
	const sent = await cli.json<{id: string}>(
		...['send', '--from', 'hello@example.com', '--to', to, '--template', 'sample', '--mode', 'test'],
	);
	return sent.id;
}

function isAuthentic({headers, body}: Received, secret: string): boolean {
	const mac = createHmac('sha256', secret).update(`${headers['x-webhook-timestamp']}.`).update(body).digest('hex');
	return headers['x-webhook-signature'] === `sha256=${mac}`;
}

test('in capture mode posts events to http://localhost:PORT, listening on 127.0.0.1 or ::1', async t => {
	const cli = await prepare(t);
	await cli.serve();
	for (const [host, to] of [
		['127.0.0.1', 'delivered+1@simulator.test'],
		['::1', 'delivered+2@simulator.test'],
	] as const) {
		const receiver = await startReceiver(t, null, {host});
		const url = `http://localhost:${receiver.port}/hooks?key=1`;
		const added = await cli.json<Endpoint>('webhook', 'add', url, '--event', 'delivered');
		t.is(added.url, url);
		const id = await send(cli, to);
		await receiver.count(1);
		const [first] = receiver.received as [Received];
		t.like(first, {method: 'POST', path: '/hooks?key=1'});
		t.like(JSON.parse(first.body.toString()), {type: 'delivered', message_id: id});
		t.true(isAuthentic(first, added.signing_secret));
		t.like(await cli.json('webhook', 'test', added.id), {acknowledged: true, status: 204, tls: null});
	}
});

test('outside capture mode rejects a local endpoint and names the settings that allow one', async t => {
	const cli = await prepare(t, {MAILCTL_DELIVERY: 'relay', MAILCTL_RELAY_URL: 'smtp://127.0.0.1:9'});
	const add = (url: string) => cli.run('webhook', 'add', url, '--event', 'delivered');
	const both = /capture mode \(MAILCTL_DELIVERY=capture\) http:\/\/localhost:PORT.*MAILCTL_WEBHOOK_ALLOW_CIDRS/;
	refused(t, await add('http://localhost:3000/'), 65, both);
	refused(t, await add('https://127.0.0.1:3000/'), 65, both);
});

test('webhook listen forwards signed events as they happen until Ctrl-C, in any delivery mode', async t => {
	const answers = [204, 500, 204];
	const receiver = await startReceiver(t, null, {
		answer: (_received, response) => void response.writeHead(answers.shift() ?? 204).end(),
	});
	const cli = await prepare(t, {
		...{MAILCTL_DELIVERY: 'relay', MAILCTL_RELAY_URL: 'smtp://127.0.0.1:9', MAILCTL_HOSTNAME: 'mail.shop.example'},
	});
	refused(t, await cli.run('webhook', 'listen', '--forward-to', 'localhost:3000'), 64, /use a URL such as http/);
	await cli.json('sender', 'add', 'hello@example.com', '--verified');
	await cli.serve();
	const url = `http://127.0.0.1:${receiver.port}/hooks`;
	const listening = cli.follow<Line>('webhook', 'listen', '--forward-to', url, '--event', 'delivered,bounced');
	const [begin] = await waitFor('it listens', () => listening.lines.length > 0 && listening.lines);
	t.like(begin, {forward_to: url, events: ['delivered', 'bounced']} as object);
	t.like(await cli.json<Endpoint[]>('webhook', 'list'), [{url: `listen+${url}`}]);
	t.notRegex(await cli.text('export'), /listen\+/);

	const ids = [];
	for (const name of ['delivered', 'bounced+1', 'delivered+2']) {
		ids.push(await send(cli, `${name}@simulator.test`));
		await waitFor('it is forwarded', () => listening.lines.length > ids.length);
	}
	t.deepEqual(
		listening.lines.slice(1).map(({type, message_id: id, status}) => [type, id, status]),
		[
			['delivered', ids[0], 204],
			['bounced', ids[1], 500],
			['delivered', ids[2], 204],
		],
	);
	t.is(receiver.received.length, 3);
	t.true(receiver.received.every(one => isAuthentic(one, begin?.signing_secret as string)));
	t.is(await listening.stop(), 0);
	t.deepEqual(await cli.json('webhook', 'list'), []);
	const store = await cli.store();
	await waitFor('nothing is left of it', async () => (await store.reader('webhook_endpoints')).length === 0);
	t.deepEqual(await store.reader('webhook_deliveries'), []);
});

test('webhook listen warns that nothing arrives without a daemon', async t => {
	const cli = await prepare(t);
	const child = spawn(
		process.execPath,
		[resolve('bin/mailctl.js'), 'webhook', 'listen', '--forward-to', 'http://localhost:9/', '--json'],
		{cwd: cli.folder, env: {PATH: process.env.PATH}},
	);
	const [told, [begin]] = await Promise.all([once(child.stderr, 'data'), once(child.stdout, 'data')]);
	t.is(String(told), 'mailctl: no daemon is running, so nothing arrives until you start it with mailctl serve\n');
	child.kill('SIGKILL');
	await once(child, 'close');
	t.like(JSON.parse(String(begin)), {forward_to: 'http://localhost:9/'});
});
