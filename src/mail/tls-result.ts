/** What went wrong with TLS, in the words of TLS reports (RFC 8460 §4.3). */
export type TlsFailure =
	| 'starttls-not-supported'
	| 'certificate-host-mismatch'
	| 'certificate-expired'
	| 'certificate-not-trusted'
	/** What no other word fits: a handshake that failed, a host that its policy does not name. */
	| 'validation-failure'
	| 'tlsa-invalid'
	| 'dnssec-invalid'
	| 'sts-policy-fetch-error'
	| 'sts-policy-invalid'
	| 'sts-webpki-invalid';

/** The source of the demands on a connection. */
type TlsPolicyType = 'sts' | 'tlsa' | 'no-policy-found';

/** How starting TLS ended, to be counted. */
export type TlsResult = {readonly policy: TlsPolicyType; readonly result: 'success' | TlsFailure};

const advice = /; if the root CA is installed locally, try running Node\.js with [\w-]+$/;

/**
 * What OpenSSL says of a certificate. Node.js 24 adds advice about an option of its own: the operator has `MAILCTL_CA_FILE`.
 */
export function withoutAdvice(message: string): string {
	return message.replace(advice, '');
}
