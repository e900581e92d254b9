import test, {type ExecutionContext} from 'ava';
import fc from 'fast-check';
import {createWorkspacePaths} from '../../src/dashboard/workspace-paths.ts';
import {html} from '../../src/hosted/html.ts';
import {type Seen, strangerTo, tokenIn, type Visitor, visitorOf} from '../helpers/dashboard.ts';
import {fill} from '../helpers/dashboard-pages.ts';
import {named, routes, servedAt} from '../helpers/dashboard-routes.ts';
import {serviceOf, type Workspace} from '../helpers/service.ts';
import {waitFor} from '../helpers/wait.ts';

// The workspace of a page is in its path: a form acts on that one, whatever else is open in the same session.

const service = serviceOf(test, {workspaces: {shop: [], other: []}});
const inside = (name: string) => service().workspaces[name] as Workspace;

/** The only form of a page whose path ends so. */
function actionOf({text}: Seen, end: string): string {
	const [, action = ''] = new RegExp(`<form method="post" action="([^"]*${end})"`).exec(text) ?? [];
	return action;
}

/** Submits a form that a page showed. */
async function submit(
	visitor: Visitor,
	page: Seen,
	end: string,
	fields: Readonly<Record<string, string>>,
): Promise<Seen> {
	const body = new URLSearchParams({_csrf: tokenIn(page.text), ...fields});
	return await visitor.exact(actionOf(page, end), {method: 'POST', body, headers: {origin: service().url}});
}

async function sent(name: string, to: string): Promise<string> {
	const {live, from, templates} = inside(name);
	const {body} = await live.post<{id: string}>('/v1/messages', {from, to, templateId: templates.plain, data: {}});
	return body.id;
}

/** What differs between two requests of one page. */
const withoutRandom = (text: string) => text.replaceAll(/nonce="[^"]+"|name="_csrf" value="[^"]+"/g, '');

const created = async (name: string) =>
	await service().program.cli<{id: string}>('workspace', 'create', '--name', name);

test.serial('a form acts on the workspace of its page after another one was opened', async t => {
	const visitor = await visitorOf(service(), 'operator');
	const [lists, topics] = [await visitor.exact('/w/shop/suppressions'), await visitor.exact('/w/shop/topics')];
	await service().program.cli('queue', 'suspend', 'slow.example', '--reason', 'test');
	await sent('other', 'bob@slow.example');
	const queue = await visitor.exact('/w/shop/queue/slow.example');
	t.is((await visitor.exact('/w/other/messages')).status, 200);
	t.is((await visitor.exact('/')).location, '/w/other/messages', 'the last visited');
	t.is((await visitor.exact('/w/shop')).location, '/w/shop/messages');

	const listed = await submit(visitor, lists, '/suppressions', {address: 'gone@dest.example'});
	t.is(listed.location, '/w/shop/suppressions');
	const topic = await submit(visitor, topics, '/topics', {code: 'news', name: 'News'});
	t.is(topic.location, '/w/shop/topics');
	// The scheduler learns of the suspension within half a second, and may deliver what is sent before.
	await waitFor('the hold', async () => {
		await sent('shop', 'ann@slow.example');
		await sent('other', 'bob@slow.example');
		t.is((await submit(visitor, queue, '/hold', {reason: 'test'})).location, '/w/shop/queue/slow.example');
		const {text} = await visitor.exact('/w/shop/queue/slow.example', {headers: {'hx-request': 'true'}});
		t.notRegex(text, /bob@slow/);
		return /Held<\/dt><dd>[1-9]/.test(text);
	});
	for (const [name, n] of [
		['shop', 1],
		['other', 0],
	] as const) {
		const {live} = inside(name);
		const {body} = await live.get<{data: unknown[]}>('/v1/suppressions?recipient=gone@dest.example');
		t.is(body.data.length, n, name);
		const found = await visitor.exact(`/w/${name}/topics`);
		t.is(found.text.includes('/topics/news/'), n === 1, name);
	}
	t.regex((await visitor.exact('/w/other/queue/slow.example')).text, /Held<\/dt><dd>0</);
});

test.serial('a page whose workspace gave its name away still acts on the same one', async t => {
	const [first, second] = [await created('given'), await created('taker')];
	const visitor = await visitorOf(service(), 'admin');
	const page = await visitor.exact('/w/given/suppressions');
	t.is(actionOf(page, '/suppressions'), `/w/${first.id}/suppressions`);
	await visitor.submit(`/workspaces/${first.id}`, {name: 'renamed'});
	await visitor.submit(`/workspaces/${second.id}`, {name: 'given'});
	t.is(
		(await submit(visitor, page, '/suppressions', {address: 'gone@dest.example'})).location,
		'/w/renamed/suppressions',
	);
	t.regex((await visitor.exact('/w/renamed/suppressions')).text, /gone@dest/);
	t.notRegex((await visitor.exact('/w/given/suppressions')).text, /gone@dest/);
});

test.serial('old paths redirect to the workspace visited last, and their forms do nothing', async t => {
	const visitor = await visitorOf(service(), 'admin');
	await visitor.exact('/w/other/messages');
	t.is((await visitor.exact('/messages?status=sent&q=a%20b')).location, '/w/other/messages?status=sent&q=a%20b');
	t.is((await visitor.exact('/queue/dest.example')).location, '/w/other/queue/dest.example');
	t.is((await visitor.exact('/%6dessages')).location, '/w/other/%6dessages');
	t.is((await visitor.exact('/w/other/%6dessages')).status, 200);
	const part = await visitor.exact('/messages', {headers: {'hx-request': 'true'}});
	t.is(part.status, 409);
	t.is(part.headers.get('hx-refresh'), 'true', 'a page that was open during the upgrade shows no other workspace');
	t.is((await visitor.exact('/live', {headers: {'hx-request': 'true'}})).status, 409);
	const page = await visitor.exact('/w/other/suppressions');
	const post = async (path: string, token: string) => {
		const body = new URLSearchParams({_csrf: token, address: 'old@dest.example'});
		return await visitor.exact(path, {method: 'POST', body, headers: {origin: service().url}});
	};
	for (const route of routes.filter(({method, withoutWorkspace}) => method === 'POST' && !withoutWorkspace)) {
		const path = route.path.replace(':destination', 'x.example').replaceAll(/:\w+/g, 'x');
		t.is((await post(path, 'wrong')).status, 403, named(route));
		const seen = await post(path, tokenIn(page.text));
		t.is(seen.status, 409, named(route));
		t.regex(seen.text, /This form is out of date[\s\S]*reload it/, named(route));
	}
	for (const name of ['shop', 'other']) {
		t.notRegex((await visitor.exact(`/w/${name}/suppressions`)).text, /old@dest/);
	}
});

test.serial('the pages of another workspace are as if it did not exist', async t => {
	const gone = await created('gone');
	await service().program.cli('workspace', 'delete', gone.id, '--yes');
	const visitor = await visitorOf(service(), 'admin', 'shop');
	const page = await visitor.exact('/w/shop/messages');
	const ask = async ({method, path}: {readonly method: string; readonly path: string}) => {
		const body = new URLSearchParams({_csrf: tokenIn(page.text)});
		return await visitor.exact(path, method === 'GET' ? {} : {method, body, headers: {origin: service().url}});
	};
	const unknown = await ask({method: 'GET', path: '/w/nowhere/messages'});
	t.is(unknown.status, 404);
	t.regex(unknown.text, /This page does not exist/);
	const texts = ['other', inside('other').id, 'gone', gone.id, 'ws_00000000000000000000000000', 'A', '%00', 'x y'];
	for (const route of routes.filter(one => !one.withoutWorkspace && !one.everywhere)) {
		for (const workspace of texts) {
			const path = servedAt(route).replace(':workspace', workspace).replaceAll(/:\w+/g, 'x');
			const seen = await ask({method: route.method, path});
			t.is(seen.status, 404, path);
			t.is(withoutRandom(seen.text), withoutRandom(unknown.text), path);
		}
	}
	t.is((await visitor.exact('/')).location, '/w/shop/messages');
	t.is((await visitor.exact(`/w/${inside('shop').id}/messages`)).status, 200);
});

test.serial('a link opens for everyone who may see the workspace', async t => {
	const id = await sent('other', 'ann@dest.example');
	const visitor = await visitorOf(service(), 'viewer');
	await visitor.exact('/w/shop/messages');
	const path = `/w/other/messages/${id}`;
	const parts = await visitor.exact(path, {headers: {'hx-request': 'true'}});
	t.is(parts.status, 200);
	t.is((await visitor.exact('/')).location, '/w/shop/messages', 'a part that is fetched again opens nothing');
	t.regex((await visitor.exact(path)).text, /ann@dest\.example/);
	t.is((await visitor.exact(`/w/shop/messages/${id}`)).status, 404);
	t.is((await visitor.exact('/')).location, '/w/other/messages', 'a page that does not exist was not opened');
	const stranger = strangerTo(service().url);
	t.is((await stranger.exact(`${path}?copy=1`)).location, `/login?to=${encodeURIComponent(`${path}?copy=1`)}`);
});

test.serial('the switcher shows the same list in the other workspace', async t => {
	const visitor = await visitorOf(service(), 'viewer');
	const id = await sent('shop', 'ann@dest.example');
	const use = async (path: string) => {
		const page = await visitor.exact(path);
		const [, place] = /name="place" value="([^"]*)"/.exec(page.text) ?? [];
		const fields = {workspace: inside('other').id, ...(place !== undefined && {place})};
		return (await submit(visitor, page, '/workspaces/use', fields)).location;
	};
	t.is(await use('/w/shop/queue?q=a'), '/w/other/queue');
	t.is(await use(`/w/shop/messages/${id}`), '/w/other/messages');
	t.is(await use('/account'), '/w/other/messages');
	t.is(await use('/workspaces'), '/workspaces');
	const page = await visitor.exact('/w/shop/queue');
	const unknown = await submit(visitor, page, '/workspaces/use', {workspace: 'ws_x', place: '/evil.example'});
	t.is(unknown.location, '/w/shop/messages');
});

test.serial('a name that is no slug is not in paths, and no name forges a link', async t => {
	const hostile = `x" href="/messages`;
	const visitor = await visitorOf(service(), 'admin');
	for (const name of [hostile, 'Süd GmbH', 'UPPER', `a${'b'.repeat(70)}`, '-a', 'a_b']) {
		const {id} = await created(name);
		const page = await visitor.exact(`/w/${id}/messages`);
		t.is(page.status, 200, name);
		t.true(page.text.includes(`href="/w/${id}/queue"`), name);
		t.is((await visitor.exact(`/w/${encodeURIComponent(name)}/messages`)).status, 404, name);
	}
	await visitor.exact('/w/shop/templates');
	t.is((await visitor.submit('/templates', {name: hostile})).status, 303);
	t.true((await visitor.exact('/w/shop/templates')).text.includes('href=&quot;/messages'));
	for (const path of ['/workspaces', '/w/shop/templates', `/w/shop/messages?q=${encodeURIComponent(hostile)}`]) {
		checkPaths(t, await visitor.exact(path), path);
	}
	t.true((await visitor.exact('/w/shop/messages?q=%2Fmessages')).text.includes('value="/messages"'), 'no path');
});

test('rewrites only attributes of paths, not texts', t => {
	const {inMarkup, inPath} = createWorkspacePaths(routes);
	const shop = {id: 'ws_1', name: 'shop'} as Parameters<typeof inPath>[1];
	const text = fc.array(fc.constantFrom('"', "'", ' href=', ' action="', '/messages', '=', '>', '<a', '/', ' src="'));
	fc.assert(
		fc.property(text, words => {
			const value = words.join('');
			const {markup} = html`<p title="${value}">${value}</p><textarea>${value}</textarea>`;
			t.is(inMarkup(markup, shop), markup);
		}),
	);
	t.is(inPath('/messages?q=/queue', shop), '/w/shop/messages?q=/queue');
	t.is(inPath('//messages', shop), '//messages');
	for (const other of [
		'/',
		'/messagesx',
		'/messages-x',
		'/w/other/messages',
		'https://x.example/messages',
		'/users',
	]) {
		t.is(inPath(other, shop), other);
	}
	t.is(inPath('/messages', null), '/messages');
	t.is(inMarkup('<a href="/live">', null), '<a href="/live">');
	t.is(inMarkup('<a href="/live">', shop), '<a href="/w/shop/live">');
	t.is(inMarkup('<i id="/live">', shop), '<i id="/live">');
});

test('no path belongs to a workspace and to none', t => {
	const first = (isWithout: boolean) =>
		routes.filter(one => (one.withoutWorkspace ?? false) === isWithout).map(({path}) => path.split('/')[1]);
	const shared = new Set(first(true));
	t.deepEqual(
		first(false).filter(segment => shared.has(segment)),
		[],
	);
});

const ofWorkspace = routes.filter(one => !one.withoutWorkspace).map(({path}) => path.split('/')[1]);

/** Every attribute with the path of a page of a workspace names the workspace. */
function checkPaths(t: ExecutionContext, {text}: Seen, path: string): void {
	for (const [, attribute, to = ''] of text.matchAll(/ ([\w:-]+)="(\/[^"]*)"/g)) {
		const isPlain = attribute === 'value' || attribute === 'data-copy';
		t.false(!isPlain && ofWorkspace.includes(to.split(/[/?#]/)[1] ?? ''), `${path}: ${attribute}="${to}"`);
	}
}

test.serial('every link and form of every page names the workspace', async t => {
	const visitor = await visitorOf(service(), 'admin');
	const paths = await fill(service(), visitor);
	t.true(paths.length > 30);
	for (const path of paths) {
		const page = await visitor.get(path);
		const exact = await visitor.exact(page.status === 200 && isInside(path) ? `/w/shop${path}` : path);
		t.is(exact.status, 200, path);
		checkPaths(t, exact, path);
		const [own, id] = ['/w/shop/', `/w/${inside('shop').id}/`];
		for (const [, to = ''] of exact.text.matchAll(/="(\/w\/[^"]*)"/g)) {
			t.true(to.startsWith(own) || to.startsWith(id) || path.startsWith('/audit'), `${path}: ${to}`);
		}
	}
});

const isInside = (path: string) => ofWorkspace.includes(path.split(/[/?#]/)[1] ?? '');
