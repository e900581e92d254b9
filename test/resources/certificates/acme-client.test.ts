import {once} from 'node:events';
import {createServer as createHttp} from 'node:http';
import {createServer} from 'node:https';
import type {AddressInfo} from 'node:net';
import {setTimeout} from 'node:timers/promises';
import {createSecureContext, createServer as createTls} from 'node:tls';
import test, {type ExecutionContext} from 'ava';
import fc from 'fast-check';
import {Agent} from 'undici';
import {AcmeClient, parseWindow} from '../../../src/resources/certificates/acme-client.ts';
import {AcmeError, parseWait} from '../../../src/resources/certificates/acme-connection.ts';
import {challengesFor, renewAt, stateOf, waitAfter} from '../../../src/resources/certificates/renewal.ts';
import type {Certificate, ChallengeType} from '../../../src/resources/certificates/store.ts';
import {challengeCertificate, newKey, readChain} from '../../../src/resources/certificates/x509.ts';
import {type ScriptedFault, type Step, startAcmeServer} from '../../helpers/acme-server.ts';
import {makeCertificate} from '../../helpers/certificate.ts';

const own = makeCertificate('127.0.0.1');
const hour = 3_600_000;
const day = 24 * hour;

/** Starts a server with scripted responses and a client for it. */
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
	const client = () =>
		new AcmeClient({
			...{directory: `${base}/directory`, dispatcher, userAgent: 'test', now: Date.now},
			pause: (ms, signal) => setTimeout(Math.min(ms, 50), undefined, {signal}),
		});
	const order = (signal = AbortSignal.timeout(120_000)) =>
		client().order(
			{key: newKey(), url: `${base}/account`},
			{
				...{name: 'mail.test', key: newKey(), types: ['http-01'], replaces: 'a.b', signal},
				show: async () => undefined,
			},
		);
	return {base, client, order};
}

test('handles arbitrary responses of a CA with nothing worse than an error of limited length', async t => {
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
				challenges: fc.oneof(
					fc.array(fc.oneof(challenge, fc.constant(null)), {maxLength: 3}),
					fc.constant('x'),
				),
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
		// Paths point back to this server, so that an order gets far.
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
				const given = await order(AbortSignal.timeout(1000)).catch((error: unknown) => error);
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

test('reports an endless response, a URL without https and a server that is not the CA as errors', async t => {
	const long = await prepare(t, () => ({body: 'x'.repeat(300_000)}));
	await t.throwsAsync(long.order(), {instanceOf: AcmeError, message: /does not respond: the response is too long$/});
	const plain = await prepare(t, () => ({body: '{"newNonce":"http://127.0.0.1/","newOrder":"http://127.0.0.1/"}'}));
	await t.throwsAsync(plain.order(), {instanceOf: AcmeError, message: /its URL is not an https URL$/});
	let n = 0;
	const busy = await prepare(t, () =>
		n++ > 3 ? {body: '{"newOrder":"x:"}'} : {status: 503, headers: {'retry-after': '60'}, body: ''},
	);
	const client = busy.client();
	const {signal} = new AbortController();
	const message = 'the CA responded with 503 instead of a directory';
	const error = await t.throwsAsync(client.renewalWindow('a.b', signal), {message});
	t.is((error as AcmeError).retryAfterMs, 60_000);
	t.is(n, 4);
	t.is(await client.renewalWindow('a.b', signal), null, 'the directory is read again');
	const {base} = plain;
	const dispatcher = new Agent();
	t.teardown(() => dispatcher.destroy());
	const stranger = new AcmeClient({
		...{directory: `${base}/directory`, dispatcher, userAgent: 'test', now: Date.now},
		pause: async () => undefined,
	});
	const distrust = {instanceOf: AcmeError, message: /self-signed certificate/};
	await t.throwsAsync(stranger.renewalWindow('a.b', signal), distrust);
});

/** Starts a CA, a web server for its challenges unless `isClosed`, and a client whose pauses take no time. */
async function startLab(t: ExecutionContext, {isClosed = false} = {}) {
	const proofs = new Map<string, string>();
	const web = createHttp(({url = ''}, response) => response.end(proofs.get(url.split('/').at(-1) ?? '')));
	web.listen(0, '127.0.0.1');
	await once(web, 'listening');
	t.teardown(() => web.close());
	const http = isClosed ? 1 : (web.address() as AddressInfo).port;
	const ca = await startAcmeServer(t, () => ({host: '127.0.0.1', http, tls: 1}));
	const dispatcher = new Agent({connect: {ca: ca.ca}, pipelining: 0});
	t.teardown(() => dispatcher.destroy());
	const pauses: number[] = [];
	/** Creates an account and places an order, as a new client does. */
	const order = async (types: readonly [ChallengeType, ...ChallengeType[]] = ['http-01']) => {
		const client = new AcmeClient({
			...{directory: ca.directory, dispatcher, userAgent: 'test', now: Date.now},
			pause: async ms => pauses.push(ms),
		});
		const signal = AbortSignal.timeout(120_000);
		const account = newKey();
		const url = await client.register(account, {email: null, binding: null}, signal);
		const key = newKey();
		const chain = await client.order(
			{key: account, url},
			{
				...{name: 'mail.test', key, types, replaces: null, signal},
				show: async ({token, key_authorization: proof}) => void proofs.set(token, proof),
			},
		);
		t.like(readChain(chain, key, 'mail.test', Date.now()), {issuer: 'Lab CA'});
	};
	const countOf = (step: Step) => ca.requests.filter(one => one === step).length;
	return {ca, pauses, order, countOf};
}

const steps: readonly Step[] = [
	...(['directory', 'nonce', 'account', 'order', 'authorization'] as const),
	...(['challenge', 'finalize', 'poll', 'certificate'] as const),
];
const momentary: ReadonlyArray<readonly [string, Omit<ScriptedFault, 'step'>, number]> = [
	['a 404', {status: 404, type: 'malformed'}, 1000],
	['a 500', {status: 500, type: 'serverInternal'}, 1000],
	['a 503 with Retry-After', {status: 503, retryAfter: '7'}, 7000],
	['a closed connection', {status: null}, 1000],
	['a closed connection after the work', {status: null, isDone: true}, 1000],
];

for (const [what, fault, pauseMs] of momentary) {
	test(`an order survives ${what} at each step`, async t => {
		const {ca, pauses, order} = await startLab(t);
		ca.behaviour.faults.push(...steps.map(step => ({...fault, step})));
		await order();
		t.deepEqual(ca.behaviour.faults, [], 'each step had its fault');
		t.true(pauses.length >= steps.length && pauses.every(ms => ms >= pauseMs && ms <= 2 * pauseMs), pauses.join());
		t.deepEqual(ca.looks, ['http-01 mail.test'], 'the name was proved once');
	});
}

test('finalizes an order again if it was not ready', async t => {
	const {ca, pauses, order, countOf} = await startLab(t);
	const date = new Date(Date.now() + 200_000).toUTCString();
	for (const retryAfter of [undefined, '5', date, '86400']) {
		const fault = {step: 'finalize', status: 403, type: 'orderNotReady'} as const;
		ca.behaviour.faults.push({...fault, ...(retryAfter !== undefined && {retryAfter})});
		await order();
	}
	t.is(countOf('finalize'), 8);
	const [none, seconds, until = 0, bounded] = pauses;
	t.deepEqual([none, seconds, bounded], [1000, 5000, 240_000]);
	t.true(until > 1000 && until <= 200_000, 'a date');
});

test('polls an order that is still ready after it was finalized, then finalizes it again', async t => {
	const {ca, pauses, order, countOf} = await startLab(t);
	ca.behaviour.readyPolls = 3;
	await order();
	t.is(countOf('finalize'), 1);
	t.deepEqual(pauses.splice(0), [500, 1000, 2000]);
	ca.behaviour.lostFinalizes = 1;
	await order();
	t.is(countOf('finalize'), 3);
	t.deepEqual(pauses, [500, 1000, 2000, 4000]);
});

test('gives up after four attempts at a lasting error, and at once at a permanent one', async t => {
	const {ca, pauses, order, countOf} = await startLab(t);
	const outage = (more: Partial<ScriptedFault> = {}) =>
		ca.behaviour.faults.splice(0, 9, ...Array<ScriptedFault>(4).fill({step: 'order', status: 503, ...more}));
	outage();
	await t.throwsAsync(order(), {instanceOf: AcmeError, message: 'the CA responded with 503: no reason'});
	t.deepEqual(pauses.splice(0), [1000, 2000, 4000]);
	for (const [retryAfter, ms] of [
		['86400', 86_400_000],
		['301', 301_000],
	] as const) {
		outage({retryAfter});
		const error = await t.throwsAsync(order(), {instanceOf: AcmeError});
		t.is((error as AcmeError).retryAfterMs, ms, 'the certificate waits for it, not the order');
	}
	const before = countOf('order');
	for (const [status, type] of [
		[400, 'malformed'],
		[403, 'rejectedIdentifier'],
		[429, 'rateLimited'],
		[404, 'accountDoesNotExist'],
	] as const) {
		outage({status, type});
		await t.throwsAsync(order(), {instanceOf: AcmeError});
	}
	t.is(countOf('order') - before, 4);
	outage({status: 429, type: 'rateLimited', retryAfter: '20'});
	ca.behaviour.faults.length = 1;
	await order();
	t.deepEqual(pauses, [20_000]);
});

test('tries the next challenge if one fails, unless it could not do better', async t => {
	const {ca, order} = await startLab(t, {isClosed: true});
	await t.throwsAsync(order(['http-01', 'tls-alpn-01']), {
		message:
			/^the CA cannot reach port 80 of mail\.test: Fetching .*; the CA cannot reach port 443 of mail\.test: The handshake /,
	});
	t.deepEqual(ca.looks, ['http-01 mail.test', 'tls-alpn-01 mail.test']);
	await t.throwsAsync(order(['http-01']), {message: /^[^;]*port 80[^;]*$/});
	ca.behaviour.offers = ['tls-alpn-01'];
	await t.throwsAsync(order(['http-01', 'tls-alpn-01']), {message: /^[^;]*port 443[^;]*$/});
	ca.behaviour.target = () => undefined;
	ca.behaviour.offers = ['http-01', 'tls-alpn-01'];
	await t.throwsAsync(order(['http-01', 'tls-alpn-01']), {message: /^[^;]*cannot look up mail\.test[^;]*$/});
	t.is(ca.looks.length, 5);
});

test('proves a name by TLS, or by the only challenge that the CA offers', async t => {
	const shown = new Map<string, string>();
	// Its regular certificate has a key of the same kind, like all of ours.
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
	const client = new AcmeClient({
		...{directory: ca.directory, dispatcher, userAgent: 'test', now: Date.now},
		pause: async () => undefined,
	});
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
				...{name, key, types: [type], replaces: null, signal},
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

test('reads Retry-After as seconds or a date, up to a limit', t => {
	const now = Date.parse('2026-06-09T10:00:00.000Z');
	t.is(parseWait('', now), null);
	t.is(parseWait('soon', now), null);
	t.is(parseWait('120', now), 120_000);
	t.is(parseWait('Tue, 09 Jun 2026 11:00:00 GMT', now), hour);
	t.is(parseWait('Tue, 09 Jun 2020 11:00:00 GMT', now), 0);
	t.is(parseWait('999999999', now), 30 * day);
	fc.assert(
		fc.property(fc.string(), text => {
			const wait = parseWait(text, now);
			t.true(wait === null || (wait >= 0 && wait <= 30 * day));
		}),
	);
});

test('accepts a renewal window only as two times in order', t => {
	const [start, end] = ['2026-06-09T10:00:00Z', '2026-06-10T10:00:00Z'];
	t.deepEqual(parseWindow({suggestedWindow: {start, end}}, 5), {
		start: Date.parse(start),
		end: Date.parse(end),
		retryAfterMs: 5,
	});
	t.is(parseWindow({suggestedWindow: {start: end, end: start}}, null), null);
	t.is(parseWindow({suggestedWindow: {start}}, null), null);
	fc.assert(
		fc.property(fc.anything(), suggestedWindow => {
			const window = parseWindow({suggestedWindow}, null);
			t.true(window === null || window.end > window.start);
		}),
	);
});

const row: Certificate = {
	...{
		name: 'mail.test',
		chain: 'x',
		secret: 'y',
		issuer: 'z',
		window_start: null,
		window_end: null,
		taken_until: null,
	},
	...{not_before: '2026-01-01T00:00:00.000Z', not_after: '2026-04-01T00:00:00.000Z', next_try_at: '', tries: 0},
	...{fault: null, wanted_at: null, unused: null, updated_at: '', directory: null, tried_directory: null},
};

test('renews a certificate in its window, and no later than with a tenth of its life left', t => {
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

test('failed orders wait longer and alternate between ports', t => {
	t.deepEqual(
		[1, 2, 3, 8, 9, 1000].map(tries => waitAfter(tries) / 60_000),
		[5, 10, 20, 640, 720, 720],
	);
	const ways = (redirects: boolean, https: boolean) =>
		[0, 1, 2].map(tries => challengesFor(tries, {isHttpServed: redirects, isHttpsServed: https}));
	t.deepEqual(ways(true, true), [['http-01', 'tls-alpn-01'], ['tls-alpn-01'], ['http-01']]);
	t.deepEqual(ways(false, true), [['tls-alpn-01', 'http-01'], ['http-01'], ['tls-alpn-01']]);
	t.deepEqual(ways(false, false), [['http-01'], ['http-01'], ['http-01']]);
});
