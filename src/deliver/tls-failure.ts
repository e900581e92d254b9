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

/** What a code of Node or OpenSSL says of a certificate. A code it does not know speaks of the handshake. */
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

/** Whether the peer answered the handshake with something that is no TLS at all: no other way to begin one will help. */
export function speaksNoTls(code: string | undefined): boolean {
	return noTls.has(code ?? '');
}
