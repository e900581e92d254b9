import {createHash, type X509Certificate} from 'node:crypto';
import {isIPv6} from 'node:net';
import {isDeepStrictEqual} from 'node:util';
import {type SmtpReply, type TlsFailure, withoutAdvice} from '../mail/outcome.ts';
import type {Source, Terms} from '../mail/route.ts';
import type {SecureAnswer, SecureResolver, TlsaRecord} from '../net/dns.ts';
import type {RelayApi} from '../net/relay-url.ts';

/**
 * `none`: plain text. `opportunistic`: TLS where offered, with any certificate, plain text where it fails (RFC 7435).
 * `unverified`: TLS or nothing, with any certificate. `required`: TLS with a certificate that verifies.
 */
type TlsMode = 'none' | 'opportunistic' | 'unverified' | 'required';

/** What a domain demands of a host's TLS in addition to `TlsMode`. */
type TlsPolicy =
	/**
	 * MTA-STS (RFC 8461). In mode enforce the mode of the route is `required`; in mode testing it is not touched, and
	 * what would have failed is noted. `names`: the policy names the host.
	 */
	| {readonly kind: 'sts'; readonly enforce: boolean; readonly names: boolean}
	/**
	 * DANE (RFC 7672): one TLSA record must match the certificate, which may carry any of these names; SNI sends the
	 * first one. No records: records exist, but none is usable. The route's mode is at least `unverified`.
	 */
	| {readonly kind: 'tlsa'; readonly names: readonly string[]; readonly records: readonly TlsaRecord[]};

/** One address of one host that may take the mail. */
export type Host = {
	readonly name: string;
	/** A literal IP address. */
	readonly address: string;
	readonly port: number;
	readonly tls: TlsMode;
	/** Absent: none. */
	readonly tlsPolicy?: TlsPolicy | undefined;
	/** TLS from the first byte (smtps). */
	readonly implicitTls: boolean;
	/** What a smarthost wants to see. */
	readonly login: {readonly user: string; readonly password: string} | null;
	/** It is the HTTPS API of this provider; `address` is then its name. */
	readonly api?: RelayApi;
};

/** Whether a connection made for one route serves the other. */
export function sameHost(a: Host, b: Host): boolean {
	return (
		a.address === b.address &&
		a.port === b.port &&
		a.name === b.name &&
		a.tls === b.tls &&
		// What was not measured against a policy does not meet it.
		isDeepStrictEqual(a.tlsPolicy, b.tlsPolicy) &&
		a.implicitTls === b.implicitTls &&
		a.login?.user === b.login?.user &&
		a.login?.password === b.login?.password
	);
}

/** The source for a target address: null if none is of its family, undefined if the system chooses. */
export function sourceFor(sources: readonly Source[], targetAddress: string): Source | null | undefined {
	return sources.length === 0
		? undefined
		: (sources.find(({address}) => isIPv6(address) === isIPv6(targetAddress)) ?? null);
}

/** What is demanded of one host, or why it may not get the mail: a sentence, and whether DNS is to blame. */
export type HostDemand =
	| {readonly kind: 'tls'; readonly tls: TlsMode; readonly policy?: TlsPolicy}
	| {readonly kind: 'refused'; readonly reason: string; readonly by: 'sts' | 'dnssec'};

/** Asked for each host of a domain. */
export type DemandOf = (host: string) => Promise<HostDemand>;

type DemandOptions = {
	/** Where DANE is on. */
	readonly secureResolver?: SecureResolver | undefined;
	readonly port: number;
};

/**
 * What MTA-STS, DANE and the operator demand of the hosts of a domain. DANE goes before MTA-STS where both hold (RFC
 * 8461 §2), and records that we cannot use ask for TLS without more (RFC 7672 §2.2).
 */
export function demandsOf(domain: string, terms: Pick<Terms, 'tls' | 'mtaSts'>, options: DemandOptions): DemandOf {
	const {tls, mtaSts} = terms;
	return async host => {
		const names = mtaSts?.mx.some(pattern => namesHost(pattern, host)) ?? false;
		if (mtaSts?.mode === 'enforce' && !names) {
			return {
				kind: 'refused',
				reason: `the MTA-STS policy of ${domain} does not name the host ${host}`,
				by: 'sts',
			};
		}
		const {secureResolver, port} = options;
		const found = secureResolver === undefined ? 'none' : await findTlsa(domain, host, port, secureResolver);
		if (found !== 'none' && 'failure' in found) {
			return {kind: 'refused', reason: found.failure, by: 'dnssec'};
		}
		if (found !== 'none' && found.records.length > 0) {
			return {kind: 'tls', tls: 'unverified', policy: {kind: 'tlsa', ...found}};
		}
		if (mtaSts?.mode === 'enforce') {
			return {kind: 'tls', tls: 'required', policy: {kind: 'sts', enforce: true, names}};
		}
		if (found !== 'none') {
			return {kind: 'tls', tls: tls === 'opportunistic' ? 'unverified' : tls, policy: {kind: 'tlsa', ...found}};
		}
		return mtaSts === null ? {kind: 'tls', tls} : {kind: 'tls', tls, policy: {kind: 'sts', enforce: false, names}};
	};
}

/**
 * Whether a pattern of an MTA-STS policy names a host (RFC 8461 §4.1): `*` stands for exactly one label, the left-most.
 * Both in lower-case A-labels without the last dot.
 */
export function namesHost(pattern: string, host: string): boolean {
	return pattern.startsWith('*.')
		? host.includes('.') && host.slice(host.indexOf('.')) === pattern.slice(1)
		: pattern === host;
}

const trustAnchor = 2; // DANE-TA
const endEntity = 3; // DANE-EE
/** Octets of each matching type; 0: the whole certificate. */
const digests = new Map([
	[0, null],
	[1, {name: 'sha256', octets: 32}],
	[2, {name: 'sha512', octets: 64}],
]);
const maxChainLength = 10;

/** What `tlsaFailure` answers, for people. */
export const tlsaFaults: Partial<Record<TlsFailure, string>> = {
	'tlsa-invalid': 'no TLSA record fits the certificate',
	'certificate-expired': 'the certificate that a TLSA record vouches for has expired',
	'certificate-host-mismatch': 'the certificate that a TLSA record vouches for has another name',
};

/** Whether a record can decide about a mail server: a usage of RFC 7672 §3.1, and types that we can compare. */
export function isUsable({usage, selector, matching, data}: TlsaRecord): boolean {
	const digest = digests.get(matching);
	return (
		(usage === trustAnchor || usage === endEntity) &&
		(selector === 0 || selector === 1) &&
		digest !== undefined &&
		(digest === null ? data !== '' : data.length === 2 * digest.octets)
	);
}

/**
 * Why no record matches the certificate of a host (RFC 7672 §3.1); null if one matches. A certificate under a trust
 * anchor needs one of the `names`; one that is named itself (DANE-EE) is valid with any names and dates.
 */
export function tlsaFailure(
	leaf: X509Certificate,
	records: readonly TlsaRecord[],
	names: readonly string[],
	now: number,
): TlsFailure | null {
	if (records.some(record => record.usage === endEntity && matches(leaf, record))) {
		return null;
	}
	const anchors = records.filter(({usage}) => usage === trustAnchor);
	const path = pathOf(leaf);
	// A trust anchor vouches for others, not for itself.
	const end = path.findIndex((one, depth) => depth > 0 && anchors.some(record => matches(one, record)));
	if (end === -1) {
		return 'tlsa-invalid';
	}
	const used = path.slice(0, end + 1);
	if (used.some(({validFrom, validTo}) => Date.parse(validFrom) > now || Date.parse(validTo) < now)) {
		return 'certificate-expired';
	}
	return names.some(name => leaf.checkHost(name) !== undefined) ? null : 'certificate-host-mismatch';
}

/** The certificate and those that vouch for it, each proved by its signature, as far as the host has sent them. */
function pathOf(leaf: X509Certificate): X509Certificate[] {
	const sent: X509Certificate[] = [];
	for (
		let next = leaf.issuerCertificate;
		next !== undefined && sent.length < maxChainLength;
		next = next.issuerCertificate
	) {
		sent.push(next); // In the order of the wire, which need not be that of the chain.
	}
	const path = [leaf];
	for (let last: X509Certificate | undefined = leaf; last !== undefined && path.length <= sent.length; ) {
		const child: X509Certificate = last;
		last = sent.find(one => !path.includes(one) && one.ca && child.checkIssued(one) && child.verify(one.publicKey));
		if (last !== undefined) {
			path.push(last);
		}
	}
	return path;
}

function matches(certificate: X509Certificate, {selector, matching, data}: TlsaRecord): boolean {
	const whole = selector === 0 ? certificate.raw : certificate.publicKey.export({type: 'spki', format: 'der'});
	const digest = digests.get(matching);
	if (digest === undefined) {
		return false;
	}
	return (digest === null ? whole.toString('hex') : createHash(digest.name).update(whole).digest('hex')) === data;
}

/** The records by which a host's certificate is judged, those that we can use; or why the host may not be talked to. */
type FoundTlsa =
	| 'none'
	| {readonly names: readonly string[]; readonly records: readonly TlsaRecord[]}
	| {readonly failure: string};

/**
 * The TLSA records of an MX host (RFC 7672 §2.2). They count only if DNSSEC secures each step: the domain's MX records,
 * the host's addresses, the records themselves. An answer that fails validation may be an attack: the host is not
 * tried.
 */
async function findTlsa(domain: string, host: string, port: number, resolver: SecureResolver): Promise<FoundTlsa> {
	const mx = await resolver.mx(domain);
	if (mx.kind === 'failed') {
		return failure(`${domain} MX`, mx.code);
	}
	if (!mx.authentic) {
		return 'none';
	}
	// The hosts may have come by another answer, which nothing vouches for.
	if (mx.kind === 'found' ? !mx.records.includes(host) : host !== domain) {
		return {failure: `the signed MX records of ${domain} do not name ${host}`};
	}
	const addresses = await addressesOf(host, resolver);
	if (addresses.kind === 'failed') {
		return failure(host, addresses.code);
	}
	if (!addresses.authentic) {
		return 'none'; // RFC 7672 §2.2.2: asking on would meet servers that know no TLSA.
	}
	// An alias's target first, then the name itself (§2.2.3).
	for (const base of new Set([addresses.canonicalName, host])) {
		const name = `_${port}._tcp.${base}`;
		const answer = await resolver.tlsa(name);
		if (answer.kind === 'failed') {
			return failure(`${name} TLSA`, answer.code);
		}
		if (answer.kind === 'found' && answer.authentic) {
			// An anchor's certificate may carry the domain's name too (§3.2.2).
			return {names: [...new Set([base, host, domain])], records: answer.records.filter(isUsable)};
		}
	}
	return 'none';
}

async function addressesOf(host: string, resolver: SecureResolver): Promise<SecureAnswer<string>> {
	const v4 = await resolver.a(host);
	return v4.kind === 'found' || v4.kind === 'failed' ? v4 : resolver.aaaa(host);
}

function failure(what: string, code: string): FoundTlsa {
	return {failure: `DNSSEC: the look-up of ${what} failed: ${code}`};
}

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
