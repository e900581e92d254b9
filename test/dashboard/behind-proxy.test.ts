import test from 'ava';
import {strangerTo, tokenIn} from '../helpers/dashboard.ts';
import {rawHttp} from '../helpers/raw-http.ts';
import {serviceOf} from '../helpers/service.ts';

const service = serviceOf(test, {
	workspaces: {},
	settings: async () => ({MAILCTL_PUBLIC_URL: 'https://mail.shop.example', MAILCTL_TRUST_PROXY: '127.0.0.1'}),
});

const ask = async (path: string, host: string, {method = 'GET', headers = [] as readonly string[], body = ''} = {}) => {
	const {port} = new URL(service().url);
	const head = [
		`${method} ${path} HTTP/1.1`,
		`Host: ${host}`,
		'X-Forwarded-Proto: https',
		'X-Forwarded-For: 203.0.113.9',
	];
	return await rawHttp(Number(port), `${[...head, ...headers].join('\r\n')}\r\nConnection: close\r\n\r\n${body}`);
};

test('behind an HTTPS proxy the dashboard serves the public name with a secure cookie', async t => {
	const {link} = await service().program.cli<{link: string}>('user', 'add', 'ann@staff.example');
	t.regex(await ask('/login', 'mail.shop.example'), /^HTTP\/1\.1 200 /);
	const answer = await ask(new URL(link).pathname, 'mail.shop.example');
	t.regex(answer, /set-cookie: __Host-mailctl=[\w-]{43}; Path=\/; HttpOnly; Secure; SameSite=Strict/i);
	const [, token = ''] = /__Host-mailctl=([\w-]+)/.exec(answer) ?? [];
	t.notRegex(answer, new RegExp(`set-cookie: mailctl=${token}`));
	t.regex(answer, /data-passkey="create"/, 'a name can have passkeys');
	// The other tests add users meanwhile.
	const acts = await service().program.cli<Array<{action: string; actor: string; from: string}>>('audit', 'list');
	const own = acts.filter(({action, actor}) => action === 'user.logged_in' && actor === 'user:ann@staff.example');
	t.deepEqual(
		own.map(({from}) => from),
		['203.0.113.9'],
	);
});

test('responds with 404 to other hostnames, and to operator pages on the public name', async t => {
	t.regex(await ask('/login', 'rebound.example'), /^HTTP\/1\.1 404 /);
	t.regex(await ask('/metrics', 'mail.shop.example'), /^HTTP\/1\.1 404 /);
	t.regex(await ask('/docs', 'mail.shop.example'), /^HTTP\/1\.1 404 /);
});

test('checks a few of many concurrent logins and tells the others to retry', async t => {
	const {url} = service();
	const visitor = strangerTo(url);
	const form = {_csrf: tokenIn((await visitor.get('/login')).text), email: 'bob@staff.example', password: 'a guess'};
	const tried = await Promise.all(
		Array.from({length: 60}, (_, n) =>
			visitor.raw('/login', {
				...{method: 'POST', body: new URLSearchParams(form)},
				headers: {origin: url, 'x-forwarded-for': `203.0.113.${n}`},
			}),
		),
	);
	const refused = tried.filter(({status}) => status !== 403);
	t.true(refused.length > 0 && refused.length <= 50);
	for (const {status, headers, text} of refused) {
		t.is(status, 503);
		t.is(headers.get('retry-after'), '5');
		t.regex(text, /Too many people are signing in/);
	}
});

test('limits guesses of login links like those of passwords', async t => {
	const {link} = await service().program.cli<{link: string}>('user', 'add', 'dan@staff.example');
	const visitor = strangerTo(service().url);
	const open = (path: string, network: string) => visitor.raw(path, {headers: {'x-forwarded-for': network}});
	for (let n = 0; n < 30; n++) {
		t.is((await open(`/login/guess${n}`, '198.51.100.1')).status, 403);
	}
	const refused = await open(new URL(link).pathname, '198.51.100.1');
	t.is(refused.status, 429);
	t.regex(refused.text, /Too many failed attempts/);
	t.regex(refused.headers.get('retry-after') ?? '', /^\d+$/);
	t.is((await open(new URL(link).pathname, '198.51.100.2')).status, 200, 'the link was not used up');
});

test('links use the verified or the public hostname, whatever host a proxy forwards', async t => {
	const {link} = await service().program.cli<{link: string}>('user', 'add', 'cat@staff.example', '--role', 'admin');
	const opened = await ask(new URL(link).pathname, 'mail.shop.example');
	const cookies = [...opened.matchAll(/^set-cookie: ([^=]+=[^;]+)/gim)].map(([, cookie]) => cookie);
	const cookie = `Cookie: ${cookies.join('; ')}`;
	const {port} = new URL(service().url);
	let users = 0;

	/** The link shown after a form is sent from a page at `origin` through a proxy that forwards these hosts. */
	async function linkFor(host: string, origin: string, ...forwarded: readonly string[]): Promise<string | undefined> {
		const fields = {
			email: `user${users++}@staff.example`,
			role: 'viewer',
			workspace: 'all',
			_csrf: tokenIn(opened),
		};
		const body = new URLSearchParams(fields).toString();
		const type = 'Content-Type: application/x-www-form-urlencoded';
		const headers = [cookie, type, `Content-Length: ${body.length}`, `Origin: https://${origin}`, ...forwarded];
		const seen = await ask('/users', host, {method: 'POST', headers, body});
		return /https?:\/\/[^"<\s]+(?=\/login\/[\w-]{43})/.exec(seen)?.[0];
	}

	const site = 'mail.shop.example';
	const evil = ['X-Forwarded-Host: evil.example', 'X-Forwarded-Host: evil.example, mail.shop.example'];
	for (const forwarded of [[], ...evil.map(one => [one])]) {
		t.is(await linkFor(site, site, ...forwarded), `https://${site}`);
		t.is(await linkFor(`127.0.0.1:${port}`, site, ...forwarded), `https://${site}`, 'a proxy that passes no Host');
		t.is(await linkFor(`localhost:${port}`, site, ...forwarded), `https://${site}`);
		t.is(await linkFor('192.0.2.1', '192.0.2.1', ...forwarded), 'https://192.0.2.1', 'a proxy at an address');
		t.is(await linkFor(site, 'evil.example', ...forwarded), undefined, 'a form of another host');
	}
	const plain = await ask('/login', `127.0.0.1:${port}`, {headers: ['X-Forwarded-Host: evil.example']});
	t.regex(plain, /&quot;rpId&quot;:&quot;mail\.shop\.example&quot;/, 'passkeys are of the public name');
});
