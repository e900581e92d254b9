import {randomBytes} from 'node:crypto';
import {EventEmitter, once} from 'node:events';
import test, {type ExecutionContext} from 'ava';
import fc from 'fast-check';
import {sendError} from '../../src/api/errors.ts';
import {createApi} from '../../src/api/server.ts';
import {createLinks} from '../../src/compose/links/links.ts';
import type {Claims} from '../../src/compose/links/tokens.ts';
import {Collector, isMachine, maxUserAgentLength, toUserAgent, trackingRoutes} from '../../src/hosted/tracking.ts';
import {systemClock} from '../../src/kit/clock.ts';
import {apiError} from '../../src/mail/api-error.ts';
import {isId} from '../../src/mail/ids.ts';
import {createEngagementWrite} from '../../src/outcome/engagement.ts';
import {readEngagement} from '../../src/store/recipients.ts';
import type {Store} from '../../src/store/store.ts';
import {readEvents} from '../../src/store/timeline.ts';
import {sqliteTest, storeTest} from '../helpers/databases.ts';
import {eventWriter, insertMessages, insertWorkspace, newId} from '../helpers/messages.ts';

const lifetime = 1_000_000;
const agent = {'user-agent': 'Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Thunderbird/140.2.0'};
const target = 'https://shop.example/orders/1?a=1&b=2#top';

/** A tracked message and the routes that its links point to. */
async function start(t: ExecutionContext, store: Store) {
	const {workspaceId} = await insertWorkspace(store);
	const at = '2026-01-01';
	await store.database('workspaces').update({track_opens_at: at, track_clicks_at: at});
	const [messageId] = (await insertMessages(store, workspaceId, ['Ada@a.test'])) as [string];
	await store.database('recipients').update({links: 1});
	const time = {now: Date.now()};
	const write = createEngagementWrite(systemClock, eventWriter);
	const collector = new Collector({
		write: hit => store.writer.submit(write, hit),
		isUnavailable: store.dialect.isUnavailable,
		onError: error => t.fail(String(error)),
		onLost: n => t.fail(`${n} lost`),
	});
	const keys = {current: 1, keys: {1: randomBytes(32)}};
	const reported: unknown[] = [];
	const api = createApi({
		newId,
		version: '0.0.0',
		pages: null,
		routes: [
			trackingRoutes({
				links: createLinks({keys, publicUrl: '', random: randomBytes}),
				collector,
				sendForged: (_request, reply) => sendError(reply, apiError('not_found')),
				clock: {...systemClock, now: () => time.now},
			}),
		],
		trustProxy: [],
		isUnavailable: store.dialect.isUnavailable,
		report: (_request, error) => reported.push(error),
	});
	t.teardown(() => api.close());
	// If the machine pauses, the server must not close a connection that `fetch` is about to reuse.
	api.server.keepAliveTimeout = 600_000;
	await api.listen({host: '127.0.0.1', port: 0});
	const {port} = api.server.address() as {port: number};
	const base = `http://127.0.0.1:${port}`;
	const claims: Claims = {
		workspaceId,
		messageId,
		topicId: null,
		role: 'to',
		address: 'Ada@a.test',
		expiresAt: time.now + lifetime,
	};
	const links = createLinks({keys, publicUrl: base, random: randomBytes});
	return {
		base,
		links,
		claims,
		time,
		reported,
		get: (url: string, init: RequestInit = {}) => fetch(url, {redirect: 'manual', headers: agent, ...init}),
		/** What was recorded until now. */
		async recorded() {
			await collector.stop();
			const events = await readEvents(store.reader, messageId, {after: null, limit: 100});
			return {events, counts: await readEngagement(store.reader, messageId)};
		},
	};
}

function checkHeaders(t: ExecutionContext, {headers}: Response): void {
	t.is(headers.get('cache-control'), 'no-store');
	t.is(headers.get('referrer-policy'), 'no-referrer');
	t.is(headers.get('set-cookie'), null);
	t.true(isId('req', headers.get('x-request-id') ?? ''));
}

sqliteTest(test, 'the pixel is a 1×1 GIF and records an open', async (t, store) => {
	const {links, claims, get, recorded} = await start(t, store);
	const answer = await get(links.openUrl(claims));
	t.is(answer.status, 200);
	t.is(answer.headers.get('content-type'), 'image/gif');
	checkHeaders(t, answer);
	const bytes = Buffer.from(await answer.arrayBuffer());
	t.is(bytes.length, 43);
	t.is(bytes.toString('latin1', 0, 6), 'GIF89a');
	t.deepEqual([bytes.readUInt16LE(6), bytes.readUInt16LE(8), bytes[42]], [1, 1, 0x3b]);
	const {events} = await recorded();
	t.deepEqual(
		events.map(({type, detail}) => [type, detail]),
		[['opened', {recipient: 'Ada@a.test', role: 'to', machine: false, user_agent: agent['user-agent']}]],
	);
});

sqliteTest(test, 'a click redirects to the link’s target and is recorded', async (t, store) => {
	const {links, claims, get, recorded} = await start(t, store);
	const answer = await get(links.clickUrl(claims, target) as string, {headers: {'user-agent': 'Slackbot 1.0'}});
	t.is(answer.status, 302);
	t.is(answer.headers.get('location'), target);
	checkHeaders(t, answer);
	t.is(await answer.text(), '');
	const {events} = await recorded();
	t.deepEqual(
		events.map(({type, detail}) => [type, detail]),
		[['clicked', {recipient: 'Ada@a.test', role: 'to', url: target, machine: true, user_agent: 'Slackbot 1.0'}]],
	);
});

sqliteTest(test, 'HEAD gets the same response and records nothing', async (t, store) => {
	const {links, claims, get, recorded} = await start(t, store);
	const click = await get(links.clickUrl(claims, target) as string, {method: 'HEAD'});
	t.like(click, {status: 302});
	t.is(click.headers.get('location'), target);
	const open = await get(links.openUrl(claims), {method: 'HEAD'});
	t.like(open, {status: 200});
	t.is(open.headers.get('content-length'), '43');
	t.deepEqual(await recorded(), {events: [], counts: []});
});

sqliteTest(
	test,
	'an expired link still redirects and an expired pixel still loads, but neither is recorded',
	async (t, store) => {
		const {links, claims, time, get, recorded} = await start(t, store);
		time.now += lifetime + 1000;
		t.is((await get(links.clickUrl(claims, target) as string)).headers.get('location'), target);
		t.is((await get(links.openUrl(claims))).status, 200);
		t.deepEqual(await recorded(), {events: [], counts: []});
	},
);

sqliteTest(test, 'links and pixels still work after the message was removed', async (t, store) => {
	const {links, claims, get, recorded} = await start(t, store);
	await store.database('messages').delete();
	t.is((await get(links.openUrl(claims))).status, 200);
	t.is((await get(links.clickUrl(claims, target) as string)).status, 302);
	t.deepEqual(await recorded(), {events: [], counts: []});
});

sqliteTest(test, 'a thousand requests become one row and one event', async (t, store) => {
	const {links, claims, get, recorded} = await start(t, store);
	const url = links.openUrl(claims);
	for (let round = 0; round < 20; round++) {
		await Promise.all(Array.from({length: 50}, async () => (await get(url)).arrayBuffer()));
	}
	const {events, counts} = await recorded();
	t.is(events.length, 1);
	t.like(counts, {length: 1, 0: {n: 1000, machineN: 0}});
});

storeTest(test, 'redirects without waiting for the store', async (t, store) => {
	const {links, claims, get, recorded} = await start(t, store);
	const gate = new EventEmitter();
	const begun = once(gate, 'begun');
	const stuck = store.writer.transaction(async () => {
		gate.emit('begun');
		await once(gate, 'release');
	});
	await begun;
	t.is((await get(links.clickUrl(claims, target) as string)).status, 302);
	t.is((await get(links.openUrl(claims))).status, 200);
	gate.emit('release');
	await stuck;
	t.is((await recorded()).events.length, 2);
});

sqliteTest(test, 'redirects a link with non-ASCII characters like a browser would', async (t, store) => {
	const {links, claims, get} = await start(t, store);
	for (const [url, location] of [
		['https://exämple.test/größe?q=ä#ü', 'https://xn--exmple-cua.test/gr%C3%B6%C3%9Fe?q=%C3%A4#%C3%BC'],
		['HTTP://x.test', 'HTTP://x.test'],
		[`https://x.test/"<>'\\^{}|`, `https://x.test/"<>'\\^{}|`],
	] as const) {
		t.is((await get(links.clickUrl(claims, url) as string)).headers.get('location'), location);
	}
});

sqliteTest(test, 'a forged token gets 404, never a redirect', async (t, store) => {
	const {base, links, claims, get, recorded, reported} = await start(t, store);
	const tokenOf = (url: string | null) => url?.split('/').at(-1)?.split('=').at(-1) ?? '';
	const click = tokenOf(links.clickUrl(claims, target));
	const open = tokenOf(links.openUrl(claims));
	const unsubscribe = tokenOf(links.unsubscribeUrl(claims));
	const other = createLinks({keys: {current: 1, keys: {1: randomBytes(32)}}, publicUrl: base, random: randomBytes});
	const forged = [
		`/t/c/${open}`,
		`/t/c/${unsubscribe}`,
		`/t/o/${click}`,
		`/t/o/${unsubscribe}`,
		`/t/c/${tokenOf(other.clickUrl(claims, target))}`,
		`/t/c/${click.slice(0, -1)}`,
		`/t/c/${click}A`,
		`/t/c/${click}%20`,
		`/t/c/${click.slice(0, 30)}${click[30] === 'A' ? 'B' : 'A'}${click.slice(31)}`,
		'/t/c/x?url=https://evil.example/',
		'/t/c/https:%2F%2Fevil.example',
		'/t/c/%2F%2Fevil.example',
		`/t/c/${'A'.repeat(10_000)}`,
		'/t/o/constructor',
	];
	for (const path of forged) {
		const answer = await get(base + path);
		t.is(answer.status, 404, path);
		t.is(answer.headers.get('location'), null, path);
	}
	// A query string changes nothing, because mail clients and filters add their own.
	t.is((await get(`${base}/t/c/${click}?url=https://evil.example/`)).headers.get('location'), target);
	await fc.assert(
		fc.asyncProperty(
			fc.constantFrom('o', 'c'),
			fc.string({unit: 'grapheme', maxLength: 60}),
			async (kind, text) => {
				const {status} = await get(`${base}/t/${kind}/${encodeURIComponent(text.replaceAll(/\p{Cs}/gu, ''))}`);
				t.is(status, 404);
			},
		),
		{numRuns: 200},
	);
	t.is((await recorded()).events.length, 1);
	t.deepEqual(reported, []);
});

const chrome = 'Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0';
const machines = [
	'Mozilla/5.0',
	`Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/42.0.2311.135 Safari/537.36 Edge/12.246 Mozilla/5.0`,
	'Mozilla/5.0 (Windows NT 5.1; rv:11.0) Gecko Firefox/11.0 (via ggpht.com GoogleImageProxy)',
	'YahooMailProxy; https://help.yahoo.com/kb/yahoo-mail-proxy-SLN28749.html',
	'Barracuda Sentinel (EE)',
	'Mimecast-Link-Protect',
	`${chrome} Safari/537.36 Proofpoint URL Defense`,
	'Slackbot-LinkExpanding 1.0 (+https://api.slack.com/robots)',
	'Mozilla/5.0 (compatible; bingbot/2.0; +http://www.bing.com/bingbot.htm)',
	'Mozilla/5.0 (Windows NT 6.1; WOW64) SkypeUriPreview Preview/0.5 skype-url-preview@microsoft.com',
	'facebookexternalhit/1.1',
	'WhatsApp/2.23.20.0 A',
	'TelegramBot (like TwitterBot)',
	'Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) HeadlessChrome/140.0.0.0 Safari/537.36',
	'python-requests/2.32.3',
	'curl/8.5.0',
	'Go-http-client/2.0',
	'',
	undefined,
];
const people = [
	`${chrome} Safari/537.36`,
	`${chrome} Safari/537.36 Edg/140.0.0.0`,
	'Mozilla/5.0 (iPhone; CPU iPhone OS 18_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Mobile/15E148',
	'Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko)',
	'Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Thunderbird/140.2.0',
	'Mozilla/4.0 (compatible; MSIE 7.0; Windows NT 10.0; Win64; x64; Trident/7.0; Microsoft Outlook 16.0.5197; ms-office; MSOffice 16)',
	'Mozilla/5.0 (Linux; Android 14; CUBOT NOTE 50) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/138.0 Mobile Safari/537.36',
	'Mozilla/5.0 (Linux; Android 13; SM-A536B) AppleWebKit/537.36 (KHTML, like Gecko) SamsungBrowser/28.0 Chrome/130.0 Mobile',
];
for (const agent of machines) {
	test(`recognizes as a machine: ${agent}`, t => {
		t.true(isMachine({'user-agent': agent}));
	});
}
for (const agent of people) {
	test(`does not recognize as a machine: ${agent}`, t => {
		t.false(isMachine({'user-agent': agent}));
	});
}

test('recognizes a prefetch by its headers', t => {
	const [agent] = people;
	t.true(isMachine({'user-agent': agent, 'sec-purpose': 'prefetch;prerender'}));
	t.true(isMachine({'user-agent': agent, purpose: 'prefetch'}));
	t.true(isMachine({'user-agent': agent, 'x-moz': 'prefetch'}));
	t.false(isMachine({'user-agent': agent, purpose: 'navigate'}));
});

test('classifies any user agent and truncates it for storage', t => {
	t.is(toUserAgent({'user-agent': 'a'.repeat(16_000)}), 'a'.repeat(maxUserAgentLength));
	t.is(toUserAgent({}), null);
	fc.assert(fc.property(fc.string({maxLength: 400}), agent => typeof isMachine({'user-agent': agent}) === 'boolean'));
});
