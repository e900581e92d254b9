import test from 'ava';
import {systemClock} from '../../src/kit/clock.ts';
import {storeTime} from '../../src/kit/time.ts';
import {createIdSource} from '../../src/mail/ids.ts';
import {notify} from '../../src/outcome/outbox.ts';
import {openStore} from '../../src/store/store.ts';
import {visitorOf} from '../helpers/dashboard.ts';
import {receivedIn} from '../helpers/dashboard-routes.ts';
import type {Service} from '../helpers/service.ts';
import {waitFor} from '../helpers/wait.ts';
import {receiver, service} from './service.ts';

type Shown = {
	readonly url: string;
	readonly events: string[];
	readonly active: boolean;
	readonly signing_secret: string;
};
const show = (page: string) =>
	service().program.cli<Shown>('webhook', 'show', page.split('/')[2] ?? '', '--workspace', 'hooked');
const shop = () => service().workspaces.hooked as NonNullable<Service['workspaces'][string]>;

async function send(to: string, metadata = {}): Promise<string> {
	const {live, from, templates} = shop();
	const {body} = await live.post<{id: string}>('/v1/messages', {from, to, templateId: templates.plain, metadata});
	return body.id;
}

/** Adds an endpoint through the form; returns the path of its page. */
async function added(path: string, events = 'delivered'): Promise<string> {
	const admin = await visitorOf(service(), 'admin', 'hooked');
	const {location} = await admin.submit('/webhooks', {url: receiver.url(path), events});
	return location ?? '';
}

test('replays one or all deliveries that an endpoint missed', async t => {
	const operator = await visitorOf(service(), 'operator', 'hooked');
	const page = await added('/outage');
	receiver.behave('/outage', (_, response) => response.writeHead(503).end('maintenance <b>'));
	await send('ann@dest.example', {note: '<script>alert(1)</script>'});
	await send('bob@dest.example');
	const exhausted = async () => (await operator.get(`${page}?state=exhausted`)).text;
	await waitFor('both are given up', async () => (await exhausted()).match(/badge bad">exhausted/g)?.length === 2);
	const {text} = await operator.get(page);
	t.regex(text, /badge bad">failing/);
	t.regex(text, /responded with 503/);
	t.notRegex((await operator.get(`${page}?state=delivered`)).text, /ann@dest/);
	t.regex((await operator.get(`${page}?hours=1&state=exhausted`)).text, /ann@dest/);

	const [, one = ''] = /href="([^"]+)" data-row><bdi>ann@dest\.example/.exec(await exhausted()) ?? [];
	const delivery = await operator.get(one);
	t.true(delivery.text.includes('&lt;script&gt;alert(1)'), 'the body as it was posted');
	t.is(delivery.text.match(/<td>responded with 503/g)?.length, 5);
	t.regex(delivery.text, /Response.*maintenance &lt;b&gt;/s);

	receiver.behave('/outage', (_, response) => response.end());
	t.is((await operator.submit(`${one}/replay`)).location, one);
	await waitFor('one arrives', async () => /badge good">delivered/.test((await operator.get(one)).text));
	t.regex(await exhausted(), /bob@dest/, 'the other waits still');
	const done = await operator.submit(`${page}/replay`, {hours: '24', state: 'exhausted', event: ''});
	t.regex((await operator.get(done.location ?? '')).text, /Deliveries being posted again: 1\./);
	await waitFor('the other too', async () => !/bob@dest/.test(await exhausted()));
	t.regex((await operator.get(page)).text, /badge good">active/);
	t.is((await operator.submit(`${page}/replay`, {state: 'exhausted'})).status, 422, 'since when is not said');
	const elsewhere = await added('/elsewhere');
	t.is((await operator.get(one.replace(page, elsewhere))).status, 404, 'it is of another endpoint');
});

test('a delivery without a recipient shows the sender of a received message or the subject of the event', async t => {
	const {store: where} = service();
	const {id: workspaceId} = shop();
	const admin = await visitorOf(service(), 'admin', 'hooked');
	const page = await added('/received', 'received');
	const disabled = await added('/disabled', 'endpoint_disabled');
	const keptFor = await receivedIn(where, workspaceId);
	const store = await openStore(where);
	const about = {workspaceId, messageId: null, recipient: null, at: storeTime(Date.now())};
	const mail = {...about, type: 'received', keptFor} as const;
	await store.writer.transaction(trx =>
		notify(
			trx,
			[
				{...mail, detail: {id: keptFor, from: 'ada@in.example', envelope_from: 'bounce@in.example'}},
				{...mail, detail: {from: null, envelope_from: 'eve@in.example'}},
				{...about, type: 'endpoint_disabled', detail: {host: 'other.example'}},
			],
			{newId: createIdSource(systemClock)},
		),
	);
	await store.close();
	t.regex((await admin.get(disabled)).text, /data-row><bdi>other\.example/);
	const {text} = await admin.get(page);
	t.regex(text, /eve@in\.example/);
	const [, one = ''] = /href="([^"]+)" data-row><bdi>ada@in\.example/.exec(text) ?? [];
	const delivery = await admin.get(one);
	t.regex(delivery.text, /received: ada@in\.example/);
	t.true(delivery.text.includes(`href="/received/${keptFor}"`));
});

test('a test shows the response', async t => {
	const operator = await visitorOf(service(), 'operator', 'hooked');
	const page = await added('/tested', 'complained');
	t.regex(
		(await operator.submit(`${page}/test`)).text,
		/was acknowledged: the endpoint responded with 200 after \d+ ms/,
	);
	receiver.behave('/tested', (_, response) => response.writeHead(500).end());
	t.regex((await operator.submit(`${page}/test`)).text, /was not acknowledged: the endpoint responded with 500/);
	t.regex((await operator.get(page)).text, /Nothing has been posted to this endpoint yet/, 'a test is not stored');
});

test('adds, changes, disables, enables and removes an endpoint, and rotates its secret', async t => {
	const admin = await visitorOf(service(), 'admin', 'hooked');
	const kept = await admin.submit('/webhooks', {url: 'http://shop.example/"', events: 'opened'});
	t.is(kept.status, 422);
	t.regex(kept.text, /The URL must be an https URL/);
	t.true(kept.text.includes('value="http://shop.example/&quot;"') && kept.text.includes('value="opened" checked'));
	t.is((await admin.submit('/webhooks', {url: receiver.url('/none')})).status, 422, 'no event');

	const page = await added('/changed');
	t.like(await show(page), {url: receiver.url('/changed'), events: ['delivered']});
	const before = (await show(page)).signing_secret;
	const secret = async () => (await admin.get(`${page}/secret`)).text;
	t.true((await secret()).includes(`data-copy="${before}"`));
	t.false((await admin.get(page)).text.includes(before));
	t.is((await admin.submit(`${page}/change`, {url: 'https://localhost', events: 'bounced'})).status, 422);
	await admin.submit(`${page}/change`, {url: receiver.url('/moved'), events: 'bounced'});
	t.like(await show(page), {url: receiver.url('/moved'), events: ['bounced']});
	await admin.submit(`${page}/disable`);
	t.like(await show(page), {active: false});
	await admin.submit(`${page}/enable`);
	t.like(await show(page), {active: true});

	t.is((await admin.submit(`${page}/rotate`, {overlap: '99999999999'})).status, 422);
	t.is((await admin.submit(`${page}/rotate`, {overlap: '1h'})).location, `${page}/secret`);
	const {signing_secret: after} = await show(page);
	t.not(after, before);
	t.regex(await secret(), new RegExp(`data-copy="${after}".*Old secret expires.*in \\d`, 's'));

	t.is((await admin.submit(`${page}/remove`, {typed: 'no'})).status, 422);
	t.is((await admin.get(page)).status, 200);
	await admin.submit(`${page}/remove`, {typed: 'remove'});
	t.is((await admin.get(page)).status, 404);
});

test('shows viewers the state of endpoints, but no secrets or forms', async t => {
	const viewer = await visitorOf(service(), 'viewer', 'hooked');
	const page = await added('/seen?token=<b>');
	for (const path of ['/webhooks', page]) {
		const {status, text} = await viewer.get(path);
		t.is(status, 200);
		t.regex(text, /\/seen\?token=%3Cb%3E|\/seen\?token=&lt;b&gt;/);
		t.notRegex(text, /whsec_/);
		t.deepEqual(
			[...text.matchAll(/action="([^"]+)"/g)].map(([, to]) => to),
			['/logout'],
		);
	}
	t.is((await viewer.get(`${page}/secret`)).status, 403);
});
