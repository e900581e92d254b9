import test from 'ava';
import {simpleParser} from 'mailparser';
import {conforms} from '../helpers/conforms.ts';
import {prepareProgram} from '../helpers/daemon.ts';
import {startFakeMx} from '../helpers/fake-mx.ts';
import {serviceOf, type Workspace} from '../helpers/service.ts';
import {call, openShop} from '../helpers/shop.ts';
import {waitFor} from '../helpers/wait.ts';
import {
	type Accepted,
	accepted,
	entryOf,
	type Message,
	oneClick,
	rawMail,
	readMessage,
	timeline,
	unsubscribeUrl,
	untilEvent,
	untilStatus,
} from './resources.ts';

const service = serviceOf(test, {
	workspaces: {main: ['--track-opens', '--track-clicks'], untracked: []},
	templates: {
		endless: {
			'template.json': '{"subject":"Endless"}',
			'body.html': '<p>{% for n in (1..99999999) %}x{% endfor %}</p>',
		},
	},
});
const finals = ['delivered', 'bounced', 'complained', 'suppressed', 'errored'];

async function typesOf(workspace: Workspace, id: string): Promise<string[]> {
	return (await timeline(workspace.live, id)).map(({type}) => type);
}

async function htmlOf(workspace: Workspace, id: string): Promise<string> {
	return String((await simpleParser(await rawMail(service(), workspace, id))).html);
}

for (const mode of ['live', 'test'] as const) {
	test(`the simulated outcomes with a ${mode} key: statuses and timelines`, async t => {
		conforms(t, 'status.delivered', 'status.final', 'status.suppresses', 'timeline.types', 'suppression.by-outcome');
		conforms(t, 'message.status', 'event.type');
		const {main} = service().workspaces as {main: Workspace};
		const cases: ReadonlyArray<readonly [local: string, status: string, types: readonly string[], entry?: string]> = [
			['delivered', 'delivered', ['accepted', 'queued', 'sent', 'delivered']],
			['anything', 'delivered', ['accepted', 'queued', 'sent', 'delivered']],
			['deferred', 'delivered', ['accepted', 'queued', 'sent', 'delivered']],
			['bounced', 'bounced', ['accepted', 'queued', 'sent', 'bounced'], 'hard_bounce'],
			['soft-bounced', 'bounced', ['accepted', 'queued', 'sent', 'bounced']],
			['complained', 'complained', ['accepted', 'queued', 'sent', 'delivered', 'complained'], 'complaint'],
			['suppressed', 'suppressed', ['accepted', 'queued', 'suppressed']],
			['errored', 'errored', ['accepted', 'queued', 'errored']],
			['opened', 'delivered', ['accepted', 'queued', 'sent', 'delivered', 'opened']],
			['clicked', 'delivered', ['accepted', 'queued', 'sent', 'delivered', 'clicked']],
		];
		await Promise.all(
			cases.map(async ([local, status, types, reason]) => {
				const to = `${local}+${mode}@simulator.test`;
				const id = await accepted(main, {to}, main[mode]);
				await untilEvent(main.live, id, types.at(-1) as string);
				await untilStatus(main.live, id, status);
				const got = await typesOf(main, id);
				// `sent` is told once a host took the copy's MAIL FROM, which of these refusals says the simulator.
				const told = (all: readonly string[]) => all.filter(type => type !== 'sent' || status === 'delivered');
				const isClick = local === 'clicked';
				t.deepEqual(
					told(got).filter(type => !(isClick && type === 'opened')),
					told(types),
					to,
				);
				t.is((await entryOf(main, to))?.reason, reason, to);
				t.true(finals.includes(status));
			}),
		);
	});
}

test('a template that fails makes its message errored, with the reason, and adds no entry', async t => {
	conforms(t, 'status.final', 'status.states', 'timeline.types');
	const {main} = service().workspaces as {main: Workspace};
	const to = 'unlucky@outcomes.example';
	const id = await accepted(main, {to, templateId: main.templates.endless});
	const [errored] = (await untilEvent(main.live, id, 'errored')).filter(({type}) => type === 'errored');
	t.regex(String(errored?.detail?.reason), /\w/);
	t.like(await untilStatus(main.live, id, 'errored'), {subject: null});
	t.is(await entryOf(main, to), undefined);
});

test('an opt-out is on the timeline and leaves the status alone', async t => {
	conforms(t, 'timeline.types', 'message.status', 'overview.progress');
	const {main} = service().workspaces as {main: Workspace};
	const id = await accepted(main, {to: 'leaver@outcomes.example'});
	await oneClick(unsubscribeUrl(await rawMail(service(), main, id)));
	const events = await untilEvent(main.live, id, 'unsubscribed');
	t.is(events.at(-1)?.type, 'unsubscribed');
	t.is((await readMessage(main.live, id)).status, 'delivered');
});

test('opens and clicks of a real reader, once each; none where it was switched off', async t => {
	conforms(t, 'timeline.types', 'webhook-event.opened', 'webhook-event.clicked');
	const {main, untracked} = service().workspaces as {main: Workspace; untracked: Workspace};
	const id = await accepted(main, {to: 'reader@outcomes.example'});
	const html = await htmlOf(main, id);
	const pixel = /http:\/\/[^"'\s]+\/t\/o\/[\w.-]+/.exec(html)?.[0] as string;
	const link = /http:\/\/[^"'\s]+\/t\/c\/[\w.-]+/.exec(html)?.[0] as string;
	const browser = {
		headers: {'user-agent': 'Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Thunderbird/140.0'},
	};
	for (let n = 0; n < 3; n++) {
		const image = await fetch(pixel, browser);
		t.is(image.status, 200);
		t.regex(image.headers.get('content-type') ?? '', /^image\//);
		const click = await fetch(link, {...browser, redirect: 'manual'});
		t.is(click.status, 302);
		t.is(click.headers.get('location'), 'https://shop.example/orders');
	}
	await untilEvent(main.live, id, 'opened');
	await untilEvent(main.live, id, 'clicked');
	const types = await typesOf(main, id);
	t.is(types.filter(type => type === 'opened').length, 1);
	t.is(types.filter(type => type === 'clicked').length, 1);
	t.is((await untilStatus(main.live, id, 'delivered')).status, 'delivered');
	const forged = await fetch(`${link.slice(0, -2)}${link.endsWith('AA') ? 'BB' : 'AA'}`, {redirect: 'manual'});
	t.deepEqual([forged.status, forged.headers.get('location')], [404, null]);

	const untrackedId = await accepted(untracked, {to: 'reader@outcomes.example'});
	const privateId = await accepted(main, {to: 'private@outcomes.example', tracking: {opens: false, clicks: false}});
	const quiet = [await htmlOf(untracked, untrackedId), await htmlOf(main, privateId)];
	for (const each of quiet) {
		t.notRegex(each, /\/t\/[oc]\//);
		t.regex(each, /href="https:\/\/shop\.example\/orders"/);
	}
});

test('the answer does not wait for the mail: accepted, queued while the host is silent, then sent', async t => {
	conforms(t, 'send.asynchronous', 'send.not-in-request', 'status.queued', 'status.sent', 'status.states');
	conforms(t, 'status.accepted', 'overview.progress');
	let release = () => {};
	const held = new Promise<void>(resolve => {
		release = resolve;
	});
	const relay = await startFakeMx(t, {
		greeting(_, connection) {
			void held.then(() => connection.say('220 fake.test ESMTP\r\n'));
			return {bytes: ''};
		},
	});
	const program = await prepareProgram(t, {
		MAILCTL_DELIVERY: 'relay',
		MAILCTL_RELAY_URL: `smtp://127.0.0.1:${relay.port}?tls=none`,
		MAILCTL_HOSTNAME: 'mail.shop.example',
		MAILCTL_RETURN_PATH_DOMAIN: 'bounce.shop.example',
		MAILCTL_LOG_LEVEL: 'warn',
	});
	const shop = await openShop(program, 'test/fixtures/flow/templates');
	const [templateId] = [...shop.templates.values()];
	const receivesOnly = await program.serve({MAILCTL_ROLES: 'api'});
	const answer = await call(`${receivesOnly.url}/v1/messages`, shop.key, {
		...{from: shop.from, to: 'relayed@outcomes.example', templateId},
	});
	t.is(answer.status, 202);
	const {id, status} = answer.body as Accepted;
	t.is(status, 'accepted');
	const message = async (url: string) => (await call(`${url}/v1/messages/${id}`, shop.key)).body as Message;
	t.like(await message(receivesOnly.url), {status: 'accepted', subject: null});
	t.is(relay.connections.length, 0);
	t.is(await receivesOnly.stop(), 0);

	const daemon = await program.serve();
	await waitFor('the relay is asked', () => relay.connections.length > 0);
	t.like(await message(daemon.url), {status: 'queued'});
	release();
	await waitFor('the mail has gone', async () => (await message(daemon.url)).status === 'sent');
	t.is(relay.count(), 1);
	const events = (await call(`${daemon.url}/v1/messages/${id}/events`, shop.key)).body as {data: Array<{type: string}>};
	t.deepEqual(
		events.data.map(({type}) => type),
		['accepted', 'queued', 'sent'],
	);
});
