import {writeFileSync} from 'node:fs';
import {join} from 'node:path';
import test, {type ExecutionContext} from 'ava';
import {openStore} from '../../src/store/store.ts';
import {issueCertificate, makeCertificate} from '../helpers/certificate.ts';
import {eventsOf, prepareProgram, type Settings, welcomeOf} from '../helpers/daemon.ts';
import {startFakeDns} from '../helpers/fake-dns.ts';
import {type FakeMxOptions, startFakeMx} from '../helpers/fake-mx.ts';
import {policyText, startPolicyHost} from '../helpers/policy-host.ts';
import {call} from '../helpers/shop.ts';
import {recordOf} from '../helpers/tlsa-record.ts';
import {waitFor} from '../helpers/wait.ts';

const authority = makeCertificate('authority');
const right = issueCertificate(authority, ['mx.example']);
const wrong = issueCertificate(authority, ['mx.elsewhere']);
const policyCertificate = issueCertificate(authority, ['mta-sts.a.example', 'mta-sts.b.example']);

type Shown = {recipients: Array<{attempts: Array<{phase: string; tls: string | null; reply: string}>}>};

/** The program delivering to one host, which serves `a.example` and `b.example`; both announce a policy. */
async function start(t: ExecutionContext, host: FakeMxOptions, policy: string, settings: Settings = {}) {
	const mx = await startFakeMx(t, host);
	const policyHost = await startPolicyHost(t, policyCertificate, {text: policy});
	const dns = await startFakeDns(t, {
		'mx.example': {a: ['127.0.0.1']},
		...Object.fromEntries(
			['a.example', 'b.example'].flatMap(domain => [
				[domain, {mx: [[10, 'mx.example']] as const}],
				[`_mta-sts.${domain}`, {txt: ['v=STSv1; id=1;']}],
				[`mta-sts.${domain}`, {a: [policyHost.address]}],
			]),
		),
	});
	const program = await prepareProgram(t, {
		MAILCTL_HOSTNAME: 'mail.shop.example',
		MAILCTL_PUBLIC_URL: 'https://mail.shop.example',
		MAILCTL_RETURN_PATH_DOMAIN: 'bounce.shop.example',
		MAILCTL_DELIVERY: 'mx',
		MAILCTL_DNS_SERVERS: dns.server,
		MAILCTL_MX_PORT: String(mx.port),
		MAILCTL_ALLOW_PRIVATE_MX: 'true',
		MAILCTL_MTA_STS_PORT: String(policyHost.port),
		MAILCTL_CA_FILE: 'authority.pem',
		MAILCTL_RETRY_SCHEDULE: '1s*',
		...settings,
	});
	writeFileSync(join(program.folder, 'authority.pem'), authority.cert);
	const daemon = await program.serve();
	const {key, from, templateId} = await welcomeOf(program);
	return {
		...{mx, policyHost, dns, program, daemon},
		async send(to: string): Promise<string> {
			const {status, body} = await call(`${daemon.url}/v1/messages`, key, {from, to, templateId});
			t.is(status, 202);
			return (body as {id: string}).id;
		},
		async attempts(id: string) {
			const {recipients} = await program.cli<Shown>('message', 'show', id);
			return recipients[0]?.attempts ?? [];
		},
	};
}

test.serial('a broken handshake → the mail goes in plain text on a second connection', async t => {
	const {mx, send, attempts} = await start(t, {brokenTls: 'garbage'}, policyText('testing', ['mx.example']));
	const id = await send('user@a.example');
	await waitFor('the mail', () => mx.count() === 1);
	t.is(mx.connections.length, 2);
	await waitFor('its record', async () => (await attempts(id)).length === 2);
	t.like(await attempts(id), {0: {phase: 'starttls', tls: null}, 1: {phase: 'dot', tls: null}});
});

test.serial('MTA-STS enforce: a wrong certificate defers, the right one gets the mail', async t => {
	const host: {tls: typeof right} = {tls: wrong};
	const {mx, policyHost, program, daemon, send, attempts} = await start(t, host, policyText('enforce', ['*.example']));
	const id = await send('user@a.example');
	await waitFor('two deferrals', async () => (await eventsOf(program, 'deferred')).length >= 2);
	const [deferred] = await eventsOf(program, 'deferred');
	t.is(deferred?.reply, 'MTA-STS: the certificate is not for mx.example');
	t.is(mx.count(), 0);
	t.false(mx.connections.some(({commands}) => commands.some(line => line.startsWith('MAIL'))));

	host.tls = right;
	await waitFor('the mail', () => mx.count() === 1);
	await waitFor('its record', async () => (await eventsOf(program, 'delivered')).length === 1);
	t.regex((await attempts(id)).at(-1)?.tls ?? '', /^TLSv1\.3 TLS_\w+ verified \(MTA-STS\)$/);
	t.is(policyHost.receiver.received.length, 1);

	// The policy outlives the daemon and its host.
	await daemon.stop();
	const store = await openStore({file: join(program.folder, 'data/mailctl.db')});
	t.teardown(() => store.close());
	const counts = await store.reader('tls_days').orderBy('result').select('domain', 'policy', 'host', 'result', 'n');
	t.like(counts, {length: 2, 0: {result: 'certificate-host-mismatch'}});
	t.deepEqual(counts[1], {domain: 'a.example', policy: 'sts', host: 'mx.example', result: 'success', n: 1});
	host.tls = wrong;
	policyHost.answer = {text: '', status: 503};
	const next = await program.serve();
	const {key, from, templateId} = await welcomeOf(program);
	const before = (await eventsOf(program, 'deferred')).length;
	await call(`${next.url}/v1/messages`, key, {from, to: 'again@a.example', templateId});
	await waitFor('a deferral', async () => (await eventsOf(program, 'deferred')).length > before);
	t.is(mx.count(), 1);
});

test.serial('MTA-STS enforce: STARTTLS stripped on the way defers, a policy in testing lets the mail go', async t => {
	const {mx, policyHost, program, send} = await start(
		t,
		{extensions: ['PIPELINING', 'XXXXXXXA']},
		policyText('enforce', ['mx.example']),
	);
	await send('user@a.example');
	await waitFor('a deferral', async () => (await eventsOf(program, 'deferred')).length >= 1);
	t.is((await eventsOf(program, 'deferred'))[0]?.reply, 'MTA-STS: the server does not offer TLS');
	t.is(mx.count(), 0);
	policyHost.answer = {text: policyText('testing', ['mx.example'])};
	await send('user@b.example');
	await waitFor('the mail', () => mx.count() === 1);
	t.deepEqual(mx.received[0]?.to, ['user@b.example']);
});

test.serial('a policy that cannot be had: the log says why, the mail goes', async t => {
	const {mx, program, send} = await start(t, {tls: wrong}, 'not found');
	await send('user@a.example');
	await waitFor('the mail', () => mx.count() === 1);
	const failure = await waitFor('it is logged', async () => (await eventsOf(program, 'mta_sts_failed'))[0]);
	t.like(failure, {domain: 'a.example', failure: 'sts-policy-invalid', kept: false});
});

test.serial('DANE: the mail waits for the certificate that the records name', async t => {
	const host: {tls: typeof right} = {tls: wrong};
	const {mx, program, dns, send, attempts} = await start(t, host, policyText('none', []), {MAILCTL_DANE: 'true'});
	dns.zone['a.example'] = {mx: [[10, 'mx.example']], signed: true};
	dns.zone['mx.example'] = {a: ['127.0.0.1'], signed: true};
	dns.zone[`_${mx.port}._tcp.mx.example`] = {tlsa: [recordOf(right, 3, 1, 1)], signed: true};
	const id = await send('user@a.example');
	await waitFor('a deferral', async () => (await eventsOf(program, 'deferred')).length >= 1);
	t.is((await eventsOf(program, 'deferred'))[0]?.reply, 'DANE: no TLSA record fits the certificate');
	host.tls = right;
	await waitFor('the mail', () => mx.count() === 1);
	await waitFor('its record', async () => (await eventsOf(program, 'delivered')).length === 1);
	t.regex((await attempts(id)).at(-1)?.tls ?? '', / verified \(DANE\)$/);
});
