import {once} from 'node:events';
import {readFile, writeFile} from 'node:fs/promises';
import {request} from 'node:https';
import {join} from 'node:path';
import {createSecureContext, type TLSSocket} from 'node:tls';
import test from 'ava';
import {fetchPolicy, StsPolicies} from '../../src/deliver/sts-policies.ts';
import {systemClock} from '../../src/kit/clock.ts';
import {createResolver} from '../../src/net/resolver.ts';
import {startAcmeServer} from '../helpers/acme-server.ts';
import {logged, type Program, prepareProgram} from '../helpers/daemon.ts';
import {publish, type ToPublish} from '../helpers/domain-zone.ts';
import {startFakeDns} from '../helpers/fake-dns.ts';
import {rawHttp} from '../helpers/raw-http.ts';
import {waitFor} from '../helpers/wait.ts';

type Domain = {readonly state: string; readonly link_host_used: boolean; readonly records: readonly ToPublish[]};

const address = '127.0.0.1';

/** The ports that the daemon chose. */
async function portsOf({folder}: Program): Promise<Readonly<Record<'https' | 'redirect', number>>> {
	const file = JSON.parse(await readFile(join(folder, 'data/daemon.json'), 'utf8'));
	const port = (at: string) => Number(at.slice(at.lastIndexOf(':') + 1));
	return {https: port(file.https), redirect: port(file.redirect)};
}

test('HTTPS without a proxy: ACME certificates, a link domain, redirects and a valid MTA-STS policy', async t => {
	const dns = await startFakeDns(t, {
		'mail.example': {a: [address]},
		'go.shop.example': {cname: 'mail.example'},
		'mta-sts.bounce.shop.example': {cname: 'mail.example'},
	});
	let ports = {https: 0, redirect: 0};
	const ca = await startAcmeServer(t, () => ({host: address, http: ports.redirect, tls: ports.https}));
	ca.behaviour.holding = true;
	const program = await prepareProgram(t, {
		MAILCTL_HOSTNAME: 'mail.example',
		MAILCTL_PUBLIC_URL: 'https://mail.example',
		MAILCTL_ACME: 'true',
		MAILCTL_ACME_DIRECTORY: ca.directory,
		MAILCTL_ACME_CA_FILE: 'ca.pem',
		MAILCTL_HTTPS_LISTEN: `${address}:0`,
		MAILCTL_HTTP_REDIRECT_LISTEN: `${address}:0`,
		MAILCTL_INBOUND_LISTEN: `${address}:0`,
		MAILCTL_DNS_SERVERS: dns.server,
	});
	await writeFile(join(program.folder, 'ca.pem'), ca.ca);
	await program.cliBytes('init');
	const {records} = await program.cli<Domain>('domain', 'add', 'shop.example', '--links', 'go.shop.example');
	t.deepEqual(
		records
			.filter(({purpose}) => /^(?:links|mta_sts|tls_report)$/.test(purpose))
			.map(({type, name}) => `${type} ${name}`),
		[
			'CNAME go.shop.example',
			'TXT _mta-sts.bounce.shop.example',
			'CNAME mta-sts.bounce.shop.example',
			'TXT _smtp._tls.bounce.shop.example',
		],
	);
	publish(dns.zone, records);
	t.like(await program.cli('domain', 'verify', 'shop.example'), {state: 'verified', link_host_used: true});
	const daemon = await program.serve();
	ports = await portsOf(program);
	const ask = async (servername: string, path: string, host = servername) => {
		const asked = request({
			...{host: address, port: ports.https, path, servername, agent: false, ca: ca.authority.cert},
			headers: {host},
		});
		asked.end();
		const [response] = await once(asked, 'response');
		const names = (response.socket as TLSSocket).getPeerCertificate().subjectaltname;
		return {status: response.statusCode as number, names, body: String(await response.toArray())};
	};

	await t.throwsAsync(ask('mail.example', '/v1/usage'), undefined, 'there is no certificate yet');
	await waitFor('a line of the log', async () => (await logged(program, 'https_without_certificate')).length === 1);
	ca.behaviour.holding = false;
	const issued = async (...names: string[]) =>
		await waitFor(`certificates of ${names.join(', ')}`, async () => {
			const lines = await logged(program, 'certificate_issued');
			return names.every(name => lines.some(line => line.name === name));
		});
	await issued('mail.example', 'go.shop.example', 'mta-sts.bounce.shop.example');
	t.true(
		ca.looks.every(look => look.startsWith('http-01')),
		ca.looks.join(),
	);

	t.like(await ask('mail.example', '/v1/usage'), {status: 401, names: 'DNS:mail.example'});
	t.like(await ask('go.shop.example', '/unsubscribe'), {status: 400, names: 'DNS:go.shop.example'});
	for (const path of ['/metrics', '/docs', '/openapi.json']) {
		for (const host of ['mail.example', '127.0.0.1', 'localhost']) {
			t.like(await ask('mail.example', path, host), {status: 404}, `${host}${path}`);
		}
	}
	t.like(await ask('mail.example', '/login'), {status: 200}, 'the dashboard, at the public name alone');
	t.like(await ask('mail.example', '/login', '127.0.0.1'), {status: 404});
	t.like(await ask('go.shop.example', '/login'), {status: 404});
	const redirected = await rawHttp(
		ports.redirect,
		'GET /t/c/x HTTP/1.1\r\nHost: go.shop.example\r\nConnection: close\r\n\r\n',
	);
	t.regex(redirected, /^HTTP\/1\.1 308 [\s\S]*\r\nlocation: https:\/\/go\.shop\.example\/t\/c\/x\r\n/);

	// Others do not trust this CA, so that the policy stays at `testing`; our own client takes it.
	const fresh = await program.cli<Domain>('domain', 'show', 'shop.example');
	const announced = (all: readonly ToPublish[]) => all.find(({name}) => name.startsWith('_mta-sts'))?.value;
	t.is(announced(fresh.records), announced(records));
	dns.zone['_mta-sts.bounce.shop.example'] = {txt: [announced(fresh.records) ?? '']};
	const checked = await program.cli<{records: Array<ToPublish & {state: string}>}>('domain', 'show', 'shop.example');
	t.deepEqual(
		checked.records
			.filter(({purpose}) => purpose === 'mta_sts' || purpose === 'tls_report')
			.map(({state}) => state),
		['ok', 'ok', 'ok'],
	);
	const resolver = createResolver({servers: [dns.server], timeoutMs: 60_000, tries: 1, clock: systemClock});
	const failures: unknown[] = [];
	const policies = new StsPolicies({
		resolver,
		fetch: domain =>
			fetchPolicy(domain, {
				...{resolver, port: ports.https, allowPrivate: true, userAgent: 'mailctl/1', limitMs: 60_000},
				secureContext: createSecureContext({ca: ca.authority.cert}),
			}),
		read: async () => null,
		save: async () => undefined,
		observer: {policyFailed: failure => failures.push(failure)},
		clock: systemClock,
	});
	t.deepEqual(
		await policies.policyFor('bounce.shop.example'),
		{mode: 'testing', mx: ['mail.example']},
		JSON.stringify(failures),
	);
	t.like(await ask('mail.example', '/.well-known/mta-sts.txt'), {status: 404}, 'no other host has a policy');

	// By TLS alone a CA gets its proof too, beside other traffic.
	ca.behaviour.offers = ['tls-alpn-01'];
	dns.zone['go.late.example'] = {cname: 'mail.example'};
	const late = await program.cli<Domain>('domain', 'add', 'late.example', '--links', 'go.late.example');
	publish(dns.zone, late.records);
	await program.cli('domain', 'verify', 'late.example');
	await waitFor('a proof by TLS', async () => {
		t.like(await ask('mail.example', '/v1/usage'), {status: 401});
		return ca.looks.includes('tls-alpn-01 go.late.example');
	});
	await issued('go.late.example');
	t.like(await ask('go.late.example', '/unsubscribe'), {status: 400, names: 'DNS:go.late.example'});
	t.is(await daemon.stop(), 0);
});
