import test from 'ava';
import {codeOf, idOf, startApi} from '../../helpers/api.ts';
import {sqliteTest, storeTest} from '../../helpers/databases.ts';

const target = 'victim@mail.test';

storeTest(test, 'refuses the sixth test alert in an hour with 429 and Retry-After', async (t, store) => {
	const api = await startApi(t, store);
	const added = await api.post('/v1/alerts', {way: 'mail', target});
	t.like(added.body, {status: 'unconfirmed'});
	const path = `/v1/alerts/${idOf(added)}/test`;
	for (let n = 0; n < 5; n++) {
		t.is((await api.post(path, {})).status, 200);
	}
	const refused = await api.post(path, {});
	t.deepEqual([refused.status, codeOf(refused)], [429, 'rate_limited']);
	const wait = Number(refused.headers.get('retry-after'));
	t.true(wait > 3500 && wait <= 3600, String(wait));
	const unknown = await api.post('/v1/alerts/alr_01kaxq7w0c8m2v5t9d3f6h1j4n/test', {});
	t.is(unknown.status, 404);
});

sqliteTest(test, 'the confirmation link shows a form on GET and confirms on POST', async (t, store) => {
	const api = await startApi(t, store);
	const {id: workspaceId} = api.workspace;
	const path = `/v1/alerts/${idOf(await api.post('/v1/alerts', {way: 'mail', target}))}`;
	const status = async () => ((await api.get(path)).body as {status: string}).status;
	const linkOf = (address: string, expiresAt: number) =>
		api.base +
		new URL(api.links.alertUrl({workspaceId, address, expiresAt})).pathname +
		new URL(api.links.alertUrl({workspaceId, address, expiresAt})).search;
	const link = linkOf(target, Date.now() + 60_000);
	const ask = await fetch(link);
	t.is(ask.status, 200);
	t.regex(await ask.text(), /<form method="post">/);
	t.is((await fetch(linkOf(target, Date.now() - 1), {method: 'POST'})).status, 410);
	for (const forged of [`${link}x`, link.replace('token=', 'tok='), `${link}&token=x`]) {
		t.is((await fetch(forged, {method: 'POST'})).status, 400, forged);
	}
	const unsubscribe = new URL(api.links.personUrl({workspaceId, address: target, expiresAt: Date.now() + 60_000}));
	t.is((await fetch(link.replace(/token=.*/, unsubscribe.search.slice(1)), {method: 'POST'})).status, 400);
	t.is(await status(), 'unconfirmed');

	const agreed = await fetch(link, {method: 'POST', headers: {'content-type': 'application/x-www-form-urlencoded'}});
	t.is(agreed.status, 200);
	t.regex(await agreed.text(), /Address confirmed/);
	t.is(await status(), 'active');
	t.is((await fetch(link, {method: 'POST'})).status, 200, 'a second press says the same');
	const [act] = await store.reader('audit').where({action: 'alert.confirmed'});
	t.like(act, {actor: 'link', recipient: target});
});
