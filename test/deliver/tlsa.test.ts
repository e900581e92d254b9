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
/** By then, the certificates that the tests create are valid. */
const now = Date.now() + 60_000;

/** The certificate that a server presents, with its chain. */
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

test('matches the certificate itself by every selector and matching type, whatever its name and age', async t => {
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

test('matches an anchor in the chain by every selector and matching type', async t => {
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

test('checks the signatures up to the anchor: certificates that are merely sent along do not count', async t => {
	const forged = {key: stranger.key, cert: stranger.cert + root.cert};
	t.is(tlsaFailure(await shown(t, forged), [recordOf(root, 2, 0, 1)], names, now), 'tlsa-invalid');
	const sameName = makeCertificate('middle');
	const byOther = issueCertificate(sameName, ['mx.example.test']);
	const posing = {key: byOther.key, cert: new X509Certificate(byOther.cert).toString() + middle.cert};
	t.is(tlsaFailure(await shown(t, posing), [recordOf(middle, 2, 0, 1)], names, now), 'tlsa-invalid');
	// A certificate that is not a CA cannot issue others.
	const byLeaf = issueCertificate(leaf, ['mx.example.test']);
	t.is(tlsaFailure(await shown(t, byLeaf), [recordOf(root, 2, 0, 1)], names, now), 'tlsa-invalid');
});

test('accepts a chain in the wrong order', async t => {
	const [first, second, third] = leaf.cert.match(/-----BEGIN[\s\S]*?-----END CERTIFICATE-----\n/g) ?? [];
	const shuffled = {key: leaf.key, cert: `${first}${third}${second}`};
	t.is(tlsaFailure(await shown(t, shuffled), [recordOf(root, 2, 1, 1)], names, now), null);
});

test('checks name and dates of a certificate under an anchor', async t => {
	const record = recordOf(root, 2, 1, 1);
	const elsewhere = await shown(t, issueCertificate(root, ['elsewhere.test']));
	t.is(tlsaFailure(elsewhere, [record], names, now), 'certificate-host-mismatch');
	t.is(tlsaFailure(elsewhere, [record], ['elsewhere.test'], now), null);
	const old = await shown(t, issueCertificate(root, ['mx.example.test'], {days: -1}));
	t.is(tlsaFailure(old, [record], names, now), 'certificate-expired');
	const wild = await shown(t, issueCertificate(root, ['*.example.test']));
	t.is(tlsaFailure(wild, [record], ['mx.example.test'], now), null);
});

test('ignores unusable records', t => {
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
