import {mkdtemp, rm} from 'node:fs/promises';
import {tmpdir} from 'node:os';
import {join} from 'node:path';
import test from 'ava';
import {type List, timeShape} from '../helpers/api-client.ts';
import {conforms} from '../helpers/conforms.ts';
import {prepareProgram} from '../helpers/daemon.ts';
import {serviceOf, type Workspace} from '../helpers/service.ts';
import {waitFor} from '../helpers/wait.ts';
import {type Behaviour, distrust, type Receiver, startReceiver} from '../helpers/webhook-receiver.ts';
import {
	accepted,
	codeOf,
	type Delivery,
	type Endpoint,
	fieldsOf,
	idShape,
	timeline,
	unknownId,
	untilEvent,
	untilStatus,
	type WebhookBody,
	walk,
} from './resources.ts';

const hosts = [
	'hooks.example',
	'private.example',
	'mixed.example',
	'rebound.example',
	'gone.example',
	'broken.example',
];
const types = ['delivered', 'bounced', 'complained', 'opened', 'clicked'];
// Four of them must be longer than a slow machine takes to see that the first attempt has failed.
const backoffMs = 3000;

let receiver: Receiver;
const service = serviceOf(test, {
	workspaces: {
		main: [],
		tracked: ['--track-opens', '--track-clicks'],
		untracked: [],
		fan: [],
		many: [],
		other: [],
		neighbour: [],
	},
	async settings(scope) {
		const folder = await mkdtemp(join(tmpdir(), 'mailctl-hooks-'));
		scope.teardown(() => rm(folder, {recursive: true, force: true}));
		receiver = await startReceiver(scope, folder, hosts);
		return {
			...receiver.settings,
			MAILCTL_WEBHOOK_BACKOFF: `${backoffMs}ms`,
			// A third of it is for the connection.
			MAILCTL_WEBHOOK_TIMEOUT: '15s',
		};
	},
});

async function register({live}: Workspace, path: string, events: readonly string[], host?: string): Promise<Endpoint> {
	const {status, body, text} = await live.post<Endpoint>('/v1/webhooks', {url: receiver.url(path, host), events});
	if (status !== 201) {
		throw new Error(`Not registered: ${status} ${text}`);
	}

	return body;
}

async function deliveriesOf({live}: Workspace, {id}: Endpoint): Promise<readonly Delivery[]> {
	return (await live.get<List<Delivery>>(`/v1/webhooks/${id}/deliveries`)).body.data;
}

/** The endpoint's delivery about a message once it is so. */
async function untilDelivery(
	workspace: Workspace,
	endpoint: Endpoint,
	messageId: string,
	is: (delivery: Delivery) => boolean,
): Promise<Delivery> {
	let last: Delivery | undefined;
	return await waitFor('a delivery is as expected', async () => {
		last = (await deliveriesOf(workspace, endpoint)).find(({payload}) => payload.message_id === messageId);
		return last !== undefined && is(last) && last;
	}).catch(error => {
		throw new Error(`${error.message}: ${JSON.stringify(last)}`);
	});
}

const answering =
	(status: number, headers: Record<string, string> = {}): Behaviour =>
	(_, response) =>
		response.writeHead(status, headers).end();

test('registering, listing and deleting an endpoint', async t => {
	conforms(t, 'webhooks.add.answer', 'webhooks.list.answer', 'webhooks.delete.answer', 'webhooks.delete.rotation');
	conforms(t, 'endpoint.id', 'endpoint.url', 'endpoint.events', 'endpoint.active', 'endpoint.signing_secret');
	conforms(t, 'endpoint.created_at', 'webhooks.delete.foreign');
	const {other} = service().workspaces as {other: Workspace};
	const endpoint = await register(other, '/registered', ['delivered', 'bounced']);
	t.regex(endpoint.id, idShape('whe'));
	t.is(endpoint.url, receiver.url('/registered'));
	t.deepEqual([...endpoint.events].toSorted(), ['bounced', 'delivered']);
	t.true(endpoint.active);
	t.regex(endpoint.signing_secret, /^whsec_\S{16,}$/);
	t.regex(endpoint.created_at, timeShape);
	const second = await register(other, '/registered', ['delivered']);
	t.deepEqual((await other.live.get<List<Endpoint>>('/v1/webhooks')).body.data, [second, endpoint]);
	t.deepEqual((await deliveriesOf(other, endpoint)).length, 0);

	t.is((await other.live.remove(`/v1/webhooks/${endpoint.id}`)).status, 204);
	t.is(codeOf(await other.live.remove(`/v1/webhooks/${endpoint.id}`)), 'not_found');
	t.is(codeOf(await other.live.get(`/v1/webhooks/${endpoint.id}/deliveries`)), 'not_found');
	const again = await register(other, '/registered', ['delivered', 'bounced']);
	t.not(again.signing_secret, endpoint.signing_secret);
	t.not(again.id, endpoint.id);
	t.is(codeOf(await other.live.remove(`/v1/webhooks/${unknownId('whe')}`)), 'not_found');
});

test('url and events are required and checked', async t => {
	conforms(
		t,
		'webhooks.add.request',
		'webhooks.add.refused',
		'errors.422.unprocessable_entity',
		'webhook-safety.rule-1',
	);
	const {other} = service().workspaces as {other: Workspace};
	const url = receiver.url('/checked');
	const cases: ReadonlyArray<readonly [body: object, fields: readonly string[]]> = [
		[{}, ['events', 'url']],
		[{url}, ['events']],
		[{events: ['delivered']}, ['url']],
		[{url, events: []}, ['events']],
		[{url, events: 'delivered'}, ['events']],
		[{url, events: ['sent']}, ['events[0]']],
		[{url, events: ['delivered', 'Delivered']}, ['events[1]']],
		[{url, events: ['delivered'], active: true}, ['active']],
		[{url: 5, events: ['delivered']}, ['url']],
	];
	for (const [body, fields] of cases) {
		const answer = await other.live.post('/v1/webhooks', body);
		t.deepEqual([answer.status, codeOf(answer)], [422, 'validation_failed'], JSON.stringify(body));
		t.deepEqual(fieldsOf(answer), fields, JSON.stringify(body));
	}
	const twice = await other.live.post('/v1/webhooks', {url, events: ['delivered', 'delivered']});
	t.deepEqual([twice.status, codeOf(twice)], [422, 'validation_failed']);

	const refused = [
		...[
			'http://hooks.example/',
			'ftp://hooks.example/',
			'https://localhost/',
			'https://localhost:8443/',
			'https://LOCALHOST./',
		],
		...['https://x.localhost/', 'https://intranet/', 'https://printer.local/', 'https://vault.internal/'],
		...['https://router.home.arpa/', 'https://10.0.0.1/', 'https://192.168.1.1/', 'https://172.16.0.1/', 'https://0/'],
		...['https://0.0.0.0/', 'https://100.64.0.1/', 'https://169.254.169.254/latest', 'https://192.0.0.1/'],
		...[
			'https://198.18.0.1/',
			'https://224.0.0.1/',
			'https://240.0.0.1/',
			'https://255.255.255.255/',
			'https://[::1]/',
		],
		...['https://[::]/', 'https://[fc00::1]/', 'https://[fe80::1]/', 'https://[ff02::1]/', 'https://[::ffff:a00:1]/'],
		...['https://[64:ff9b::a00:1]/', 'https://[2002:a00:1::]/', 'https://user:secret@hooks.example/'],
		...['https://user@hooks.example/', 'https://hooks.example:25/', 'javascript:alert(1)', 'https://167772161/'],
		...['https://0xa.0.0.1/', 'https://012.0.0.1/', 'https://10.1/', 'https://⑩.⓪.⓪.①/'],
	];
	for (const each of refused) {
		const answer = await other.live.post('/v1/webhooks', {url: each, events: ['delivered']});
		t.deepEqual([answer.status, answer.text.includes('unprocessable_entity')], [422, true], `${each}: ${answer.text}`);
	}
});

test('fifty endpoints a workspace', async t => {
	const {many} = service().workspaces as {many: Workspace};
	for (let n = 0; n < 50; n++) {
		await register(many, '/many', ['delivered']);
	}
	const answer = await many.live.post('/v1/webhooks', {url: receiver.url('/many'), events: ['delivered']});
	t.deepEqual([answer.status, codeOf(answer)], [422, 'unprocessable_entity']);
});

test('what is posted: the five fields, signed over the bytes, as the delivery shows it', async t => {
	conforms(
		t,
		'webhook-request.post',
		'webhook-request.type',
		'webhook-request.message_id',
		'webhook-request.recipient',
	);
	conforms(t, 'webhook-request.occurred_at', 'webhook-request.metadata', 'webhook-request.timestamp');
	conforms(t, 'webhook-request.signature', 'webhook-event.delivered', 'webhook-status.delivered', 'auth.webhooks');
	conforms(t, 'delivery.id', 'delivery.event_type', 'delivery.status', 'delivery.attempts', 'delivery.payload');
	conforms(t, 'delivery.last_attempt_at', 'delivery.created_at', 'webhooks.deliveries.answer', 'overview.progress');
	const {main} = service().workspaces as {main: Workspace};
	const endpoint = await register(main, '/plain', ['delivered']);
	const metadata = {order_id: '1042', 'größe €': '🎉 "quoted" <b>\n'};
	const id = await accepted(main, {to: 'Plain@simulator.test', metadata});
	const post = await waitFor('the post', () => receiver.postsTo('/plain', id)[0]);
	const body = JSON.parse(post.body.toString()) as WebhookBody;
	t.deepEqual(Object.keys(body).toSorted(), ['message_id', 'metadata', 'occurred_at', 'recipient', 'type']);
	t.like(body, {type: 'delivered', message_id: id, recipient: 'Plain@simulator.test'});
	t.deepEqual(body.metadata, metadata);
	t.regex(body.occurred_at, timeShape);
	t.is(body.occurred_at, (await timeline(main.live, id)).find(({type}) => type === 'delivered')?.occurred_at as string);
	t.is(post.method, 'POST');
	t.regex(post.headers['content-type'] ?? '', /^application\/json/);
	t.regex(post.headers['user-agent'] ?? '', /^mailctl\/\d/);
	t.regex(String(post.headers['x-webhook-signature']), /^sha256=[0-9a-f]{64}$/);
	t.is(distrust(post, endpoint.signing_secret, post.at), null);
	t.not(distrust(post, `${endpoint.signing_secret}x`, post.at), null);

	const delivery = await untilDelivery(main, endpoint, id, ({status}) => status === 'delivered');
	t.regex(delivery.id, idShape('whd'));
	t.like(delivery, {event_type: 'delivered', attempts: 1});
	t.deepEqual(delivery.payload, body);
	t.regex(delivery.last_attempt_at ?? '', timeShape);
	t.regex(delivery.created_at, timeShape);
	t.is(post.headers['x-webhook-id'], delivery.id);

	const next = await accepted(main, {to: 'second@simulator.test'});
	const second = await untilDelivery(main, endpoint, next, ({status}) => status === 'delivered');
	t.deepEqual(second.payload.metadata, {});
	const path = `/v1/webhooks/${endpoint.id}/deliveries`;
	const all = (await walk<Delivery>(main.live, `${path}?limit=1`)).map(each => each.id);
	t.deepEqual(all, all.toSorted().reverse());
	t.true(all.indexOf(second.id) < all.indexOf(delivery.id));
	t.deepEqual(fieldsOf(await main.live.get(`${path}?limit=0`)), ['limit']);
});

test('while the first attempt lasts the delivery is pending', async t => {
	conforms(t, 'webhook-status.pending', 'delivery.status');
	const {main} = service().workspaces as {main: Workspace};
	let release = () => {};
	const held = new Promise<void>(resolve => {
		release = resolve;
	});
	receiver.behave('/held', async (_, response) => {
		await held;
		response.end();
	});
	const endpoint = await register(main, '/held', ['delivered']);
	const id = await accepted(main, {to: 'held@simulator.test'});
	await waitFor('the post', () => receiver.postsTo('/held', id).length > 0);
	t.like(await untilDelivery(main, endpoint, id, () => true), {status: 'pending'});
	release();
	await untilDelivery(main, endpoint, id, ({status}) => status === 'delivered');
	await main.live.remove(`/v1/webhooks/${endpoint.id}`);
});

test('every one of the five types, with and without tracking', async t => {
	conforms(t, 'webhook-event.bounced', 'webhook-event.complained', 'webhook-event.opened', 'webhook-event.clicked');
	conforms(t, 'webhook-event.early-subscription', 'webhook-request.type', 'delivery.event_type');
	const {tracked, untracked} = service().workspaces as {tracked: Workspace; untracked: Workspace};
	const endpoints = [await register(tracked, '/tracked', types), await register(untracked, '/untracked', types)];
	const sendAll = async (workspace: Workspace) => {
		const outcomes = ['bounced+hook', 'soft-bounced+hook', 'complained+hook', 'opened', 'clicked'];
		return await Promise.all(outcomes.map(each => accepted(workspace, {to: `${each}@simulator.test`})));
	};
	const [ids, silent] = await Promise.all([sendAll(tracked), sendAll(untracked)]);
	const got = (path: string) =>
		receiver.postsTo(path).map(({body}) => {
			const {type, recipient} = JSON.parse(body.toString()) as WebhookBody;
			return `${recipient.split('@')[0]}: ${type}`;
		});
	const withoutTracking = [
		...['bounced+hook: bounced', 'soft-bounced+hook: bounced', 'complained+hook: delivered'],
		...['complained+hook: complained', 'opened: delivered', 'clicked: delivered'],
	].toSorted();
	const expected = [...withoutTracking, 'clicked: clicked', 'opened: opened'].toSorted();
	// A click tells that the mail was opened: whether it also makes an open is not asked here.
	const tracking = () => got('/tracked').filter(each => each !== 'clicked: opened');
	await waitFor(
		'all posts',
		() => tracking().length >= expected.length && got('/untracked').length >= withoutTracking.length,
	);
	t.deepEqual(tracking().toSorted(), expected);
	t.deepEqual(got('/untracked').toSorted(), withoutTracking);
	for (const id of silent) {
		t.false((await timeline(untracked.live, id)).some(({type}) => ['opened', 'clicked'].includes(type)));
	}
	await Promise.all(ids.map(id => untilEvent(tracked.live, id, 'sent')));

	await service().program.cli('workspace', 'update', 'untracked', '--track-opens', '--track-clicks');
	await waitFor('the endpoint that waited for it gets opens', async () => {
		const id = await accepted(untracked, {to: 'opened+later@simulator.test'});
		await untilStatus(untracked.live, id, 'delivered');
		return got('/untracked').includes('opened+later: opened');
	});
	t.is(endpoints.length, 2);
});

test('an event goes to every endpoint of the workspace that subscribed to it, per copy', async t => {
	conforms(t, 'webhook-event.fan-out', 'overview.scoped');
	const {fan, neighbour} = service().workspaces as {fan: Workspace; neighbour: Workspace};
	await register(fan, '/fan-1', ['delivered', 'bounced']);
	await register(fan, '/fan-2', ['delivered']);
	await register(fan, '/fan-3', ['bounced']);
	await register(neighbour, '/fan-other', ['delivered', 'bounced']);
	await accepted(fan, {to: 'bounced+fan@simulator.test', cc: ['copy@simulator.test']});
	const got = (path: string) =>
		receiver.postsTo(path).map(({body}) => {
			const {type, recipient} = JSON.parse(body.toString()) as WebhookBody;
			return `${recipient} ${type}`;
		});
	await waitFor('all posts', () => got('/fan-1').length >= 2 && got('/fan-2').length > 0 && got('/fan-3').length > 0);
	const [bounced, delivered] = ['bounced+fan@simulator.test bounced', 'copy@simulator.test delivered'];
	t.deepEqual(got('/fan-1').toSorted(), [bounced, delivered]);
	t.deepEqual(got('/fan-2'), [delivered]);
	t.deepEqual(got('/fan-3'), [bounced]);
	t.deepEqual(got('/fan-other'), []);
});

test('any 2xx acknowledges; everything else is a failure that is tried again after the backoff', async t => {
	conforms(
		t,
		'webhook-request.acknowledged',
		'webhook-request.failure',
		'webhook-status.failed',
		'webhook-status.retried',
	);
	conforms(
		t,
		'webhook-safety.rule-3',
		'webhook-request.receiver',
		'webhook-status.backoff',
		'delivery.status',
		'delivery.attempts',
	);
	const {main} = service().workspaces as {main: Workspace};
	receiver.behave('/201', answering(201));
	receiver.behave('/299', answering(299));
	receiver.behave('/204', answering(204));
	const fine = await Promise.all(['/201', '/299', '/204'].map(path => register(main, path, ['delivered'])));
	const failures: Readonly<Record<string, Behaviour>> = {
		'/500': answering(500),
		'/404': answering(404),
		'/410': answering(410),
		'/301': answering(301, {location: receiver.url('/target')}),
		'/307': answering(307, {location: receiver.url('/target')}),
		'/304': answering(304),
		'/broken': (_, __, request) => request.socket.destroy(),
		'/silent': () => undefined,
	};
	const failing = await Promise.all(
		Object.entries(failures).map(async ([path, behaviour]) => {
			receiver.behave(path, behaviour);
			// A post on a kept connection that ends is made again on a new one, within the attempt: this host's never stay open.
			const host = path === '/broken' ? 'broken.example' : 'hooks.example';
			return {path, endpoint: await register(main, path, ['delivered'], host)};
		}),
	);
	const id = await accepted(main, {to: 'failing@simulator.test', metadata: {n: '1'}});
	await Promise.all(
		failing.map(async ({path, endpoint}) => {
			const failed = await untilDelivery(main, endpoint, id, ({status}) => status === 'failed');
			t.true(failed.attempts >= 1, path);
			receiver.behave(path, answering(200));
		}),
	);
	for (const {path, endpoint} of failing) {
		const {attempts, id: deliveryId} = await untilDelivery(main, endpoint, id, ({status}) => status === 'delivered');
		const posts = receiver.postsTo(path, id);
		// On a machine without time an attempt may end before it reaches anybody.
		t.true(posts.length >= 1 && posts.length <= attempts, path);
		t.true(attempts >= 2, path);
		t.deepEqual([...new Set(posts.map(({headers}) => headers['x-webhook-id']))], [deliveryId], path);
		t.is(new Set(posts.map(({body}) => body.toString('hex'))).size, 1, path);
		for (const post of posts) {
			t.is(distrust(post, endpoint.signing_secret, post.at), null, path);
		}
		for (let n = 1; n < posts.length; n++) {
			t.true((posts[n]?.at as number) - (posts[n - 1]?.at as number) >= backoffMs - 50, path);
		}
		await main.live.remove(`/v1/webhooks/${endpoint.id}`);
	}
	t.deepEqual(receiver.postsTo('/target'), []);
	for (const endpoint of fine) {
		t.like(await untilDelivery(main, endpoint, id, ({status}) => status === 'delivered'), {attempts: 1});
		await main.live.remove(`/v1/webhooks/${endpoint.id}`);
	}
});

test('the fifth failure ends it; a replay begins again, from any state', async t => {
	conforms(
		t,
		'webhook-status.exhausted',
		'limits.webhook-attempts',
		'webhook-status.replay-exhausted',
		'delivery.status',
	);
	conforms(
		t,
		'webhook-status.replay-any',
		'webhooks.replay.request',
		'webhooks.replay.answer',
		'webhooks.replay.foreign',
	);
	const {main, other} = service().workspaces as {main: Workspace; other: Workspace};
	receiver.behave('/dead', answering(503));
	const endpoint = await register(main, '/dead', ['delivered']);
	const id = await accepted(main, {to: 'exhausting@simulator.test'});
	const exhausted = await untilDelivery(main, endpoint, id, ({status}) => status === 'exhausted');
	t.is(exhausted.attempts, 5);
	t.is(receiver.postsTo('/dead', id).length, 5);
	// By the time that a later one was tried three times, a sixth attempt would have come.
	const later = await accepted(main, {to: 'later@simulator.test'});
	await untilDelivery(main, endpoint, later, ({attempts}) => attempts >= 3);
	t.is(receiver.postsTo('/dead', id).length, 5);

	const path = `/v1/webhooks/deliveries/${exhausted.id}/replay`;
	t.is(codeOf(await other.live.post(path, {})), 'not_found');
	t.is(codeOf(await main.live.post(`/v1/webhooks/deliveries/${unknownId('whd')}/replay`, {})), 'not_found');
	t.deepEqual(fieldsOf(await main.live.post(path, {force: true})), ['force']);
	t.like(await untilDelivery(main, endpoint, id, () => true), {status: 'exhausted'});
	receiver.behave('/dead', answering(200));
	const replayed = await main.live.post<Delivery>(path, {});
	t.is(replayed.status, 202);
	t.like(replayed.body, {id: exhausted.id, status: 'pending', attempts: 0});
	t.like(await untilDelivery(main, endpoint, id, ({status}) => status === 'delivered'), {
		id: exhausted.id,
		attempts: 1,
	});
	t.is(receiver.postsTo('/dead', id).length, 6);
	t.is(receiver.postsTo('/dead', id)[5]?.headers['x-webhook-id'], exhausted.id);

	t.is((await main.live.post(path, {})).status, 202);
	await waitFor('what was delivered is posted again', () => receiver.postsTo('/dead', id).length === 7);
	t.like(await untilDelivery(main, endpoint, id, ({status}) => status === 'delivered'), {attempts: 1});

	receiver.behave('/dead', answering(500));
	t.is((await main.live.post(path, {})).status, 202);
	await untilDelivery(main, endpoint, id, ({status}) => status === 'failed');
	receiver.behave('/dead', answering(200));
	t.like((await main.live.post<Delivery>(path, {})).body, {status: 'pending', attempts: 0});
	t.like(await untilDelivery(main, endpoint, id, ({status}) => status === 'delivered'), {attempts: 1});
	t.is((await main.live.remove(`/v1/webhooks/${endpoint.id}`)).status, 204);
	t.is(codeOf(await main.live.post(path, {})), 'not_found');
});

test('every address is looked up for each attempt and must be public; a refusal is a failed attempt', async t => {
	conforms(t, 'webhook-safety.rule-2-public', 'webhook-safety.rule-2-attempt', 'webhook-status.failed');
	const {main} = service().workspaces as {main: Workspace};
	receiver.zone['private.example'] = {a: ['10.0.0.1'], ttl: 0};
	receiver.zone['mixed.example'] = {a: ['127.0.0.1', '169.254.169.254'], ttl: 0};
	receiver.zone['gone.example'] = 'nxdomain';
	const endpoints = {
		private: await register(main, '/private', ['delivered'], 'private.example'),
		mixed: await register(main, '/mixed', ['delivered'], 'mixed.example'),
		gone: await register(main, '/gone', ['delivered'], 'gone.example'),
		rebound: await register(main, '/rebound', ['delivered'], 'rebound.example'),
	};
	const first = await accepted(main, {to: 'safety@simulator.test'});
	await untilDelivery(main, endpoints.rebound, first, ({status}) => status === 'delivered');
	receiver.zone['rebound.example'] = {a: ['192.168.0.1'], ttl: 0};
	const second = await accepted(main, {to: 'rebound@simulator.test'});
	const refused = await Promise.all(
		Object.values(endpoints).map(each => untilDelivery(main, each, second, ({status}) => status === 'failed')),
	);
	t.true(refused.every(({attempts}) => attempts >= 1));
	await untilDelivery(main, endpoints.mixed, first, ({attempts}) => attempts >= 2);
	t.deepEqual(
		['/private', '/mixed', '/gone'].flatMap(path => receiver.postsTo(path)),
		[],
	);
	t.is(receiver.postsTo('/rebound', first).length, 1);
	t.is(receiver.postsTo('/rebound', second).length, 0);

	receiver.zone['mixed.example'] = {a: ['127.0.0.1'], ttl: 0};
	await untilDelivery(main, endpoints.mixed, first, ({status}) => status === 'delivered');
	t.is(receiver.postsTo('/mixed', first).length, 1);
	await Promise.all(Object.values(endpoints).map(({id}) => main.live.remove(`/v1/webhooks/${id}`)));
});

test('entries and topics have no route that edits them, endpoints only the one that the interface leaves open', async t => {
	conforms(t, 'webhook-status.no-lifecycle');
	const {other} = service().workspaces as {other: Workspace};
	for (const path of [`suppressions/${unknownId('sup')}`, `unsubscribe-groups/${unknownId('usg')}`]) {
		for (const method of ['PATCH', 'PUT', 'POST', 'GET']) {
			const answer = await other.live.call(method, `/v1/${path}`, method === 'GET' ? null : '{}');
			t.is(codeOf(answer), 'method_not_allowed', `${method} ${path}`);
		}
	}
	for (const method of ['PUT', 'POST', 'GET']) {
		const answer = await other.live.call(method, `/v1/webhooks/${unknownId('whe')}`, method === 'GET' ? null : '{}');
		t.is(codeOf(answer), 'method_not_allowed', method);
	}
});

test('the backoff is a minute where nothing else was set', async t => {
	conforms(t, 'webhook-status.backoff', 'limits.webhook-backoff');
	const program = await prepareProgram(t, {});
	const shown = await program.cliBytes('config', 'show');
	t.regex(shown.toString(), /MAILCTL_WEBHOOK_BACKOFF\s+(60s|1m)\b/);
});
