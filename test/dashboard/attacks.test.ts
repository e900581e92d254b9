import test from 'ava';
import fc from 'fast-check';
import {parseFields} from '../../src/dashboard/forms.ts';
import {act, withToken} from '../../src/dashboard/markup.ts';
import {openPages} from '../../src/dashboard/pages.ts';
import {html} from '../../src/hosted/html.ts';
import {strangerTo, tokenIn, type Visitor, visitorOf} from '../helpers/dashboard.ts';
import {noParts, routes, servedAt} from '../helpers/dashboard-routes.ts';
import {rawHttp} from '../helpers/raw-http.ts';
import {service} from './service.ts';

// What somebody tries who wants more than a browser would ask for.

const cookieOf = (visitor: Visitor) =>
	visitor
		.cookies()
		.map(({name, value}) => `${name}=${value}`)
		.join('; ');

/** The status of the response to raw bytes. */
async function statusOf(line: string, headers: readonly string[], body = ''): Promise<number> {
	const {port, host} = new URL(service().url);
	const head = [`${line} HTTP/1.1`, `Host: ${host}`, 'Connection: close', ...headers].join('\r\n');
	return Number((await rawHttp(Number(port), `${head}\r\n\r\n${body}`)).slice(9, 12));
}

async function upload(visitor: Visitor, path: string, content: Buffer): Promise<number> {
	const form = new FormData();
	form.set('_csrf', tokenIn((await visitor.get(path)).text));
	form.set('file', new File([new Uint8Array(content)], 'mail.eml'));
	return (await visitor.raw(path, {method: 'POST', body: form})).status;
}

test('rejects uploads before login and on forms without a file', async t => {
	const small = Buffer.from('From: a@b.example\r\n\r\nHello');
	t.is(await upload(strangerTo(service().url), '/login', small), 415);
	const visitor = await visitorOf(service(), 'admin');
	t.is(await upload(visitor, '/webhooks', small), 415);
	t.is(await upload(visitor, '/returned/explain', small), 200);
	t.is(await upload(visitor, '/returned/explain', Buffer.alloc(33 * 1024 * 1024, 'a')), 413);
});

test('rejects a form with many large fields', async t => {
	const visitor = await visitorOf(service(), 'viewer');
	const form = new FormData();
	form.set('_csrf', tokenIn((await visitor.get('/returned/explain')).text));
	for (let n = 0; n < 40; n++) {
		form.set(`field${n}`, 'a'.repeat(1_000_000));
	}
	t.is((await visitor.raw('/returned/explain', {method: 'POST', body: form})).status, 413);
});

test('rejects a form with many small fields before login', async t => {
	const send = async (fields: string) => {
		const headers = {'content-type': 'application/x-www-form-urlencoded'};
		return (await strangerTo(service().url).raw('/login', {method: 'POST', body: fields, headers})).status;
	};
	t.is(await send(`a${'&a'.repeat(99)}`), 403, 'it has no token');
	for (const fields of [`a${'&a'.repeat(100)}`, '&'.repeat(1_000_000), 'a=1&'.repeat(250_000)]) {
		t.is(await send(fields), 413);
	}
});

test('limits public forms to 64 KiB, whatever their type', async t => {
	for (const type of ['application/x-www-form-urlencoded', 'application/json']) {
		for (const path of ['/login', '/login/code', '/login/passkey', '/confirm']) {
			const send = async (length: number) => {
				const body = type.endsWith('json') ? `"${'x'.repeat(length - 2)}"` : 'x'.repeat(length);
				const init = {method: 'POST', body, headers: {'content-type': type}};
				return (await strangerTo(service().url).raw(path, init)).status;
			};
			t.is(await send(64 * 1024), 403, `${path}: it has no token`);
			t.is(await send(64 * 1024 + 1), 413, path);
		}
	}
});

test('ignores invalid escapes in queries and cookies without affecting other values', async t => {
	const broken = Array.from({length: 700}, (_, n) => `c${n}=%ff`);
	t.is(await statusOf(`GET /login?${'a=%E0%A4%A&'.repeat(1000)}`, []), 200);
	t.is(await statusOf('GET /login', [`Cookie: mailctl=%E0%A4%A; ${broken.join('; ')}`]), 200);
	const visitor = await visitorOf(service(), 'viewer');
	t.is(
		await statusOf(`GET /account?${broken.join('&')}`, [`Cookie: ${broken.join('; ')}; ${cookieOf(visitor)}`]),
		200,
	);
});

test('parses form fields like URLSearchParams', t => {
	// Only ASCII: browsers encode other letters, and Node 20 misreads them beside a `%4`.
	const piece = fc.constantFrom('+', '%2B', '%', '%4', '%E2%82%AC', '%FF', '=', '&', 'a', ' ', '\0', '_csrf');
	fc.assert(
		fc.property(fc.array(piece, {maxLength: 60}), pieces => {
			const body = pieces.join('');
			t.deepEqual([...(parseFields(Buffer.from(body)) ?? [])], [...new URLSearchParams(body)]);
		}),
	);
	t.is(
		parseFields(Buffer.alloc(1024 * 1024 - 2, '+').fill('a=', 0, 2))
			?.get('a')
			?.trim(),
		'',
	);
});

test('a malformed upload, or one without a length, is not a server error', async t => {
	const visitor = await visitorOf(service(), 'viewer');
	const cookie = `Cookie: ${cookieOf(visitor)}`;
	const type = 'Content-Type: multipart/form-data; boundary=b';
	const post = 'POST /returned/explain';
	t.is(await statusOf(post, [cookie, 'Content-Type: multipart/form-data', 'Content-Length: 0']), 400);
	t.is(await statusOf(post, [cookie, type, 'Transfer-Encoding: chunked'], '1\r\na\r\n0\r\n\r\n'), 400);
	for (const body of ['--b\r\nno part', '--b\r\nContent-Disposition: form-data; name="a"\r\n\r\nno end', 'nothing']) {
		t.is(await statusOf(post, [cookie, type, `Content-Length: ${body.length}`], body), 400, body);
	}
	// A body that is JSON is no form either.
	const json = '{"form": "x", "file": {"name": "x"}}';
	t.is(
		await statusOf('POST /login', ['Content-Type: application/json', `Content-Length: ${json.length}`], json),
		403,
	);
});

test('responds with 404 to invalid path parameters', async t => {
	const visitor = await visitorOf(service(), 'admin');
	const {text} = await visitor.get('/account');
	const body = new URLSearchParams({_csrf: tokenIn(text)}).toString();
	const form = ['Content-Type: application/x-www-form-urlencoded', `Content-Length: ${body.length}`];
	const statusAt = async (method: string, path: string) =>
		method === 'GET'
			? await statusOf(`GET ${path}`, [`Cookie: ${cookieOf(visitor)}`])
			: await statusOf(`POST ${path}`, [`Cookie: ${cookieOf(visitor)}`, ...form], body);
	const served = routes.map(route => ({method: route.method, path: servedAt(route)}));
	const patterns = [...openPages(noParts), ...served].filter(({path}) => path.includes(':'));
	t.true(patterns.length > 50);
	for (const {method, path} of patterns) {
		for (const encoded of [
			'%2e%2e',
			'..%2fsuppressions%2fsup_x%2fremove%3f',
			'a%23',
			'%C3%BC%0D%0AX-Evil:%201',
			'%00',
		]) {
			const inShop = path.replace(':workspace', 'shop');
			for (const pattern of new Set([path, inShop].filter(one => one.includes(':')))) {
				const asked = pattern.replaceAll(/:\w+/g, encoded);
				t.is(await statusAt(method, asked), 404, `${method} ${asked}`);
			}
		}
	}
});

test('responds with 404 to unknown assets and logs no error', async t => {
	for (const path of [
		'%2e%2e/x',
		'..%2fx',
		'%2e%2e%2f%2e%2e%2fpackage.json',
		'.htaccess',
		'x',
		'%00',
		'%5c..%5cx',
		'dashboard.css.br',
	]) {
		t.is(await statusOf(`GET /assets/${path}`, []), 404, path);
	}
	for (const path of ['/docs/%2e%2e/x', '/docs/static/%2e%2e/%2e%2e/x', '/docs/..%2f']) {
		t.is(await statusOf(`GET ${path}`, []), 404, path);
	}
	t.notRegex(await service().program.log(), /request_failed/);
});

test('accepts any spelling of a destination, and its forms use the stored one', async t => {
	const visitor = await visitorOf(service(), 'operator', 'shop');
	const {text} = await visitor.get('/queue/B%C3%BCcher.Example');
	t.regex(text, /action="\/queue\/xn--bcher-kva.example\/flush"/);
	t.is((await visitor.submit('/queue/Dest.Example/flush')).location, '/queue/dest.example');
});

test('never inserts the token into text from outside', t => {
	const page = html`${act({to: '/x', label: 'Go'})}<a href="https://evil.example/?${'\0token\0'}">x</a>`;
	t.is(withToken(page, 'secret').split('secret').length, 2);
});

test('numbers out of range are not a server error', async t => {
	const visitor = await visitorOf(service(), 'admin', 'shop');
	const add = ['webhook', 'add', 'https://hooks.example/x', '--event', 'delivered', '--workspace', 'shop'];
	const {id} = await service().program.cli<{id: string}>(...add);
	for (const hours of ['1e15', 'Infinity']) {
		t.is((await visitor.get(`/webhooks/${id}?hours=${hours}`)).status, 200, hours);
		t.is((await visitor.submit(`/webhooks/${id}/replay`, {hours})).status, 303, hours);
	}
	for (const expires of ['1e9', '-1', 'soon']) {
		t.is((await visitor.submit('/keys', {name: 'key', scopes: 'messages:send', expires})).status, 422, expires);
	}
});

test('sends the strictest content security policy with files, errors and API responses', async t => {
	const visitor = await visitorOf(service(), 'viewer');
	const {text} = await visitor.get('/messages');
	const [, asset = ''] = /<script[^>]* src="([^"]+)"/.exec(text) ?? [];
	const {headers} = await visitor.raw('/messages', {headers: {authorization: 'Bearer x'}});
	t.is(headers.get('content-security-policy'), "default-src 'none'");
	const file = await visitor.raw(asset, {});
	t.is(file.status, 200);
	t.is(file.headers.get('content-security-policy'), "default-src 'none'");
	t.regex((await visitor.raw('/messages', {})).headers.get('content-security-policy') ?? '', /script-src 'nonce-/);
});
