import {createPublicKey, generateKeyPair, type KeyObject} from 'node:crypto';
import {promisify} from 'node:util';

const generate = promisify(generateKeyPair);

/** A domain's new keys as PKCS #8 PEM: RSA-2048 that all verify, Ed25519 for who can (R5.2). */
export async function generateSigningKeys(): Promise<{rsa: string; ed25519: string}> {
	const [rsa, ed25519] = await Promise.all([generate('rsa', {modulusLength: 2048}), generate('ed25519')]);
	return {rsa: pem(rsa.privateKey), ed25519: pem(ed25519.privateKey)};
}

/**
 * The value of the key's TXT record at `<selector>._domainkey.<domain>` (RFC 6376 §3.6.1), whole: publishing splits it
 * into strings of at most 255 octets. Takes the PEM of the private or of the public key.
 * @throws where the PEM is no RSA or Ed25519 key.
 */
export function dkimRecordValue(keyPem: string): string {
	const key = createPublicKey(keyPem);
	const der = key.export({type: 'spki', format: 'der'});
	switch (key.asymmetricKeyType) {
		case 'rsa':
			return `v=DKIM1; k=rsa; p=${der.toString('base64')}`;
		case 'ed25519':
			// RFC 8463 §4: the bare 32 bytes, which end the DER form.
			return `v=DKIM1; k=ed25519; p=${der.subarray(-32).toString('base64')}`;
		default:
			throw new Error('A signing key is RSA or Ed25519.');
	}
}

function pem(key: KeyObject): string {
	return key.export({type: 'pkcs8', format: 'pem'}).toString();
}
