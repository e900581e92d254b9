import {execFile} from 'node:child_process';
import {once} from 'node:events';
import {request} from 'node:https';
import {type AddressInfo, connect as connectPlain, type Socket} from 'node:net';
import {connect, createSecureContext, type PeerCertificate, type SecureContext, type TLSSocket} from 'node:tls';
import {promisify} from 'node:util';
import test, {type ExecutionContext} from 'ava';
import fc from 'fast-check';
import {createApi} from '../../src/api/server.ts';
import {createHttps, offersProof, type ServerCertificates} from '../../src/daemon/https.ts';
import {type Certificate, makeCertificate} from '../helpers/certificate.ts';
import {waitFor} from '../helpers/wait.ts';
import {newId} from '../helpers/workspace.ts';

const timeouts = {headers: 300, request: 600, check: 50, drain: 50, response: 60_000};
const patient = {headers: 60_000, request: 60_000, check: 1000, drain: 60_000, response: 60_000};

type Options = Partial<Parameters<typeof createHttps>[0]> & {readonly limits?: typeof timeouts};

const [mail, links, proof] = [
	makeCertificate('mail.example'),
	makeCertificate('links.example'),
	makeCertificate('proof.example'),
];
const contextOf = ({cert, key}: Certificate): SecureContext => createSecureContext({cert, key});

function certificatesOf(own: Map<string, SecureContext>): ServerCertificates {
	return {
		contextFor: name => own.get(name) ?? own.get('mail.example'),
		isProving: async () => false,
		proofFor: async () => undefined,
	};
}

function signal() {
	let resolve = (): void => undefined;
	const promise = new Promise<void>(done => {
		resolve = done;
	});
	return {promise, resolve};
}

async function start(t: ExecutionContext, {limits = patient, ...options}: Options = {}) {
	const api = createApi({
		newId,
		version: '0.0.0',
		pages: null,
		routes: [
			routes => {
				routes.get('/v1/where', async ({protocol, ip, hostname}) => ({protocol, ip, hostname}));
				routes.post('/v1/things', async ({body}) => body);
				routes.get('/v1/slow', async () => {
					asked.resolve();
					await go.promise;
					return {slow: true};
				});
			},
		],
		trustProxy: [],
		isUnavailable: () => false,
		report: (_request, error) => t.log(error),
		timeouts: limits,
	});
	const [asked, go] = [signal(), signal()];
	const own = new Map([
		['mail.example', contextOf(mail)],
		['links.example', contextOf(links)],
	]);
	let bare = 0;
	const https = createHttps({
		api,
		certificates: certificatesOf(own),
		onBare: () => {
			bare++;
		},
		...options,
	});
	await api.listen({host: '127.0.0.1', port: 0});
	https.server.listen(0, '127.0.0.1');
	await once(https.server, 'listening');
	const close = async () => {
		await Promise.all([https.close(), api.close()]);
	};
	t.teardown(close);
	const {port} = https.server.address() as AddressInfo;
	return {api, own, port, asked: asked.promise, go: go.resolve, close, bare: () => bare};
}

/** Resolves when a connection has ended, even by a reset, which a server sends if it closes with unread data. */
const closed = (socket: Socket) => new Promise<void>(resolve => void socket.once('close', () => resolve()));

/** A connection after its handshake. */
async function shake(port: number, more: object = {}): Promise<TLSSocket> {
	const socket = connect({port, host: '127.0.0.1', rejectUnauthorized: false, servername: 'mail.example', ...more});
	socket.on('error', () => undefined);
	await Promise.race([
		once(socket, 'secureConnect'),
		once(socket, 'close').then(() => Promise.reject(new Error('closed in the handshake'))),
	]);
	return socket;
}

const nameOf = (socket: TLSSocket) => (socket.getPeerCertificate() as PeerCertificate).subject.CN;

async function ask(
	port: number,
	path: string,
	{body, ...more}: {body?: string; method?: string; servername?: string} = {},
) {
	const headers =
		body === undefined ? {} : {'content-type': 'application/json', 'content-length': Buffer.byteLength(body)};
	const asked = request({
		port,
		host: '127.0.0.1',
		path,
		headers,
		rejectUnauthorized: false,
		agent: false,
		servername: 'mail.example',
		...more,
	});
	asked.end(body);
	const [response] = await once(asked, 'response');
	const chunks: Buffer[] = [];
	for await (const chunk of response) {
		chunks.push(chunk);
	}
	const hsts = response.headers['strict-transport-security'];
	return {status: response.statusCode as number, hsts, body: JSON.parse(Buffer.concat(chunks).toString())};
}

test('requests over TLS reach the same server, which sees them as https', async t => {
	const {port} = await start(t);
	t.like(await ask(port, '/v1/where'), {
		status: 200,
		body: {protocol: 'https', ip: '127.0.0.1', hostname: '127.0.0.1'},
	});
	t.like(await ask(port, '/v1/things', {method: 'POST', body: '{"a":1}'}), {status: 200, body: {a: 1}});
	t.like(await ask(port, '/v1/none'), {status: 404});
});

test('sends HSTS over its own TLS, but not behind a proxy', async t => {
	const {api, port} = await start(t);
	for (const path of ['/v1/where', '/v1/none']) {
		t.is((await ask(port, path)).hsts, 'max-age=31536000', path);
	}
	const plain = (api.server.address() as AddressInfo).port;
	const proxied = await fetch(`http://127.0.0.1:${plain}/v1/where`, {headers: {'x-forwarded-proto': 'https'}});
	t.is(proxied.headers.get('strict-transport-security'), null);
});

test('selects the certificate by SNI, or that of MAILCTL_HOSTNAME for unknown names and without SNI', async t => {
	const {port} = await start(t);
	for (const [servername, name] of [
		['links.example', 'links.example'],
		['mail.example', 'mail.example'],
		['unknown.example', 'mail.example'],
		['', 'mail.example'],
	] as const) {
		const socket = await shake(port, {servername});
		t.is(nameOf(socket), name, servername);
		socket.destroy();
	}
});

test('uses a renewed certificate at once and keeps open connections', async t => {
	const {port, own} = await start(t);
	const before = await shake(port);
	own.set('mail.example', contextOf(makeCertificate('renewed.example')));
	const after = await shake(port);
	t.deepEqual([nameOf(before), nameOf(after)], ['mail.example', 'renewed.example']);
	before.write('GET /v1/where HTTP/1.1\r\nHost: mail.example\r\n\r\n');
	t.regex(String((await once(before, 'data'))[0]), /^HTTP\/1\.1 200 /);
	before.destroy();
	after.destroy();
});

test('refuses handshakes and reports once while there is no certificate', async t => {
	const {port, own, bare} = await start(t);
	own.clear();
	await t.throwsAsync(shake(port));
	await t.throwsAsync(shake(port, {servername: ''}));
	t.is(bare(), 1);
	own.set('mail.example', contextOf(mail));
	t.like(await ask(port, '/v1/where'), {status: 200});
});

const openssl = promisify(execFile);

test('accepts TLS 1.2 and 1.3 only (openssl s_client)', async t => {
	const {port} = await start(t);
	const tryWith = async (...options: string[]): Promise<string> => {
		const child = openssl('openssl', [
			's_client',
			'-connect',
			`127.0.0.1:${port}`,
			'-cipher',
			'ALL:@SECLEVEL=0',
			...options,
		]);
		child.child.stdin?.end();
		return await child.then(
			({stdout}) => stdout,
			error => `refused ${error.stdout}${error.stderr}`,
		);
	};
	t.regex(await tryWith('-tls1_2'), /Protocol *: TLSv1\.2|New, TLSv1\.2/);
	t.regex(await tryWith('-tls1_3'), /New, TLSv1\.3/);
	for (const old of ['-tls1', '-tls1_1', '-ssl3']) {
		const said = await tryWith(old);
		t.regex(said, /^refused/, old);
		t.notRegex(said, /New, TLSv1(?:\.1)?, Cipher is [A-Z0-9]/, old);
	}
});

test('closes connections that do not speak TLS', async t => {
	const {port} = await start(t, {handshakeMs: 60_000});
	for (const text of [
		'GET / HTTP/1.1\r\nHost: x\r\n\r\n',
		'\u0016\u0003\u0001\u0000\u0002xx',
		'\u0000'.repeat(100),
	]) {
		const socket = connectPlain(port, '127.0.0.1');
		socket.on('error', () => undefined);
		socket.resume();
		const ended = closed(socket);
		socket.end(text);
		await ended;
	}
	t.like(await ask(port, '/v1/where'), {status: 200});
});

test('disconnects clients that are slow in the handshake, before a request, in its header or in its body', async t => {
	const strict = await start(t, {handshakeMs: 200});
	const {port} = await start(t, {limits: timeouts});
	const silent = connectPlain(strict.port, '127.0.0.1');
	silent.on('error', () => undefined);
	const closes = [closed(silent.resume())];
	const head = 'POST /v1/things HTTP/1.1\r\nHost: mail.example\r\nContent-Type: application/json\r\n';
	for (const text of ['', 'GET /v1/where HTTP/1.1\r\nHost: ma', `${head}Content-Length: 99\r\n\r\n{"a"`]) {
		const socket = await shake(port);
		closes.push(closed(socket.resume()));
		socket.write(text);
	}
	await Promise.all(closes);
	t.pass();
});

test('1,000 idle clients do not lock others out: the longest idle one is disconnected', async t => {
	const {port, asked, go} = await start(t, {max: 200, handshakeMs: 60_000});
	const busy = ask(port, '/v1/slow');
	await asked;
	const ended = new Set<number>();
	const clients: Socket[] = [];
	// In waves, because the kernel drops connections that exceed the listener's backlog.
	while (clients.length < 1000) {
		const wave = Array.from({length: 100}, (_, index) => {
			const [client, number] = [connectPlain(port, '127.0.0.1'), clients.length + index];
			client.on('error', () => undefined);
			return client.on('close', () => ended.add(number)).resume();
		});
		clients.push(...wave);
		await Promise.all(wave.map(client => once(client, 'connect')));
		t.like(await ask(port, '/v1/where'), {
			status: 200,
			body: {protocol: 'https', ip: '127.0.0.1', hostname: '127.0.0.1'},
		});
	}
	await waitFor('the idle ones to make room', () => ended.size >= 800);
	t.true(ended.has(0) && !ended.has(999), 'the oldest first');
	go();
	t.like(await busy, {status: 200, body: {slow: true}}, 'what is being answered stays');
	for (const client of clients) {
		client.destroy();
	}
});

test('clients with a slow body do not lock others out, and one client can have 200 connections', async t => {
	const few = await start(t, {max: 20});
	const many = await start(t, {max: 300, handshakeMs: 60_000});
	const clients: Socket[] = [];
	t.teardown(() => {
		for (const client of clients) {
			client.destroy();
		}
	});
	const slow = 'POST /v1/things HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n{';
	while (clients.length < 20) {
		const client = await shake(few.port);
		clients.push(client);
		await new Promise(resolve => client.resume().write(slow, resolve));
	}
	t.like(await ask(few.port, '/v1/things', {method: 'POST', body: '{"a":1}'}), {status: 200});
	await waitFor('the first to make room', () => clients[0]?.closed);

	const asked = ask(many.port, '/v1/slow');
	await many.asked;
	const idle = await shake(many.port);
	const greedy = Array.from({length: 400}, () => {
		const client = connectPlain({port: many.port, host: '127.0.0.1', localAddress: '127.0.0.2'});
		return client.on('error', () => undefined).resume();
	});
	clients.push(idle, ...greedy);
	await waitFor('200 to be left', () => greedy.filter(({closed}) => closed).length === 200);
	idle.write('GET /v1/where HTTP/1.1\r\nHost: mail.example\r\n\r\n');
	t.regex(String((await once(idle, 'data'))[0]), /^HTTP\/1\.1 200 /);
	many.go();
	t.like(await asked, {status: 200});
});

test('close ends idle connections at once and finishes running requests', async t => {
	const {port, close, asked, go} = await start(t);
	const idle = await shake(port);
	const silent = connectPlain(port, '127.0.0.1');
	silent.on('error', () => undefined);
	await once(silent, 'connect');
	const slow = ask(port, '/v1/slow');
	await asked;
	const closing = close();
	await Promise.all([closed(idle.resume()), closed(silent.resume())]);
	go();
	t.like(await slow, {status: 200, body: {slow: true}});
	await closing;
	await t.throwsAsync(shake(port));
});

test('serves TLS-ALPN-01 challenges beside normal traffic while one is pending', async t => {
	let proving = true;
	const own = new Map([['mail.example', contextOf(mail)]]);
	const {port} = await start(t, {
		certificates: {
			...certificatesOf(own),
			isProving: async () => proving,
			proofFor: async name => (name === 'proof.example' ? contextOf(proof) : undefined),
		},
	});
	const prove = (servername: string) => shake(port, {servername, ALPNProtocols: ['acme-tls/1']});
	const socket = await prove('proof.example');
	t.is(nameOf(socket), 'proof.example');
	t.is(socket.alpnProtocol, 'acme-tls/1');
	await closed(socket.resume());
	await t.throwsAsync(prove('mail.example'), undefined, 'nothing is to be proved of this name');
	const all = await Promise.all([
		...Array.from({length: 10}, () => ask(port, '/v1/where')),
		prove('proof.example').then(() => ({status: 200})),
	]);
	t.true(all.every(({status}) => status === 200));
	const usual = await shake(port, {servername: 'proof.example', ALPNProtocols: ['http/1.1']});
	t.is(nameOf(usual), 'mail.example', 'other clients never see the certificate of a proof');
	usual.destroy();
	proving = false;
	await t.throwsAsync(prove('proof.example'));
});

test('accepts a ClientHello in small fragments', async t => {
	const own = new Map([['mail.example', contextOf(mail)]]);
	const {port} = await start(t, {certificates: {...certificatesOf(own), isProving: async () => true}});
	const raw = connectPlain({port, host: '127.0.0.1', noDelay: true});
	await once(raw, 'connect');
	const {Duplex} = await import('node:stream');
	// Splits what the client writes into packets of 50 octets.
	const sliced = new Duplex({
		read() {
			raw.resume();
		},
		write(chunk: Buffer, _encoding, done) {
			const next = (at: number): void => {
				if (at >= chunk.length) {
					done();
				} else {
					raw.write(chunk.subarray(at, at + 50), () => setImmediate(next, at + 50));
				}
			};
			next(0);
		},
	});
	raw.on('data', chunk => sliced.push(chunk));
	const secure = connect({socket: sliced, servername: 'mail.example', rejectUnauthorized: false});
	await once(secure, 'secureConnect');
	secure.write('GET /v1/where HTTP/1.1\r\nHost: mail.example\r\n\r\n');
	t.regex(String((await once(secure, 'data'))[0]), /^HTTP\/1\.1 200 /);
	raw.destroy();
});

test('decides about any bytes without reading beyond the first record', t => {
	const offer = Buffer.from('\nacme-tls/1', 'latin1');
	const record = (content: Uint8Array) => {
		const head = Buffer.from([22, 3, 1, content.length >> 8, content.length & 0xff]);
		return Buffer.concat([head, content]);
	};
	fc.assert(
		fc.property(fc.uint8Array({maxLength: 300}), fc.uint8Array({maxLength: 300}), (before, after) => {
			t.is(typeof (offersProof(Buffer.from(before)) ?? false), 'boolean');
			const whole = record(Buffer.concat([before, offer, after]));
			t.true(offersProof(whole));
			t.is(offersProof(whole.subarray(0, -1)), null);
			t.is(offersProof(Buffer.concat([record(before), offer])), Buffer.from(before).includes(offer));
		}),
	);
	t.is(offersProof(Buffer.alloc(0)), null);
	t.is(offersProof(Buffer.from('GET / HTTP/1.1')), false);
	t.is(offersProof(Buffer.from([22, 3, 1, 0xff, 0xff])), false, 'longer than a record may be');
});
