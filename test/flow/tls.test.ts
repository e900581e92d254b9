import {writeFileSync} from 'node:fs';
import {join} from 'node:path';
import test from 'ava';
import {openStore} from '../../src/store/store.ts';
import {issueCertificate, makeCertificate} from '../helpers/certificate.ts';
import {eventsOf, prepareProgram, welcomeOf} from '../helpers/daemon.ts';
import {startFakeDns} from '../helpers/fake-dns.ts';
import {type FakeMx, type FakeMxOptions, startFakeMx} from '../helpers/fake-mx.ts';
import {loopbackAddress} from '../helpers/loopback.ts';
import {policyText} from '../helpers/policy-host.ts';
import {startReceiver} from '../helpers/receiver.ts';
import {call} from '../helpers/shop.ts';
import {recordOf} from '../helpers/tlsa-record.ts';
import {waitFor} from '../helpers/wait.ts';

const authority = makeCertificate('authority');
const right = issueCertificate(authority, ['mx.enforced.example', 'mx.dane.example']);
const wrong = issueCertificate(authority, ['mx.elsewhere']);
const stripped = ['PIPELINING', 'XXXXXXXA'];

type Host = FakeMxOptions & {tls?: typeof right};
type Shown = {recipients: Array<{attempts: Array<{phase: string; tls: string | null; reply: string}>}>};

test('follows MTA-STS and DANE of each domain, and falls back to plain text where TLS is broken', async t => {
	const hosts = {
		broken: {brokenTls: 'garbage'},
		enforced: {tls: wrong},
		stripped: {extensions: stripped},
		testing: {extensions: stripped},
		faulty: {tls: wrong},
		dane: {tls: wrong},
	} satisfies Record<string, Host> as Record<
		'broken' | 'enforced' | 'stripped' | 'testing' | 'faulty' | 'dane',
		Host
	>;
	const names = Object.keys(hosts) as Array<keyof typeof hosts>;
	const mx = {} as Record<keyof typeof hosts, FakeMx>;
	let port = 0;
	for (const name of names) {
		mx[name] = await startFakeMx(t, Object.assign(hosts[name], {host: loopbackAddress(), port}));
		port = mx[name].port;
	}
	const policies = new Map<string, string>([
		['mta-sts.broken.example', policyText('testing', ['mx.broken.example'])],
		['mta-sts.enforced.example', policyText('enforce', ['*.enforced.example'])],
		['mta-sts.stripped.example', policyText('enforce', ['mx.stripped.example'])],
		['mta-sts.testing.example', policyText('testing', ['mx.testing.example'])],
		['mta-sts.faulty.example', 'not found'],
	]);
	const policyAddress = loopbackAddress();
	const policyHost = await startReceiver(t, issueCertificate(authority, [...policies.keys()]), {
		host: policyAddress,
		answer({headers}, response) {
			const text = policies.get(String(headers.host).replace(/:.*/, ''));
			response.writeHead(text === undefined ? 503 : 200, {'content-type': 'text/plain'}).end(text);
		},
	});
	const dns = await startFakeDns(t, {
		...Object.fromEntries(
			names.flatMap(name => [
				[`${name}.example`, {mx: [[10, `mx.${name}.example`]] as const, signed: name === 'dane'}],
				[`mx.${name}.example`, {a: [mx[name].host], signed: name === 'dane'}],
			]),
		),
		...Object.fromEntries(
			[...policies.keys()].flatMap(name => [
				[`_${name}`, {txt: ['v=STSv1; id=1;']}],
				[name, {a: [policyAddress]}],
			]),
		),
		[`_${port}._tcp.mx.dane.example`]: {tlsa: [recordOf(right, 3, 1, 1)], signed: true},
	});
	const program = await prepareProgram(t, {
		MAILCTL_HOSTNAME: 'mail.shop.example',
		MAILCTL_PUBLIC_URL: 'https://mail.shop.example',
		MAILCTL_RETURN_PATH_DOMAIN: 'bounce.shop.example',
		MAILCTL_DELIVERY: 'mx',
		MAILCTL_DNS_SERVERS: dns.server,
		MAILCTL_MX_PORT: String(port),
		MAILCTL_ALLOW_PRIVATE_MX: 'true',
		MAILCTL_MTA_STS_PORT: String(policyHost.port),
		MAILCTL_CA_FILE: 'authority.pem',
		MAILCTL_DANE: 'true',
		MAILCTL_RETRY_SCHEDULE: '1s*',
	});
	writeFileSync(join(program.folder, 'authority.pem'), authority.cert);
	const daemon = await program.serve();
	const {key, from, templateId} = await welcomeOf(program);
	const send = async (url: string, to: string) => {
		const {status, body} = await call(`${url}/v1/messages`, key, {from, to, templateId});
		t.is(status, 202);
		return (body as {id: string}).id;
	};
	const attempts = async (id: string) =>
		(await program.cli<Shown>('message', 'show', id)).recipients[0]?.attempts ?? [];
	const deferrals = async (reply: string) =>
		(await eventsOf(program, 'deferred')).filter(event => event.reply === reply).length;
	const [broken = '', enforced = '', , , , dane = ''] = await Promise.all(
		names.map(name => send(daemon.url, `user@${name}.example`)),
	);

	// A broken handshake: the mail goes in plain text on a second connection.
	await waitFor('the mail', () => mx.broken.count() === 1);
	t.is(mx.broken.connections.length, 2);
	await waitFor('its record', async () => (await attempts(broken)).length === 2);
	t.like(await attempts(broken), {0: {phase: 'starttls', tls: null}, 1: {phase: 'dot', tls: null}});

	// STARTTLS stripped on the way: a policy in testing lets the mail go.
	await waitFor('a deferral', async () => (await deferrals('MTA-STS: the server does not offer TLS')) > 0);
	t.is(mx.stripped.count(), 0);
	await waitFor('the mail', () => mx.testing.count() === 1);

	// A policy that cannot be had: the log says why, the mail goes.
	await waitFor('the mail', () => mx.faulty.count() === 1);
	const failure = await waitFor('it is logged', async () => (await eventsOf(program, 'mta_sts_failed'))[0]);
	t.like(failure, {domain: 'faulty.example', failure: 'sts-policy-invalid', kept: false});

	// A wrong certificate defers, the right one gets the mail.
	const mismatch = 'MTA-STS: the certificate is not for mx.enforced.example';
	await waitFor('two deferrals', async () => (await deferrals(mismatch)) >= 2);
	await waitFor('a deferral', async () => (await deferrals('DANE: no TLSA record matches the certificate')) > 0);
	for (const name of ['enforced', 'dane'] as const) {
		t.is(mx[name].count(), 0);
		t.false(mx[name].connections.some(({commands}) => commands.some(line => line.startsWith('MAIL'))));
		hosts[name].tls = right;
	}
	for (const [name, id, verified] of [
		['enforced', enforced, /^TLSv1\.3 TLS_\w+ verified \(MTA-STS\)$/],
		['dane', dane, / verified \(DANE\)$/],
	] as const) {
		await waitFor('the mail', () => mx[name].count() === 1);
		const last = await waitFor('its record', async () => (await attempts(id)).find(({phase}) => phase === 'dot'));
		t.regex(last.tls ?? '', verified);
	}
	t.is(policyHost.received.filter(({headers}) => headers.host?.includes('enforced')).length, 1);

	// The policy outlives the daemon and its host.
	await daemon.stop();
	const store = await openStore({file: join(program.folder, 'data/mailctl.db')});
	t.teardown(() => store.close());
	const counts = await store
		.reader('tls_days')
		.where({domain: 'enforced.example'})
		.orderBy('result')
		.select('policy', 'host', 'result', 'n');
	t.like(counts, {length: 2, 0: {result: 'certificate-host-mismatch'}});
	t.deepEqual(counts[1], {policy: 'sts', host: 'mx.enforced.example', result: 'success', n: 1});
	hosts.enforced.tls = wrong;
	policies.clear();
	const next = await program.serve();
	const before = await deferrals(mismatch);
	await send(next.url, 'again@enforced.example');
	await waitFor('a deferral', async () => (await deferrals(mismatch)) > before);
	t.is(mx.enforced.count(), 1);
});
