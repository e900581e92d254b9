import test from 'ava';
import {simpleParser} from 'mailparser';
import {welcomeOf} from '../helpers/daemon.ts';
import {startFakeDns} from '../helpers/fake-dns.ts';
import {startReceiver} from '../helpers/receiver.ts';
import {call} from '../helpers/shop.ts';
import {waitFor} from '../helpers/wait.ts';
import {certificate, clientOf, host, prepare} from '../helpers/webhook-lab.ts';

type Body = {readonly type: string; readonly message_id: string | null; readonly [field: string]: unknown};
type Endpoint = {readonly id: string; readonly [field: string]: unknown};

const five = ['type', 'message_id', 'recipient', 'occurred_at', 'metadata'];
const names = [
	...['delivered', 'bounced', 'complained', 'opened', 'clicked', 'deferred', 'gave_up'],
	...['recipient_suppressed', 'recipient_unsubscribed', 'domain_changed', 'endpoint_disabled'],
];

test.serial('every event in both forms: what an endpoint subscribes to, and what its bodies say', async t => {
	const receiver = await startReceiver(t, certificate, {
		answer: ({path}, response) => void response.writeHead(path === '/gone' ? 410 : 200).end(),
	});
	const dns = await startFakeDns(t, {[host]: {a: ['127.0.0.1']}});
	const program = await prepare(t, {MAILCTL_DNS_SERVERS: dns.server});
	const daemon = await program.serve();
	const welcome = await welcomeOf(program);
	const client = clientOf(daemon.url, welcome);
	await program.cli('workspace', 'update', 'default', '--track-opens', '--track-clicks');
	const request = async (method: 'GET' | 'POST' | 'PATCH', path: string, body?: object) => {
		const answer = await fetch(daemon.url + path, {
			method,
			headers: {authorization: `Bearer ${welcome.key}`, 'content-type': 'application/json'},
			...(body && {body: JSON.stringify(body)}),
		});
		return {status: answer.status, body: answer.status === 204 ? null : ((await answer.json()) as Endpoint)};
	};
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
	const sent = await call(`${daemon.url}/v1/messages`, welcome.key, {
		...{...from, to: 'bounced+1@simulator.test', tags, metadata: {order: '7'}},
	});
	const {id: bounced} = sent.body as {id: string};
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
	const listed = events.body?.data as Array<{id: string; type: string}>;
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
	const detail = {endpoint: long.body?.id, host: `${host}:${receiver.port}`, reason: 'gone'};
	t.deepEqual([Object.keys(disabled), disabled.detail, disabled.recipient], [[...five, 'detail'], detail, null]);
	t.like((await request('GET', '/v1/webhooks')).body?.data as Endpoint[], {
		0: {id: long.body?.id, active: false, disabled_reason: 'gone'},
	});
	t.is(receiver.received.filter(({path}) => path === '/gone').length, 1);
	t.like(await request('PATCH', `/v1/webhooks/${long.body?.id}`, {active: true, format: 'full', retry: 'default'}), {
		body: {active: true, disabled_reason: null, format: 'full', retry: 'default'},
	});
	await request('PATCH', `/v1/webhooks/${long.body?.id}`, {active: false});
	await posted('/full', 'endpoint_disabled', ({detail}) => (detail as {reason: string}).reason === 'by_hand');

	for (const wrong of [{format: 'wide'}, {retry: 'forever'}, {events: ['sent']}]) {
		t.is((await request('POST', '/v1/webhooks', {url: at('/x'), events: ['delivered'], ...wrong})).status, 422);
	}
	// Who follows all links of a new mail at once is a machine; the person who comes later has an event too.
	const {body: template} = await request('POST', '/v1/templates', {name: 'links'});
	const html = ['a', 'b', 'c'].map(name => `<a href="https://shop.example/${name}">${name}</a>`).join(' ');
	await request('POST', `/v1/templates/${template?.id}/versions`, {variants: [{locale: null, subject: 'Links', html}]});
	const links = async () => {
		const mail = {from: welcome.from, to: 'ada@a.test', templateId: template?.id};
		const {id} = (await call(`${daemon.url}/v1/messages`, welcome.key, mail)).body as {id: string};
		await posted('/full', 'delivered', about(id));
		const raw = await simpleParser(await program.cliBytes('message', 'raw', id));
		return {id, urls: [...String(raw.html).matchAll(/href="([^"]+\/t\/c\/[\w-]+)"/g)].map(([, url]) => url as string)};
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
	t.is(await daemon.stop(), 0);
});
