import {mkdtemp, rm} from 'node:fs/promises';
import {tmpdir} from 'node:os';
import {join} from 'node:path';
import test from 'ava';
import {type List, timeShape} from '../helpers/api-client.ts';
import {conforms} from '../helpers/conforms.ts';
import {serviceOf, type Workspace} from '../helpers/service.ts';
import {waitFor} from '../helpers/wait.ts';
import {type Behaviour, distrust, type Receiver, startReceiver} from '../helpers/webhook-receiver.ts';
import {
	accepted,
	type Delivery,
	type Endpoint,
	idShape,
	timeline,
	untilEvent,
	untilStatus,
	type WebhookBody,
} from './resources.ts';

const hosts = ['hooks.example', 'mixed.example', 'rebound.example', 'broken.example'];
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

test('posts the five fields, signed over the bytes, as the delivery shows them', async t => {
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
	t.is(
		body.occurred_at,
		(await timeline(main.live, id)).find(({type}) => type === 'delivered')?.occurred_at as string,
	);
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
	const listed = (await deliveriesOf(main, endpoint)).map(each => each.id);
	t.true(listed.indexOf(second.id) < listed.indexOf(delivery.id), 'newest first');
});

test('posts all five event types, with and without tracking', async t => {
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

test('posts an event per recipient to every subscribed endpoint of the workspace', async t => {
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

test('a 2xx acknowledges; a redirect, an error or a lost connection is retried after the backoff', async t => {
	conforms(t, 'webhook-request.acknowledged', 'webhook-request.failure', 'webhook-safety.rule-3');
	conforms(
		t,
		'webhook-status.failed',
		'webhook-status.retried',
		'webhook-status.backoff',
		'webhook-request.receiver',
	);
	conforms(t, 'delivery.status', 'delivery.attempts');
	const {main} = service().workspaces as {main: Workspace};
	receiver.behave('/299', answering(299));
	const fine = await register(main, '/299', ['delivered']);
	const failures: Readonly<Record<string, Behaviour>> = {
		'/500': answering(500),
		'/307': answering(307, {location: receiver.url('/target')}),
		'/broken': (_, __, request) => request.socket.destroy(),
	};
	const failing = await Promise.all(
		Object.entries(failures).map(async ([path, behaviour]) => {
			receiver.behave(path, behaviour);
			// A post on a kept connection that ends is made again on a new one, within the attempt: this host's never
			// stay open.
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
		const {attempts, id: deliveryId} = await untilDelivery(
			main,
			endpoint,
			id,
			({status}) => status === 'delivered',
		);
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
	}
	t.deepEqual(receiver.postsTo('/target'), []);
	t.like(await untilDelivery(main, fine, id, ({status}) => status === 'delivered'), {attempts: 1});
	await Promise.all(
		[fine, ...failing.map(({endpoint}) => endpoint)].map(each => main.live.remove(`/v1/webhooks/${each.id}`)),
	);
});

test('the fifth failure exhausts a delivery; a replay starts again', async t => {
	conforms(t, 'webhook-status.exhausted', 'limits.webhook-attempts', 'webhook-status.replay-exhausted');
	conforms(t, 'webhook-status.replay-any', 'webhooks.replay.answer', 'delivery.status');
	const {main} = service().workspaces as {main: Workspace};
	receiver.behave('/dead', answering(503));
	const endpoint = await register(main, '/dead', ['delivered']);
	const id = await accepted(main, {to: 'exhausting@simulator.test'});
	const exhausted = await untilDelivery(main, endpoint, id, ({status}) => status === 'exhausted');
	t.is(exhausted.attempts, 5);
	t.is(receiver.postsTo('/dead', id).length, 5);

	receiver.behave('/dead', answering(200));
	for (const posts of [6, 7]) {
		const replayed = await main.live.post<Delivery>(`/v1/webhooks/deliveries/${exhausted.id}/replay`, {});
		t.is(replayed.status, 202);
		t.like(replayed.body, {id: exhausted.id, status: 'pending', attempts: 0});
		await waitFor('it is posted again', () => receiver.postsTo('/dead', id).length === posts);
		t.like(await untilDelivery(main, endpoint, id, ({status}) => status === 'delivered'), {attempts: 1});
		t.is(receiver.postsTo('/dead', id).at(-1)?.headers['x-webhook-id'], exhausted.id);
	}
	await main.live.remove(`/v1/webhooks/${endpoint.id}`);
});

test('resolves addresses at each attempt and requires public ones; a refusal is a failed attempt', async t => {
	conforms(t, 'webhook-safety.rule-2-public', 'webhook-safety.rule-2-attempt', 'webhook-status.failed');
	const {main} = service().workspaces as {main: Workspace};
	receiver.zone['mixed.example'] = {a: ['127.0.0.1', '169.254.169.254'], ttl: 0};
	const mixed = await register(main, '/mixed', ['delivered'], 'mixed.example');
	const rebound = await register(main, '/rebound', ['delivered'], 'rebound.example');
	const first = await accepted(main, {to: 'safety@simulator.test'});
	await untilDelivery(main, rebound, first, ({status}) => status === 'delivered');
	receiver.zone['rebound.example'] = {a: ['192.168.0.1'], ttl: 0};
	const second = await accepted(main, {to: 'rebound@simulator.test'});
	await untilDelivery(main, rebound, second, ({status}) => status === 'failed');
	await untilDelivery(main, mixed, first, ({status}) => status === 'failed');
	t.is(receiver.postsTo('/rebound', second).length, 0);
	t.is(receiver.postsTo('/mixed').length, 0);

	receiver.zone['mixed.example'] = {a: ['127.0.0.1'], ttl: 0};
	await untilDelivery(main, mixed, first, ({status}) => status === 'delivered');
	t.is(receiver.postsTo('/mixed', first).length, 1);
	await Promise.all([mixed, rebound].map(({id}) => main.live.remove(`/v1/webhooks/${id}`)));
});
