import {createHash, X509Certificate} from 'node:crypto';
import type {TlsaRecord} from '../../src/net/dns.ts';
import type {Certificate} from './certificate.ts';

/** The record that names the first certificate of a chain. */
export function recordOf({cert}: Certificate, usage: number, selector: number, matching: number): TlsaRecord {
	const certificate = new X509Certificate(cert);
	const whole = selector === 0 ? certificate.raw : certificate.publicKey.export({type: 'spki', format: 'der'});
	const digest = ['', 'sha256', 'sha512'][matching] ?? '';
	const data = digest === '' ? whole.toString('hex') : createHash(digest).update(whole).digest('hex');
	return {usage, selector, matching, data};
}
