import {once} from 'node:events';
import {createServer} from 'node:net';
import type {TLSSocket} from 'node:tls';
import {gzipSync} from 'node:zlib';
import test, {type ExecutionContext} from 'ava';
import {createPosting, type PostingOptions} from '../../../src/daemon/threads/posting.ts';
import {systemClock} from '../../../src/kit/clock.ts';
import type {Post, PostResult} from '../../../src/resources/webhooks/post.ts';
import {makeCertificate} from '../../helpers/certificate.ts';
import {startFakeDns} from '../../helpers/fake-dns.ts';
import {loopbackAddress} from '../../helpers/loopback.ts';
import {startReceiver, startTls} from '../../helpers/receiver.ts';
import {waitFor} from '../../helpers/wait.ts';

const name = 'hooks.shop.example';
const certificate = makeCertificate(name, '127.0.0.1');
const body = Buffer.from('{"type":"delivered","metadata":{"order":"Größe \\u2028"}}');

function posting(t: ExecutionContext, settings: Partial<PostingOptions> = {}) {
	const poster = createPosting(
		{
			ca: [certificate.cert],
			allowCidrs: ['127.0.0.0/8'],
			allowsLocal: false,
			dnsServers: ['127.0.0.1:9'],
			timeoutMs: 15_000,
			maxIdle: 16,
			userAgent: 'mailctl/1.2.3',
			...settings,
		},
		systemClock,
	);
	t.teardown(() => poster.close());
	return async (url: string, more: Partial<Post> = {}): Promise<PostResult> =>
		await poster.post({id: 'whd_1', url, signing: {secret: 'whsec_x', next: null}, body, ...more});
}

test.serial('posts the stored bytes and headers with a new signature per attempt over one connection', async t => {
	const receiver = await startReceiver(t, certificate);
	const post = posting(t);
	const url = `https://127.0.0.1:${receiver.port}/hooks/mail?key=a%20b#part`;
	for (const _ of [1, 2]) {
		const end = await post(url);
		t.like(end, {status: 204, error: null, address: '127.0.0.1'});
		t.regex(end.tls ?? '', /^TLSv1\.3 /);
	}
	t.is(receiver.connections(), 1);
	const [first] = receiver.received;
	t.like(first, {method: 'POST', path: '/hooks/mail?key=a%20b', body});
	t.like(first?.headers, {
		'content-type': 'application/json',
		'user-agent': 'mailctl/1.2.3',
		'x-webhook-id': 'whd_1',
		'content-length': String(body.length),
		host: `127.0.0.1:${receiver.port}`,
	});
	t.regex(String(first?.headers['x-webhook-signature']), /^sha256=[0-9a-f]{64}$/);
	t.true(Math.abs(Number(first?.headers['x-webhook-timestamp']) * 1000 - Date.now()) < 60_000);
});

for (const [status, error] of [
	[200, null],
	[299, null],
	[302, 'the server responded with 302; redirects are not followed'],
	[307, 'the server responded with 307; redirects are not followed'],
	[404, 'the server responded with 404'],
	[503, 'the server responded with 503'],
] as const) {
	test.serial(`status ${status}: ${error ?? 'acknowledged'} after one request`, async t => {
		const receiver = await startReceiver(t, certificate, {
			answer: (_received, response) =>
				void response.writeHead(status, {location: `https://127.0.0.1:${receiver.port}/elsewhere`}).end('x'),
		});
		const answer = error === null ? null : 'x';
		t.like(await posting(t)(`https://127.0.0.1:${receiver.port}/`), {status, error, answer});
		t.is(receiver.received.length, 1);
	});
}

test.serial('Retry-After is read as seconds or a date', async t => {
	const receiver = await startReceiver(t, certificate, {
		answer: ({path}, response) =>
			void response.writeHead(503, {'retry-after': decodeURIComponent(path.slice(1))}).end(),
	});
	const post = posting(t);
	const asked = async (text: string) =>
		(await post(`https://127.0.0.1:${receiver.port}/${encodeURIComponent(text)}`)).retryAfterMs;
	t.is(await asked('120'), 120_000);
	const date = new Date(Date.now() + 3_600_000).toUTCString();
	t.true(Math.abs(((await asked(date)) ?? 0) - 3_600_000) < 600_000);
	t.deepEqual(
		[await asked('soon'), await asked('0'), await asked('Wed, 21 Oct 2015 07:28:00 GMT')],
		[...[undefined, undefined, undefined]],
	);
});

test.serial('keeps the start of a refusing response, whatever its bytes, even if it never ends', async t => {
	const receiver = await startReceiver(t, certificate, {
		answer: ({path}, response) => {
			response.writeHead(500);
			if (path === '/endless') {
				response.write('begin');
			} else {
				response.end(path === '/long' ? 'ü'.repeat(100_000) : Buffer.from([0, 0xff, 0xfe]));
			}
		},
	});
	const post = posting(t);
	const to = async (path: string) => (await post(`https://127.0.0.1:${receiver.port}${path}`)).answer;
	t.is(await to('/long'), 'ü'.repeat(500));
	t.is(await to('/bytes'), '\0\ufffd\ufffd');
	t.is(await to('/endless'), 'begin');
});

test.serial('resolves the name at each attempt, and connects to the checked address with the name for TLS', async t => {
	const [first, second] = [loopbackAddress(), loopbackAddress()];
	const one = await startReceiver(t, certificate, {host: first});
	const other = await startReceiver(t, certificate, {host: second, port: one.port});
	const dns = await startFakeDns(t, {[name]: {a: [first]}});
	const post = posting(t, {dnsServers: [dns.server]});
	const url = `https://${name}:${one.port}/`;
	t.like(await post(url), {status: 204, address: first});
	t.deepEqual(dns.queries.toSorted(), [`A ${name}`, `AAAA ${name}`]);

	// An idle connection to the old address is there; DNS says another one now, though its answer was to live for
	// minutes.
	dns.zone[name] = {a: [second]};
	t.like(await post(url), {status: 204, address: second});
	t.is(one.received.length, 1);
	t.is(other.received.length, 1);
	t.is(other.received[0]?.headers.host, `${name}:${one.port}`);
});

test.serial('checks a changed DNS response again and does not connect (rebinding)', async t => {
	const [allowed, inside] = [loopbackAddress(), loopbackAddress()];
	const receiver = await startReceiver(t, certificate, {host: allowed});
	const victim = await startReceiver(t, certificate, {host: inside, port: receiver.port});
	const dns = await startFakeDns(t, {[name]: {a: [allowed], ttl: 0}});
	const post = posting(t, {dnsServers: [dns.server], allowCidrs: [`${allowed}/32`]});
	const url = `https://${name}:${receiver.port}/`;
	t.like(await post(url), {status: 204, address: allowed});
	dns.zone[name] = {a: [inside], ttl: 0};
	t.like(await post(url), {
		...{status: null, error: `${name} has an address that is not public`},
		detail: `${name} has the address ${inside}`,
	});
	t.is(receiver.received.length, 1);
	t.is(victim.connections(), 0);
});

test.serial('uses the DNS response of the attempt even if it changes meanwhile', async t => {
	const [allowed, inside] = [loopbackAddress(), loopbackAddress()];
	const receiver = await startReceiver(t, certificate, {host: allowed});
	const victim = await startReceiver(t, certificate, {host: inside, port: receiver.port});
	const dns = await startFakeDns(t, {[name]: {a: [allowed], ttl: 0}});
	const post = posting(t, {dnsServers: [dns.server], allowCidrs: [`${allowed}/32`]});
	const posted = post(`https://${name}:${receiver.port}/`);
	await waitFor('the name was asked for', () => dns.queries.includes(`A ${name}`));
	dns.zone[name] = {a: [inside], ttl: 0};
	t.like(await posted, {status: 204, address: allowed});
	t.is(victim.connections(), 0);
	t.deepEqual(dns.queries.toSorted(), [`A ${name}`, `AAAA ${name}`]);
});

for (const [what, records] of [
	['one private address among others', {a: ['93.184.215.14', '10.0.0.1']}],
	['an additional private IPv6 address', {a: ['93.184.215.14'], aaaa: ['fd00::1']}],
	['a mapped address', {aaaa: ['::ffff:7f00:1']}],
	['the metadata service', {a: ['169.254.169.254']}],
	['an alias of a private name', {cname: 'inside.example'}],
] as const) {
	test.serial(`rejects before any connection: ${what}`, async t => {
		const dns = await startFakeDns(t, {[name]: records, 'inside.example': {a: ['192.168.1.1']}});
		const end = await posting(t, {dnsServers: [dns.server], allowCidrs: []})(`https://${name}/`);
		t.is(end.status, null);
		t.is(end.error, `${name} has an address that is not public`);
		t.regex(end.detail ?? '', /has the address (?:10|fd00|::ffff|169|192)[.:]/);
		t.is(end.address, null);
	});
}

test.serial('reports a name without an address, failing DNS, and a URL that is no longer allowed', async t => {
	const dns = await startFakeDns(t, {
		'empty.example': {},
		'broken.example': 'servfail',
		'silent.example': 'timeout',
	});
	const post = posting(t, {dnsServers: [dns.server]});
	const errorOf = async (url: string) => (await post(url)).error;
	t.is(await errorOf('https://empty.example/'), 'empty.example has no address in DNS');
	t.is(await errorOf('https://missing.example/'), 'the host missing.example does not exist in DNS');
	t.is(await errorOf('https://broken.example/'), 'the DNS lookup of broken.example failed (ESERVFAIL)');
	t.regex((await errorOf('https://localhost/')) ?? '', /^the URL must not name a local host: /);
	t.is(await errorOf('http://ok.test/'), 'the URL must be an https URL');
	t.regex((await errorOf('https://ok.test:5432/')) ?? '', /^the URL must not use port 5432: /);
	const hasty = posting(t, {dnsServers: [dns.server], timeoutMs: 1500});
	t.is((await hasty('https://silent.example/')).error, 'the DNS lookup timed out');
	const strict = posting(t, {allowCidrs: []});
	t.regex(
		(await strict('https://127.0.0.1/')).error ?? '',
		/^the URL must not name a private, loopback or reserved address: /,
	);
});

test.serial('skips an address that does not respond', async t => {
	const [dead, live] = [loopbackAddress(), loopbackAddress()];
	const receiver = await startReceiver(t, certificate, {host: live});
	const dns = await startFakeDns(t, {[name]: {a: [dead, live]}});
	const post = posting(t, {dnsServers: [dns.server]});
	t.like(await post(`https://${name}:${receiver.port}/`), {status: 204, address: live});
});

test.serial('sends no request if the certificate is not valid', async t => {
	const dns = await startFakeDns(t, {[name]: {a: ['127.0.0.1']}});
	const other = makeCertificate('other.example');
	const foreign = makeCertificate(name);
	const cases = [
		[
			other,
			[certificate.cert, other.cert],
			'the certificate is for another host name (ERR_TLS_CERT_ALTNAME_INVALID)',
		],
		[foreign, [certificate.cert], 'the certificate is self-signed (DEPTH_ZERO_SELF_SIGNED_CERT)'],
	] as const;
	for (const [shown, ca, error] of cases) {
		const receiver = await startReceiver(t, shown);
		const end = await posting(t, {dnsServers: [dns.server], ca})(`https://${name}:${receiver.port}/`);
		t.like(end, {status: null, error});
		t.is(receiver.received.length, 0);
	}
});

test.serial('reports TLS older than 1.2, no TLS, no HTTP, and a refused connection', async t => {
	const old = {minVersion: 'TLSv1', maxVersion: 'TLSv1.1', ciphers: 'DEFAULT@SECLEVEL=0'} as const;
	const oldTls = await startReceiver(t, certificate, {tls: old});
	const post = posting(t);
	t.regex((await post(`https://127.0.0.1:${oldTls.port}/`)).error ?? '', /secure TLS version/);
	t.is(oldTls.received.length, 0);

	const plain = createServer(
		socket =>
			void socket
				.on('error', () => undefined)
				.resume()
				.end('220 mail.example ESMTP\r\n'),
	);
	plain.listen(0, '127.0.0.1');
	await once(plain, 'listening');
	const {port} = plain.address() as {port: number};
	t.regex((await post(`https://127.0.0.1:${port}/`)).error ?? '', /^the server does not support TLS/);
	plain.close();
	await once(plain, 'close');
	t.regex((await post(`https://127.0.0.1:${port}/`)).error ?? '', /^the connection was refused/);

	const garbage = await startTls(t, certificate, socket => void socket.end('220 mail.example ESMTP\r\n'));
	t.regex((await post(`https://127.0.0.1:${garbage}/`)).error ?? '', /^the server does not support HTTP/);
	const silent = await startTls(t, certificate, socket => void socket.once('data', () => socket.destroy()));
	t.regex(
		(await post(`https://127.0.0.1:${silent}/`)).error ?? '',
		/^the server closed the connection without a response/,
	);
});

/** Calls `send` repeatedly until the connection is closed. */
function drip(socket: TLSSocket, everyMs: number, send: () => void): void {
	const timer = setInterval(send, everyMs);
	socket.on('close', () => clearInterval(timer));
}

for (const [what, talk] of [
	['sends nothing', () => undefined],
	['sends its answer byte by byte', (socket: TLSSocket) => drip(socket, 20, () => socket.write('H'.slice(0, 1)))],
	[
		'sends header after header',
		(socket: TLSSocket) => {
			socket.write('HTTP/1.1 200 OK\r\n');
			drip(socket, 50, () => socket.write('x-more: 1\r\n'));
		},
	],
	[
		'sends endless interim responses',
		(socket: TLSSocket) => drip(socket, 20, () => socket.write('HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n')),
	],
] as const) {
	// At once with the others, for each takes its time; a third of it is for the connection.
	test(`an endpoint that ${what} times out after one attempt's time`, async t => {
		const port = await startTls(t, certificate, socket => {
			socket.once('data', () => talk(socket));
		});
		const end = await posting(t, {timeoutMs: 9000})(`https://127.0.0.1:${port}/`);
		t.is(end.status, null);
		if (what !== 'sends its answer byte by byte') {
			t.is(end.error, 'no response within 9 s');
		}
	});
}

test.serial('a TLS handshake times out after a third of the time', async t => {
	const silent = createServer(socket => void socket.on('error', () => undefined));
	silent.listen(0, '127.0.0.1');
	await once(silent, 'listening');
	t.teardown(() => silent.close());
	const {port} = silent.address() as {port: number};
	const end = await posting(t, {timeoutMs: 1500})(`https://127.0.0.1:${port}/`);
	t.like(end, {status: null, error: 'the connection attempt timed out'});
});

for (const [what, headers, chunk] of [
	['drips', 'content-length: 1000000', Buffer.from('x')],
	['is huge', 'transfer-encoding: chunked', Buffer.from(`10000\r\n${'x'.repeat(65_536)}\r\n`)],
	['is a compressed bomb', 'content-encoding: gzip\r\ncontent-length: 1000000000', gzipSync(Buffer.alloc(1_000_000))],
] as const) {
	test.serial(`counts the status without waiting for a body that ${what}`, async t => {
		let sent = 0;
		let closed = false;
		const port = await startTls(t, certificate, socket => {
			socket.once('data', () => {
				socket.write(`HTTP/1.1 200 OK\r\n${headers}\r\n\r\n`);
				socket.on('close', () => {
					closed = true;
				});
				drip(socket, 1, () => {
					if (!socket.writableNeedDrain) {
						socket.write(chunk);
						sent += chunk.length;
					}
				});
			});
		});
		// Whoever waits for the body waits longer than a test may take.
		const end = await posting(t, {timeoutMs: 600_000})(`https://127.0.0.1:${port}/`);
		t.like(end, {status: 200, error: null});
		await waitFor('the connection is closed', () => closed);
		t.true(sent < 50_000_000);
	});
}

test.serial('a race with an idle connection being closed does not count as an attempt', async t => {
	const seen = new Map<unknown, number>();
	const receiver = await startReceiver(t, certificate, {
		answer(_received, response, request) {
			const n = (seen.get(request.socket) ?? 0) + 1;
			seen.set(request.socket, n);
			if (n === 1) {
				response.writeHead(200).end();
			} else {
				request.socket.destroy();
			}
		},
	});
	const post = posting(t);
	const url = `https://127.0.0.1:${receiver.port}/`;
	t.like(await post(url), {status: 200});
	t.like(await post(url), {status: 200, error: null});
	t.is(receiver.connections(), 2);
	t.is(receiver.received.length, 3);
});

test.serial('concurrent attempts share connections without waiting for one another', async t => {
	const prompt = await startReceiver(t, certificate);
	const post = posting(t);
	const all = (port: number) => Promise.all([1, 2, 3, 4].map(() => post(`https://127.0.0.1:${port}/`)));
	const ends = await all(prompt.port);
	t.true(ends.every(({status}) => status === 204));
	t.is(prompt.received.length, 4);
	t.true(prompt.connections() <= 4);

	const answers: Array<() => void> = [];
	const slow = await startReceiver(t, certificate, {
		answer: (_received, response) => void answers.push(() => response.writeHead(200).end()),
	});
	const waiting = all(slow.port);
	await slow.count(4);
	t.is(slow.connections(), 4);
	for (const answer of answers) {
		answer();
	}
	t.true((await waiting).every(({status}) => status === 200));
	t.like(await post(`https://127.0.0.1:${prompt.port}/`), {status: 204});
});

test.serial('keeps only the newest few idle connections open', async t => {
	const receivers = await Promise.all([1, 2, 3, 4].map(() => startReceiver(t, certificate)));
	const post = posting(t, {maxIdle: 2});
	for (const {port} of receivers) {
		t.like(await post(`https://127.0.0.1:${port}/`), {status: 204});
	}
	await waitFor('the oldest are closed', () =>
		receivers.every((receiver, index) => receiver.open() === (index < 2 ? 0 : 1)),
	);
});

test.serial('opens a new connection each time for an endpoint that closes it', async t => {
	const receiver = await startReceiver(t, certificate, {
		answer: (_received, response) => void response.writeHead(200, {connection: 'close'}).end('ok'),
	});
	const post = posting(t);
	for (const _ of [1, 2, 3]) {
		t.like(await post(`https://127.0.0.1:${receiver.port}/`), {status: 200, error: null});
	}
	t.is(receiver.connections(), 3);
});
