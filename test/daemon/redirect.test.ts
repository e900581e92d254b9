import {once} from 'node:events';
import {type AddressInfo, connect} from 'node:net';
import test, {type ExecutionContext} from 'ava';
import fc from 'fast-check';
import {createRedirect, toRedirect} from '../../src/daemon/redirect.ts';
import {anyChar} from '../helpers/any-char.ts';
import {rawHttp} from '../helpers/raw-http.ts';
import {newId} from '../helpers/workspace.ts';

const publicUrl = 'https://mail.example';
const isOurs = (host: string) => host === 'links.example';

async function start(t: ExecutionContext, options: Partial<Parameters<typeof createRedirect>[0]> = {}) {
	const redirect = createRedirect({
		publicUrl,
		isOurs,
		newId,
		proofOf: async token => (token === 'known' ? 'known.thumbprint' : undefined),
		...options,
	});
	redirect.server.listen(0, '127.0.0.1');
	await once(redirect.server, 'listening');
	t.teardown(() => redirect.close());
	return {redirect, port: (redirect.server.address() as AddressInfo).port};
}

const get = (host: string, path: string, method = 'GET') =>
	`${method} ${path} HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n\r\n`;
const lines = (answer: string) => answer.split('\r\n');

test('redirects any method to the same host and path over https', async t => {
	const {port} = await start(t);
	for (const [host, path, method, location] of [
		['mail.example', '/unsubscribe?token=a%2Fb', 'GET', 'https://mail.example/unsubscribe?token=a%2Fb'],
		['MAIL.example:80', '/', 'HEAD', 'https://mail.example/'],
		['links.example.', '/t/c/abc', 'GET', 'https://links.example/t/c/abc'],
		['mail.example', '//evil.test/x', 'GET', 'https://mail.example//evil.test/x'],
		['mail.example', '/unsubscribe?token=a', 'POST', 'https://mail.example/unsubscribe?token=a'],
	] as const) {
		const [status, ...rest] = lines(await rawHttp(port, get(host, path, method)));
		t.is(status, 'HTTP/1.1 308 Permanent Redirect', `${method} ${host}${path}`);
		t.true(rest.includes(`location: ${location}`), rest.join('\n'));
	}
});

test('redirects a POST with a body', async t => {
	const {port} = await start(t);
	const body = 'List-Unsubscribe=One-Click';
	const text = `POST /unsubscribe HTTP/1.1\r\nHost: mail.example\r\nContent-Length: ${body.length}\r\nConnection: close\r\n\r\n${body}`;
	t.regex(await rawHttp(port, text), /^HTTP\/1\.1 308 [\s\S]*location: https:\/\/mail\.example\/unsubscribe\r\n/);
});

test('keeps the port of the public URL', t => {
	t.is(toRedirect('links.example:8080', '/a', 'https://mail.example:8443/', isOurs), 'https://links.example:8443/a');
});

test('does not redirect requests for foreign hosts or without a host', async t => {
	const {port} = await start(t);
	for (const host of [
		'evil.test',
		'mail.example.evil.test',
		'xmail.example',
		'127.0.0.1',
		'[::1]',
		'mail.example@evil.test',
		'',
	]) {
		const [status, ...rest] = lines(await rawHttp(port, get(host, '/')));
		t.regex(status ?? '', /^HTTP\/1\.1 (?:421|400) /, host);
		t.false(
			rest.some(line => line.startsWith('location')),
			host,
		);
	}
	t.regex(await rawHttp(port, 'GET / HTTP/1.0\r\n\r\n'), /^HTTP\/1\.1 421 /);
	t.regex(await rawHttp(port, get('mail.example', 'http://evil.test/')), /^HTTP\/1\.1 421 /);
});

test('takes host and path from a request in absolute form, whatever the Host header', async t => {
	const {port} = await start(t);
	for (const [url, host, location] of [
		['http://mail.example/unsubscribe?token=a', 'mail.example', 'https://mail.example/unsubscribe?token=a'],
		['HTTP://Links.Example:80/t/c/abc', 'mail.example', 'https://links.example/t/c/abc'],
		['http://mail.example/a', 'evil.test', 'https://mail.example/a'],
		['http://mail.example', 'mail.example', 'https://mail.example/'],
		['http://mail.example?a=http://b', 'mail.example', 'https://mail.example/?a=http://b'],
		['http://mail.example//evil.test', 'mail.example', 'https://mail.example//evil.test'],
	] as const) {
		const [status, ...rest] = lines(await rawHttp(port, get(host, url)));
		t.is(status, 'HTTP/1.1 308 Permanent Redirect', url);
		t.true(rest.includes(`location: ${location}`), rest.join('\n'));
	}
	t.regex(
		await rawHttp(port, 'GET http://mail.example/a HTTP/1.0\r\n\r\n'),
		/location: https:\/\/mail\.example\/a\r\n/,
	);
	for (const url of [
		'http://evil.test/',
		'http://a@mail.example/',
		'http:///',
		'ftp://mail.example/',
		'http://:80/',
	]) {
		t.regex(await rawHttp(port, get('mail.example', url)), /^HTTP\/1\.1 4\d\d /, url);
	}
	const proof = await rawHttp(port, get('a.example', 'http://a.example/.well-known/acme-challenge/known'));
	t.regex(proof, /^HTTP\/1\.1 200 OK[\s\S]*\r\n\r\nknown\.thumbprint$/);
});

test('refuses a request with an API key, because the key was sent in plain text', async t => {
	const {port} = await start(t);
	const ask = (head: string, authorization: string) =>
		rawHttp(port, `${head}\r\nAuthorization: ${authorization}\r\nConnection: close\r\n\r\n`);
	for (const [head, authorization] of [
		['GET /v1/usage HTTP/1.1\r\nHost: mail.example', 'Bearer key_live_x'],
		['POST /v1/messages HTTP/1.1\r\nContent-Length: 0\r\nHost: mail.example', 'bearer key_live_x'],
		['DELETE http://mail.example/v1/webhooks/x HTTP/1.1\r\nHost: mail.example', 'Bearer key_live_x'],
		['GET /v1/usage HTTP/1.1\r\nHost: 127.0.0.1', 'Basic YTpi'],
	] as const) {
		const answer = await ask(head, authorization);
		t.regex(answer, /^HTTP\/1\.1 403 Forbidden\r\n/, head);
		t.notRegex(answer, /^location:/im);
		t.notRegex(answer, /key_live_x|YTpi/);
		const {error} = JSON.parse(answer.slice(answer.indexOf('\r\n\r\n')));
		t.is(error.code, 'https_required');
		t.regex(error.message, /https:\/\/mail\.example\b.*mailctl key rotate/);
		t.true(answer.includes(`x-request-id: ${error.request_id}\r\n`));
	}
	const proof = 'GET /.well-known/acme-challenge/known HTTP/1.1\r\nHost: mail.example';
	t.regex(await ask(proof, 'Bearer x'), /^HTTP\/1\.1 200 /, 'a CA finds its proof all the same');
});

test('only ever redirects to https on our own hosts, whatever a client sends', t => {
	const hostile = fc.oneof(
		fc.string(),
		fc.string({unit: anyChar}),
		fc
			.tuple(fc.constantFrom('mail.example', 'links.example', 'MAIL.EXAMPLE'), fc.string())
			.map(parts => parts.join('')),
		fc.tuple(fc.string(), fc.constantFrom('mail.example', 'links.example')).map(parts => parts.join('')),
		fc.constantFrom('mail.example', 'links.example:80', 'evil.test'),
	);
	const path = fc.oneof(
		fc.string(),
		fc.webPath(),
		fc.string().map(text => `/${text}`),
		fc.constantFrom('//evil.test', '/\\evil.test', '/@evil.test', '*'),
	);
	fc.assert(
		fc.property(fc.option(hostile, {nil: undefined}), path, (host, url) => {
			const location = toRedirect(host, url, publicUrl, isOurs);
			if (location !== null) {
				const {protocol, hostname, username, port} = new URL(location);
				t.deepEqual([protocol, username, port], ['https:', '', '']);
				t.true(hostname === 'mail.example' || hostname === 'links.example', location);
				t.regex(location, /^[\u0021-\u007E]+$/);
			}
		}),
		{numRuns: 1000},
	);
});

test('serves ACME challenges on any host, and nothing else under that path', async t => {
	const {port} = await start(t);
	const proof = (token: string) => rawHttp(port, get('anything.example', `/.well-known/acme-challenge/${token}`));
	t.regex(await proof('known'), /^HTTP\/1\.1 200 OK[\s\S]*\r\n\r\nknown\.thumbprint$/);
	t.regex(await proof('unknown'), /^HTTP\/1\.1 404 /);
	t.regex(await proof('a/b'), /^HTTP\/1\.1 421 /);
	const failing = await start(t, {proofOf: async () => Promise.reject(new Error('no store'))});
	t.regex(await rawHttp(failing.port, get('a', '/.well-known/acme-challenge/known')), /^HTTP\/1\.1 404 /);
});

test('disconnects slow clients, and idle ones do not lock others out', async t => {
	const {port} = await start(t, {requestMs: 200});
	const slow = connect(port, '127.0.0.1');
	// It may be reset, because the time may be up before the received data is read.
	slow.on('error', () => undefined);
	const ended = new Promise(resolve => void slow.resume().once('close', resolve));
	slow.write('GET / HTTP/1.1\r\nHost: mail.exa');
	await ended;
	const crowded = await start(t, {max: 50});
	const clients = Array.from({length: 300}, () => connect(crowded.port, '127.0.0.1').on('error', () => undefined));
	await Promise.all(clients.map(client => once(client, 'connect')));
	t.regex(await rawHttp(crowded.port, get('mail.example', '/')), /^HTTP\/1\.1 308 /);
	for (const client of clients) {
		client.destroy();
	}
});
