import type {SmtpReply} from '../mail/smtp-reply.ts';
import {type TlsFailure, type TlsResult, withoutAdvice} from '../mail/tls-result.ts';
import type {Host, Plan} from './host.ts';
import type {Tls} from './smtp-connection.ts';
import type {Stop} from './stop.ts';
import type {Accepted} from './transaction.ts';

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

/** The TLS of an attempt for people: `TLSv1.3 TLS_AES_256_GCM_SHA384 verified (MTA-STS)`, null in plain text. */
export function tlsText({tlsPolicy: policy}: Host, tls: Tls | null): string | null {
	if (tls === null) {
		return null;
	}

	const judged = policy?.kind !== 'tlsa' || policy.records.length > 0;
	const verified = judged && tls.failure === null ? 'verified' : 'unverified';
	const by =
		policy === undefined
			? ''
			: policy.kind === 'tlsa'
				? ' (DANE)'
				: policy.enforce
					? ' (MTA-STS)'
					: ' (MTA-STS testing)';
	return `${tls.text} ${verified}${by}`;
}

/** How starting TLS ended, as RFC 8460 counts it; undefined: it was not reached, or not asked for. */
export function tlsResult(
	plan: Pick<Plan, 'host' | 'hello'>,
	tls: Tls | null,
	end: Accepted | Stop,
): TlsResult | undefined {
	const policy = plan.host.tlsPolicy;
	const type = policy?.kind ?? 'no-policy-found';
	if (end.by === 'tls') {
		return {policy: type, result: end.failure};
	}

	if (tls !== null) {
		const wrong = policy?.kind === 'sts' ? (policy.names ? tls.failure : 'validation-failure') : null;
		return {policy: type, result: wrong ?? 'success'};
	}

	const before = end.phase === 'connect' || end.phase === 'greeting' || end.phase === 'ehlo';
	return before || plan.hello === 'none' ? undefined : {policy: type, result: 'starttls-not-supported'};
}
