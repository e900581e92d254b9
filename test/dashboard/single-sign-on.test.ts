import test from 'ava';
import {type Seen, strangerTo, type Visitor} from '../helpers/dashboard.ts';
import {type Claims, type OidcProvider, oidcSettings, startOidcProvider} from '../helpers/oidc-provider.ts';
import {serviceOf} from '../helpers/service.ts';

let provider: OidcProvider;
const service = serviceOf(test, {
	workspaces: {shop: []},
	async settings(scope) {
		provider = await startOidcProvider(scope);
		return oidcSettings(provider);
	},
});
const email = 'ann@staff.example';
const verified = {email, email_verified: true};

/** Goes to the provider and back, up to the page that redirects the browser. */
async function toAndBack(visitor: Visitor, claims: Claims, userInfo: Claims = {}, path = '/login/oidc?to=%2Fusers') {
	Object.assign(provider, {claims, userInfo});
	const {location} = await visitor.get(path);
	const back = await fetch(location ?? '', {redirect: 'manual'});
	const {pathname, search} = new URL(back.headers.get('location') ?? '');
	// A browser that comes from elsewhere sends no cookie of ours.
	const page = await strangerTo(service().url).get(pathname + search);
	const [, next = ''] = /http-equiv="refresh" content="0; url=([^"]+)"/.exec(page.text) ?? [];
	return {next: next.replaceAll('&amp;', '&'), asked: new URL(location ?? '').searchParams};
}

async function logIn(claims: Claims, userInfo?: Claims): Promise<{visitor: Visitor; seen: Seen}> {
	const visitor = strangerTo(service().url);
	await visitor.get('/login');
	const {next} = await toAndBack(visitor, claims, userInfo);
	return {visitor, seen: await visitor.get(next)};
}

test.serial('signs in a user by verified address and returns to the requested page', async t => {
	await service().program.cli('user', 'add', email, '--role', 'admin');
	const stranger = strangerTo(service().url);
	t.regex((await stranger.get('/login?to=%2Fusers')).text, /href="\/login\/oidc\?to=%2Fusers">Sign in with 127/);
	const {visitor, seen} = await logIn({...verified, email: 'Ann@Staff.example'});
	t.is(seen.location, '/users');
	t.is((await visitor.get('/users')).status, 200);
	t.is((await logIn({}, verified)).seen.location, '/users', 'the address is told by userinfo');
	const [act] = await service().program.cli<Array<{action: string; detail: object}>>('audit', 'list', '--limit', '1');
	t.like(act, {action: 'user.logged_in', detail: {by: 'oidc'}});
});

test.serial('rejects unverified, unknown and forged identities', async t => {
	for (const [claims, problem] of [
		[{email, email_verified: false}, /verified email address/],
		[{email}, /verified email address/],
		[{email: 'bob@staff.example', email_verified: true}, /The user bob@staff\.example does not exist/],
		[{...verified, aud: 'another'}, /Signing in at the provider failed/],
		[{...verified, iss: 'https://elsewhere.example'}, /Signing in at the provider failed/],
		[{...verified, nonce: 'x'}, /Signing in at the provider failed/],
		[{...verified, exp: 1}, /Signing in at the provider failed/],
	] as const) {
		const {visitor, seen} = await logIn(claims);
		t.is(seen.status, 403, JSON.stringify(claims));
		t.regex(seen.text, problem);
		t.is((await visitor.get('/users')).status, 303);
	}
});

test.serial('only the browser that started a login completes it, and only once', async t => {
	const [visitor, other] = [strangerTo(service().url), strangerTo(service().url)];
	await Promise.all([visitor.get('/login'), other.get('/login')]);
	const {next, asked} = await toAndBack(visitor, verified);
	t.is(asked.get('code_challenge_method'), 'S256');
	t.is((await other.get(next)).status, 403);
	t.is((await visitor.get(next)).status, 403, 'the try of the other has used it up');
	const again = await toAndBack(visitor, verified);
	t.is((await visitor.get(again.next.replace(/code=[^&]*/, 'code=x'))).status, 403);
	const good = await toAndBack(visitor, verified);
	t.is((await visitor.get(good.next)).status, 303);
	t.is((await visitor.get(good.next)).status, 403);
	t.is((await visitor.get('/login/oidc/finish?state=x&code=y')).status, 403);
});

test.serial('a fresh login at the provider by the same user confirms an action', async t => {
	const {visitor} = await logIn(verified);
	const path = '/confirm/oidc?to=%2Faccount';
	const old = await toAndBack(visitor, {...verified, auth_time: Math.floor(Date.now() / 1000) - 3600}, {}, path);
	t.is(old.asked.get('prompt'), 'login');
	t.is((await visitor.get(old.next)).status, 403);
	const fresh = await toAndBack(visitor, verified, {}, path);
	t.is((await visitor.get(fresh.next)).location, '/account');
});
