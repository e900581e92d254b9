import {createHmac, timingSafeEqual} from 'node:crypto';
import test from 'ava';
import {eventsOf, welcomeOf} from '../helpers/daemon.ts';
import {startFakeDns} from '../helpers/fake-dns.ts';
import {loopbackAddress} from '../helpers/loopback.ts';
import {type Received, startReceiver} from '../helpers/receiver.ts';
import {waitFor} from '../helpers/wait.ts';
import {certificate, clientOf, type Delivery, host, prepare} from '../helpers/webhook-lab.ts';

/** For posts that the test holds: no attempt ends meanwhile. */
const patient = {MAILCTL_WEBHOOK_TIMEOUT: '10m'};

/** As a receiver would check it: over the received bytes, in constant time. */
function isAuthentic({headers, body}: Received, secret: string, name = 'x-webhook-signature'): boolean {
	const timestamp = String(headers['x-webhook-timestamp']);
	const expected = createHmac('sha256', secret).update(`${timestamp}.`).update(body).digest('hex');
	const given = Buffer.from(String(headers[name]));
	const wanted = Buffer.from(`sha256=${expected}`);
	const isRecent = Math.abs(Date.now() / 1000 - Number(timestamp)) <= 300;
	return isRecent && given.length === wanted.length && timingSafeEqual(given, wanted);
}

test.serial(
	'an event reaches its endpoint, signed; what fails is tried again under the same id and replayed',
	async t => {
		let well = true;
		const receiver = await startReceiver(t, certificate, {
			answer: (_received, response) => void response.writeHead(well ? 200 : 500).end(),
		});
		const dns = await startFakeDns(t, {[host]: {a: ['127.0.0.1']}});
		const program = await prepare(t, {
			MAILCTL_DNS_SERVERS: dns.server,
			MAILCTL_WEBHOOK_BACKOFF: '200ms',
			MAILCTL_LOG_LEVEL: 'debug',
		});
		const daemon = await program.serve();
		const welcome = await welcomeOf(program);
		const client = clientOf(daemon.url, welcome);
		const endpoint = await client.register(`https://${host}:${receiver.port}/hook`, ['delivered', 'bounced']);

		const call = (path: string, method: string, body: object) =>
			fetch(`${daemon.url}/v1/webhooks/${endpoint.id}${path}`, {
				method,
				headers: {authorization: `Bearer ${welcome.key}`, 'content-type': 'application/json'},
				body: JSON.stringify(body),
			});
		t.like(await (await call('/test', 'POST', {})).json(), {acknowledged: true, status: 200, error: null});
		t.true(isAuthentic(receiver.received.pop() as Received, endpoint.signing_secret));

		const id = await client.send('delivered@simulator.test', {order: 'Größe "7"'});
		await receiver.count(1);
		const [first] = receiver.received as [Received];
		t.true(isAuthentic(first, endpoint.signing_secret));
		const said = JSON.parse(first.body.toString());
		t.deepEqual(Object.keys(said), ['type', 'message_id', 'recipient', 'occurred_at', 'metadata']);
		t.like(said, {
			type: 'delivered',
			message_id: id,
			recipient: 'delivered@simulator.test',
			metadata: {order: 'Größe "7"'},
		});
		t.regex(said.occurred_at, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00$/);

		well = false;
		const bounced = await client.send('bounced+1@simulator.test');
		await receiver.count(6);
		const tries = receiver.received.slice(1);
		t.is(new Set(tries.map(({headers}) => headers['x-webhook-id'])).size, 1);
		t.is(new Set(tries.map(({body}) => body.toString())).size, 1);
		t.true(tries.every(one => isAuthentic(one, endpoint.signing_secret)));
		t.like(JSON.parse(tries[0]?.body.toString() ?? ''), {type: 'bounced', message_id: bounced, metadata: {}});
		const exhausted = await waitFor('it is exhausted', async () =>
			(await client.deliveries(endpoint.id)).find(({status}) => status === 'exhausted'),
		);
		t.like(exhausted, {attempts: 5, last_error: 'it answered 500'});
		t.is(String(tries[0]?.headers['x-webhook-id']), exhausted.id);

		well = true;
		t.like(await client.replay(exhausted.id), {status: 202, body: {status: 'pending', attempts: 0}});
		await receiver.count(7);
		t.deepEqual(receiver.received[6]?.body, tries[0]?.body);
		await waitFor('it is delivered', async () => {
			const [newest] = await client.deliveries(endpoint.id);
			return newest?.status === 'delivered' && newest.attempts === 1;
		});
		t.is(await daemon.stop(), 0);
		const log = await program.log();
		t.is((await eventsOf(program, 'webhook_attempted')).length, 7);
		const levels = (name: string) => eventsOf(program, name).then(events => events.map(({level}) => level));
		t.deepEqual([await levels('webhook_exhausted'), await levels('webhook_recovered')], [['warn'], ['info']]);
		t.false(log.includes('whsec_'));
		t.false(log.includes('Größe'));
	},
);

test.serial(
	'a secret rotates with overlap: both sign, what waits in memory too, and the old one ends at once on demand',
	async t => {
		let well = true;
		const receiver = await startReceiver(t, certificate, {
			answer: (_received, response) => void response.writeHead(well ? 200 : 500).end(),
		});
		const dns = await startFakeDns(t, {[host]: {a: ['127.0.0.1']}});
		const program = await prepare(t, {MAILCTL_DNS_SERVERS: dns.server, MAILCTL_WEBHOOK_BACKOFF: '1s'});
		const daemon = await program.serve();
		const client = clientOf(daemon.url, await welcomeOf(program));
		const next = 'x-webhook-signature-next';
		const {id, signing_secret: old} = await client.register(`https://${host}:${receiver.port}/hook`);
		const posted = async () => {
			const before = receiver.received.length;
			await client.send('delivered@simulator.test');
			await receiver.count(before + 1);
			return receiver.received.at(-1) as Received;
		};
		t.false(next in (await posted()).headers);

		well = false;
		const first = await posted();
		t.true(isAuthentic(first, old));
		const {signing_secret: fresh} = await client.rotate(id, '1h');
		well = true;
		// Where this process stood still, a try or two came before that: the last one counts.
		await waitFor('it is delivered', async () =>
			(await client.deliveries(id)).every(({status}) => status === 'delivered'),
		);
		const again = receiver.received.at(-1) as Received;
		t.is(again.headers['x-webhook-id'], first.headers['x-webhook-id']);
		t.true(isAuthentic(again, old), 'a retry serves a receiver that knows the old secret');
		t.true(isAuthentic(again, fresh, next), 'and one that knows the new one');

		const {signing_secret: last} = await client.rotate(id, '0');
		const ended = await posted();
		t.true(isAuthentic(ended, last));
		t.false(next in ended.headers);
		t.is(await daemon.stop(), 0);
		t.false((await program.log()).includes('whsec_'));
	},
);

test.serial('DNS that changes its mind: the next attempt is refused, and nothing inside is reached', async t => {
	const [outside, inside] = [loopbackAddress(), loopbackAddress()];
	const receiver = await startReceiver(t, certificate, {host: outside});
	const victim = await startReceiver(t, certificate, {host: inside, port: receiver.port});
	const dns = await startFakeDns(t, {[host]: {a: [outside]}});
	const program = await prepare(t, {
		MAILCTL_DNS_SERVERS: dns.server,
		MAILCTL_WEBHOOK_ALLOW_CIDRS: `${outside}/32`,
		MAILCTL_WEBHOOK_BACKOFF: '100ms',
	});
	const daemon = await program.serve();
	const client = clientOf(daemon.url, await welcomeOf(program));
	const {id} = await client.register(`https://${host}:${receiver.port}/`);
	await client.send('delivered@simulator.test');
	await receiver.count(1);
	dns.zone[host] = {a: [outside, inside]};
	await client.send('delivered@simulator.test');
	const refused = await waitFor('it is exhausted', async () =>
		(await client.deliveries(id)).find(({status}) => status === 'exhausted'),
	);
	t.is(refused.last_error, `${host} has an address that is not public`);
	t.true((await program.log()).includes(`${host} has the address ${inside}`), 'the operator sees it');
	t.is(receiver.received.length, 1);
	t.is(victim.connections(), 0);
	t.is(await daemon.stop(), 0);
});

test.serial('kill -9 while posting: every delivery arrives after the next start, under its own id', async t => {
	let holding = true;
	const receiver = await startReceiver(t, certificate, {
		answer(_received, response) {
			if (!holding) {
				response.writeHead(204).end();
			}
		},
	});
	const program = await prepare(t, patient);
	const daemon = await program.serve();
	const shop = await welcomeOf(program);
	const client = clientOf(daemon.url, shop);
	const {id} = await client.register(`https://127.0.0.1:${receiver.port}/`);
	const sent = await Promise.all(Array.from({length: 20}, () => client.send('delivered@simulator.test')));
	await receiver.count(4);
	await waitFor('all are recorded', async () => (await client.deliveries(id)).length === 20);
	await daemon.kill();
	holding = false;
	const next = await program.serve();
	const again = clientOf(next.url, shop);
	await waitFor('all are delivered', async () =>
		(await again.deliveries(id)).every(({status, attempts}) => status === 'delivered' && attempts === 1),
	);
	const messages = receiver.received.map(({body}) => JSON.parse(body.toString()).message_id as string);
	t.deepEqual([...new Set(messages)].toSorted(), sent.toSorted());
	t.is(messages.length, 24, 'those that were under way came twice');
	t.is(new Set(receiver.received.map(({headers}) => headers['x-webhook-id'])).size, 20);
	t.is(await next.stop(), 0);
});

test.serial('SIGTERM: what is under way ends and is stored; what the CLI changes holds within a second', async t => {
	const waiting: Array<() => void> = [];
	const receiver = await startReceiver(t, certificate, {
		answer: (_received, response) => void waiting.push(() => response.writeHead(204).end()),
	});
	const program = await prepare(t, patient);
	const daemon = await program.serve();
	const client = clientOf(daemon.url, await welcomeOf(program));
	const {id} = await client.register(`https://127.0.0.1:${receiver.port}/`);
	await program.cli('webhook', 'disable', id);
	await client.send('delivered@simulator.test');
	await waitFor('the message is delivered', async () => (await eventsOf(program, 'delivered')).length === 1);
	t.deepEqual(await client.deliveries(id), []);

	await program.cli('webhook', 'enable', id);
	await client.send('delivered@simulator.test');
	await receiver.count(1);
	const stopping = daemon.stop();
	await waitFor('it stops', async () => (await eventsOf(program, 'stopping')).length === 1);
	waiting[0]?.();
	t.is(await stopping, 0);
	t.like((await eventsOf(program, 'stopped')).at(-1), {drained: true});
	const [delivery] = await program.cli<Delivery[]>('webhook', 'deliveries', id);
	t.like(delivery, {status: 'delivered', attempts: 1});

	const next = await program.serve();
	t.like(await program.cli('webhook', 'replay', '--since', '1h'), {replayed: 1});
	await receiver.count(2);
	t.is(receiver.received[1]?.headers['x-webhook-id'], delivery?.id);
	waiting[1]?.();
	await program.cli('webhook', 'remove', id, '--yes');
	t.is(await next.stop(), 0);
});
