import {unprintable} from '../kit/text.ts';

const longest = 200;
// A host's own words reach terminals and logs.
const unsafe = new RegExp(`[${unprintable}]+`, 'gu');

const words: Readonly<Record<string, string>> = {
	ECONNREFUSED: 'the connection was refused: nothing listens there',
	ECONNRESET: 'the connection was reset',
	EPIPE: 'the connection was reset',
	ETIMEDOUT: 'the host did not answer the connection',
	EHOSTUNREACH: 'the host cannot be reached',
	ENETUNREACH: 'the network cannot be reached',
	EADDRNOTAVAIL: 'the host cannot be reached',
	CERT_HAS_EXPIRED: 'its certificate has expired',
	CERT_NOT_YET_VALID: 'its certificate is not valid yet',
	DEPTH_ZERO_SELF_SIGNED_CERT: 'its certificate is self-signed',
	SELF_SIGNED_CERT_IN_CHAIN: 'its certificate is of an unknown authority',
	UNABLE_TO_VERIFY_LEAF_SIGNATURE:
		'its certificate is of an unknown authority, or it sends no intermediate certificate',
	UNABLE_TO_GET_ISSUER_CERT: 'its certificate is of an unknown authority',
	UNABLE_TO_GET_ISSUER_CERT_LOCALLY: 'its certificate is of an unknown authority',
	ERR_TLS_CERT_ALTNAME_INVALID: 'its certificate is for another host name',
	ERR_SSL_WRONG_VERSION_NUMBER: 'it does not speak TLS',
	ERR_SSL_PACKET_LENGTH_TOO_LONG: 'it does not speak TLS',
	ERR_SSL_UNSUPPORTED_PROTOCOL: 'it speaks no TLS version that is safe (1.2 or newer)',
	ERR_SSL_TLSV1_ALERT_PROTOCOL_VERSION: 'it speaks no TLS version that is safe (1.2 or newer)',
	UND_ERR_SOCKET: 'it closed the connection without an answer',
	UND_ERR_HEADERS_OVERFLOW: 'its answer has headers over 16 KiB',
};

/** A fault that our own text describes. The text names nothing but what the endpoint's owner knows. */
export class PostFault extends Error {
	/** More for the operator's log; null: the text says all. */
	readonly detail: string | null;

	constructor(text: string, detail: string | null = null) {
		super(text);
		this.detail = detail;
	}
}

/** Why an attempt failed: `error` for the endpoint's owner, `detail` for the operator's log (null: there is no more to say). */
export type Fault = {readonly error: string; readonly detail: string | null};

/** Texts of the system and of libraries may name addresses of this network, so only the operator sees them. */
export function faultOf(error: unknown): Fault {
	if (error instanceof PostFault) {
		return {error: error.message, detail: error.detail};
	}
	const detail = (error instanceof Error ? error.message : String(error)).replace(unsafe, ' ').slice(0, longest);
	if (error instanceof Error && error.name === 'HTTPParserError') {
		return {error: 'it does not speak HTTP', detail};
	}
	const code = codeOf(error);
	const known = Object.hasOwn(words, code) ? words[code] : undefined;
	const text = known ?? 'the attempt failed';
	return {error: code === '' ? text : `${text} (${code})`, detail};
}

// Where several addresses were tried, the last one counts.
function codeOf(error: unknown): string {
	const last = error instanceof AggregateError ? error.errors.at(-1) : error;
	const code = last instanceof Error && 'code' in last ? last.code : '';
	return typeof code === 'string' && /^\w{1,60}$/.test(code) ? code : '';
}
