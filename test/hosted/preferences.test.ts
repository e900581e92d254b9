import test, {type TestFn} from 'ava';
import fc from 'fast-check';
import {pauseTask} from '../../src/daemon/sweep.ts';
import {systemClock} from '../../src/kit/clock.ts';
import {createClaimWrite} from '../../src/store/queue/claims.ts';
import {codeOf, startApi, type TestApi} from '../helpers/api.ts';
import {sqliteTest, storeTest} from '../helpers/databases.ts';
import {addTopic, at, events, lists, type Mail, pathOf, press, sendMail, show, urlencoded} from '../helpers/hosted.ts';
import {insertEndpoint} from '../helpers/webhooks.ts';
import {addKey, newId} from '../helpers/workspace.ts';

const serially = test.serial as TestFn;
const day = 86_400_000;

/** The preference page of a message's link. */
const pageOf = (api: TestApi, {claims}: Mail) => pathOf(api, claims).replace('/unsubscribe', '/preferences');

const contactOf = async (api: TestApi) =>
	((await api.get('/v1/contacts')).body as {data: Array<Record<string, unknown>>}).data[0];

async function prepare(api: TestApi): Promise<Mail> {
	await addTopic(api, 'news', 'News <b>', {public_at: at, description: 'What is "new"'});
	await addTopic(api, 'offers', 'Offers', {public_at: at});
	await addTopic(api, 'account', 'Your account', {public_at: at, required_at: at});
	await addTopic(api, 'inner', 'Not for the page');
	return await sendMail(api, {});
}

storeTest(serially, 'opts in and out of public topics, and leaves hidden ones unchanged', async (t, store) => {
	const api = await startApi(t, store);
	const mail = await prepare(api);
	const path = pageOf(api, mail);
	const {status, html, headers} = await show(api, path);
	t.is(status, 200);
	t.regex(headers.get('content-security-policy') ?? '', /default-src 'none'.*form-action 'self'/);
	t.is(headers.get('cache-control'), 'no-store');
	t.regex(html, /News &lt;b&gt;[\s\S]*What is &quot;new&quot;/);
	t.is(html.match(/<input type="checkbox"[^>]* checked>/g)?.length, 2);
	t.regex(html, /name="shown" value="news offers"/);
	t.regex(html, /Your account[\s\S]*These emails are required/);
	t.notRegex(html, /Not for the page|<script/);

	const saved = await press(api, path, 'action=save&shown=news+offers&topic=offers');
	t.regex(saved.html, /<h1>Saved<\/h1>/);
	t.is(saved.html.match(/<input type="checkbox"[^>]* checked>/g)?.length, 1);
	t.deepEqual(await lists(api), ['user@example.org news one-click']);
	t.deepEqual(await events(api, mail.id), [{recipient: 'user@example.org', role: 'to', topic: 'news', via: 'page'}]);
	t.is(codeOf(await api.send({unsubscribeGroup: 'news'})), 'recipient_unsubscribed');
	t.is((await api.send({unsubscribeGroup: 'offers'})).status, 202);

	await press(api, path, 'action=save&shown=offers+account+inner+nix&topic=offers');
	await press(api, path, 'action=save');
	t.deepEqual(await lists(api), ['user@example.org news one-click'], 'neither hidden nor needed topics are left');
	await press(api, path, 'action=save&shown=news+offers&topic=news&topic=offers');
	t.deepEqual(await lists(api), []);
	t.is((await api.send({unsubscribeGroup: 'news'})).status, 202);
});

storeTest(serially, 'a pause stops all but required messages until it ends', async (t, store) => {
	let ahead = 0;
	const clock = {...systemClock, now: () => systemClock.now() + ahead};
	const api = await startApi(t, store, {clock});
	const mail = await prepare(api);
	const path = pageOf(api, mail);
	const paused = await press(api, path, 'action=pause');
	t.regex(paused.html, /only receive required emails until \w+ \d+, 20\d\d/);
	t.is(codeOf(await api.send({unsubscribeGroup: 'news'})), 'recipient_unsubscribed');
	t.is(codeOf(await api.send()), 'recipient_unsubscribed');
	t.is((await api.send({unsubscribeGroup: 'account'})).status, 202);
	const [{until} = {until: ''}] = (await events(api, mail.id)) as Array<{until?: string}>;
	t.true(Math.abs(Date.parse(until ?? '') - Date.now() - 30 * day) < day / 24);
	t.regex(until ?? '', /:\d\d\+00:00$/, 'as all times of the API');
	const contact = await contactOf(api);
	t.deepEqual(contact?.topics, ['inner', 'news', 'offers']);
	t.regex(String(contact?.paused_until), /^20\d\d-/);
	t.is(await stopOf(api, mail.id, clock), 'opted_out');

	t.regex((await press(api, path, 'action=resume')).html, /Pause for 30 days/);
	t.deepEqual(await lists(api), []);
	await press(api, path, 'action=save&shown=news&topic=');
	await press(api, path, 'action=pause');
	t.regex((await press(api, path, 'action=save&shown=news&topic=news')).html, /value="news" checked/);
	t.is(codeOf(await api.send({unsubscribeGroup: 'news'})), 'recipient_unsubscribed', 'what comes back is paused too');
	await press(api, path, 'action=save&shown=news&topic=');
	ahead = 31 * day;
	t.is(
		(await api.send({unsubscribeGroup: 'offers'})).status,
		202,
		'an ended pause refuses nothing, though it is still there',
	);
	t.is((await api.send()).status, 202);
	t.is(codeOf(await api.send({unsubscribeGroup: 'news'})), 'recipient_unsubscribed', 'an opt-out stays one');
	t.like(await contactOf(api), {topics: ['news'], paused_until: undefined});
	t.regex((await show(api, path)).html, /Pause for 30 days/);
	t.is(await stopOf(api, (await sendMail(api, {})).id, clock), null);

	const sweep = pauseTask({store, clock, rowsPerStep: 2}).begin();
	while (await sweep()) {}
	t.deepEqual(await lists(api), ['user@example.org news one-click']);
});

/** The reason a claim gives now for not sending a message. */
async function stopOf(
	{store, workspace}: TestApi,
	id: string,
	clock: typeof systemClock,
): Promise<string | null | undefined> {
	const claim = createClaimWrite({dialect: store.dialect, boot: newId('req'), newId, clock});
	const {recipients} = await store.writer.submit(claim, {
		...{destination: 'example.org', workspaceId: workspace.id, limit: 100, newestFirst: false, lastsMs: 1},
		...{asksNext: false, warmUp: null},
	});
	return recipients.find(one => one.message_id === id)?.stop;
}

storeTest(
	serially,
	'unsubscribes from everything and undoes it, but does not lift a bounce suppression',
	async (t, store) => {
		const api = await startApi(t, store);
		const path = pageOf(api, await prepare(api));
		t.regex((await press(api, path, 'action=all')).html, /<h1>You are unsubscribed<\/h1>[\s\S]*value="undo"/);
		t.deepEqual(await lists(api), ['user@example.org all unsubscribe one-click']);
		t.notRegex((await show(api, path)).html, /checkbox/);
		await press(api, path, 'action=save&shown=news+offers');
		await press(api, path, 'action=pause');
		t.is((await lists(api)).length, 1, 'there is nothing to choose while all is off');
		t.regex((await press(api, path, 'action=undo')).html, /checkbox/);
		t.deepEqual(await lists(api), []);

		const entry = {
			...{id: newId('sup'), workspace_id: api.workspace.id, reason: 'hard_bounce', source: 'msg_x'},
			created_at: at,
		};
		await store
			.database('suppressions')
			.insert({...entry, address: 'user@example.org', address_key: 'user@example.org'});
		const {html} = await press(api, path, 'action=undo');
		t.regex(html, /Email to this address is blocked/);
		t.notRegex(html, /<button/);
		t.is((await lists(api)).length, 1);
	},
);

sqliteTest(serially, 'viewing the page, an invalid action or a test message changes nothing', async (t, store) => {
	const api = await startApi(t, store);
	const mail = await prepare(api);
	const path = pageOf(api, mail);
	for (const method of ['GET', 'HEAD']) {
		for (const action of ['all', 'pause', 'save&shown=news']) {
			t.is((await show(api, `${path}&action=${action}`, {method})).status, 200);
		}
	}
	for (const body of ['', 'List-Unsubscribe=One-Click', 'action=nix']) {
		t.is((await press(api, path, body)).status, 400, body);
	}
	t.is((await press(api, '/preferences?token=x', 'action=all')).status, 400);
	t.is(
		(await show(api, pathOf(api, {...mail.claims, expiresAt: 1}).replace('unsubscribe', 'preferences'))).status,
		410,
	);
	const key = await addKey(store, api.workspace.id, {mode: 'test'});
	const simulated = await sendMail(api, {}, key);
	t.regex((await press(api, pageOf(api, simulated), 'action=pause')).html, /This was a test message/);
	t.deepEqual(await lists(api), []);
	t.is(
		(await show(api, path, {method: 'POST', headers: {'content-type': 'application/json'}, body: '{}'})).status,
		415,
	);
});

sqliteTest(
	serially,
	'the unsubscribe page links to it, in four languages; multipart forms work too',
	async (t, store) => {
		const api = await startApi(t, store);
		const mail = await prepare(api);
		const {html} = await show(api, mail.path);
		const [, link = ''] = /<a href="(preferences\?token=[^"]+)">Choose which emails you receive</.exec(html) ?? [];
		t.is((await show(api, `/${link}`)).status, 200);
		for (const [language, title] of [
			['de', 'Ihre E-Mails'],
			['fr', 'Vos e-mails'],
			['es', 'Sus correos'],
		] as const) {
			const page = await show(api, `/${link}`, {headers: {'accept-language': language}});
			t.regex(page.html, new RegExp(`<html lang="${language}">[\\s\\S]*<h1>${title}</h1>`));
		}
		const form = new FormData();
		form.set('action', 'save');
		form.set('shown', 'news offers');
		form.set('topic', 'news');
		await show(api, `/${link}`, {method: 'POST', body: form});
		t.deepEqual(await lists(api), ['user@example.org offers one-click']);
	},
);

storeTest(serially, 'the API creates a link for a contact, whose events belong to no message', async (t, store) => {
	const api = await startApi(t, store);
	await prepare(api);
	await insertEndpoint(store, api.workspace.id, {events: ['recipient_unsubscribed']});
	const {id} = (await contactOf(api)) as {id: string};
	const made = await api.post(`/v1/contacts/${id}/preferences-link`, undefined);
	t.is(made.status, 201);
	const {url, expires_at} = made.body as {url: string; expires_at: string};
	t.true(Date.parse(expires_at) > Date.now() + 300 * day);
	const {pathname, search} = new URL(url);
	t.is(pathname, '/preferences');
	t.regex((await press(api, pathname + search, 'action=save&shown=news+offers&topic=news')).html, /Saved/);
	const [body] = await store.database('webhook_deliveries').pluck('body');
	t.like(JSON.parse(Buffer.from(body).toString()), {type: 'recipient_unsubscribed'});
	t.is((await store.database('audit').where({action: 'contact.linked', target: id})).length, 1);

	const testKey = await addKey(store, api.workspace.id, {mode: 'test'});
	t.is(codeOf(await api.post(`/v1/contacts/${id}/preferences-link`, {}, testKey)), 'insufficient_scope');
	t.is(codeOf(await api.post(`/v1/contacts/${newId('con')}/preferences-link`, {})), 'not_found');
});

sqliteTest(serially, 'any form yields a page, and none opts out of a topic it did not show', async (t, store) => {
	const api = await startApi(t, store);
	const path = pageOf(api, await prepare(api));
	const names = fc.constantFrom('action', 'topic', 'shown', 'token', 'x');
	const values = fc.oneof(fc.constantFrom('save', 'news', 'news offers', 'inner', ''), fc.string());
	await fc.assert(
		fc.asyncProperty(fc.array(fc.tuple(names, values), {maxLength: 6}), async pairs => {
			const fields = [...pairs.filter(([name, value]) => name !== 'action' || value === 'save')];
			const body = new URLSearchParams(fields).toString();
			const {status} = await show(api, path, {method: 'POST', headers: {'content-type': urlencoded}, body});
			t.true(status === 200 || status === 400);
			const shown = fields.filter(([name]) => name === 'shown').flatMap(([, value]) => value.split(' '));
			for (const line of await lists(api)) {
				const [, code = ''] = line.split(' ');
				t.true(shown.includes(code) && ['news', 'offers'].includes(code), line);
			}
			await store.database('topic_optouts').delete();
		}),
		{numRuns: 40},
	);
});
