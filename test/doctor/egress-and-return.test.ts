import {writeFileSync} from 'node:fs';
import {join} from 'node:path';
import test, {type ExecutionContext} from 'ava';
import type {Host} from '../../src/deliver/host.ts';
import {SecureContexts} from '../../src/deliver/open-session.ts';
import {judgeCertificate} from '../../src/doctor/certificates.ts';
import {returnPathCheck} from '../../src/doctor/doctor.ts';
import type {Check} from '../../src/doctor/finding.ts';
import {
	egressCheck,
	inboundCertificateCheck,
	noCertificateCheck,
	relayCheck,
	submissionCertificateCheck,
} from '../../src/doctor/outbound.ts';
import {publicUrlCheck} from '../../src/doctor/public-url.ts';
import {systemClock} from '../../src/kit/clock.ts';
import {ProviderClient} from '../../src/net/provider-client.ts';
import type {Relay} from '../../src/net/relay-url.ts';
import {createResolver} from '../../src/net/resolver.ts';
import {makeCertificate} from '../helpers/certificate.ts';
import {temporaryFolder} from '../helpers/databases.ts';
import {testTimeouts} from '../helpers/delivery-lab.ts';
import {startFakeDns} from '../helpers/fake-dns.ts';
import {type FakeMx, startFakeMx} from '../helpers/fake-mx.ts';
import {startFakeProvider} from '../helpers/fake-provider.ts';

const noClient = {send: () => Promise.reject(new Error('no API is asked'))};
const reach = {hostname: 'out.mail.test', timeouts: testTimeouts, secureContexts: new SecureContexts(undefined)};

async function told(check: Check): Promise<string[]> {
	return (await check.run()).map(({status, detail}) => `${status}: ${detail}`);
}

function routeTo({host, port}: FakeMx): Host {
	return {name: 'mx.big.test', address: host, port, tls: 'opportunistic', implicitTls: false, login: null};
}

test('egress: one mail server that greets us is enough', async t => {
	const mx = await startFakeMx(t, {tls: makeCertificate('mx.big.test')});
	const check = egressCheck({
		...reach,
		targets: ['nowhere.test', 'big.test'],
		routesTo: async domain => (domain === 'big.test' ? [routeTo(mx)] : `${domain} does not exist`),
		sources: [],
	});
	t.regex((await told(check))[0] ?? '', /^ok: a session with mx\.big\.test \[127[.\d]+\], TLSv1\.3 /);
});

test('egress: a mail server that refuses us was reached, unlike an unreachable one', async t => {
	const mx = await startFakeMx(t, {greeting: '554 5.7.1 go away'});
	const input = {...reach, targets: ['big.test'], sources: []};
	const refused = egressCheck({...input, routesTo: async () => [routeTo(mx)]});
	t.regex((await told(refused))[0] ?? '', /^warn: no mail server accepts a session: .*554 5\.7\.1 go away/);
	const closed = egressCheck({...input, routesTo: async () => [{...routeTo(mx), port: 1}]});
	t.regex((await told(closed))[0] ?? '', /^fail: no mail server accepts a session: .*ECONNREFUSED/);
});

test('egress: checks each source address', async t => {
	const mx = await startFakeMx(t, {});
	const check = egressCheck({
		...reach,
		targets: ['big.test'],
		routesTo: async () => [routeTo(mx)],
		sources: [
			{address: '127.0.0.7', hostname: 'a.mail.test'},
			{address: '::1', hostname: 'b.mail.test'},
		],
	});
	const [v4, v6] = await told(check);
	t.regex(v4 ?? '', /^ok: a session from 127\.0\.0\.7 /);
	t.regex(v6 ?? '', /^fail: no mail server accepts a session from ::1: big\.test has no address of this family$/);
	t.is(mx.connections[0]?.remoteAddress, '127.0.0.7');
});

test('relay: checks that the API of a provider responds', async t => {
	const ses = await startFakeProvider(t, () => ({status: 404, body: ''}));
	const [host = '', port] = ses.at.split(':');
	const resolver = {a: async () => ({kind: 'nxdomain'}) as const, aaaa: async () => ({kind: 'nxdomain'}) as const};
	const asking = new ProviderClient({
		...{resolver, standIns: new Map([['ses', {host, port: Number(port)}]]), userAgent: 'test', limitMs: 60_000},
	});
	const relay = {port: 443, secure: true, tls: 'required', user: 'u', password: 's3cret'} as const;
	const relays = [
		{...relay, host: 'email.eu-west-1.amazonaws.com', api: 'ses'},
		{...relay, host: 'api.mailgun.test', api: 'mailgun'},
	] as const;
	t.deepEqual(await told(relayCheck(relays, reach, asking)), [
		'ok: email.eu-west-1.amazonaws.com responds by HTTPS (404); the first message shows whether it accepts the key',
		'fail: api.mailgun.test: it has no address in DNS',
	]);
});

test('relay: checks the login', async t => {
	const mx = await startFakeMx(t, {extensions: ['AUTH PLAIN'], auth: ['235 2.7.0 welcome', '535 5.7.8 no']});
	const relay: Relay = {host: mx.host, port: mx.port, secure: false, tls: 'none', user: 'u', password: 'p'};
	const check = relayCheck([relay], reach, noClient);
	t.regex((await told(check))[0] ?? '', /^ok: 127[.\d]+ \[127[.\d]+\], no TLS, logged in$/);
	const [refused] = await check.run();
	t.is(refused?.status, 'fail');
	t.regex(refused?.detail ?? '', /535 5\.7\.8 no/);
	t.regex(refused?.fix ?? '', /user and password/);
	const unknown = relayCheck([{...relay, host: 'gone.test'}], reach, noClient, () =>
		Promise.reject(new Error('ENOTFOUND')),
	);
	t.deepEqual(await told(unknown), ['fail: the relay gone.test was not found in DNS']);
});

async function returnPath(t: ExecutionContext, mx: FakeMx, overrides: Partial<Parameters<typeof returnPathCheck>[0]>) {
	const dns = await startFakeDns(t, {
		'bounces.test': {mx: [[10, 'in.bounces.test']]},
		'in.bounces.test': {a: [mx.host]},
		'lost.test': {mx: [[10, 'gone.lost.test']]},
		'silent.test': 'servfail',
	});
	return returnPathCheck({
		...{
			returnPathDomain: 'bounces.test',
			isListening: true,
			isPolling: false,
			isReturnPathChosen: true,
			selfToken: 'btoken',
		},
		...{hostname: 'mail.test', port: mx.port},
		resolver: createResolver({servers: [dns.server], timeoutMs: 60_000, tries: 1, clock: systemClock}),
		...overrides,
	});
}

test('return path: requires the MX to accept a bounce with one of our tokens', async t => {
	const mx = await startFakeMx(t, {rcpt: ['250 ok', '550 5.1.1 who']});
	const check = await returnPath(t, mx, {});
	t.regex((await told(check))[0] ?? '', /^ok: in\.bounces\.test \[.*\] accepts bounces for bounces\.test$/);
	t.true(mx.connections[0]?.commands.includes('RCPT TO:<btoken@bounces.test>'));
	t.regex(
		(await told(check))[0] ?? '',
		/^fail: .* does not accept a bounce: RCPT TO:<btoken@bounces\.test>: 550 5\.1\.1 who$/,
	);
});

test('return path: reports what is missing', async t => {
	const mx = await startFakeMx(t, {});
	const look = async (overrides: Parameters<typeof returnPath>[2]) => await told(await returnPath(t, mx, overrides));
	t.deepEqual(await look({returnPathDomain: 'none.test'}), ['fail: none.test has no MX, bounces are lost']);
	t.deepEqual(await look({returnPathDomain: 'silent.test'}), [
		'warn: unknown: DNS did not respond for the MX of silent.test (ESERVFAIL)',
	]);
	const [bare] = await (await returnPath(t, mx, {returnPathDomain: 'vm', hostname: 'vm'})).run();
	t.like(bare, {status: 'fail', fix: 'set MAILCTL_HOSTNAME to a name such as mail.example.com first'});
	t.deepEqual(await look({returnPathDomain: 'lost.test'}), [
		'fail: gone.lost.test, the MX of lost.test, has no address',
	]);
	t.deepEqual(await look({isListening: false}), [
		'fail: nothing receives bounces here; bounces.test has MX in.bounces.test',
	]);
	t.deepEqual(await look({isListening: false, isPolling: true}), [
		'ok: bounces to bounces.test go to in.bounces.test, and the mailbox is polled',
	]);
	t.regex((await look({isReturnPathChosen: false}))[0] ?? '', /^warn: MAILCTL_RETURN_PATH_DOMAIN is not set/);
	t.regex((await look({port: 1}))[0] ?? '', /^fail: .*ECONNREFUSED/);
});

test('checks the key, name and validity of the listener’s certificate', async t => {
	const folder = await temporaryFolder(t);
	const [mine, other] = [makeCertificate('in.bounces.test'), makeCertificate('in.bounces.test')];
	const [certFile, keyFile, otherKey] = [
		join(folder, 'cert.pem'),
		join(folder, 'key.pem'),
		join(folder, 'other.pem'),
	];
	writeFileSync(certFile, mine.cert);
	writeFileSync(keyFile, mine.key);
	writeFileSync(otherKey, other.key);
	const at = (now: number) => ({now: () => now, monotonic: () => 0});
	const day = 86_400_000;
	const look = async (now: number, hostname = 'in.bounces.test', key = keyFile) =>
		(await told(inboundCertificateCheck({certFile, keyFile: key, hostname, clock: at(now)})))[0] ?? '';
	t.regex(await look(Date.now() - 30 * day), /^ok: .* is valid until /);
	t.regex(await look(Date.now()), /^warn: .* is valid until /);
	t.regex(await look(Date.now() + 9 * day), /^fail: .* expired on /);
	t.regex(await look(Date.now(), 'else.test'), /^warn: .* is not for else\.test$/);
	t.regex(
		await look(Date.now(), 'in.bounces.test', otherKey),
		/^fail: the key in .* does not match the certificate in /,
	);
	t.regex(await look(Date.now(), 'in.bounces.test', join(folder, 'none.pem')), /^fail: ENOENT/);
	const submission = submissionCertificateCheck({certFile, keyFile: otherKey, hostname: 'x.test', clock: at(0)});
	t.is(submission.name, 'submission-tls');
	t.regex((await told(submission))[0] ?? '', /^fail: the key in .* does not match the certificate in /);
});

test('reports the expiry of CA certificates, errors of the CA and names that point elsewhere', t => {
	const now = Date.parse('2026-06-09T10:00:00.000Z');
	const day = 86_400_000;
	const row = {
		...{
			name: 'm.test',
			chain: 'x',
			secret: 'y',
			issuer: 'z',
			window_start: null,
			window_end: null,
			taken_until: null,
		},
		...{
			next_try_at: '',
			tries: 0,
			fault: null,
			wanted_at: null,
			unused: null,
			updated_at: '',
			directory: null,
			tried_directory: null,
		},
	};
	const look = (days: number | null, fault: string | null = null, life = 90) => {
		const times =
			days === null ? [null, null] : [days - life, days].map(n => new Date(now + n * day).toISOString());
		const [from = null, until = null] = times;
		const {status, detail} = judgeCertificate({...row, not_before: from, not_after: until, fault}, now);
		return `${status}: ${detail}`;
	};
	const fault = 'the CA cannot reach port 80 of m.test: refused';
	t.is(look(null), 'warn: m.test has no certificate yet');
	t.is(look(null, fault), `warn: m.test has no certificate yet: ${fault}`);
	t.is(look(15), 'ok: m.test has a certificate valid until 2026-06-24 10:00 UTC');
	t.is(
		look(15, fault),
		`warn: m.test has a certificate valid until 2026-06-24 10:00 UTC, but renewal failed: ${fault}`,
	);
	t.is(look(13), 'warn: the certificate of m.test expires 2026-06-22 10:00 UTC');
	t.is(look(13, fault), `fail: the certificate of m.test expires 2026-06-22 10:00 UTC: ${fault}`);
	t.is(look(0, fault), `fail: the certificate of m.test expired 2026-06-09 10:00 UTC: ${fault}`);
	t.regex(look(4, null, 7), /^ok/, 'one that lives for a week is renewed in its last days');
	t.regex(look(1, null, 7), /^warn/);
	const unused = judgeCertificate({...row, not_before: null, not_after: null, unused: 'it leads elsewhere'}, now);
	t.like(unused, {status: 'warn', detail: 'no certificate is requested: it leads elsewhere'});
});

test('warns about a listener without a certificate', async t => {
	t.deepEqual(await told(noCertificateCheck), ['warn: the listener offers no STARTTLS: reports arrive unencrypted']);
});

test('checks that the public URL uses https and responds', async t => {
	const look = async (publicUrl: string, answer: () => Promise<{status: number; headers: Headers}>, running = true) =>
		await told(publicUrlCheck({publicUrl, isRunning: running, get: answer}));
	const page = (status: number, ours: boolean) => async () => ({
		status,
		headers: new Headers(ours ? {'x-request-id': 'req_1'} : {}),
	});
	t.deepEqual(await look('https://m.test/', page(400, true)), ['ok: https://m.test/unsubscribe responds']);
	t.deepEqual(await look('https://m.test', page(200, false)), [
		'fail: the response of https://m.test/unsubscribe is not from mailctl (200)',
	]);
	t.deepEqual(await look('https://m.test', page(503, true)), ['fail: https://m.test/unsubscribe responds with 503']);
	t.deepEqual(await look('https://m.test', () => Promise.reject(new Error('no route'))), [
		'warn: https://m.test/unsubscribe could not be reached from here: no route',
	]);
	t.is((await look('http://m.test', page(400, true)))[0], 'warn: links in messages point to http://m.test');
	t.regex((await look('http://127.0.0.1:8125', page(400, true)))[0] ?? '', /^fail: .* only this machine can reach$/);
	t.deepEqual(await look('https://m.test', () => Promise.reject(new Error()), false), [
		'ok: https://m.test; not requested, because no daemon is running',
	]);
});
