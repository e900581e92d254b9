import {utimesSync, writeFileSync} from 'node:fs';
import {join} from 'node:path';
import test from 'ava';
import type {Finding} from '../../src/doctor/finding.ts';
import {issueCertificate, makeCertificate} from '../helpers/certificate.ts';
import {newCli, storelessCli} from '../helpers/cli.ts';
import {temporaryFolder} from '../helpers/databases.ts';
import {publish, type ToPublish} from '../helpers/domain-zone.ts';
import {startFakeDns} from '../helpers/fake-dns.ts';
import {startFakeMx} from '../helpers/fake-mx.ts';

test('doctor runs on a fresh machine, creates nothing, and says what to fix', async t => {
	const mx = await startFakeMx(t, {});
	const dns = await startFakeDns(t, {
		'big.test': {mx: [[10, 'mx.big.test']]},
		'mx.big.test': {a: [mx.host]},
		'mail.shop.test': {a: ['127.0.0.9'], txt: ['v=spf1 a -all']},
		'9.0.0.127.in-addr.arpa': {ptr: ['mail.shop.test']},
		'dbltest.com.dbl.spamhaus.org': {a: ['127.0.1.2']},
		'shop.test.dbl.spamhaus.org': {a: ['127.0.1.2']},
	});
	const cli = await storelessCli(t, {
		MAILCTL_DELIVERY: 'mx',
		MAILCTL_HOSTNAME: 'mail.shop.test',
		MAILCTL_PUBLIC_URL: 'https://mail.shop.test',
		MAILCTL_SOURCE_ADDRESSES: '127.0.0.9',
		MAILCTL_MX_PORT: String(mx.port),
		MAILCTL_ALLOW_PRIVATE_MX: 'true',
		MAILCTL_DNS_SERVERS: dns.server,
	});
	const lab = ['--to', 'big.test', '--time-server', 'gone.test'];
	const asked = await cli.run('doctor', '--json', ...lab);
	t.is(asked.code, 1, asked.stderr);
	const findings = JSON.parse(asked.stdout) as Finding[];
	const of = (check: string) =>
		findings
			.filter(one => one.check === check)
			.map(({status}) => status)
			.join();
	t.deepEqual(
		['node', 'store', 'daemon', 'dns', 'hostname', 'reverse-dns', 'spf-ehlo', 'egress', 'public-url'].map(of),
		Array.from({length: 9}, () => 'ok'),
	);
	t.is(of('clock'), 'warn');
	t.is(of('blocklists'), 'ok', 'a loopback address is asked for nowhere');
	t.deepEqual(
		dns.queries.filter(query => query.includes('spamhaus')),
		[],
	);
	t.is(of('return-path'), 'warn,fail');
	t.true(findings.every(({status, fix, why}) => why !== '' && (status === 'ok') === (fix === '')));
	t.regex(findings.find(({check}) => check === 'store')?.detail ?? '', /does not exist yet/);
	t.regex((await cli.run('doctor', '--json', ...lab)).stdout, /does not exist yet/, 'nothing was made by looking');

	const {stdout, code} = await cli.run('doctor', ...lab);
	t.is(code, 1);
	t.regex(stdout, /^FAIL {2}return-path {5}/m);
	t.regex(stdout, /\n\d+ ok, 2 warnings, 1 failure\n$/);
	t.true(stdout.split('\n').every(line => line.length <= 80));

	await cli.json('workspace', 'create', '--name', 'shop');
	const {records} = await cli.json<{records: Array<{type: string; name: string; value: string}>}>(
		'domain',
		'add',
		'shop.test',
	);
	const domain = async () => {
		const all = JSON.parse((await cli.run('doctor', '--json', ...lab)).stdout) as Finding[];
		return all.filter(({check}) => check === 'domain').map(({status, detail}) => `${status} ${detail}`);
	};
	t.regex(
		(await domain())[0] ?? '',
		/^fail shop\.test: TXT _mailctl\.shop\.test missing, .*TXT mc1\._domainkey\.shop\.test missing/,
	);
	for (const {type, name, value} of records) {
		const entry = dns.zone[name] ?? {};
		dns.zone[name] = {
			...(typeof entry === 'string' ? {} : entry),
			...(type === 'MX' ? {mx: [[10, value.split(' ')[1] ?? '']]} : {txt: [value.match(/.{1,255}/g) ?? []]}),
		};
	}
	t.deepEqual(await domain(), [`ok shop.test: all ${records.length} records are correct`]);

	await cli.json('domain', 'verify', 'shop.test');
	const verified = (await cli.run('doctor', ...lab)).stdout;
	t.regex(verified, /^WARN {2}blocklists {6}shop\.test is on dbl\.spamhaus\.org \(127\.0\.1\.2\)$/m);
	t.regex(verified, /^ {22}fix: resolve the cause, then request removal:$/m);
});

test('doctor in capture mode beside a running daemon finds no problem and exits with 0', async t => {
	const files = await temporaryFolder(t);
	const {cert, key} = makeCertificate('localhost');
	writeFileSync(join(files, 'cert.pem'), cert);
	writeFileSync(join(files, 'key.pem'), key, {mode: 0o600});
	const cli = await newCli(t, {
		MAILCTL_SUBMISSION_LISTEN: '127.0.0.1:0',
		MAILCTL_SUBMISSION_TLS_CERT: join(files, 'cert.pem'),
		MAILCTL_SUBMISSION_TLS_KEY: join(files, 'key.pem'),
		MAILCTL_HOSTNAME: 'mail.shop.test',
	});
	await cli.serve();
	const findings = await cli.json<Finding[]>('doctor');
	t.true(findings.every(({status}) => status !== 'fail'));
	t.regex(findings.find(({check}) => check === 'daemon')?.detail ?? '', /^process \d+, version .*, ready at http/);
	t.regex(findings.find(({check}) => check === 'store')?.detail ?? '', /is up to date$/);
	t.regex(findings.find(({check}) => check === 'delivery')?.detail ?? '', /^capture: /);
	t.like(findings.find(({check}) => check === 'submission-tls') as Finding, {
		...{status: 'warn', fix: 'get a certificate for mail.shop.test'},
	});

	t.is(
		findings.find(({check}) => check === 'first-keys'),
		undefined,
		'there was no day to copy them yet',
	);
	const keys = join(cli.folder, 'data/first-keys.txt');
	const twoDaysAgo = new Date(Date.now() - 48 * 3_600_000);
	utimesSync(keys, twoDaysAgo, twoDaysAgo);
	const later = await cli.json<Finding[]>('doctor');
	t.like(later.find(({check}) => check === 'first-keys') as Finding, {
		status: 'warn',
		fix: 'copy the keys to a safe place and remove the file',
	});
});

test('doctor keeps columns aligned for long check names and gives advice on a refused login', async t => {
	const relay = await startFakeMx(t, {
		extensions: ['AUTH PLAIN'],
		auth: '535 5.7.8 Username and Password not accepted, see https://support.test/mail?p=BadCredentials',
	});
	const dns = await startFakeDns(t, {});
	const cli = await newCli(t, {
		MAILCTL_DELIVERY: 'relay',
		MAILCTL_RELAY_URL: `smtp://user:secret-word@127.0.0.1:${relay.port}?tls=none`,
		MAILCTL_HOSTNAME: 'mail.shop.test',
		MAILCTL_DNS_SERVERS: dns.server,
	});
	await cli.json('workspace', 'create', '--name', 'shop');
	const {stdout} = await cli.run('doctor', '--time-server', 'gone.test');
	const [findings = ''] = stdout.split('\n\n');
	for (const line of findings.split('\n')) {
		t.regex(
			line,
			/^(?: {22}(?: {5})?\S|(?:ok {4}|WARN {2}|FAIL {2})(?:[a-z-]{16}$|(?=.{16}\S)[a-z-]{1,15} +\S)).*$/,
		);
		t.true(line.length <= 80 || !line.slice(22).includes(' '), 'a long word is not broken, to be copied');
	}
	t.regex(findings, /^WARN {2}smarthost-events\n {22}no provider is set up to post its events here$/m);
	t.regex(findings, /\n {22}fix: check user and password in the relay URL\b/);
	t.regex(findings, /\n {27}https:\/\/support\.test\/mail\?p=BadCredentials\n/);
});

test('doctor reports invalid settings like any other command and exits with 78', async t => {
	const cli = await newCli(t, {MAILCTL_DELIVERY: 'pigeon'});
	const {code, stderr, stdout} = await cli.run('doctor');
	t.is(code, 78);
	t.is(stdout, '');
	t.regex(stderr, /^mailctl: MAILCTL_DELIVERY="pigeon"/);
	t.is((await newCli(t).then(other => other.run('doctor', '--time-server', 'a b'))).code, 64);
});

test('doctor shows and checks our own MTA-STS and TLS-RPT records, and notices a changed policy', async t => {
	const files = await temporaryFolder(t);
	const [certFile, keyFile] = [join(files, 'cert.pem'), join(files, 'key.pem')];
	const {cert, key} = issueCertificate(makeCertificate('ca.test'), ['mail.shop.test']);
	writeFileSync(certFile, cert);
	writeFileSync(keyFile, key, {mode: 0o600});
	const dns = await startFakeDns(t, {'mail.shop.test': {a: ['127.0.0.9']}});
	const cli = await newCli(t, {
		...{MAILCTL_DELIVERY: 'mx', MAILCTL_DNS_SERVERS: dns.server, MAILCTL_ALLOW_PRIVATE_MX: 'true'},
		...{MAILCTL_HOSTNAME: 'mail.shop.test', MAILCTL_PUBLIC_URL: 'https://mail.shop.test'},
		...{MAILCTL_RETURN_PATH_DOMAIN: 'bounces.shop.test', MAILCTL_INBOUND_LISTEN: '127.0.0.1:0'},
		...{MAILCTL_INBOUND_TLS_CERT: certFile, MAILCTL_INBOUND_TLS_KEY: keyFile},
	});
	await cli.json('workspace', 'create', '--name', 'shop');
	await cli.json('inbound', 'add', 'support@in.shop.test');
	const check = async () => {
		const {stdout} = await cli.run('doctor', '--json', '--to', 'gone.test', '--time-server', 'gone.test');
		const all = JSON.parse(stdout) as Finding[];
		return all
			.filter(({check}) => check === 'domain')
			.map(({status, detail, fix}) => `${status} ${detail} ${fix}`.trim());
	};
	t.deepEqual(await check(), [
		'warn bounces.shop.test: TXT _mta-sts.bounces.shop.test missing, CNAME mta-sts.bounces.shop.test missing, TXT _smtp._tls.bounces.shop.test missing publish the records that mailctl tls lists',
		'warn in.shop.test: TXT _mta-sts.in.shop.test missing, CNAME mta-sts.in.shop.test missing, TXT _smtp._tls.in.shop.test missing publish the records that mailctl inbound show lists',
	]);
	const text = await cli.text('tls');
	t.regex(text, /\nTXT _mta-sts\.bounces\.shop\.test {2}\(MTA-STS, optional\)\nv=STSv1; id=[\da-f]{24}\n/);
	t.regex(text, /\nTXT _smtp\._tls\.bounces\.shop\.test .*\nv=TLSRPTv1; rua=mailto:tlsrpt@bounces\.shop\.test\n/);
	t.true(text.split('\n').every(line => line.length <= 80));
	type Shown = {readonly records: ReadonlyArray<ToPublish & {readonly state: string}>};
	for (const command of [['tls'], ['inbound', 'show', 'support@in.shop.test']]) {
		publish(dns.zone, (await cli.json<Shown>(...command)).records);
	}
	const fine = (host: string) => `ok ${host}: all 3 records are correct`;
	t.deepEqual(await check(), [fine('bounces.shop.test'), fine('in.shop.test')]);

	dns.zone['_mta-sts.in.shop.test'] = {txt: ['v=STSv1; id=20261127']};
	const {records} = await cli.json<Shown>('inbound', 'show', 'support@in.shop.test');
	t.deepEqual(
		records.map(({state}) => state),
		['different', 'ok', 'ok'],
		'the record is that of the policy before',
	);
	t.regex(
		await cli.text('inbound', 'show', 'support@in.shop.test'),
		/\n {2}different: its id is that of another policy\n {2}found: v=STSv1; id=20261127\nv=STSv1; id=/,
	);
});
