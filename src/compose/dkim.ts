import {createPrivateKey, createPublicKey, generateKeyPair, hash, type KeyObject, sign} from 'node:crypto';
import {promisify} from 'node:util';
import {relaxedHeader} from '../mail/dkim-canonical.ts';
import type {HeaderField} from './header-field.ts';

type DkimAlgorithm = 'rsa-sha256' | 'ed25519-sha256';

export type SigningKey = {
	/** In A-labels. */
	readonly domain: string;
	readonly selector: string;
	readonly algorithm: DkimAlgorithm;
	readonly key: KeyObject;
};

/**
 * The fields to sign. Each is listed once more than it occurs, so that adding a second `From` or `Subject` breaks the
 * signature (R5.1; RFC 6376 §5.4.2). RFC 8058 §4 requires a signature over both List-Unsubscribe fields.
 */
export const signedFields = [
	'From',
	'To',
	'Cc',
	'Subject',
	'Date',
	'Message-ID',
	'Reply-To',
	'MIME-Version',
	'Content-Type',
	'Content-Transfer-Encoding',
	'In-Reply-To',
	'References',
	'List-Unsubscribe',
	'List-Unsubscribe-Post',
	'List-Id',
	'Feedback-ID',
	'Auto-Submitted',
	'X-Mailctl-Ref',
	'CFBL-Address',
	'CFBL-Feedback-ID',
];

/**
 * Parses a key. Do this only once, because parsing costs more than signing.
 * @throws if the PEM is not a private key of that algorithm.
 */
export function importSigningKey({
	privateKeyPem,
	...signing
}: Omit<SigningKey, 'key'> & {readonly privateKeyPem: string}): SigningKey {
	const {domain, selector, algorithm} = signing;
	const key = createPrivateKey(privateKeyPem);
	if (key.asymmetricKeyType !== (algorithm === 'rsa-sha256' ? 'rsa' : 'ed25519')) {
		throw new Error(`The signing key ${selector} of ${domain} is not a key for ${algorithm}.`);
	}

	return {domain, selector, algorithm, key};
}

/**
 * Returns the DKIM-Signature fields of a message, one per key (RFC 6376, RFC 8463), relaxed/relaxed. `body` is in
 * relaxed form, `now` in milliseconds.
 */
export function dkimSignatures(
	fields: readonly HeaderField[],
	body: Uint8Array,
	keys: readonly SigningKey[],
	now: number,
): HeaderField[] {
	if (keys.length === 0) {
		return [];
	}

	const bodyHash = hash('sha256', body, 'base64');
	const {tagLines, signedText} = signedHeader(fields);
	const time = Math.floor(now / 1000);
	const signatures: HeaderField[] = [];
	for (const key of keys) {
		const unsigned = [
			`DKIM-Signature: v=1; a=${key.algorithm}; c=relaxed/relaxed; d=${key.domain};`,
			` s=${key.selector}; t=${time}; i=@${key.domain};`,
			...tagLines,
			` bh=${bodyHash};`,
			' b=',
		].join('\r\n');
		const signature = signatureOf(key, signedText + relaxedHeader(unsigned).slice(0, -2));
		signatures.push({name: 'DKIM-Signature', line: unsigned + foldSignature(signature)});
	}
	return signatures;
}

const signatureLineLength = 72;

function foldSignature(signature: string): string {
	let lines = signature.slice(0, signatureLineLength);
	for (let at = signatureLineLength; at < signature.length; at += signatureLineLength) {
		lines += `\r\n ${signature.slice(at, at + signatureLineLength)}`;
	}
	return lines;
}

/** Signs the input of RFC 6376 §3.7: the header fields and the signature's own, with empty `b=`. Returns base64. */
export function signatureOf({algorithm, key}: Pick<SigningKey, 'algorithm' | 'key'>, header: string): string {
	const data = Buffer.from(header, 'utf8');
	// RFC 8463 §3: Ed25519 signs the SHA-256 of the data, not the data.
	const signature =
		algorithm === 'rsa-sha256' ? sign('sha256', data, key) : sign(null, hash('sha256', data, 'buffer'), key);
	return signature.toString('base64');
}

// Returns the lines of the h= tag and the text it covers. Of repeated fields, the last comes first (RFC 6376 §5.4.2).
function signedHeader(fields: readonly HeaderField[]): {tagLines: string[]; signedText: string} {
	const tagLines: string[] = [];
	let line = ' h=';
	let signedText = '';
	for (const name of signedFields) {
		const present = fields.filter(field => field.name === name);
		for (const field of present.toReversed()) {
			signedText += relaxedHeader(field.line);
		}
		for (let count = 0; count <= present.length; count++) {
			if (line.length + name.length > 74) {
				tagLines.push(line);
				line = ' ';
			}
			line += `${name}:`;
		}
	}
	return {tagLines: [...tagLines, `${line.slice(0, -1)};`], signedText};
}

const generateKey = promisify(generateKeyPair);

/** Generates a domain's keys as PKCS #8 PEM: RSA-2048 for all receivers, Ed25519 for those that support it (R5.2). */
export async function generateSigningKeys(): Promise<{rsa: string; ed25519: string}> {
	const [rsa, ed25519] = await Promise.all([generateKey('rsa', {modulusLength: 2048}), generateKey('ed25519')]);
	return {rsa: toPem(rsa.privateKey), ed25519: toPem(ed25519.privateKey)};
}

/**
 * Returns the value of the key's TXT record at `<selector>._domainkey.<domain>` (RFC 6376 §3.6.1) in one piece.
 * Publishing splits it into strings of at most 255 octets. Accepts the PEM of the private or public key.
 * @throws if the PEM is not an RSA or Ed25519 key.
 */
export function dkimRecordValue(keyPem: string): string {
	const key = createPublicKey(keyPem);
	const der = key.export({type: 'spki', format: 'der'});
	switch (key.asymmetricKeyType) {
		case 'rsa':
			return `v=DKIM1; k=rsa; p=${der.toString('base64')}`;
		case 'ed25519':
			// RFC 8463 §4: the bare 32 bytes, which are at the end of the DER form.
			return `v=DKIM1; k=ed25519; p=${der.subarray(-32).toString('base64')}`;
		default:
			throw new Error('A signing key must be RSA or Ed25519.');
	}
}

function toPem(key: KeyObject): string {
	return key.export({type: 'pkcs8', format: 'pem'}).toString();
}
