import test from 'ava';
import {strangerTo, tokenIn} from '../helpers/dashboard.ts';
import {rawHttp} from '../helpers/raw-http.ts';
import {serviceOf} from '../helpers/service.ts';

const service = serviceOf(test, {
	workspaces: {},
	settings: async () => ({MAILCTL_PUBLIC_URL: 'https://mail.shop.example', MAILCTL_TRUST_PROXY: '127.0.0.1'}),
});

const ask = async (path: string, host: string) => {
	const {port} = new URL(service().url);
	const head = [`GET ${path} HTTP/1.1`, `Host: ${host}`, 'X-Forwarded-Proto: https', 'X-Forwarded-For: 203.0.113.9'];
	return await rawHttp(Number(port), `${head.join('\r\n')}\r\nConnection: close\r\n\r\n`);
};

test('behind a proxy with https the dashboard answers to the public name, and the cookie is for https alone', async t => {
	const {link} = await service().program.cli<{link: string}>('user', 'add', 'ann@staff.example');
	t.regex(await ask('/login', 'mail.shop.example'), /^HTTP\/1\.1 200 /);
	const answer = await ask(new URL(link).pathname, 'mail.shop.example');
	t.regex(answer, /set-cookie: __Host-mailctl=[\w-]{43}; Path=\/; HttpOnly; Secure; SameSite=Strict/i);
	const [, token = ''] = /__Host-mailctl=([\w-]+)/.exec(answer) ?? [];
	t.notRegex(answer, new RegExp(`set-cookie: mailctl=${token}`));
	t.regex(answer, /data-passkey="create"/, 'a name can have passkeys');
	const [act] = await service().program.cli<Array<{from: string}>>('audit', 'list', '--limit', '1');
	t.is(act?.from, '203.0.113.9');
});

test('other names get nothing, and what is for the operator alone stays so', async t => {
	t.regex(await ask('/login', 'rebound.example'), /^HTTP\/1\.1 404 /);
	t.regex(await ask('/metrics', 'mail.shop.example'), /^HTTP\/1\.1 404 /);
	t.regex(await ask('/docs', 'mail.shop.example'), /^HTTP\/1\.1 404 /);
});

test('of log-ins from many addresses at once a few are checked, and the others asked to come again', async t => {
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
		t.regex(text, /Too many people log in right now/);
	}
});
