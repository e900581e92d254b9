import {
	createHash,
	createPrivateKey,
	createPublicKey,
	generateKeyPairSync,
	type KeyObject,
	sign,
	X509Certificate,
} from 'node:crypto';
import {storeTime} from '../../kit/time.ts';

/** The certificate chain and key of a TLS server, in PEM. */
export type KeyPair = {readonly cert: string; readonly key: string};

const [integerTag, bitsTag, octetsTag, oidTag, sequenceTag, setTag] = [2, 3, 4, 6, 0x30, 0x31];

/** Encodes a DER element (X.690 §8.1) with a one-octet tag. */
function der(tag: number, ...parts: readonly Uint8Array[]): Buffer {
	const content = Buffer.concat(parts);
	const {length} = content;
	const longForm = length < 0x100 ? [0x81, length] : [0x82, length >> 8, length & 0xff];
	return Buffer.concat([Buffer.from([tag, ...(length < 0x80 ? [length] : longForm)]), content]);
}

const sequence = (...parts: readonly Uint8Array[]): Buffer => der(sequenceTag, ...parts);

/** Encodes an object identifier in dotted notation. */
function oid(text: string): Buffer {
	const [first = 0, second = 0, ...rest] = text.split('.').map(Number);
	const octets = [first * 40 + second, ...rest].flatMap(number => {
		const groups = [number & 0x7f];
		for (let high = number >> 7; high > 0; high >>= 7) {
			groups.unshift((high & 0x7f) | 0x80);
		}
		return groups;
	});
	return der(oidTag, Buffer.from(octets));
}

const ecdsaWithSha256 = sequence(oid('1.2.840.10045.4.3.2'));
const maxChainLength = 64 * 1024;
const maxInChain = 10;
const maxIssuerLength = 200;

/** Creates an ECDSA key on P-256, which every TLS 1.2 client supports. */
export function newKey(): KeyObject {
	return generateKeyPairSync('ec', {namedCurve: 'prime256v1'}).privateKey;
}

export const pemOf = (key: KeyObject): string => key.export({type: 'pkcs8', format: 'pem'}) as string;

const publicInfo = (key: KeyObject): Buffer => createPublicKey(key).export({type: 'spki', format: 'der'});

/** Encodes content with the signature algorithm and the signature. */
const signed = (content: Buffer, key: KeyObject): Buffer =>
	sequence(content, ecdsaWithSha256, der(bitsTag, Buffer.from([0]), sign('sha256', content, key)));

/** Encodes a `subjectAltName` with one name (RFC 5280 §4.2.1.6). */
const alternativeName = (name: string): Buffer =>
	sequence(oid('2.5.29.17'), der(octetsTag, sequence(der(0x82, Buffer.from(name, 'latin1')))));

/**
 * Creates a certificate request for one name (RFC 2986), in DER. CAs use the alternative name, so it has no subject.
 */
export function certificateRequest(key: KeyObject, name: string): Buffer {
	const extensions = sequence(oid('1.2.840.113549.1.9.14'), der(setTag, sequence(alternativeName(name))));
	const version = der(integerTag, Buffer.from([0]));
	return signed(sequence(version, sequence(), publicInfo(key), der(0xa0, extensions)), key);
}

/** Creates the certificate that proves a name in an `acme-tls/1` handshake (RFC 8737 §3). */
export function challengeCertificate(name: string, keyAuthorization: string): KeyPair {
	const key = newKey();
	const digest = createHash('sha256').update(keyAuthorization).digest();
	const proof = sequence(
		oid('1.3.6.1.5.5.7.1.31'),
		der(1, Buffer.from([0xff])),
		der(octetsTag, der(octetsTag, digest)),
	);
	const subject = sequence(der(setTag, sequence(oid('2.5.4.3'), der(0x0c, Buffer.from('ACME challenge')))));
	const validity = sequence(der(0x17, Buffer.from('200101000000Z')), der(0x17, Buffer.from('491231235959Z')));
	const content = sequence(
		der(0xa0, der(integerTag, Buffer.from([2]))),
		der(integerTag, Buffer.from([1])),
		ecdsaWithSha256,
		subject,
		validity,
		subject,
		publicInfo(key),
		der(0xa3, sequence(alternativeName(name), proof)),
	);
	// No line break after the last character, because OpenSSL does not accept empty lines.
	const lines = signed(content, key)
		.toString('base64')
		.replace(/.{64}(?=.)/g, '$&\n');
	return {cert: `-----BEGIN CERTIFICATE-----\n${lines}\n-----END CERTIFICATE-----\n`, key: pemOf(key)};
}

/** The stored data of an issued certificate chain. */
export type Issued = {
	readonly chain: string;
	readonly not_before: string;
	readonly not_after: string;
	readonly issuer: string;
};

/** Reads a chain that was ordered for a key and a name. Returns the problem as a clause if it cannot be used. */
export function readChain(text: string, key: KeyObject, name: string, now: number): Issued | string {
	const blocks =
		text.length > maxChainLength
			? []
			: (text.match(/-----BEGIN CERTIFICATE-----[^-]*-----END CERTIFICATE-----/g) ?? []);
	if (blocks.length === 0 || blocks.length > maxInChain) {
		return 'the CA returned no certificate chain';
	}
	try {
		const [leaf] = blocks.map(block => new X509Certificate(block)) as [X509Certificate];
		const [from, until] = [Date.parse(leaf.validFrom), Date.parse(leaf.validTo)];
		if (!leaf.checkPrivateKey(key)) {
			return 'the certificate from the CA has a different key than requested';
		}
		const isForName = leaf.checkHost(name, {subject: 'never'}) !== undefined;
		// A malformed name leaves an error in OpenSSL's queue that an unrelated later call would report. Parsing clears
		// it.
		void new X509Certificate(leaf.raw);
		if (!isForName) {
			return `the certificate from the CA is not for ${name}`;
		}
		if (Number.isNaN(from) || !(until > now)) {
			return 'the certificate from the CA has already expired';
		}
		const issuer = /^CN=(.*)$/m.exec(leaf.issuer)?.[1] ?? leaf.issuer.replaceAll('\n', ', ');
		return {
			chain: `${blocks.join('\n')}\n`,
			not_before: storeTime(from),
			not_after: storeTime(until),
			issuer: issuer.replace(/[^\p{L}\p{M}\p{N}\p{P}\p{Zs}\p{S}]/gu, '?').slice(0, maxIssuerLength),
		};
	} catch {
		return 'the CA returned an invalid certificate';
	}
}

/** Returns the CA's identifier of a certificate (RFC 9773 §4.1), or `null` if it has no authority key identifier. */
export function renewalId(chain: string): string | null {
	const leaf = new X509Certificate(chain);
	const serial = Buffer.from(leaf.serialNumber, 'hex');
	const keyId = authorityKeyId(leaf.raw);
	const padded = (serial[0] ?? 0) < 0x80 ? serial : Buffer.concat([Buffer.from([0]), serial]);
	return keyId && `${keyId.toString('base64url')}.${padded.toString('base64url')}`;
}

/**
 * Returns the `keyIdentifier` of a DER certificate's authority key identifier (RFC 5280 §4.2.1.1), or `null` if it has
 * none in the usual form.
 */
export function authorityKeyId(certificate: Buffer): Buffer | null {
	const value = certificate.indexOf(Buffer.from('0603551d2304', 'hex')) + 6;
	// OCTET STRING { SEQUENCE { [0] keyIdentifier
	const [, sequenceByte, , tag, length = 0] = certificate.subarray(value);
	const isPresent = value > 5 && sequenceByte === sequenceTag && tag === 0x80 && length < 0x80;
	const id = certificate.subarray(value + 5, value + 5 + length);
	return isPresent && id.length === length ? id : null;
}

/** Parses a key from a PEM that `pemOf` wrote. */
export const keyOf = (pem: string): KeyObject => createPrivateKey(pem);
