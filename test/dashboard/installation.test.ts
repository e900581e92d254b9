import {join} from 'node:path';
import test from 'ava';
import {storeTime} from '../../src/kit/time.ts';
import {openStore} from '../../src/store/store.ts';
import {visitorOf} from '../helpers/dashboard.ts';
import type {Service} from '../helpers/service.ts';
import {waitFor} from '../helpers/wait.ts';
import {newId} from '../helpers/workspace.ts';
import {service} from './service.ts';

// The tests run at once: each that pauses a workspace has one of its own.
function workspaceOf({workspaces}: Service, name: string) {
	return workspaces[name] as NonNullable<(typeof workspaces)[string]>;
}

const keyIn = (page: string) => /key_(?:live|test)_[0-9A-Za-z]{38}/.exec(page)?.[0] ?? '';
const idIn = (page: string, name: string) => new RegExp(`${name}[\\s\\S]*?/keys/(key_\\w+)/`).exec(page)?.[1] ?? '';

test('creates a key with scopes, shows it once, rotates it and revokes it', async t => {
	const visitor = await visitorOf(service(), 'admin', 'shop');
	t.is((await visitor.submit('/keys', {name: ' '})).status, 422);
	t.is((await visitor.submit('/keys', {name: 'x', rate_limit: 'many'})).status, 422);
	const made = await visitor.submit('/keys', {name: '<b>app', mode: 'live', scopes: 'messages:read', expires: '30'});
	const key = keyIn(made.text);
	t.is((await service().api(key).get('/v1/messages')).status, 200);
	t.is((await service().api(key).get('/v1/contacts')).status, 403);

	const {text} = await visitor.get('/keys');
	t.is(keyIn(text), '', 'the list has no key');
	t.regex(text, /&lt;b&gt;app/);
	const rotated = keyIn((await visitor.submit(`/keys/${idIn(text, '&lt;b&gt;app')}/rotate`, {overlap: '0'})).text);
	t.is((await service().api(rotated).get('/v1/messages')).status, 200);
	await waitFor('the end of the old key', async () => (await service().api(key).get('/v1/messages')).status === 401);

	const id = idIn((await visitor.get('/keys')).text, '&lt;b&gt;app');
	t.is((await visitor.submit(`/keys/${id}/revoke`)).location, '/keys');
	await waitFor('the end of the key', async () => (await service().api(rotated).get('/v1/messages')).status === 401);
	t.is((await visitor.submit(`/keys/${id}/revoke`)).status, 404);
});

test('pauses a workspace with a reason and resumes it, and records both in the audit trail', async t => {
	const parked = workspaceOf(service(), 'parked');
	const visitor = await visitorOf(service(), 'admin', 'parked');
	const path = `/workspaces/${parked.id}`;
	const send = {from: parked.from, to: 'ann@dest.example', templateId: parked.templates.plain, data: {}};
	t.is((await visitor.submit(`${path}/pause`, {reason: ''})).status, 422);
	await visitor.submit(`${path}/pause`, {reason: 'under <i>review'});
	t.regex((await visitor.get(path)).text, /under &lt;i&gt;review/);
	t.not((await parked.live.post('/v1/messages', send)).status, 202);
	await visitor.submit(`${path}/resume`);
	t.is((await parked.live.post('/v1/messages', send)).status, 202);
	const {text} = await visitor.get('/audit');
	t.regex(text, /workspace\.resumed[\s\S]*workspace\.paused/);
	t.regex(text, /user:admin\d+@staff\.example/);
});

test('saves all settings together, or keeps the input and shows the invalid one', async t => {
	const calm = workspaceOf(service(), 'calm');
	const visitor = await visitorOf(service(), 'admin', 'calm');
	const path = `/workspaces/${calm.id}`;
	const good = {name: 'calm', queue_lifetime: '36h', locale: 'de-at', timezone: 'Europe/Vienna', track_opens: 'true'};
	t.is((await visitor.submit(path, {...good, default_topic: 'nix'})).status, 422);
	for (const wrong of [
		{queue_lifetime: 'soon'},
		{locale: 'not a tag'},
		{timezone: 'Mars'},
		{'branding.accent': 'red'},
	]) {
		const seen = await visitor.submit(path, {...good, ...wrong});
		t.is(seen.status, 422, JSON.stringify(wrong));
		t.regex(seen.text, new RegExp(`value="${Object.values(wrong)[0]}"`));
	}
	t.is((await visitor.submit(path, good)).location, path);
	const shown = await service().program.cli<Record<string, unknown>>('workspace', 'show', calm.id);
	t.like(shown, {monthly_quota: null, locale: 'de-AT', timezone: 'Europe/Vienna', track_opens: true});
	t.is((await visitor.submit(path, {...good, name: 'shop'})).status, 422, 'the name is another’s');
	t.is((await visitor.submit(`/workspaces/${workspaceOf(service(), 'shop').id}`, good)).status, 404);
	t.is((await visitor.submit('/workspaces', {name: 'mine'})).status, 403);
});

test('an admin of all workspaces creates one and switches to it at once', async t => {
	const visitor = await visitorOf(service(), 'admin');
	const {location} = await visitor.submit('/workspaces', {name: 'fresh'});
	t.regex(location ?? '', /^\/workspaces\/ws_/);
	t.regex((await visitor.get('/messages')).text, /No messages yet/);
	const {text} = await visitor.get('/workspaces');
	t.regex(text, /calm[\s\S]*shop|shop[\s\S]*calm/);
	await visitor.submit('/workspaces/use', {workspace: workspaceOf(service(), 'shop').id});
	t.regex((await visitor.get('/keys')).text, new RegExp(`value="${workspaceOf(service(), 'shop').id}" selected`));
});

test('only users of all workspaces change the limits of a workspace', async t => {
	const {id} = workspaceOf(service(), 'bound');
	const path = `/workspaces/${id}`;
	const [own, operator] = [await visitorOf(service(), 'admin', 'bound'), await visitorOf(service(), 'admin')];
	type Shown = {
		readonly monthly_quota: number | null;
		readonly queue_lifetime: string | null;
		readonly pause_reason: string | null;
	};
	const shown = () => service().program.cli<Shown>('workspace', 'show', id);

	const settings = {name: 'bound', queue_lifetime: '1h'};
	t.is((await operator.submit(path, {...settings, monthly_quota: '50'})).location, path);
	for (const wrong of [
		{monthly_quota: ''},
		{monthly_quota: '51'},
		{queue_lifetime: '30d'},
		{max_attachments: '9'},
		{max_attachments: '', max_attachment_bytes: '2MiB'},
	]) {
		t.is((await own.submit(path, {...settings, ...wrong})).status, 403, JSON.stringify(wrong));
	}
	t.is((await own.submit(path, {...settings, queue_lifetime: '2h'})).location, path);
	t.like(await shown(), {monthly_quota: 50});
	t.notRegex((await own.get(path)).text, /name="monthly_quota"/);
	const wide = {name: 'bound', monthly_quota: '', max_attachments: '10', max_attachment_bytes: '10MiB'};
	t.is((await operator.submit(path, wide)).location, path);
	t.like(await shown(), {max_attachments: 10, max_attachment_bytes: 10_485_760});
	t.regex((await operator.submit(path, {name: 'bound', max_attachments: '21'})).text, /a whole number, 0 to 20/);
	t.notRegex((await own.get(path)).text, /name="max_attachments"/);

	for (const rate of ['0', '6001/60', '1000/1', '360000/3600']) {
		t.is((await own.submit('/keys', {name: 'fast', rate_limit: rate})).status, 403, rate);
	}
	t.is((await own.submit('/keys', {name: 'slow', rate_limit: '60/1'})).status, 200);
	for (const scope of ['admin', '*', 'messages:sends']) {
		t.is((await own.submit('/keys', {name: 'odd', scopes: scope})).status, 422, `not the usual scopes: ${scope}`);
	}
	t.is((await operator.submit('/workspaces/use', {workspace: id})).status, 303);
	t.is((await operator.submit('/keys', {name: 'fast', rate_limit: '0'})).status, 200);

	await operator.submit(`${path}/pause`, {reason: 'abuse'});
	t.is((await own.submit(`${path}/resume`)).status, 403);
	t.is((await own.submit(`${path}/pause`, {reason: 'ours'})).status, 403);
	t.like(await shown(), {pause_reason: 'abuse'});
	t.notRegex((await own.get(path)).text, /\/resume"/);
	await operator.submit(`${path}/resume`);
	await own.submit(`${path}/pause`, {reason: 'ours'});
	await operator.submit(`${path}/pause`, {reason: 'theirs now'});
	t.is((await own.submit(`${path}/resume`)).status, 403, 'a pause from above takes the place of one of their own');
	await service().program.cli('workspace', 'resume', id);
	t.like(await shown(), {pause_reason: null});
});

test('no API key can change the installation', async t => {
	const {id} = workspaceOf(service(), 'calm');
	const {key} = await service().program.cli<{key: string}>('key', 'create', '--name', 'all', '--workspace', id);
	const {post, patch} = service().api(key);
	t.is((await post('/v1/senders', {address: 'a@calm.example', verified: true})).status, 422);
	const {body} = await post<{id: string}>('/v1/senders', {address: 'a@calm.example'});
	t.is((await patch(`/v1/senders/${body.id}`, {verified: true})).status, 422);
	for (const path of ['/v1/workspaces', `/v1/workspaces/${id}`, '/v1/keys', '/v1/users']) {
		t.is((await post(path, {})).status, 404, path);
	}
});

test.serial('offers the newest of many workspaces and finds all by part of their name', async t => {
	const {program} = service();
	const store = await openStore({file: join(program.folder, 'data/mailctl.db')});
	t.teardown(async () => {
		// The other tests see few.
		await store.writer.transaction(trx => trx('workspaces').whereLike('name', 'tenant-%').delete());
		await store.close();
	});
	await store.writer.transaction(async trx => {
		for (let n = 0; n < 120; n++) {
			await trx('workspaces').insert({id: newId('ws'), name: `tenant-${n}`, created_at: storeTime(Date.now())});
		}
	});
	const visitor = await visitorOf(service(), 'admin');
	const offered = (text: string) => [...text.matchAll(/<option value="ws_/g)].length;
	const rows = (text: string) =>
		new Set([...text.matchAll(/href="\/workspaces\/(ws_\w+)"/g)].map(([, id]) => id)).size;
	const first = await visitor.get('/workspaces');
	t.true(offered(first.text) <= 51, `${offered(first.text)}`);
	t.regex(first.text, /<a href="\/workspaces">More workspaces<\/a>/);
	t.is(rows(first.text), 50);
	t.regex(first.text, /tenant-119/);
	const [, after = ''] = /href="\/workspaces\?after=(ws_\w+)"/.exec(first.text) ?? [];
	const second = await visitor.get(`/workspaces?after=${after}`);
	t.is(rows(second.text), 50);
	t.regex(second.text, /tenant-69/);

	const found = await visitor.get('/workspaces?q=NANT-7');
	t.is(rows(found.text), 11, '7 and 70 to 79');
	const [, id = ''] = /href="\/workspaces\/(ws_\w+)"[^>]*>(?:<[^>]+>)*tenant-7</.exec(found.text) ?? [];
	t.not(id, '');
	t.regex((await visitor.get(`/workspaces/${id}`)).text, /Switch to this workspace/);
	await visitor.submit('/workspaces/use', {workspace: id});
	const page = await visitor.get('/messages');
	t.regex(page.text, new RegExp(`<option value="${id}" selected`));
	t.true(offered(page.text) <= 51);

	const added = await visitor.submit('/users', {email: 'new@staff.example', role: 'viewer', workspace: id});
	t.is(added.status, 200, added.text);
	t.is((await visitor.submit('/users', {email: 'no@staff.example', role: 'viewer', workspace: 'ws_x'})).status, 422);
	const own = await visitorOf(service(), 'viewer', 'shop');
	await own.submit('/workspaces/use', {workspace: id});
	t.is((await own.get(`/workspaces/${id}`)).status, 404);
	t.notRegex((await own.get('/messages')).text, /tenant-/);
});
