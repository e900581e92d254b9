import {execFile} from 'node:child_process';
import {createPrivateKey, X509Certificate} from 'node:crypto';
import {once} from 'node:events';
import {existsSync, mkdirSync, mkdtempSync, readFileSync, writeFileSync} from 'node:fs';
import {rm} from 'node:fs/promises';
import {createServer as createHttp} from 'node:http';
import type {AddressInfo} from 'node:net';
import {tmpdir} from 'node:os';
import path from 'node:path';
import process from 'node:process';
import {createSecureContext, createServer as createTls} from 'node:tls';
import {promisify} from 'node:util';
import test from 'ava';
import {startAcmeServer} from '../helpers/acme-server.ts';
import {makeRsaCertificate} from '../helpers/certificate.ts';
import {notRunHere} from '../helpers/not-run-here.ts';

const run = promisify(execFile);
const program = '/usr/bin/dehydrated';
const limitMs = 180_000;
const name = 'mail.lab.test';

// Our test CA is correct if third-party clients accept its nonces, signatures, orders, challenges and chains.
for (const proof of ['http-01', 'tls-alpn-01']) {
	test(`Debian’s dehydrated gets a certificate from our test CA (${proof})`, async t => {
		if (!existsSync(program)) {
			return notRunHere(t, 'dehydrated is not installed (scripts/debian-peers.sh)') ?? undefined;
		}
		const folder = mkdtempSync(path.join(tmpdir(), 'mailctl-dehydrated-'));
		t.teardown(() => rm(folder, {recursive: true}));
		const [shown, alpn] = [path.join(folder, 'shown'), path.join(folder, 'alpn')];
		mkdirSync(shown);
		mkdirSync(alpn);
		const web = createHttp(({url = ''}, response) => {
			const file = path.join(shown, path.basename(url));
			response.writeHead(existsSync(file) ? 200 : 404).end(existsSync(file) ? readFileSync(file) : '');
		});
		const tls = createTls({
			// Of the same kind as dehydrated's: Node keeps one of another kind next to it and might present that one.
			...makeRsaCertificate('other.test'),
			ALPNProtocols: ['acme-tls/1'],
			SNICallback(servername, done) {
				const [cert, key] = ['crt', 'key'].map(part =>
					readFileSync(path.join(alpn, `${servername}.${part}.pem`)),
				);
				done(null, createSecureContext({cert: cert as Buffer, key: key as Buffer}));
			},
		});
		const ports: number[] = [];
		for (const server of [web, tls]) {
			server.listen(0, '127.0.0.1');
			await once(server, 'listening');
			t.teardown(() => server.close());
			ports.push((server.address() as AddressInfo).port);
		}
		const ca = await startAcmeServer(t, () => ({host: '127.0.0.1', http: ports[0] ?? 0, tls: ports[1] ?? 0}));
		writeFileSync(path.join(folder, 'ca.pem'), ca.ca);
		const config = path.join(folder, 'config');
		writeFileSync(
			config,
			[
				`CA="${ca.directory}"`,
				`CHALLENGETYPE="${proof}"`,
				'ACCOUNT_KEYSIZE=2048',
				`BASEDIR="${folder}"`,
				`WELLKNOWN="${shown}"`,
				`ALPNCERTDIR="${alpn}"`,
				`CURL_OPTS="--cacert ${folder}/ca.pem"`,
				'CONTACT_EMAIL=admin@lab.test',
				'KEY_ALGO=prime256v1',
				'',
			].join('\n'),
		);
		const dehydrated = (...words: string[]) => run(program, ['--config', config, ...words], {timeout: limitMs});
		await dehydrated('--register', '--accept-terms');
		const said = await dehydrated('--cron', '--domain', name);
		t.regex(said.stdout, /Challenge is valid!/);
		const chain = readFileSync(path.join(folder, 'certs', name, 'fullchain.pem'), 'utf8');
		const key = createPrivateKey(readFileSync(path.join(folder, 'certs', name, 'privkey.pem')));
		const leaf = new X509Certificate(chain);
		t.true(leaf.checkPrivateKey(key));
		t.is(leaf.checkHost(name), name);
		t.true(leaf.verify(new X509Certificate(ca.authority.cert).publicKey));
		t.deepEqual(ca.looks, [`${proof} ${name}`]);
		t.deepEqual(
			ca.orders.map(order => [order.name, order.status]),
			[[name, 'valid']],
		);
		t.deepEqual([...ca.accounts.values()][0]?.contact, ['mailto:admin@lab.test']);
		// Names without an address, an expired nonce (this client requests one each time), and rate limits.
		ca.behaviour.target = () => ({host: '127.0.0.1', http: 1, tls: 1});
		const refused = await t.throwsAsync(dehydrated('--cron', '--force', '--domain', name));
		t.regex(
			String((refused as {stdout?: string} | undefined)?.stdout) + refused?.message,
			/urn:ietf:params:acme:error:connection/,
		);
		ca.behaviour.expiredNonces = 1;
		const expired = await t.throwsAsync(dehydrated('--cron', '--force', '--domain', name));
		t.regex(String(expired?.message), /urn:ietf:params:acme:error:badNonce/);
		ca.behaviour.limited = '60';
		const limited = await t.throwsAsync(dehydrated('--cron', '--force', '--domain', name));
		t.regex(String(limited?.message), /urn:ietf:params:acme:error:rateLimited/);
	});
}

// Only the library is installed: the package with the command has a timer, which would run on the machine.
const certbot = ['-c', 'import sys, certbot.main; sys.exit(certbot.main.main())'];

test('Debian’s certbot gets and renews a certificate from our test CA and understands its errors', async t => {
	if (!existsSync('/usr/lib/python3/dist-packages/certbot/main.py')) {
		return notRunHere(t, 'certbot is not installed (scripts/debian-peers.sh)') ?? undefined;
	}
	const folder = mkdtempSync(path.join(tmpdir(), 'mailctl-certbot-'));
	t.teardown(() => rm(folder, {recursive: true}));
	const shown = path.join(folder, 'shown');
	mkdirSync(shown);
	const web = createHttp(({url = ''}, response) => {
		const file = path.join(shown, url);
		response.writeHead(existsSync(file) ? 200 : 404).end(existsSync(file) ? readFileSync(file) : '');
	});
	web.listen(0, '127.0.0.1');
	await once(web, 'listening');
	t.teardown(() => web.close());
	const target = {host: '127.0.0.1', http: (web.address() as AddressInfo).port, tls: 1};
	const ca = await startAcmeServer(t, () => target);
	const caFile = path.join(folder, 'ca.pem');
	writeFileSync(caFile, ca.ca);
	const folders = ['config', 'work', 'logs'].flatMap(one => [`--${one}-dir`, path.join(folder, one)]);
	const ask = (...words: string[]) =>
		run('/usr/bin/python3', [...certbot, ...words, '--non-interactive', '--server', ca.directory, ...folders], {
			timeout: limitMs,
			env: {PATH: process.env.PATH, REQUESTS_CA_BUNDLE: caFile},
		});
	const order = [
		'certonly',
		'--webroot',
		'--webroot-path',
		shown,
		'--domain',
		name,
		'--agree-tos',
		'--email',
		'admin@lab.test',
	];
	await ask(...order, '--no-eff-email');
	const read = (leaf: string) => readFileSync(path.join(folder, 'config/live', name, leaf));
	const first = new X509Certificate(read('fullchain.pem'));
	t.true(first.checkPrivateKey(createPrivateKey(read('privkey.pem'))));
	t.is(first.checkHost(name), name);
	t.true(first.verify(new X509Certificate(ca.authority.cert).publicKey));
	t.is(ca.accounts.size, 1);
	// It reuses the nonces that it has and recognizes an expired one.
	ca.behaviour.expiredNonces = 1;
	await ask('renew', '--force-renewal', '--no-random-sleep-on-renew');
	t.not(new X509Certificate(read('fullchain.pem')).serialNumber, first.serialNumber);
	t.deepEqual(
		ca.orders.map(({status}) => status),
		['valid', 'valid'],
	);
	t.deepEqual(ca.looks, [`http-01 ${name}`, `http-01 ${name}`]);
	const refused = async () => {
		const error: (Error & {stdout?: string}) | undefined = await t.throwsAsync(ask(...order, '--force-renewal'));
		return `${error?.stdout} ${error?.message}`;
	};
	ca.behaviour.target = () => ({...target, http: 1});
	t.regex(await refused(), /Type: +connection\s+Detail: Fetching the token failed/);
});
