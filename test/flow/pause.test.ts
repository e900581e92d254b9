import test from 'ava';
import {prepareProgram, type Welcome, welcomeOf} from '../helpers/daemon.ts';
import {addShop} from '../helpers/second-shop.ts';
import {call} from '../helpers/shop.ts';
import {waitFor} from '../helpers/wait.ts';

type Sent = {readonly id: string};

const send = async (url: string, {key, from, templateId}: Welcome, to: string) =>
	await call(`${url}/v1/messages`, key, {from, to, templateId});

const statusOf = async (url: string, {key}: Welcome, {id}: Sent) =>
	((await call(`${url}/v1/messages/${id}`, key)).body as {status: string}).status;

test('holds queued messages while their workspace is paused, counts them, and sends them after resume', async t => {
	const program = await prepareProgram(t, {});
	const taking = await program.serve({MAILCTL_ROLES: 'api'});
	const shop = await welcomeOf(program);
	const queued: Sent[] = [];
	for (const to of ['one@a.example', 'two@a.example', 'three@b.example']) {
		queued.push((await send(taking.url, shop, to)).body as Sent);
	}
	t.is(await taking.stop(), 0);
	const other = await addShop(program);
	await program.cli('workspace', 'pause', 'default', '--reason', 'review');

	const daemon = await program.serve();
	t.is((await send(daemon.url, shop, 'four@a.example')).status, 403);
	const batch = await call(`${daemon.url}/v1/messages/batch`, shop.key, {messages: [{}]});
	t.is(batch.status, 403);
	const free = (await send(daemon.url, other, 'one@a.example')).body as Sent;
	await waitFor('mail of others goes out', async () => (await statusOf(daemon.url, other, free)) === 'delivered');
	for (const message of queued) {
		t.is(await statusOf(daemon.url, shop, message), 'accepted');
	}
	t.like(await program.cli('workspace', 'show', 'default'), {paused: true, pause_reason: 'review'});

	await program.cli('workspace', 'resume', 'default');
	for (const message of queued) {
		await waitFor('it goes out', async () => (await statusOf(daemon.url, shop, message)) === 'delivered');
	}
	t.like((await call(`${daemon.url}/v1/usage?days=2`, shop.key)).body, {accepted: 3, test: 0, quota: null});
	const {days} = (await call(`${daemon.url}/v1/usage?days=2`, shop.key)).body as {
		days: Array<Record<string, number>>;
	};
	t.is((days[0]?.accepted ?? 0) + (days[1]?.accepted ?? 0), 3);
	t.is((days[0]?.delivered ?? 0) + (days[1]?.delivered ?? 0), 3);

	await program.cli('workspace', 'update', 'default', '--monthly-quota', '3');
	await waitFor('the quota holds', async () => (await send(daemon.url, shop, 'x@a.example')).status === 429);
	t.is(await daemon.stop(), 0);
});
