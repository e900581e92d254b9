import test from 'ava';
import {openStore} from '../../src/store/store.ts';
import {type Visitor, visitorOf} from '../helpers/dashboard.ts';
import type {Service} from '../helpers/service.ts';
import {waitFor} from '../helpers/wait.ts';
import {service} from './service.ts';

const workspaceOf = ({workspaces}: Service, name: string) =>
	workspaces[name] as NonNullable<(typeof workspaces)[string]>;

async function sent(to: string, workspace = 'shop'): Promise<string> {
	const {live, from, templates} = workspaceOf(service(), workspace);
	const {body} = await live.post<{id: string}>('/v1/messages', {from, to, templateId: templates.plain, data: {}});
	return body.id;
}

/**
 * Sends until a message is held: the page shows the suspension at once, but the scheduler learns of it within half a
 * second. A message that is accepted later and arrives shows that the scheduler skipped this one.
 */
async function waiting(visitor: Visitor, to: string, workspace = 'shop'): Promise<string> {
	return await waitFor(`mail to ${to}`, async () => {
		const id = await sent(to, workspace);
		const later = await sent('ann@well.example', workspace);
		await waitFor('the later mail', async () => (await statusOf(later, workspace)) === 'delivered');
		const {text} = await visitor.get(`/queue/${to.split('@')[1]}`);
		const stays = new RegExp(`In flight</dt><dd>0<[\\s\\S]*${id}[\\s\\S]{0,600}suspended`);
		return stays.test(text) ? id : null;
	});
}

const statusOf = async (id: string, workspace = 'shop') =>
	(await workspaceOf(service(), workspace).live.get<{status: string}>(`/v1/messages/${id}`)).body.status;

test('a suspended domain holds its messages, shows why, and sends them after resume', async t => {
	const visitor = await visitorOf(service(), 'operator');
	await visitor.submit('/workspaces/use', {workspace: workspaceOf(service(), 'shop').id});
	t.is((await visitor.submit('/queue/suspend', {domain: 'no domain'})).status, 422);
	t.is(
		(await visitor.submit('/queue/suspend', {domain: 'stopped.example', reason: '<b>full'})).location,
		'/queue/stopped.example',
	);
	t.regex((await visitor.get('/queue/stopped.example')).text, />Resume</, 'also without mail');
	const id = await waiting(visitor, 'ann@stopped.example');
	const queue = (await visitor.get('/queue')).text;
	t.regex(queue, /stopped\.example[\s\S]*suspended[\s\S]*&lt;b&gt;full/);
	t.regex(queue, /By provider/);
	t.regex((await visitor.get('/queue?q=Stopp')).text, /data-row><bdi>stopped\.example/);
	t.regex((await visitor.get('/queue?q=other')).text, /No messages are waiting for a matching destination/);
	const {text} = await visitor.get('/queue/stopped.example');
	t.regex(text, new RegExp(`${id}[\\s\\S]*ann@stopped\\.example`));
	t.regex(text, /suspended/i);
	// Whoever sees one workspace neither sees the mail of others nor stops it.
	const other = await visitorOf(service(), 'operator', 'other');
	t.notRegex((await other.get('/queue/stopped.example')).text, /ann@/);
	t.notRegex((await other.get('/queue')).text, /By provider/);
	t.is((await other.submit('/queue/suspend', {domain: 'dest.example'})).status, 403);
	await visitor.submit('/queue/stopped.example/resume');
	await waitFor('the mail', async () => (await statusOf(id)) === 'delivered');
	t.notRegex((await visitor.get('/queue')).text, /\/queue\/stopped\.example/);
});

test('Try now makes a waiting message due, which cannot be sent again until it is delivered', async t => {
	const visitor = await visitorOf(service(), 'operator');
	await visitor.submit('/workspaces/use', {workspace: workspaceOf(service(), 'shop').id});
	await visitor.submit('/queue/suspend', {domain: 'later.example'});
	const id = await waiting(visitor, 'ann@later.example');
	const path = `/messages/${id}`;
	const store = await openStore(service().store);
	t.teardown(() => store.close());
	const sends = () => store.reader('recipients').where({address_key: 'ann@later.example'}).pluck('id');
	const [recipient] = await store.reader('recipients').where({message_id: id}).pluck('id');
	const before = await sends();
	const inHour = new Date(Date.now() + 3_600_000).toISOString();
	await store.database('queue').where({recipient_id: recipient}).update({next_attempt_at: inHour});

	const page = (await visitor.get(path)).text;
	t.is(actionsOf(page)[0], '<button class="main">Try now</button>');
	t.is(page.match(/<button class="main"/g)?.length, 1);
	t.notRegex(page, /resend/);
	for (const danger of ['Cancel message', 'Suppress recipient']) {
		t.regex(page, new RegExp(`<details class="item danger"><summary>${danger}…</summary>`));
		t.true(actionsOf(page).includes(`<button class="danger">${danger}</button>`), danger);
	}
	const again = await visitor.submit(`${path}/resend`);
	t.is(again.status, 422);
	t.regex(again.text, /This message is still waiting: sending it again would deliver it twice\./);

	t.is((await visitor.submit(`${path}/flush`)).location, path);
	t.regex((await visitor.get(path)).text, /The next attempt is due now\./);
	const due = await store.reader('queue').where({recipient_id: recipient}).first('next_attempt_at');
	t.true(Date.parse(due.next_attempt_at) <= Date.now());
	const acts = await service().program.cli<Array<{action: string; target: string}>>('audit', 'list');
	t.deepEqual(
		acts.filter(({target}) => target === recipient).map(({action}) => action),
		['queue.flushed'],
	);
	await visitor.submit(`${path}/flush`);
	t.regex((await visitor.get(path)).text, /Nothing was changed/);
	t.deepEqual(await sends(), before, 'nothing was sent again');

	await visitor.submit('/queue/later.example/resume');
	await waitFor('the mail', async () => (await statusOf(id)) === 'delivered');
	const delivered = (await visitor.get(path)).text;
	t.notRegex(delivered, /Try now|Cancel message/);
	t.regex(
		delivered,
		/<details class="opened menu"><summary>More<\/summary>[\s\S]*<button class="quiet">Send again<\/button>[\s\S]*Sends the same content once more as a new message\./,
	);
});

test('what ends waiting messages is red and in a menu', async t => {
	const visitor = await visitorOf(service(), 'operator', 'shop');
	const {text} = await visitor.get('/queue/menu.example');
	t.is(actionsOf(text)[0], '<button class="main">Try now</button>');
	for (const danger of ['Delete from queue', 'Bounce now']) {
		t.regex(
			text,
			new RegExp(`class="opened menu">[\\s\\S]*<details class="item danger"><summary>${danger}…</summary>`),
		);
		t.true(actionsOf(text).includes(`<button class="danger">${danger}</button>`), danger);
	}
});

/** The buttons beside the heading of a page. */
function actionsOf(page: string): readonly string[] {
	const [, actions = ''] = /<div class="actions">([\s\S]*?)<\/header>/.exec(page) ?? [];
	return actions.match(/<button[^>]*>[^<]*<\/button>/g) ?? [];
}

test('drops and fails only messages of this workspace, after the destination is typed', async t => {
	const visitor = await visitorOf(service(), 'operator', 'shop');
	const operator = await visitorOf(service(), 'operator');
	await operator.submit('/queue/suspend', {domain: 'ended.example'});
	const own = await waiting(visitor, 'ann@ended.example');
	const foreign = await sent('ann@ended.example', 'other');
	t.is((await visitor.submit('/queue/ended.example/drop', {typed: 'ended'})).status, 422);
	t.is(await statusOf(own), 'accepted');
	t.is((await visitor.submit('/queue/ended.example/drop', {typed: 'ended.example'})).status, 303);
	t.is(await statusOf(own), 'errored');
	t.is(await statusOf(foreign, 'other'), 'accepted');
	const next = await sent('ann@ended.example');
	await visitor.submit('/queue/ended.example/fail', {typed: 'ended.example', reason: 'no use'});
	t.is(await statusOf(next), 'bounced');
	const acts = await service().program.cli<Array<{action: string; detail: {reason?: string}}>>('audit', 'list');
	t.deepEqual(
		acts
			.filter(({action}) => /^queue\.(?:dropped|failed)$/.test(action))
			.map(({action, detail}) => [action, detail.reason]),
		[
			['queue.failed', 'no use'],
			['queue.dropped', undefined],
		],
	);
});
