import {createHmac, timingSafeEqual} from 'node:crypto';
import {writeFileSync} from 'node:fs';
import {join} from 'node:path';
import test from 'ava';
import {simpleParser} from 'mailparser';
import {eventsOf, logged, type Program, type Welcome, welcomeOf} from '../helpers/daemon.ts';
import {temporaryFolder} from '../helpers/databases.ts';
import {type FakeDns, startFakeDns} from '../helpers/fake-dns.ts';
import {loopbackAddress} from '../helpers/loopback.ts';
import {type Received, startReceiver} from '../helpers/receiver.ts';
import {serviceOf, type Workspace} from '../helpers/service.ts';
import {waitFor} from '../helpers/wait.ts';
import {certificate, clientOf, type Delivery, host, prepare} from '../helpers/webhook-lab.ts';

type Body = {readonly type: string; readonly message_id: string | null; readonly [field: string]: unknown};
type Endpoint = {readonly id: string; readonly [field: string]: unknown};

const five = ['type', 'message_id', 'recipient', 'occurred_at', 'metadata'];
const names = [
	...['delivered', 'bounced', 'complained', 'opened', 'clicked', 'deferred', 'gave_up'],
	...['recipient_suppressed', 'recipient_unsubscribed', 'domain_changed', 'endpoint_disabled'],
];

/** The address of endpoints. */
const outside = loopbackAddress();
let dns: FakeDns;
const service = serviceOf(test, {
	workspaces: {main: [], rotating: [], forms: ['--track-opens', '--track-clicks'], rebound: []},
	async settings(scope) {
		dns = await startFakeDns(scope, {[host]: {a: [outside]}});
		const file = join(await temporaryFolder(scope), 'ca.pem');
		writeFileSync(file, certificate.cert);
		return {
			MAILCTL_DNS_SERVERS: dns.server,
			MAILCTL_LOG_LEVEL: 'debug',
			MAILCTL_WEBHOOK_ALLOW_CIDRS: `${outside}/32`,
			MAILCTL_WEBHOOK_BACKOFF: '1s',
			MAILCTL_WEBHOOK_CA_FILE: file,
		};
	},
});

/** A workspace as the test client sees it. */
function welcomeIn(name: string): Welcome {
	const {live, from = '', templates} = service().workspaces[name] ?? {};
	return {key: live?.key ?? '', from, templateId: templates?.plain ?? ''};
}

/** Verifies a signature as a receiver would: over the received bytes, in constant time. */
function isAuthentic({headers, body}: Received, secret: string, name = 'x-webhook-signature'): boolean {
	const timestamp = String(headers['x-webhook-timestamp']);
	const expected = createHmac('sha256', secret).update(`${timestamp}.`).update(body).digest('hex');
	const given = Buffer.from(String(headers[name]));
	const wanted = Buffer.from(`sha256=${expected}`);
	const isRecent = Math.abs(Date.now() / 1000 - Number(timestamp)) <= 300;
	return isRecent && given.length === wanted.length && timingSafeEqual(given, wanted);
}

test.serial('posts signed events, retries failed ones under the same id, and replays them', async t => {
	let well = true;
	const receiver = await startReceiver(t, certificate, {
		host: outside,
		answer: (_received, response) => void response.writeHead(well ? 200 : 500).end(),
	});
	const {live} = service().workspaces.main as Workspace;
	const client = clientOf(service().url, welcomeIn('main'));
	const endpoint = await client.register(`https://${host}:${receiver.port}/hook`, ['delivered', 'bounced']);

	const tested = await live.post(`/v1/webhooks/${endpoint.id}/test`, {});
	t.like(tested.body as object, {acknowledged: true, status: 200, error: null});
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
	t.like(exhausted, {attempts: 5, last_error: 'the server responded with 500'});
	t.is(String(tries[0]?.headers['x-webhook-id']), exhausted.id);

	well = true;
	t.like(await client.replay(exhausted.id), {status: 202, body: {status: 'pending', attempts: 0}});
	await receiver.count(7);
	t.deepEqual(receiver.received[6]?.body, tries[0]?.body);
	await waitFor('it is delivered', async () => {
		const [newest] = await client.deliveries(endpoint.id);
		return newest?.status === 'delivered' && newest.attempts === 1;
	});
	const program = service().program as Program;
	const levels = async (name: string) => (await logged(program, name)).map(({level}) => level);
	t.deepEqual([await levels('webhook_exhausted'), await levels('webhook_recovered')], [['warn'], ['info']]);
	const log = await program.log();
	t.false(log.includes('whsec_'));
	t.false(log.includes('Größe'));
});

test.serial('signs with both secrets during a rotation until the old one expires or is revoked', async t => {
	let well = true;
	const receiver = await startReceiver(t, certificate, {
		host: outside,
		answer: (_received, response) => void response.writeHead(well ? 200 : 500).end(),
	});
	const client = clientOf(service().url, welcomeIn('rotating'));
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
	t.false((await service().program.log()).includes('whsec_'));
});

test.serial('posts every event type an endpoint subscribes to, in both formats', async t => {
	const receiver = await startReceiver(t, certificate, {
		host: outside,
		answer: ({path}, response) => void response.writeHead(path === '/gone' ? 410 : 200).end(),
	});
	const {program, url, workspaces} = service();
	const welcome = welcomeIn('forms');
	const client = clientOf(url, welcome);
	const request = async (method: 'GET' | 'POST' | 'PATCH', path: string, body?: object) =>
		await (workspaces.forms as Workspace).live.call<Endpoint>(method, path, body ? JSON.stringify(body) : null);
	const at = (path: string) => `https://${host}:${receiver.port}${path}`;
	const plain = await request('POST', '/v1/webhooks', {url: at('/plain'), events: names});
	t.like(plain, {status: 201, body: {format: 'default', retry: 'default', active: true, disabled_reason: null}});
	const full = await request('POST', '/v1/webhooks', {url: at('/full'), events: names, format: 'full'});
	t.like(full, {status: 201, body: {format: 'full', retry: 'default'}});
	const bodies = (path: string) =>
		receiver.received.filter(one => one.path === path).map(({body}) => JSON.parse(body.toString()) as Body);
	const posted = async (path: string, type: string, matches: (body: Body) => boolean = () => true): Promise<Body> =>
		await waitFor(`${type} at ${path}`, () => bodies(path).find(body => body.type === type && matches(body)));
	const about = (id: string | null) => (body: Body) => body.message_id === id;

	// A hard bounce, and the entry that it makes.
	const tags = ['receipt', 'eu'];
	const from = {from: welcome.from, templateId: welcome.templateId};
	const sent = await request('POST', '/v1/messages', {
		...{...from, to: 'bounced+1@simulator.test', tags, metadata: {order: '7'}},
	});
	const {id: bounced} = sent.body;
	const bounce = await posted('/full', 'bounced', about(bounced));
	t.deepEqual(Object.keys(bounce), [
		...five,
		...['event_id', 'workspace', 'subject', 'template_id', 'tags', 'role', 'detail'],
	]);
	t.like(bounce, {
		...{metadata: {order: '7'}, tags, role: 'to', template_id: welcome.templateId},
		detail: {type: 'permanent', suppressed: true, status: '5.1.1'},
	});
	t.is(typeof bounce.subject, 'string');
	t.regex(String(bounce.workspace), /^ws_/);
	const events = await request('GET', `/v1/messages/${bounced}/events`);
	const listed = events.body.data as Array<{id: string; type: string}>;
	t.is(bounce.event_id, listed.find(({type}) => type === 'bounced')?.id);
	t.deepEqual(Object.keys(await posted('/plain', 'bounced', about(bounced))), five);
	const recipient = 'bounced+1@simulator.test';
	t.like(await posted('/plain', 'recipient_suppressed', about(bounced)), {recipient, metadata: {order: '7'}});
	t.like(await posted('/full', 'recipient_suppressed', about(bounced)), {
		detail: {reason: 'hard_bounce', source: bounced},
	});

	// Deferrals: the first alone, and the end of retries.
	const soft = await client.send('soft-bounced@simulator.test');
	t.like(await posted('/full', 'gave_up', about(soft)), {
		role: 'to',
		detail: {type: 'transient', category: 'mailbox_full', status: '4.2.2', suppressed: false},
	});
	await posted('/full', 'bounced', about(soft));
	// Posts that are due together may arrive in any order.
	await posted('/full', 'deferred', about(soft));
	t.is(bodies('/full').filter(body => body.type === 'deferred' && body.message_id === soft).length, 1);
	t.deepEqual(Object.keys(await posted('/plain', 'deferred', about(soft))), five);

	for (const [to, type, detail] of [
		['complained@simulator.test', 'complained', {feedback_type: 'abuse'}],
		['opened@simulator.test', 'opened', {machine: false}],
		['clicked@simulator.test', 'clicked', {machine: false}],
	] as const) {
		t.like(await posted('/full', type, about(await client.send(to))), {detail});
	}

	// Entries by hand have no message.
	t.is((await request('POST', '/v1/suppressions', {recipient: 'Eve@shop.example'})).status, 201);
	const byHand = await posted('/plain', 'recipient_suppressed', about(null));
	t.deepEqual([Object.keys(byHand), byHand.recipient, byHand.metadata], [five, 'Eve@shop.example', {}]);
	t.like(await posted('/full', 'recipient_suppressed', about(null)), {
		...{message_id: null, subject: null, template_id: null, tags: [], role: null},
		detail: {reason: 'manual', source: 'api'},
	});
	t.is((await request('POST', '/v1/suppressions', {recipient: 'eve@shop.example'})).status, 200);

	// An endpoint that answers 410 to the long retry is disabled; the others learn of it.
	const long = await request('POST', '/v1/webhooks', {url: at('/gone'), events: ['delivered'], retry: 'long'});
	t.like(long.body, {format: 'default', retry: 'long'});
	await client.send('delivered@simulator.test');
	const disabled = await posted('/plain', 'endpoint_disabled');
	const detail = {endpoint: long.body.id, host: `${host}:${receiver.port}`, reason: 'gone'};
	t.deepEqual([Object.keys(disabled), disabled.detail, disabled.recipient], [[...five, 'detail'], detail, null]);
	t.like((await request('GET', '/v1/webhooks')).body.data as Endpoint[], {
		0: {id: long.body.id, active: false, disabled_reason: 'gone'},
	});
	t.is(receiver.received.filter(({path}) => path === '/gone').length, 1);
	t.like(await request('PATCH', `/v1/webhooks/${long.body.id}`, {active: true, format: 'full', retry: 'default'}), {
		body: {active: true, disabled_reason: null, format: 'full', retry: 'default'},
	});
	await request('PATCH', `/v1/webhooks/${long.body.id}`, {active: false});
	await posted('/full', 'endpoint_disabled', ({detail}) => (detail as {reason: string}).reason === 'by_hand');

	for (const wrong of [{format: 'wide'}, {retry: 'forever'}, {events: ['sent']}]) {
		t.is((await request('POST', '/v1/webhooks', {url: at('/x'), events: ['delivered'], ...wrong})).status, 422);
	}
	// Who follows all links of a new mail at once is a machine; the person who comes later has an event too.
	const {body: template} = await request('POST', '/v1/templates', {name: 'links'});
	const html = ['a', 'b', 'c'].map(name => `<a href="https://shop.example/${name}">${name}</a>`).join(' ');
	await request('POST', `/v1/templates/${template.id}/versions`, {
		variants: [{locale: null, subject: 'Links', html}],
	});
	const links = async () => {
		const mail = {from: welcome.from, to: 'ada@a.test', templateId: template.id};
		const {id} = (await request('POST', '/v1/messages', mail)).body;
		await posted('/full', 'delivered', about(id));
		const raw = await simpleParser(await program.cliBytes('message', 'raw', id));
		return {
			id,
			urls: [...String(raw.html).matchAll(/href="([^"]+\/t\/c\/[\w-]+)"/g)].map(([, url]) => url as string),
		};
	};
	const follow = async (url: string) => {
		const headers = {'user-agent': 'Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0'};
		t.is((await fetch(url, {redirect: 'manual', headers})).status, 302);
	};
	const clicksOf = (id: string) =>
		bodies('/full')
			.filter(body => body.type === 'clicked' && body.message_id === id)
			.map(({detail}) => detail as {url: string; machine: boolean});
	const clicked = await links();
	t.is(clicked.urls.length, 3);
	await Promise.all(clicked.urls.map(follow));
	await waitFor('all clicks', () => clicksOf(clicked.id).length === 3);
	t.true(clicksOf(clicked.id).every(({machine}) => machine));
	await follow(clicked.urls[1] as string);
	await waitFor('the click of a person', () => clicksOf(clicked.id).length === 4);
	t.deepEqual(clicksOf(clicked.id).at(-1), {url: 'https://shop.example/b', machine: false});
	const person = await links();
	await Promise.all(person.urls.slice(1).map(follow));
	await waitFor('some clicks', () => clicksOf(person.id).length === 2);
	t.false(clicksOf(person.id).some(({machine}) => machine));
});

test.serial('refuses the next attempt if DNS changes to a private address, and connects to nothing inside', async t => {
	const inside = loopbackAddress();
	const receiver = await startReceiver(t, certificate, {host: outside});
	const victim = await startReceiver(t, certificate, {host: inside, port: receiver.port});
	const client = clientOf(service().url, welcomeIn('rebound'));
	const {id} = await client.register(`https://${host}:${receiver.port}/`);
	await client.send('delivered@simulator.test');
	await receiver.count(1);
	dns.zone[host] = {a: [outside, inside]};
	await client.send('delivered@simulator.test');
	const refused = await waitFor('it is exhausted', async () =>
		(await client.deliveries(id)).find(({status}) => status === 'exhausted'),
	);
	t.is(refused.last_error, `${host} has an address that is not public`);
	t.true((await service().program.log()).includes(`${host} has the address ${inside}`), 'the operator sees it');
	t.is(receiver.received.length, 1);
	t.is(victim.connections(), 0);
});

test.serial('after kill -9 while posting, every delivery arrives under its own id after a restart', async t => {
	let isHeld = true;
	const waiting: Array<() => void> = [];
	const receiver = await startReceiver(t, certificate, {
		answer(_received, response) {
			const end = () => void response.writeHead(204).end();
			if (isHeld) {
				waiting.push(end);
			} else {
				end();
			}
		},
	});
	// No attempt ends while the test holds it.
	const program = await prepare(t, {MAILCTL_WEBHOOK_TIMEOUT: '10m'});
	const first = await program.serve();
	const shop = await welcomeOf(program);
	const client = clientOf(first.url, shop);
	const {id} = await client.register(`https://127.0.0.1:${receiver.port}/`);
	const sent = await Promise.all(Array.from({length: 20}, () => client.send('delivered@simulator.test')));
	await receiver.count(4);
	await waitFor('all are recorded', async () => (await client.deliveries(id)).length === 20);
	await first.kill();
	isHeld = false;
	const second = await program.serve();
	const again = clientOf(second.url, shop);
	await waitFor('all are delivered', async () =>
		(await again.deliveries(id)).every(({status, attempts}) => status === 'delivered' && attempts === 1),
	);
	const messages = receiver.received.map(({body}) => JSON.parse(body.toString()).message_id as string);
	t.deepEqual([...new Set(messages)].toSorted(), sent.toSorted());
	t.is(messages.length, 24, 'those that were under way came twice');
	t.is(new Set(receiver.received.map(({headers}) => headers['x-webhook-id'])).size, 20);

	t.like(await program.cli('webhook', 'replay', '--since', '1h'), {replayed: 20});
	await receiver.count(44);

	// SIGTERM: what is under way ends and is stored. What the CLI changes holds within a second.
	isHeld = true;
	waiting.length = 0;
	await program.cli('webhook', 'disable', id);
	const told = (await eventsOf(program, 'delivered')).length;
	await again.send('delivered@simulator.test');
	await waitFor('the message is delivered', async () => (await eventsOf(program, 'delivered')).length > told);
	t.is((await again.deliveries(id)).length, 20);
	await program.cli('webhook', 'enable', id);
	await again.send('delivered@simulator.test');
	await receiver.count(45);
	const stopping = second.stop();
	await waitFor('it stops', async () => (await eventsOf(program, 'stopping')).length === 1);
	waiting[0]?.();
	t.is(await stopping, 0);
	t.like((await eventsOf(program, 'stopped')).at(-1), {drained: true});
	const [delivery] = await program.cli<Delivery[]>('webhook', 'deliveries', id);
	t.like(delivery, {status: 'delivered', attempts: 1});
	t.is(receiver.received[44]?.headers['x-webhook-id'], delivery?.id);
	await program.cli('webhook', 'remove', id, '--yes');
});
