import type {SmtpReply} from '../mail/smtp-reply.ts';
import {type TlsFailure, withoutAdvice} from '../mail/tls-result.ts';

const certificateFailures: Readonly<Record<string, TlsFailure>> = {
	ERR_TLS_CERT_ALTNAME_INVALID: 'certificate-host-mismatch',
	ERR_TLS_CERT_ALTNAME_FORMAT: 'certificate-host-mismatch',
	CERT_HAS_EXPIRED: 'certificate-expired',
	CERT_NOT_YET_VALID: 'certificate-expired',
	UNABLE_TO_GET_ISSUER_CERT: 'certificate-not-trusted',
	UNABLE_TO_GET_ISSUER_CERT_LOCALLY: 'certificate-not-trusted',
	UNABLE_TO_VERIFY_LEAF_SIGNATURE: 'certificate-not-trusted',
	DEPTH_ZERO_SELF_SIGNED_CERT: 'certificate-not-trusted',
	SELF_SIGNED_CERT_IN_CHAIN: 'certificate-not-trusted',
	CERT_CHAIN_TOO_LONG: 'certificate-not-trusted',
	CERT_SIGNATURE_FAILURE: 'certificate-not-trusted',
	CERT_UNTRUSTED: 'certificate-not-trusted',
	CERT_REJECTED: 'certificate-not-trusted',
	CERT_REVOKED: 'certificate-not-trusted',
	INVALID_CA: 'certificate-not-trusted',
	INVALID_PURPOSE: 'certificate-not-trusted',
	PATH_LENGTH_EXCEEDED: 'certificate-not-trusted',
};

/** The TLS failure for a code of Node or OpenSSL; an unknown code is a handshake failure. */
export function tlsFailureOf(code: string | undefined): TlsFailure {
	return certificateFailures[code ?? ''] ?? 'validation-failure';
}

/** What an error of a socket says, for people: OpenSSL's own line is of numbers and source files. */
export function wordsOf(error: NodeJS.ErrnoException & {readonly reason?: unknown}): string {
	const {code = '', message, reason} = error;
	return code.startsWith('ERR_SSL_') && typeof reason === 'string' ? `TLS: ${reason}` : withoutAdvice(message);
}

/** The same for people; `words` are those of the library, and stand where the certificate is not to blame. */
export function certificateFault(failure: TlsFailure, host: string, words: string): string {
	switch (failure) {
		case 'certificate-host-mismatch':
			return `the certificate is not for ${host}`;
		case 'certificate-expired':
			return `the certificate of ${host} has expired or is not valid yet`;
		case 'certificate-not-trusted':
			return `no authority that we trust vouches for the certificate of ${host}: ${words}`;
		default:
			return words;
	}
}

const noTls: ReadonlySet<string> = new Set(['ERR_SSL_WRONG_VERSION_NUMBER', 'ERR_SSL_PACKET_LENGTH_TOO_LONG']);

/** Whether the peer answered the handshake with something other than TLS: no other TLS version will help. */
export function speaksNoTls(code: string | undefined): boolean {
	return noTls.has(code ?? '');
}

const tlsWords =
	/crypt|\b(?:en)?cript(?:a|o)|cifr|chiffr|verschl(?:ü|ue)ssel|versleutel|szyfr|шифр|加密|暗号|\b(?:start)?tls|\bssl|\b(?:plain|clear)[- ]?text|(?:in|un)?secured? (?:connection|channel|session|transport|link)/i;
const addresses = /<[^>]*>|\S+@\S+/g;
/** About an address, or the content of the mail. */
const otherCodes = /^\d\.[126]\./;
const otherWords = /attach|archive|\bzip\b|\bpdf\b/i;

/** Whether a refusal asks for TLS (RFC 3207 §4, RFC 5248 §2.4). */
export function asksForTls({code, enhanced, text}: SmtpReply): boolean {
	return (
		code === 530 ||
		/\.7\.(?:10|29)$/.test(enhanced ?? '') ||
		(!otherCodes.test(enhanced ?? '') && !otherWords.test(text) && tlsWords.test(text.replace(addresses, '')))
	);
}
