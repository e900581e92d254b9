import {fork} from 'node:child_process';
import {createHmac, timingSafeEqual} from 'node:crypto';
import {once} from 'node:events';
import {readFileSync, writeFileSync} from 'node:fs';
import {join} from 'node:path';
import {setInterval as every} from 'node:timers/promises';
import test, {type ExecutionContext} from 'ava';
import {loadSecrets} from '../../src/config/secrets.ts';
import {storeTime} from '../../src/mail/time.ts';
import {createVault} from '../../src/store/sealed.ts';
import {openStore} from '../../src/store/store.ts';
import {insertEndpoint} from '../../src/store/webhook-endpoints.ts';
import {type Certificate, makeCertificate} from '../helpers/certificate.ts';
import {eventsOf, type Program, prepareProgram, type Settings, type Welcome, welcomeOf} from '../helpers/daemon.ts';
import {startFakeDns} from '../helpers/fake-dns.ts';
import {loopbackAddress} from '../helpers/loopback.ts';
import {newId} from '../helpers/messages.ts';
import {type Received, startReceiver} from '../helpers/receiver.ts';
import {call} from '../helpers/shop.ts';
import {waitFor} from '../helpers/wait.ts';
import type {Arrivals, FromReceivers, ToReceivers} from './receivers.ts';

const host = 'hooks.shop.example';
/** Where nothing listens, until the end. */
const deadHost = loopbackAddress();
const certificate = makeCertificate(host, '127.0.0.1', deadHost);

/** The program with a lab for webhooks: loopback may be reached, our certificate is trusted. */
async function prepare(t: ExecutionContext, settings: Settings = {}): Promise<Program> {
	const program = await prepareProgram(t, {
		MAILCTL_RATE_LIMIT: '0',
		MAILCTL_WEBHOOK_ALLOW_CIDRS: '127.0.0.0/8',
		...settings,
	});
	return {...program, serve: more => program.serve({MAILCTL_WEBHOOK_CA_FILE: trust(program, certificate), ...more})};
}

function trust({folder}: Program, {cert}: Certificate): string {
	const file = join(folder, 'ca.pem');
	writeFileSync(file, cert);
	return file;
}

type Delivery = {
	readonly id: string;
	readonly status: string;
	readonly attempts: number;
	readonly last_error: string | null;
};

/** What a client of the API does. */
function clientOf(url: string, {key, from, templateId}: Welcome) {
	const get = async (path: string) => (await call(`${url}${path}`, key)).body;
	return {
		async register(endpoint: string, events: readonly string[] = ['delivered']) {
			const {status, body} = await call(`${url}/v1/webhooks`, key, {url: endpoint, events});
			if (status !== 201) {
				throw new Error(JSON.stringify(body));
			}
			return body as {id: string; signing_secret: string};
		},
		async send(to: string, metadata: object = {}) {
			const {status, body} = await call(`${url}/v1/messages`, key, {from, to, templateId, metadata});
			if (status !== 202) {
				throw new Error(JSON.stringify(body));
			}
			return (body as {id: string}).id;
		},
		deliveries: async (id: string) =>
			((await get(`/v1/webhooks/${id}/deliveries?limit=100`)) as {data: Delivery[]}).data,
		replay: async (id: string) => await call(`${url}/v1/webhooks/deliveries/${id}/replay`, key, {}),
	};
}

/** As a receiver would check it: over the received bytes, in constant time. */
function isAuthentic({headers, body}: Received, secret: string): boolean {
	const timestamp = String(headers['x-webhook-timestamp']);
	const expected = createHmac('sha256', secret).update(`${timestamp}.`).update(body).digest('hex');
	const given = Buffer.from(String(headers['x-webhook-signature']));
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
		const program = await prepare(t, {MAILCTL_DNS_SERVERS: dns.server, MAILCTL_WEBHOOK_BACKOFF: '200ms'});
		const daemon = await program.serve();
		const client = clientOf(daemon.url, await welcomeOf(program));
		const endpoint = await client.register(`https://${host}:${receiver.port}/hook`, ['delivered', 'bounced']);

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
		t.false(log.includes('whsec_'));
		t.false(log.includes('Größe'));
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
	t.is(refused.last_error, `${host} has the address ${inside}, which is not public`);
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
	const program = await prepare(t);
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
	const program = await prepare(t);
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

const counts = {healthy: 160, slow: 20, dead: 20};
const perSecond = 10;
const seconds = 60;
const limitMs = 2000;

/** Starts the process of the receivers. */
async function startReceivers(t: ExecutionContext) {
	const child = fork(new URL('./receivers.js', import.meta.url), {execArgv: []});
	t.teardown(() => child.kill());
	const ask = async (message: ToReceivers): Promise<FromReceivers> => {
		const answer = once(child, 'message');
		child.send(message);
		return (await answer)[0] as FromReceivers;
	};
	const {port} = (await ask(certificate)) as {port: number};
	return {port, arrivals: async () => ((await ask('tell')) as {arrivals: Arrivals}).arrivals};
}

/** Puts endpoints into the store of a daemon that does not run: more than the API allows one workspace. */
async function addEndpoints(program: Program, urls: readonly string[]): Promise<string[]> {
	const dataDir = join(program.folder, 'data');
	const store = await openStore({file: join(dataDir, 'mailctl.db')});
	const settings = {databaseUrl: null, secretKey: null, secretKeyFile: null};
	const vault = createVault(loadSecrets({dataDir, settings, sealed: true}));
	const {id: workspaceId} = await store.reader('workspaces').first('id');
	const ids = urls.map(() => newId('whe'));
	await store.writer.transaction(async trx => {
		for (const [index, url] of urls.entries()) {
			const id = ids[index] as string;
			const secret = vault.seal(id, `whsec_${index}`);
			const more = {disabledAt: null, failingSince: null, createdAt: storeTime(Date.now())};
			await insertEndpoint(trx, {id, workspaceId, url, events: ['delivered'], secret, ...more}, urls.length);
		}
	});
	await store.close();
	return ids;
}

/** Resident memory of a process, MB. */
function residentOf(pid: number): number {
	return Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) / 1024;
}

test.serial('200 endpoints, 20 dead and 20 slow: the healthy ones get each event within two seconds', async t => {
	t.timeout(300_000);
	const receivers = await startReceivers(t);
	const program = await prepare(t, {MAILCTL_WEBHOOK_BACKOFF: '1s', MAILCTL_LOG_LEVEL: 'warn'});
	await program.cliBytes('init');
	const key = (await program.cli<{key: string}>('key', 'create', '--name', 'flow')).key;
	const [template] = await program.cli<Array<{id: string}>>('template', 'list');
	const urlsOf = (kind: string, n: number, base: string) =>
		Array.from({length: n}, (_, index) => `https://${base}/${kind}/${index}`);
	const live = `127.0.0.1:${receivers.port}`;
	const ids = await addEndpoints(program, [
		...urlsOf('healthy', counts.healthy, live),
		...urlsOf('slow', counts.slow, live),
		...urlsOf('dead', counts.dead, `${deadHost}:${receivers.port}`),
	]);
	const dead = ids.slice(-counts.dead);
	const daemon = await program.serve();
	const client = clientOf(daemon.url, {key, from: 'hello@example.com', templateId: template?.id ?? ''});

	const sent: string[] = [];
	const resident: number[] = [];
	const began = performance.now();
	for await (const _ of every(1000 / perSecond)) {
		sent.push(await client.send('delivered@simulator.test'));
		if (sent.length % (10 * perSecond) === 0) {
			resident.push(residentOf(daemon.pid));
		}
		if (sent.length === perSecond * seconds) {
			break;
		}
	}
	t.log(`${sent.length} events in ${Math.round(performance.now() - began)} ms`);

	const store = await openStore({file: join(program.folder, 'data/mailctl.db')});
	t.teardown(() => store.close());
	const recordedAt = await waitFor(
		'every event is recorded',
		async () => {
			const rows = await store.reader('events').where({type: 'delivered'}).select('message_id', 'recorded_at');
			return rows.length === sent.length && new Map(rows.map(row => [row.message_id, Date.parse(row.recorded_at)]));
		},
		30_000,
	);
	const arrivals = await waitFor(
		'the healthy ones have everything',
		async () => {
			const now = await receivers.arrivals();
			const healthy = Object.entries(now).filter(([path]) => path.startsWith('/healthy'));
			return healthy.length === counts.healthy && healthy.every(([, came]) => came.length >= sent.length) && now;
		},
		30_000,
	);
	const delays: number[] = [];
	/** In each second of the sending. */
	const longest = new Array<number>(seconds).fill(0);
	const secondOf = new Map(sent.map((id, index) => [id, Math.floor(index / perSecond)]));
	for (const [path, came] of Object.entries(arrivals)) {
		if (path.startsWith('/healthy')) {
			t.is(new Set(came.map(([messageId]) => messageId)).size, sent.length, path);
			for (const [messageId, at] of came) {
				const delay = at - (recordedAt.get(messageId) ?? 0);
				const second = secondOf.get(messageId) ?? 0;
				delays.push(delay);
				longest[second] = Math.max(longest[second] ?? 0, delay);
			}
		}
	}
	delays.sort((a, b) => a - b);
	const part = (share: number) => delays[Math.floor((delays.length - 1) * share)] ?? 0;
	t.log(`after the record: median ${part(0.5)} ms, 99 % ${part(0.99)} ms, longest ${part(1)} ms of ${delays.length}`);
	t.log(`longest of each second: ${longest.join(' ')} ms`);
	t.true(part(1) <= limitMs, `longest ${part(1)} ms`);
	t.log(`resident each 10 s: ${resident.map(Math.round).join(', ')} MB`);
	t.true((resident.at(-1) ?? 0) - (resident[1] ?? 0) < 100, 'memory grows');

	const exhausted = async () => {
		const row = await store
			.reader('webhook_deliveries')
			.whereIn('endpoint_id', dead)
			.where({state: 'exhausted', attempts: 5})
			.first(store.reader.raw('count(*) as n'));
		return Number(row.n);
	};
	await waitFor(
		'all of the dead ones is exhausted',
		async () => (await exhausted()) === sent.length * counts.dead,
		60_000,
	);

	// One of them comes back: one delivery by the API, then all by the CLI.
	const [first = ''] = dead;
	const back = await startReceiver(t, certificate, {host: deadHost, port: receivers.port});
	const [newest] = await client.deliveries(first);
	t.like(await client.replay(newest?.id ?? ''), {status: 202, body: {status: 'pending', attempts: 0}});
	await back.count(1);
	const replayed = performance.now();
	t.like(await program.cli('webhook', 'replay', '--since', '1h', '--endpoint', first, '--status', 'exhausted'), {
		replayed: sent.length - 1,
	});
	await back.count(sent.length);
	t.log(`${sent.length - 1} replayed in ${Math.round(performance.now() - replayed)} ms`);
	t.is(await daemon.stop(), 0);
});
