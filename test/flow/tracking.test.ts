import test from 'ava';
import {type ParsedMail, simpleParser} from 'mailparser';
import type {RecipientState} from '../../src/mail/message.ts';
import {type Daemon, type Program, prepareProgram} from '../helpers/daemon.ts';
import {oncePerFile} from '../helpers/once-per-file.ts';
import {call, openShop, type Shop} from '../helpers/shop.ts';
import {waitFor} from '../helpers/wait.ts';

type Event = {readonly type: string; readonly detail: Readonly<Record<string, unknown>>};

type Running = {readonly program: Program; readonly shop: Shop; readonly daemon: Daemon; readonly testKey: string};

/** The program with a workspace that tracks, capturing what it delivers. */
const start = oncePerFile(test, async (scope): Promise<Running> => {
	const program = await prepareProgram(scope, {});
	const shop = await openShop(program, 'test/fixtures/flow/templates');
	await program.cli('workspace', 'update', '--track-opens', '--track-clicks');
	const {key: testKey} = await program.cli<{key: string}>('key', 'create', '--name', 'try', '--mode', 'test');
	return {program, shop, daemon: await program.serve(), testKey};
});

const data = {customer: {name: 'Ada'}, order: {number: 'A-1', placed_at: '2026-06-09T10:00:00Z', items: [], total: 5}};

async function send({daemon, shop}: Running, key: string, to: string, more: object = {}): Promise<string> {
	const {status, body} = await call(`${daemon.url}/v1/messages`, key, {
		from: shop.from,
		to,
		templateId: shop.templates.get('receipt'),
		data,
		...more,
	});
	if (status !== 202) {
		throw new Error(JSON.stringify(body));
	}
	return (body as {id: string}).id;
}

async function timelineOf({daemon, shop}: Running, id: string): Promise<Event[]> {
	const {body} = await call(`${daemon.url}/v1/messages/${id}/events`, shop.key);
	return (body as {data: Event[]}).data;
}

async function statusOf({daemon, shop}: Running, id: string): Promise<RecipientState> {
	const {body} = await call(`${daemon.url}/v1/messages/${id}`, shop.key);
	return (body as {status: RecipientState}).status;
}

async function settled(running: Running, id: string, events: number): Promise<string[]> {
	return await waitFor('the last event', async () => {
		const types = (await timelineOf(running, id)).map(({type}) => type);
		return types.length >= events && types;
	});
}

const begun = ['accepted', 'queued'];
const delivered = [...begun, 'sent', 'delivered'];
const outcomes: Readonly<Record<string, readonly [RecipientState, readonly string[]]>> = {
	someone: ['delivered', delivered],
	delivered: ['delivered', delivered],
	deferred: ['delivered', delivered],
	bounced: ['bounced', [...begun, 'sent', 'bounced']],
	'soft-bounced': ['bounced', [...begun, 'sent', 'bounced']],
	complained: ['complained', [...delivered, 'complained']],
	suppressed: ['suppressed', [...begun, 'suppressed']],
	errored: ['errored', [...begun, 'errored']],
	opened: ['delivered', [...delivered, 'opened']],
	clicked: ['delivered', [...delivered, 'clicked']],
};

test.serial('every simulator address yields the events of real messages, with live and test keys', async t => {
	const running = start();
	const {shop, testKey, program} = running;
	await Promise.all(
		[shop.key, testKey].flatMap((key, index) =>
			Object.entries(outcomes).map(async ([kind, [status, types]]) => {
				const address = `${kind}+${index}@simulator.test`;
				const id = await send(running, key, address);
				t.deepEqual(await settled(running, id, types.length), [...types], address);
				t.is(await statusOf(running, id), status, address);
				const [last] = (await timelineOf(running, id)).slice(-1);
				t.like(last?.detail, {recipient: address, role: 'to'}, address);
				if (kind === 'clicked') {
					t.is(last?.detail.url, 'https://shop.example/orders/A-1?utm_source=mail&lang=en');
				}
			}),
		),
	);
	// A test key's mail goes nowhere, whoever it is to.
	const id = await send(running, testKey, 'ada@a.test');
	t.deepEqual(await settled(running, id, 4), delivered);
	const shown = await program.cli<{recipients: Array<{captured: string | null}>}>('message', 'show', id);
	t.is(shown.recipients[0]?.captured, null);

	// Only what bounced for good or complained is suppressed, by its own address.
	const {status, body} = await call(`${running.daemon.url}/v1/messages`, shop.key, {
		from: shop.from,
		to: 'complained+0@simulator.test',
		templateId: shop.templates.get('receipt'),
	});
	t.is(status, 422);
	t.like(body, {error: {code: 'recipient_suppressed'}});
	await send(running, shop.key, 'complained+other@simulator.test');
	await send(running, shop.key, 'soft-bounced+0@simulator.test');
});

test.serial('events name each recipient with its role, including cc and suppressed ones', async t => {
	const running = start();
	const blocked = 'bounced+blocked@simulator.test';
	await settled(running, await send(running, running.shop.key, blocked), 4);
	const id = await send(running, running.shop.key, 'opened@simulator.test', {
		cc: ['complained@simulator.test', blocked, 'clicked@simulator.test'],
	});
	await settled(running, id, 12);
	const by = (await timelineOf(running, id)).map(({type, detail: {recipient, role}}) => ({type, recipient, role}));
	const typesOf = (local: string, role: string) =>
		by.filter(one => one.recipient === `${local}@simulator.test` && one.role === role).map(({type}) => type);
	t.deepEqual(by.slice(0, 2), [
		{type: 'accepted', recipient: undefined, role: undefined},
		{type: 'suppressed', recipient: blocked, role: 'cc'},
	]);
	t.is(by.filter(({type}) => type === 'queued').length, 1);
	t.deepEqual(typesOf('opened', 'to'), ['sent', 'delivered', 'opened']);
	t.deepEqual(typesOf('complained', 'cc'), ['sent', 'delivered', 'complained']);
	t.deepEqual(typesOf('clicked', 'cc'), ['sent', 'delivered', 'clicked']);
	t.is(by.length, 12);
	t.is(await statusOf(running, id), 'delivered', 'that of the `to` copy');
});

async function mailOf({program}: Running, id: string): Promise<ParsedMail & {html: string}> {
	const parsed = await simpleParser(await program.cliBytes('message', 'raw', id));
	return parsed as ParsedMail & {html: string};
}

test.serial('links and pixel of a tracked message work, and the events they record are shown', async t => {
	const running = start();
	const {daemon, shop, program} = running;
	const id = await send(running, shop.key, 'ada@a.test');
	await settled(running, id, 4);
	const {html, text} = await mailOf(running, id);
	const pixel = /<img src="([^"]+\/t\/o\/[\w-]+)" width="1" height="1" alt="">\s*<\/body>/.exec(html)?.[1] ?? '';
	const links = [...html.matchAll(/href="([^"]+\/t\/c\/[\w-]+)"/g)].map(([, url]) => url as string);
	t.is(links.length, 1);
	t.true(pixel.startsWith(`${daemon.url}/`));
	t.regex(html, /href="[^"]+\/unsubscribe\?token=/, 'the unsubscribe link is left alone');
	t.regex(text ?? '', /<https:\/\/shop\.example\/orders\/A-1\?utm_source=mail&lang=en>/, 'the text is not tracked');

	const reader = {'user-agent': 'Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Thunderbird/140.2.0'};
	const click = await fetch(links[0] as string, {redirect: 'manual', headers: reader});
	t.is(click.headers.get('location'), 'https://shop.example/orders/A-1?utm_source=mail&lang=en');
	await fetch(pixel, {headers: {'user-agent': 'Mozilla/5.0'}});
	await fetch(pixel, {headers: reader});
	t.deepEqual(await settled(running, id, 6), [...delivered, 'clicked', 'opened']);
	t.is((await timelineOf(running, id)).at(-1)?.detail.machine, true);
	t.is(await statusOf(running, id), 'delivered');
	await waitFor('the second open', async () => {
		const {recipients} = await program.cli<{recipients: Array<{opens: {n: number}}>}>('message', 'show', id);
		return recipients[0]?.opens.n === 2;
	});
	const shown = await program.run('message', 'show', id);
	t.regex(shown.stdout, /\n {2}opened 2 times, 1 by machine, last [\d-]+ [\d:]+ UTC\n/);
	for (const path of ['/t/c/x', '/t/o/x']) {
		const lost = await fetch(daemon.url + path, {redirect: 'manual', headers: {'accept-language': 'de'}});
		t.is(lost.status, 404);
		t.regex(lost.headers.get('content-type') ?? '', /^text\/html/);
		t.regex(await lost.text(), /<html lang="de">/);
	}
});

test.serial('a send can turn tracking off, which leaves links unchanged', async t => {
	const running = start();
	const {shop, program} = running;
	const both = await send(running, shop.key, 'a@a.test', {tracking: {opens: false, clicks: false}});
	const clicks = await send(running, shop.key, 'b@a.test', {tracking: {clicks: false}});
	await settled(running, both, 4);
	await settled(running, clicks, 4);
	t.notRegex((await mailOf(running, both)).html, /\/t\/[oc]\//);
	const {html} = await mailOf(running, clicks);
	t.regex(html, /\/t\/o\//);
	t.notRegex(html, /\/t\/c\//);
	t.regex(html, /href="https:\/\/shop\.example\/orders\/A-1\?utm_source=mail&amp;lang=en"/);

	await program.cli('workspace', 'update', '--no-track-opens', '--no-track-clicks');
	const off = await send(running, shop.key, 'c@a.test', {tracking: {opens: true}});
	await settled(running, off, 4);
	t.notRegex((await mailOf(running, off)).html, /\/t\/[oc]\//, 'a send cannot switch it on');
});
