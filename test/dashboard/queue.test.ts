import test from 'ava';
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
