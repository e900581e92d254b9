import {X509Certificate} from 'node:crypto';
import {once} from 'node:events';
import type {AddressInfo} from 'node:net';
import {connect, createServer} from 'node:tls';
import test, {type ExecutionContext} from 'ava';
import {isUsable, tlsaFailure} from '../../src/deliver/host.ts';
import {type Certificate, issueCertificate, makeCertificate} from '../helpers/certificate.ts';
import {recordOf} from '../helpers/tlsa-record.ts';

const names = ['mx.example.test', 'example.test'];
const root = makeCertificate('root');
const middle = issueCertificate(root, ['middle'], {isAuthority: true});
const leaf = issueCertificate(middle, ['mx.example.test']);
const stranger = makeCertificate('stranger');
/** Certificates that the tests make are valid by then. */
const now = Date.now() + 60_000;

/** The certificate that a server shows, with what it sends along. */
async function shown(t: ExecutionContext, certificate: Certificate): Promise<X509Certificate> {
	const server = createServer(certificate, socket => socket.on('error', () => undefined));
	server.listen(0, '127.0.0.1');
	await once(server, 'listening');
	const {port} = server.address() as AddressInfo;
	const socket = connect({port, host: '127.0.0.1', rejectUnauthorized: false});
	t.teardown(() => {
		socket.destroy();
		server.close();
	});
	await once(socket, 'secureConnect');
	return socket.getPeerX509Certificate() as X509Certificate;
}

test('each way to name the certificate itself, whatever name it bears and however old it is', async t => {
	const odd = issueCertificate(root, ['elsewhere.test'], {days: -1});
	const certificate = await shown(t, odd);
	for (const selector of [0, 1]) {
		for (const matching of [0, 1, 2]) {
			const record = recordOf(odd, 3, selector, matching);
			t.true(isUsable(record));
			t.is(tlsaFailure(certificate, [recordOf(stranger, 3, 1, 1), record], names, now), null);
			t.is(tlsaFailure(certificate, [recordOf(stranger, 3, selector, matching)], names, now), 'tlsa-invalid');
		}
	}
});

test('an anchor that the chain leads to, by each way to name it', async t => {
	const certificate = await shown(t, leaf);
	for (const anchor of [middle, root]) {
		for (const selector of [0, 1]) {
			for (const matching of [0, 1, 2]) {
				t.is(tlsaFailure(certificate, [recordOf(anchor, 2, selector, matching)], names, now), null);
			}
		}
	}

	t.is(tlsaFailure(certificate, [recordOf(stranger, 2, 0, 1)], names, now), 'tlsa-invalid');
	t.is(tlsaFailure(certificate, [recordOf(leaf, 2, 0, 1)], names, now), 'tlsa-invalid', 'the leaf is no anchor');
});

test('an anchor vouches only for what is signed: certificates that were only sent along prove nothing', async t => {
	const forged = {key: stranger.key, cert: stranger.cert + root.cert};
	t.is(tlsaFailure(await shown(t, forged), [recordOf(root, 2, 0, 1)], names, now), 'tlsa-invalid');
	const sameName = makeCertificate('middle');
	const byOther = issueCertificate(sameName, ['mx.example.test']);
	const posing = {key: byOther.key, cert: new X509Certificate(byOther.cert).toString() + middle.cert};
	t.is(tlsaFailure(await shown(t, posing), [recordOf(middle, 2, 0, 1)], names, now), 'tlsa-invalid');
	// A certificate of an ordinary host is no authority.
	const byLeaf = issueCertificate(leaf, ['mx.example.test']);
	t.is(tlsaFailure(await shown(t, byLeaf), [recordOf(root, 2, 0, 1)], names, now), 'tlsa-invalid');
});

test('a chain in the wrong order is put right', async t => {
	const [first, second, third] = leaf.cert.match(/-----BEGIN[\s\S]*?-----END CERTIFICATE-----\n/g) ?? [];
	const shuffled = {key: leaf.key, cert: `${first}${third}${second}`};
	t.is(tlsaFailure(await shown(t, shuffled), [recordOf(root, 2, 1, 1)], names, now), null);
});

test('under an anchor name and dates count', async t => {
	const record = recordOf(root, 2, 1, 1);
	const elsewhere = await shown(t, issueCertificate(root, ['elsewhere.test']));
	t.is(tlsaFailure(elsewhere, [record], names, now), 'certificate-host-mismatch');
	t.is(tlsaFailure(elsewhere, [record], ['elsewhere.test'], now), null);
	const old = await shown(t, issueCertificate(root, ['mx.example.test'], {days: -1}));
	t.is(tlsaFailure(old, [record], names, now), 'certificate-expired');
	const wild = await shown(t, issueCertificate(root, ['*.example.test']));
	t.is(tlsaFailure(wild, [record], ['mx.example.test'], now), null);
});

test('records that mail servers are not judged by', t => {
	const good = recordOf(leaf, 3, 1, 1);
	for (const wrong of [
		{usage: 0},
		{usage: 1},
		{usage: 4},
		{selector: 2},
		{matching: 3},
		{data: 'abcd'},
		{data: ''},
	]) {
		t.false(isUsable({...good, ...wrong}), JSON.stringify(wrong));
	}

	t.false(isUsable({...good, matching: 0, data: ''}));
	t.false(isUsable({...good, matching: 2}));
});
