import test from 'ava';
import {findUserByEmail} from '../../src/resources/users/store.ts';
import {totpCode, totpStep} from '../../src/resources/users/totp.ts';
import {openStore} from '../../src/store/store.ts';
import {type Seen, strangerTo, tokenIn, type Visitor, visitorOf} from '../helpers/dashboard.ts';
import {rawHttp} from '../helpers/raw-http.ts';
import {serviceOf} from '../helpers/service.ts';

const service = serviceOf(test, {workspaces: {shop: [], other: []}});
const password = 'correct horse battery';
let users = 0;

/** Submits a form with the token of its page. */
async function fill(visitor: Visitor, page: Seen, path: string, fields: Record<string, string>): Promise<Seen> {
	const body = new URLSearchParams({_csrf: tokenIn(page.text), ...fields});
	return await visitor.raw(path, {method: 'POST', body, headers: {origin: service().url}});
}

async function linkOf(...options: string[]): Promise<{email: string; path: string}> {
	const email = `ann${users++}@staff.example`;
	const {link} = await service().program.cli<{link: string}>('user', 'add', email, ...options);
	return {email, path: new URL(link).pathname};
}

/** A user who has opened their link and set a password, and their browser. */
async function settled(): Promise<{visitor: Visitor; email: string}> {
	const {email, path} = await linkOf();
	const visitor = strangerTo(service().url);
	const set = await fill(visitor, await visitor.get(path), '/account/password', {password});
	if (set.location !== '/account') {
		throw new Error(`the password was not set: ${set.status}`);
	}
	return {visitor, email};
}

async function logIn(visitor: Visitor, email: string, given: string, path = '/login'): Promise<Seen> {
	return await fill(visitor, await visitor.get('/login'), path, {email, password: given});
}

test('a link signs a user in once and shows a page to set a password', async t => {
	const {path, email} = await linkOf();
	const [visitor, late] = [strangerTo(service().url), strangerTo(service().url)];
	t.is((await visitor.raw(path, {method: 'HEAD'})).status, 403, 'what looks ahead does not use it up');
	t.is((await visitor.raw(path, {headers: {'sec-purpose': 'prefetch;prerender'}})).status, 403);
	const page = await visitor.get(path);
	t.is(page.status, 200);
	const [cookie = ''] = page.headers.getSetCookie().filter(line => line.startsWith('mailctl='));
	t.regex(cookie, /^mailctl=[\w-]{43}; Path=\/; HttpOnly; SameSite=Strict$/);
	t.is((await late.get(path)).status, 403);
	t.is((await late.get('/messages')).location, '/login?to=%2Fmessages');

	const short = await fill(visitor, page, '/account/password', {password: 'short'});
	t.is(short.status, 422);
	t.regex(short.text, /The password must have at least 12 characters/);
	t.is((await fill(visitor, page, '/account/password', {password})).location, '/account');
	t.is((await logIn(late, email, password, '/login?to=%2Fusers%3Fa%3D1')).location, '/users?a=1');
	t.is((await late.get('/messages')).status, 200);
});

test('redirects only to our own pages after login', async t => {
	const {email} = await settled();
	for (const to of ['//evil.test/', '/\\evil.test', 'https://evil.test/', '/%0d%0aX: y', '']) {
		const visitor = strangerTo(service().url);
		const seen = await logIn(visitor, email, password, `/login?to=${encodeURIComponent(to)}`);
		t.is(seen.status, 303);
		t.is(new URL(seen.location ?? '', service().url).origin, new URL(service().url).origin, to);
	}
});

test('requires a one-time code once it is set up', async t => {
	const {visitor, email} = await settled();
	const page = await visitor.get('/account');
	const [, key = ''] = /name="key" value="([A-Z2-7]{32})"/.exec(page.text) ?? [];
	t.regex(page.text, /<svg /);
	const wrong = await fill(visitor, page, '/account/codes', {key, code: '000000'});
	t.is(wrong.status, 422);
	t.true(wrong.text.includes(key), 'the app that has scanned it goes on');
	const codeAfter = (steps: number) => totpCode(key, totpStep(Date.now()) + steps);
	t.is((await fill(visitor, page, '/account/codes', {key, code: codeAfter(0)})).location, '/account');
	t.regex((await visitor.get('/account')).text, /also requires a code/);

	const other = strangerTo(service().url);
	const asked = await logIn(other, email, password);
	t.is(asked.status, 200);
	const [, pending = ''] = /name="pending" value="([^"]+)"/.exec(asked.text) ?? [];
	const refused = await fill(other, asked, '/login/code', {pending, code: '000000'});
	t.is(refused.status, 403);
	t.regex(refused.text, /code is wrong/);
	t.is((await fill(other, asked, '/login/code', {pending, code: codeAfter(1)})).location, '/');
	t.is((await other.get('/messages')).status, 200);
});

test('logout ends this session, or others from the account page', async t => {
	const {visitor, email} = await settled();
	const others = [strangerTo(service().url), strangerTo(service().url)];
	for (const other of others) {
		await logIn(other, email, password);
	}
	const account = await visitor.get('/account');
	const [id = ''] = /(?<=\/account\/sessions\/)ses_\w+(?=\/end)/.exec(account.text) ?? [];
	t.is((await visitor.submit(`/account/sessions/${id}/end`)).location, '/account');
	const states = async () => await Promise.all(others.map(async one => (await one.get('/messages')).status));
	t.deepEqual((await states()).toSorted(), [200, 303]);
	await visitor.submit('/account/sessions/end');
	t.deepEqual(await states(), [303, 303]);
	t.is((await visitor.submit('/logout')).location, '/login');
	t.is((await visitor.get('/account')).location, '/login?to=%2Faccount');
});

test('an admin adds, changes, invites and removes users, but not themselves', async t => {
	const admin = await visitorOf(service(), 'admin');
	const email = `bob${users++}@staff.example`;
	t.is((await admin.submit('/users', {email: 'bob', role: 'viewer', workspace: 'all'})).status, 422);
	t.is((await admin.submit('/users', {email, role: 'root', workspace: 'all'})).status, 422);
	t.is((await admin.submit('/users', {email, role: 'viewer', workspace: 'ws_x'})).status, 422);
	const added = await admin.submit('/users', {email, role: 'viewer', workspace: 'all'});
	const [link = ''] = /http:\/\/127[^"< ]+\/login\/[\w-]{43}/.exec(added.text) ?? [];
	t.is((await admin.submit('/users', {email, role: 'viewer', workspace: 'all'})).status, 422);
	const bob = strangerTo(service().url);
	t.is((await bob.get(new URL(link).pathname)).status, 200);
	t.is((await bob.get('/users')).status, 403);

	const [, id = ''] = new RegExp(`/users/(usr_\\w+)"[^>]*>${email}`).exec((await admin.get('/users')).text) ?? [];
	t.is((await admin.submit(`/users/${id}`, {role: 'admin', workspace: 'all'})).location, `/users/${id}`);
	t.is((await bob.get('/users')).status, 200, 'it holds at once');
	t.regex((await admin.submit(`/users/${id}/link`)).text, /\/login\/[\w-]{43}/);
	t.is((await admin.submit(`/users/${id}/remove`, {typed: 'bob'})).status, 422);
	t.is((await bob.submit(`/users/${id}/remove`, {typed: email})).status, 404);
	t.is((await bob.submit(`/users/${id}`, {role: 'viewer', workspace: 'all'})).status, 404);
	t.is((await admin.submit(`/users/${id}/remove`, {typed: email})).location, '/users');
	t.is((await bob.get('/users')).status, 303);
	t.is((await admin.get(`/users/${id}`)).status, 404);
});

test('an admin of one workspace sees only its users and grants access only to it', async t => {
	const admin = await visitorOf(service(), 'admin', 'shop');
	const {email: everywhere} = await linkOf('--role', 'viewer');
	const {email: foreign} = await linkOf('--workspace', 'other');
	const page = await admin.get('/users');
	t.notRegex(page.text, new RegExp(`${everywhere}|${foreign}`));
	t.notRegex(page.text, /name="workspace"/);
	const email = `carl${users++}@staff.example`;
	t.is((await admin.submit('/users', {email, role: 'admin', workspace: 'all'})).status, 200);
	const listed = await service().program.cli<Array<{id: string; email: string; workspace: string | null}>>(
		'user',
		'list',
	);
	t.is(listed.find(one => one.email === email)?.workspace, service().workspaces.shop?.id);
	const id = listed.find(one => one.email === foreign)?.id;
	t.is((await admin.get(`/users/${id}`)).status, 404);
	t.is((await admin.submit(`/users/${id}/link`)).status, 404);
});

test('refuses login over HTTP from another machine and keeps the link valid', async t => {
	const {path} = await linkOf();
	const visitor = strangerTo(service().url);
	const {port} = new URL(service().url);
	const answer = await rawHttp(
		Number(port),
		`GET ${path} HTTP/1.1\r\nHost: 192.0.2.7:8125\r\nConnection: close\r\n\r\n`,
	);
	t.regex(answer, /^HTTP\/1\.1 403 /);
	t.regex(answer, /ssh -L 8125:localhost:8125 192\.0\.2\.7/);
	t.is((await visitor.get(path)).status, 200);
});

test('account changes require a recent login or a confirmation by password', async t => {
	const {visitor, email} = await settled();
	const store = await openStore(service().store);
	t.teardown(() => store.close());
	const user = await findUserByEmail(store.reader, email);
	const age = async () =>
		await store
			.database('user_sessions')
			.where({user_id: user?.id})
			.update({confirmed_at: '2026-01-01T00:00:00.000Z'});
	await age();
	t.is((await visitor.submit('/account/password', {password: 'another good one'})).location, '/confirm?to=%2F');
	const page = await visitor.get('/confirm?to=%2Faccount');
	t.is(page.status, 200);
	const wrong = await fill(visitor, page, '/confirm?to=%2Faccount', {password: 'not the password'});
	t.is(wrong.status, 403);
	t.regex(wrong.text, /The password is wrong/);
	t.is((await visitor.submit('/account/codes/remove')).location, '/confirm?to=%2F');
	t.is((await fill(visitor, page, '/confirm?to=%2Faccount', {password})).location, '/account');
	t.is((await visitor.submit('/account/codes/remove')).location, '/account');

	const other = await settled();
	await age();
	const {text} = await visitor.get('/confirm');
	t.notRegex(text, /name="email"/, 'nobody confirms as somebody else');
	t.is((await strangerTo(service().url).get('/confirm?to=%2Faccount')).location, '/login?to=%2Faccount');
	t.is((await other.visitor.submit('/account/codes/remove')).location, '/account');
});
