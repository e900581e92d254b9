import {execFileSync} from 'node:child_process';
import {X509Certificate} from 'node:crypto';
import {createSecureContext} from 'node:tls';
import test from 'ava';
import fc from 'fast-check';
import {
	authorityKeyId,
	certificateRequest,
	challengeCertificate,
	keyOf,
	newKey,
	pemOf,
	readChain,
	renewalId,
} from '../../../src/resources/certificates/x509.ts';
import {issueCertificate, makeCertificate} from '../../helpers/certificate.ts';

const openssl = (input: Buffer | string, ...options: string[]) =>
	execFileSync('openssl', options, {input, stdio: ['pipe', 'pipe', 'pipe']}).toString();
const now = Date.now();

test('OpenSSL verifies a request for one name', t => {
	const key = newKey();
	const request = certificateRequest(key, 'mail.shop.example');
	const text = openssl(request, 'req', '-inform', 'DER', '-noout', '-text', '-verify');
	t.regex(text, /DNS:mail\.shop\.example\n/);
	t.regex(text, /prime256v1/);
	t.regex(text, /Subject: *\n/);
	t.true(keyOf(pemOf(key)).equals(key));
});

test('a challenge certificate contains the proof and a name of any length', t => {
	for (const name of ['mail.shop.example', `${'a'.repeat(60)}.${'b'.repeat(60)}.${'c'.repeat(60)}.example`]) {
		const {cert, key} = challengeCertificate(name, 'token.thumbprint');
		const text = openssl(cert, 'x509', '-noout', '-text');
		t.regex(text, /1\.3\.6\.1\.5\.5\.7\.1\.31: critical/);
		const parsed = new X509Certificate(cert);
		t.is(parsed.subjectAltName, `DNS:${name}`);
		t.true(parsed.checkPrivateKey(keyOf(key)));
		t.true(parsed.verify(parsed.publicKey));
		// SHA-256 of "token.thumbprint" in a nested octet string (RFC 8737 §3).
		const digest = execFileSync('openssl', ['dgst', '-sha256', '-binary'], {input: 'token.thumbprint'});
		t.true(parsed.raw.includes(Buffer.concat([Buffer.from([4, 34, 4, 32]), digest])));
	}
});

test('a server can present a challenge certificate for a name of any length', t => {
	for (let length = 1; length <= 60; length++) {
		// Signatures vary in length too.
		for (let n = 0; n < 3; n++) {
			const name = `${'a'.repeat(length)}.example`;
			t.notThrows(() => createSecureContext(challengeCertificate(name, 'token.thumbprint')), name);
		}
	}
});

test('accepts a chain only for its own key, name and time', t => {
	const authority = makeCertificate('A lab');
	const {key, cert} = issueCertificate(authority, ['mail.shop.example']);
	const own = keyOf(key);
	const read = readChain(cert, own, 'mail.shop.example', now);
	if (typeof read === 'string') {
		return t.fail(read);
	}
	t.is(read.issuer, 'A lab');
	t.is(read.chain.match(/BEGIN/g)?.length, 2);
	t.true(Date.parse(read.not_before) <= Date.now() && Date.parse(read.not_after) > now);
	t.is(
		readChain(cert, newKey(), 'mail.shop.example', now),
		'the certificate from the CA has a different key than requested',
	);
	t.is(readChain(cert, own, 'other.example', now), 'the certificate from the CA is not for other.example');
	t.is(
		readChain(cert, own, 'mail.shop.example', now + 3 * 86_400_000),
		'the certificate from the CA has already expired',
	);
	t.is(readChain('', own, 'mail.shop.example', now), 'the CA returned no certificate chain');
	t.is(readChain(cert.repeat(40), own, 'mail.shop.example', now), 'the CA returned no certificate chain');
	const broken = cert.replace(/\n[^\n]{64}\n/, '\nAAAA\n');
	t.is(readChain(broken, own, 'mail.shop.example', now), 'the CA returned an invalid certificate');
});

test('the renewal ID matches RFC 9773, appendix A', t => {
	// The example certificate of the RFC.
	const chain = `-----BEGIN CERTIFICATE-----
MIIBQzCB66ADAgECAgUAh2VDITAKBggqhkjOPQQDAjAVMRMwEQYDVQQDEwpFeGFt
cGxlIENBMCIYDzAwMDEwMTAxMDAwMDAwWhgPMDAwMTAxMDEwMDAwMDBaMBYxFDAS
BgNVBAMTC2V4YW1wbGUuY29tMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEeBZu
7cbpAYNXZLbbh8rNIzuOoqOOtmxA1v7cRm//AwyMwWxyHz4zfwmBhcSrf47NUAFf
qzLQ2PPQxdTXREYEnKMjMCEwHwYDVR0jBBgwFoAUaYhba4dGQEHhs3uEe6CuLN4B
yNQwCgYIKoZIzj0EAwIDRwAwRAIge09+S5TZAlw5tgtiVvuERV6cT4mfutXIlwTb
+FYN/8oCIClDsqBklhB9KAelFiYt9+6FDj3z4KGVelYM5MdsO3pK
-----END CERTIFICATE-----
`;
	t.is(renewalId(chain), 'aYhba4dGQEHhs3uEe6CuLN4ByNQ.AIdlQyE');
});

test('finding the key ID of a CA never throws, whatever the bytes', t => {
	const id = fc.uint8Array({maxLength: 40});
	const mark = fc.constantFrom(Buffer.from('0603551d2304', 'hex'), Buffer.from('0603551d230416301480', 'hex'));
	fc.assert(
		fc.property(id, mark, id, (before, found, after) => {
			const bytes = Buffer.concat([before, found, after]);
			const read = authorityKeyId(bytes);
			t.true(read === null || bytes.includes(read));
		}),
	);
});

test('reads or refuses a certificate with any octet changed', t => {
	const {key, cert} = issueCertificate(makeCertificate('A lab'), ['mail.shop.example']);
	const {raw} = new X509Certificate(cert);
	fc.assert(
		fc.property(fc.nat(raw.length - 1), fc.nat(255), (at, octet) => {
			const changed = Buffer.from(raw);
			changed[at] = octet;
			const pem = `-----BEGIN CERTIFICATE-----\n${changed.toString('base64')}\n-----END CERTIFICATE-----\n`;
			t.notThrows(() => readChain(pem, keyOf(key), 'mail.shop.example', now));
			t.notThrows(() => authorityKeyId(changed));
		}),
		{numRuns: 2000},
	);
});
