import {
	createHash,
	createPrivateKey,
	createPublicKey,
	generateKeyPairSync,
	type KeyObject,
	sign,
	X509Certificate,
} from 'node:crypto';
import {storeTime} from '../kit/time.ts';

/** What a TLS server shows: PEM. */
export type KeyPair = {readonly cert: string; readonly key: string};

const [integerTag, bitsTag, octetsTag, oidTag, sequenceTag, setTag] = [2, 3, 4, 6, 0x30, 0x31];

/** An element of DER (X.690 §8.1) with a tag of one octet. */
function der(tag: number, ...parts: readonly Uint8Array[]): Buffer {
	const content = Buffer.concat(parts);
	const {length} = content;
	const long = length < 0x100 ? [0x81, length] : [0x82, length >> 8, length & 0xff];
	return Buffer.concat([Buffer.from([tag, ...(length < 0x80 ? [length] : long)]), content]);
}

const sequence = (...parts: readonly Uint8Array[]): Buffer => der(sequenceTag, ...parts);

/** An object identifier of its numbers between dots. */
function oid(text: string): Buffer {
	const [first = 0, second = 0, ...rest] = text.split('.').map(Number);
	const octets = [first * 40 + second, ...rest].flatMap(number => {
		const groups = [number & 0x7f];
		for (let left = number >> 7; left > 0; left >>= 7) {
			groups.unshift((left & 0x7f) | 0x80);
		}
		return groups;
	});
	return der(oidTag, Buffer.from(octets));
}

const ecdsaWithSha256 = sequence(oid('1.2.840.10045.4.3.2'));
const maxChainLength = 64 * 1024;
const maxInChain = 10;
const maxIssuerLength = 200;

/** ECDSA on P-256, which every client of TLS 1.2 knows. */
export function newKey(): KeyObject {
	return generateKeyPairSync('ec', {namedCurve: 'prime256v1'}).privateKey;
}

export const pemOf = (key: KeyObject): string => key.export({type: 'pkcs8', format: 'pem'}) as string;

const publicInfo = (key: KeyObject): Buffer => createPublicKey(key).export({type: 'spki', format: 'der'});

/** The content, how it is signed, and the signature. */
const signed = (content: Buffer, key: KeyObject): Buffer =>
	sequence(content, ecdsaWithSha256, der(bitsTag, Buffer.from([0]), sign('sha256', content, key)));

/** `subjectAltName` with one name (RFC 5280 §4.2.1.6). */
const alternativeName = (name: string): Buffer =>
	sequence(oid('2.5.29.17'), der(octetsTag, sequence(der(0x82, Buffer.from(name, 'latin1')))));

/** A request for a certificate of one name (RFC 2986), DER. It has no subject: CAs go by the alternative name. */
export function certificateRequest(key: KeyObject, name: string): Buffer {
	const extensions = sequence(oid('1.2.840.113549.1.9.14'), der(setTag, sequence(alternativeName(name))));
	const version = der(integerTag, Buffer.from([0]));
	return signed(sequence(version, sequence(), publicInfo(key), der(0xa0, extensions)), key);
}

/** The certificate by which a handshake for `acme-tls/1` proves a name (RFC 8737 §3). */
export function challengeCertificate(name: string, keyAuthorization: string): KeyPair {
	const key = newKey();
	const digest = createHash('sha256').update(keyAuthorization).digest();
	const proof = sequence(
		oid('1.3.6.1.5.5.7.1.31'),
		der(1, Buffer.from([0xff])),
		der(octetsTag, der(octetsTag, digest)),
	);
	const subject = sequence(der(setTag, sequence(oid('2.5.4.3'), der(0x0c, Buffer.from('ACME challenge')))));
	const always = sequence(der(0x17, Buffer.from('200101000000Z')), der(0x17, Buffer.from('491231235959Z')));
	const content = sequence(
		der(0xa0, der(integerTag, Buffer.from([2]))),
		der(integerTag, Buffer.from([1])),
		ecdsaWithSha256,
		subject,
		always,
		subject,
		publicInfo(key),
		der(0xa3, sequence(alternativeName(name), proof)),
	);
	// OpenSSL takes no empty line, which a line break after each 64th would leave.
	const lines = signed(content, key)
		.toString('base64')
		.replace(/.{64}(?=.)/g, '$&\n');
	return {cert: `-----BEGIN CERTIFICATE-----\n${lines}\n-----END CERTIFICATE-----\n`, key: pemOf(key)};
}

/** What we keep of a chain that a CA gave. */
export type Issued = {
	readonly chain: string;
	readonly not_before: string;
	readonly not_after: string;
	readonly issuer: string;
};

/** Reads a chain that was asked for with a key and for a name. A text: why it cannot be used, a clause. */
export function readChain(text: string, key: KeyObject, name: string, now: number): Issued | string {
	const blocks =
		text.length > maxChainLength
			? []
			: (text.match(/-----BEGIN CERTIFICATE-----[^-]*-----END CERTIFICATE-----/g) ?? []);
	if (blocks.length === 0 || blocks.length > maxInChain) {
		return 'the CA gave no chain of certificates';
	}
	try {
		const [leaf] = blocks.map(block => new X509Certificate(block)) as [X509Certificate];
		const [from, until] = [Date.parse(leaf.validFrom), Date.parse(leaf.validTo)];
		if (!leaf.checkPrivateKey(key)) {
			return 'the certificate of the CA has another key than was asked for';
		}
		const isFor = leaf.checkHost(name, {subject: 'never'}) !== undefined;
		// A damaged name leaves an error with OpenSSL that the next call, of whatever, would report: parsing clears it.
		void new X509Certificate(leaf.raw);
		if (!isFor) {
			return `the certificate of the CA is not for ${name}`;
		}
		if (Number.isNaN(from) || !(until > now)) {
			return 'the certificate of the CA has ended already';
		}
		const issuer = /^CN=(.*)$/m.exec(leaf.issuer)?.[1] ?? leaf.issuer.replaceAll('\n', ', ');
		return {
			chain: `${blocks.join('\n')}\n`,
			not_before: storeTime(from),
			not_after: storeTime(until),
			issuer: issuer.replace(/[^\p{L}\p{M}\p{N}\p{P}\p{Zs}\p{S}]/gu, '?').slice(0, maxIssuerLength),
		};
	} catch {
		return 'the CA gave a certificate that cannot be read';
	}
}

/** By what a CA knows a certificate when it is asked for renewal (RFC 9773 §4.1); null: it names no key of its CA. */
export function renewalId(chain: string): string | null {
	const leaf = new X509Certificate(chain);
	const serial = Buffer.from(leaf.serialNumber, 'hex');
	const keyId = authorityKeyId(leaf.raw);
	const padded = (serial[0] ?? 0) < 0x80 ? serial : Buffer.concat([Buffer.from([0]), serial]);
	return keyId && `${keyId.toString('base64url')}.${padded.toString('base64url')}`;
}

/**
 * `keyIdentifier` of the authority key identifier (RFC 5280 §4.2.1.1) of a certificate, DER; null: it has none in its
 * usual form.
 */
export function authorityKeyId(certificate: Buffer): Buffer | null {
	const value = certificate.indexOf(Buffer.from('0603551d2304', 'hex')) + 6;
	// OCTET STRING { SEQUENCE { [0] keyIdentifier
	const [, sequenceOf, , tag, length = 0] = certificate.subarray(value);
	const isThere = value > 5 && sequenceOf === sequenceTag && tag === 0x80 && length < 0x80;
	const id = certificate.subarray(value + 5, value + 5 + length);
	return isThere && id.length === length ? id : null;
}

/** The key of a PEM that we wrote. */
export const keyOf = (pem: string): KeyObject => createPrivateKey(pem);
