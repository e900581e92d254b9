import {once} from 'node:events';
import {createServer} from 'node:https';
import type {AddressInfo} from 'node:net';
import {createSecureContext, createServer as createTls} from 'node:tls';
import test, {type ExecutionContext} from 'ava';
import fc from 'fast-check';
import {Agent} from 'undici';
import {AcmeClient, AcmeError, waitOf, windowOf} from '../../src/certificates/acme-client.ts';
import {challengeFor, renewAt, stateOf, waitAfter} from '../../src/certificates/renewal.ts';
import {challengeCertificate, newKey, readChain} from '../../src/certificates/x509.ts';
import type {Certificate} from '../../src/store/certificates.ts';
import {startAcmeServer} from '../helpers/acme-server.ts';
import {makeCertificate} from '../helpers/certificate.ts';

const own = makeCertificate('127.0.0.1');
const hour = 3_600_000;
const day = 24 * hour;

/** A server that says what the test wants, and a client of it. */
async function prepare(
	t: ExecutionContext,
	answer: (path: string, base: string) => {status?: number; headers?: object; body: string},
) {
	const server = createServer(own, ({url = ''}, response) => {
		const {status = 200, headers = {}, body} = answer(url, base);
		response.writeHead(status, {...headers}).end(body);
	});
	server.listen(0, '127.0.0.1');
	await once(server, 'listening');
	const base = `https://127.0.0.1:${(server.address() as AddressInfo).port}`;
	const dispatcher = new Agent({connect: {ca: own.cert}});
	t.teardown(async () => {
		await dispatcher.destroy();
		server.close();
	});
	const client = () => new AcmeClient({directory: `${base}/directory`, dispatcher, userAgent: 'test', now: Date.now});
	const order = (signal = AbortSignal.timeout(120_000)) =>
		client().order(
			{key: newKey(), url: `${base}/account`},
			{
				...{name: 'mail.test', key: newKey(), type: 'http-01', replaces: 'a.b', show: async () => undefined, signal},
			},
		);
	return {base, client, order};
}

test('a CA that says anything at all gets a fault of bounded length, and no more', async t => {
	const status = fc.constantFrom('pending', 'ready', 'processing', 'valid', 'invalid', 7, null);
	const url = fc.constantFrom('/a', '/b', '', 'http://127.0.0.1/', 'x:', '//', 7, null);
	const token = fc.oneof(fc.constant('0123456789abcdef_-'), fc.string(), fc.constant(7));
	const challenge = fc.record({
		type: fc.constantFrom('http-01', 'dns-01', 7, null),
		token,
		url,
		status,
		error: fc.anything(),
	});
	const body = fc.oneof(
		{
			weight: 4,
			arbitrary: fc.record({
				...{status, finalize: url, certificate: url, newOrder: url, newNonce: url, renewalInfo: url},
				authorizations: fc.oneof(fc.array(url, {maxLength: 3}), fc.constant(7)),
				challenges: fc.oneof(fc.array(fc.oneof(challenge, fc.constant(null)), {maxLength: 3}), fc.constant('x')),
				error: fc.anything(),
				type: fc.oneof(fc.constant('urn:ietf:params:acme:error:badNonce'), fc.anything()),
				detail: fc.oneof(fc.string({maxLength: 2000}), fc.anything()),
			}),
		},
		fc.anything(),
	);
	let answers: Array<{status: number; body: unknown}> = [];
	let n = 0;
	const {order} = await prepare(t, (path, base) => {
		const {status: code, body: said} = answers[n++ % answers.length] ?? {status: 200, body: {}};
		const text = JSON.stringify(said, (_name, value) => (typeof value === 'bigint' ? String(value) : value)) ?? '';
		// Paths lead back here, so that an order gets far.
		const led = text.replaceAll(/"(\/[ab])"/g, `"${base}$1"`);
		return {
			status: path === '/directory' ? 200 : code,
			headers: {'replay-nonce': 'n', location: `${base}/order`},
			body: path === '/directory' && n % 2 ? JSON.stringify({newNonce: `${base}/n`, newOrder: `${base}/o`}) : led,
		};
	});
	await fc.assert(
		fc.asyncProperty(
			fc.array(fc.record({status: fc.constantFrom(200, 201, 400, 403, 500), body}), {minLength: 1, maxLength: 6}),
			async said => {
				answers = said;
				n = 0;
				const given = await order(AbortSignal.timeout(3000)).catch((error: unknown) => error);
				if (given instanceof AcmeError) {
					t.true(given.message.length <= 500);
					t.notRegex(given.message, /[\u0000-\u001f]/);
				} else {
					t.true(typeof given === 'string' || (given as Error).name === 'AbortError', String(given));
				}
			},
		),
		{numRuns: 40, endOnFailure: true},
	);
});

test('an answer that has no end, an address without https and a host that is not the CA are faults', async t => {
	const long = await prepare(t, () => ({body: 'x'.repeat(300_000)}));
	await t.throwsAsync(long.order(), {instanceOf: AcmeError, message: /gives no answer: its answer is too long$/});
	const plain = await prepare(t, () => ({body: '{"newNonce":"http://127.0.0.1/","newOrder":"http://127.0.0.1/"}'}));
	await t.throwsAsync(plain.order(), {instanceOf: AcmeError, message: /it named no https URL$/});
	let n = 0;
	const busy = await prepare(t, () =>
		n++ > 1 ? {body: '{"newOrder":"x:"}'} : {status: 503, headers: {'retry-after': '60'}, body: ''},
	);
	const client = busy.client();
	const error = await t.throwsAsync(client.renewalWindow('a.b'), {message: 'the CA answered 503, and no directory'});
	t.is((error as AcmeError).retryAfterMs, 60_000);
	await t.throwsAsync(client.renewalWindow('a.b'), {instanceOf: AcmeError});
	t.is(await client.renewalWindow('a.b'), null, 'the directory is read again');
	const {base} = plain;
	const dispatcher = new Agent();
	t.teardown(() => dispatcher.destroy());
	const stranger = new AcmeClient({directory: `${base}/directory`, dispatcher, userAgent: 'test', now: Date.now});
	await t.throwsAsync(stranger.renewalWindow('a.b'), {instanceOf: AcmeError, message: /self-signed certificate/});
});

test('a name is proved by TLS, or by the one way that the CA offers', async t => {
	const shown = new Map<string, string>();
	// Its usual certificate has a key of the same kind, as all of ours.
	const server = createTls({
		...own,
		ALPNProtocols: ['acme-tls/1'],
		SNICallback: (name, done) => done(null, createSecureContext(challengeCertificate(name, shown.get(name) ?? ''))),
	});
	server.listen(0, '127.0.0.1');
	await once(server, 'listening');
	t.teardown(() => server.close());
	const ca = await startAcmeServer(t, () => ({
		host: '127.0.0.1',
		http: 1,
		tls: (server.address() as AddressInfo).port,
	}));
	const dispatcher = new Agent({connect: {ca: ca.ca}});
	t.teardown(() => dispatcher.destroy());
	const client = new AcmeClient({directory: ca.directory, dispatcher, userAgent: 'test', now: Date.now});
	const signal = AbortSignal.timeout(120_000);
	const account = newKey();
	const url = await client.register(account, {email: null, binding: null}, signal);
	t.is(
		await client.register(account, {email: null, binding: null}, signal),
		url,
		'the account of the key is found again',
	);
	for (const [name, type] of [['a.test', 'tls-alpn-01'] as const, ['b.test', 'http-01'] as const]) {
		const key = newKey();
		const chain = await client.order(
			{key: account, url},
			{
				...{name, key, type, replaces: null, signal},
				async show({type: way, name: one, key_authorization: proof}) {
					t.is(way, 'tls-alpn-01');
					shown.set(one, proof);
				},
			},
		);
		t.like(readChain(chain, key, name, Date.now()), {issuer: 'Lab CA'});
		ca.behaviour.offers = ['dns-01', 'tls-alpn-01'];
	}
	t.deepEqual(ca.looks, ['tls-alpn-01 a.test', 'tls-alpn-01 b.test']);
});

test('Retry-After is seconds or a date, and bounded', t => {
	const now = Date.parse('2026-06-09T10:00:00.000Z');
	t.is(waitOf('', now), null);
	t.is(waitOf('soon', now), null);
	t.is(waitOf('120', now), 120_000);
	t.is(waitOf('Tue, 09 Jun 2026 11:00:00 GMT', now), hour);
	t.is(waitOf('Tue, 09 Jun 2020 11:00:00 GMT', now), 0);
	t.is(waitOf('999999999', now), 30 * day);
	fc.assert(
		fc.property(fc.string(), text => {
			const wait = waitOf(text, now);
			t.true(wait === null || (wait >= 0 && wait <= 30 * day));
		}),
	);
});

test('a window is two times in order, or none', t => {
	const [start, end] = ['2026-06-09T10:00:00Z', '2026-06-10T10:00:00Z'];
	t.deepEqual(windowOf({suggestedWindow: {start, end}}, 5), {
		start: Date.parse(start),
		end: Date.parse(end),
		retryAfterMs: 5,
	});
	t.is(windowOf({suggestedWindow: {start: end, end: start}}, null), null);
	t.is(windowOf({suggestedWindow: {start}}, null), null);
	fc.assert(
		fc.property(fc.anything(), suggestedWindow => {
			const window = windowOf({suggestedWindow}, null);
			t.true(window === null || window.end > window.start);
		}),
	);
});

const row: Certificate = {
	...{name: 'mail.test', chain: 'x', secret: 'y', issuer: 'z', window_start: null, window_end: null, taken_until: null},
	...{not_before: '2026-01-01T00:00:00.000Z', not_after: '2026-04-01T00:00:00.000Z', next_try_at: '', tries: 0},
	...{fault: null, wanted_at: null, unused: null, updated_at: ''},
};

test('a certificate is renewed in its window, at the latest when a tenth of its life is left', t => {
	t.is(renewAt(row), Date.parse('2026-03-02T00:00:00.000Z'));
	const [start, end] = ['2026-03-01T00:00:00.000Z', '2026-03-03T00:00:00.000Z'];
	const at = (name: string) => renewAt({...row, name, window_start: start, window_end: end}) ?? 0;
	const all = Array.from({length: 50}, (_, n) => at(`${n}.test`));
	t.true(all.every(one => one >= Date.parse(start) && one < Date.parse(end)));
	t.true(new Set(all).size > 40, 'not all at once');
	t.is(at('1.test'), at('1.test'));
	const late = {window_start: '2027-01-01T00:00:00.000Z', window_end: '2027-01-02T00:00:00.000Z'};
	t.is(renewAt({...row, ...late}), Date.parse('2026-03-23T00:00:00.000Z'));
	t.is(renewAt({...row, not_before: null, not_after: null}), null);
	const now = Date.parse('2026-02-01T00:00:00.000Z');
	t.deepEqual(
		[row, {...row, not_before: null, not_after: null}, {...row, fault: 'x'}, {...row, fault: 'x', unused: 'y'}].map(
			one => stateOf(one, now),
		),
		['valid', 'waiting', 'failed', 'unused'],
	);
	t.is(stateOf(row, Date.parse('2026-03-02T00:00:00.000Z')), 'due');
});

test('failed orders wait longer, and try the other port', t => {
	t.deepEqual(
		[1, 2, 3, 8, 9, 1000].map(tries => waitAfter(tries) / 60_000),
		[5, 10, 20, 640, 720, 720],
	);
	const ways = (redirects: boolean, https: boolean) => [0, 1, 2].map(tries => challengeFor(tries, {redirects, https}));
	t.deepEqual(ways(true, true), ['http-01', 'tls-alpn-01', 'http-01']);
	t.deepEqual(ways(false, true), ['tls-alpn-01', 'http-01', 'tls-alpn-01']);
	t.deepEqual(ways(false, false), ['http-01', 'http-01', 'http-01']);
});
