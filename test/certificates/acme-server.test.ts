import {execFile} from 'node:child_process';
import {createPrivateKey, X509Certificate} from 'node:crypto';
import {once} from 'node:events';
import {existsSync, mkdirSync, mkdtempSync, readFileSync, writeFileSync} from 'node:fs';
import {rm} from 'node:fs/promises';
import {createServer as createHttp} from 'node:http';
import type {AddressInfo} from 'node:net';
import {tmpdir} from 'node:os';
import path from 'node:path';
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

// The CA of our tests is right if a client of others takes it for one: nonces, signatures, orders, proofs, chains.
for (const proof of ['http-01', 'tls-alpn-01']) {
	test(`dehydrated of Debian gets a certificate from the CA of the tests (${proof})`, async t => {
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
			// Of the same kind as dehydrated's: Node keeps it beside that of another kind, and may show it.
			...makeRsaCertificate('other.test'),
			ALPNProtocols: ['acme-tls/1'],
			SNICallback(servername, done) {
				const [cert, key] = ['crt', 'key'].map(part => readFileSync(path.join(alpn, `${servername}.${part}.pem`)));
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
		// Names that lead nowhere, a nonce that expired (this client asks for one each time), and limits.
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
