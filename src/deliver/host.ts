import {createHash, type X509Certificate} from 'node:crypto';
import {isIPv6} from 'node:net';
import {isDeepStrictEqual} from 'node:util';
import {type SmtpReply, type TlsFailure, withoutAdvice} from '../mail/outcome.ts';
import type {Source, Terms} from '../mail/route.ts';
import type {SecureAnswer, SecureResolver, TlsaRecord} from '../net/dns.ts';
import type {RelayApi} from '../net/relay-url.ts';

/**
 * How a route uses TLS. `none`: plain text. `opportunistic`: TLS if offered, with any certificate, and plain text if it
 * fails (RFC 7435). `unverified`: TLS is mandatory, with any certificate. `required`: TLS with a verified certificate.
 */
type TlsMode = 'none' | 'opportunistic' | 'unverified' | 'required';

/** A domain's requirements for a mail server's TLS, in addition to `TlsMode`. */
type TlsPolicy =
	/**
	 * MTA-STS (RFC 8461). In enforce mode the route's mode is `required`. In testing mode it is unchanged, and failures
	 * are only recorded.
	 */
	| {readonly kind: 'sts'; readonly isEnforced: boolean; readonly isHostListed: boolean}
	/**
	 * DANE (RFC 7672): one TLSA record must match the certificate, which may carry any of these names; SNI sends the
	 * first. An empty list means that records exist but none is usable. The route's mode is at least `unverified`.
	 */
	| {readonly kind: 'tlsa'; readonly names: readonly string[]; readonly records: readonly TlsaRecord[]};

/** One address of a mail server that may accept the message. */
export type Host = {
	readonly name: string;
	/** A literal IP address. */
	readonly address: string;
	readonly port: number;
	readonly tls: TlsMode;
	/** Absent if the domain has no policy. */
	readonly tlsPolicy?: TlsPolicy | undefined;
	/** TLS from the first byte (smtps). */
	readonly implicitTls: boolean;
	/** The credentials for a relay. */
	readonly login: {readonly user: string; readonly password: string} | null;
	/** Set for the HTTPS API of a provider; `address` is then its host name. */
	readonly api?: RelayApi;
};

/** Whether a connection opened for one route can serve the other. */
export function isSameHost(a: Host, b: Host): boolean {
	return (
		a.address === b.address &&
		a.port === b.port &&
		a.name === b.name &&
		a.tls === b.tls &&
		// A session that was not checked against a policy does not satisfy it.
		isDeepStrictEqual(a.tlsPolicy, b.tlsPolicy) &&
		a.implicitTls === b.implicitTls &&
		a.login?.user === b.login?.user &&
		a.login?.password === b.login?.password
	);
}

/** Returns the source for a target address: `null` if no source has its family, `undefined` if the system chooses. */
export function sourceFor(sources: readonly Source[], targetAddress: string): Source | null | undefined {
	return sources.length === 0
		? undefined
		: (sources.find(({address}) => isIPv6(address) === isIPv6(targetAddress)) ?? null);
}

/** The TLS requirements for one mail server, or why it must not receive the message and whether DNS is the cause. */
export type HostDemand =
	| {readonly kind: 'tls'; readonly tls: TlsMode; readonly policy?: TlsPolicy}
	| {readonly kind: 'refused'; readonly reason: string; readonly by: 'sts' | 'dnssec'};

/** Called for each mail server of a domain. */
export type DemandOf = (host: string) => Promise<HostDemand>;

type DemandOptions = {
	/** Present if DANE is enabled. */
	readonly secureResolver?: SecureResolver | undefined;
	readonly port: number;
};

/**
 * Combines what MTA-STS, DANE and the operator require of a domain's mail servers. DANE takes precedence over MTA-STS
 * (RFC 8461 §2). TLSA records that cannot be used still require unverified TLS (RFC 7672 §2.2).
 */
export function createDemands(domain: string, terms: Pick<Terms, 'tls' | 'mtaSts'>, options: DemandOptions): DemandOf {
	const {tls, mtaSts} = terms;
	return async host => {
		const isHostListed = mtaSts?.mx.some(pattern => matchesHost(pattern, host)) ?? false;
		if (mtaSts?.mode === 'enforce' && !isHostListed) {
			return {
				kind: 'refused',
				reason: `the MTA-STS policy of ${domain} does not list the mail server ${host}`,
				by: 'sts',
			};
		}
		const {secureResolver, port} = options;
		const tlsa = secureResolver === undefined ? 'none' : await findTlsa(domain, host, port, secureResolver);
		if (tlsa !== 'none' && 'failure' in tlsa) {
			return {kind: 'refused', reason: tlsa.failure, by: 'dnssec'};
		}
		if (tlsa !== 'none' && tlsa.records.length > 0) {
			return {kind: 'tls', tls: 'unverified', policy: {kind: 'tlsa', ...tlsa}};
		}
		if (mtaSts?.mode === 'enforce') {
			return {kind: 'tls', tls: 'required', policy: {kind: 'sts', isEnforced: true, isHostListed}};
		}
		if (tlsa !== 'none') {
			return {kind: 'tls', tls: tls === 'opportunistic' ? 'unverified' : tls, policy: {kind: 'tlsa', ...tlsa}};
		}
		return mtaSts === null
			? {kind: 'tls', tls}
			: {kind: 'tls', tls, policy: {kind: 'sts', isEnforced: false, isHostListed}};
	};
}

/**
 * Whether a pattern of an MTA-STS policy matches a host (RFC 8461 §4.1): `*` stands for exactly one label, the
 * leftmost. Both must be lower-case A-labels without the final dot.
 */
export function matchesHost(pattern: string, host: string): boolean {
	return pattern.startsWith('*.')
		? host.includes('.') && host.slice(host.indexOf('.')) === pattern.slice(1)
		: pattern === host;
}

const trustAnchor = 2; // DANE-TA
const endEntity = 3; // DANE-EE
/** The digest of each matching type; type 0 is the whole certificate. */
const digests = new Map([
	[0, null],
	[1, {name: 'sha256', octets: 32}],
	[2, {name: 'sha512', octets: 64}],
]);
const maxChainLength = 10;

/** Texts for the results of `tlsaFailure`. */
export const tlsaProblems: Partial<Record<TlsFailure, string>> = {
	'tlsa-invalid': 'no TLSA record matches the certificate',
	'certificate-expired': 'the certificate matches a TLSA record but has expired',
	'certificate-host-mismatch': 'the certificate matches a TLSA record but is for another name',
};

/** Whether a record can be used to verify a mail server: a usage of RFC 7672 §3.1, and supported types. */
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
 * Returns why no record matches a mail server's certificate (RFC 7672 §3.1), or `null` if one does. A certificate under
 * a trust anchor must have one of the `names`. One that a record identifies directly (DANE-EE) is valid with any name
 * and dates.
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
	const path = verifiedChain(leaf);
	// A trust anchor vouches for other certificates, not for itself.
	const anchorIndex = path.findIndex((issuer, depth) => depth > 0 && anchors.some(record => matches(issuer, record)));
	if (anchorIndex === -1) {
		return 'tlsa-invalid';
	}
	const chain = path.slice(0, anchorIndex + 1);
	if (chain.some(({validFrom, validTo}) => Date.parse(validFrom) > now || Date.parse(validTo) < now)) {
		return 'certificate-expired';
	}
	return names.some(name => leaf.checkHost(name) !== undefined) ? null : 'certificate-host-mismatch';
}

/** Returns the certificate followed by its issuers, each verified by signature, as far as the server sent them. */
function verifiedChain(leaf: X509Certificate): X509Certificate[] {
	const sent: X509Certificate[] = [];
	for (
		let next = leaf.issuerCertificate;
		next !== undefined && sent.length < maxChainLength;
		next = next.issuerCertificate
	) {
		sent.push(next); // In the order received, which may differ from the chain's.
	}
	const chain = [leaf];
	for (let last: X509Certificate | undefined = leaf; last !== undefined && chain.length <= sent.length; ) {
		const child: X509Certificate = last;
		last = sent.find(
			issuer =>
				!chain.includes(issuer) && issuer.ca && child.checkIssued(issuer) && child.verify(issuer.publicKey),
		);
		if (last !== undefined) {
			chain.push(last);
		}
	}
	return chain;
}

function matches(certificate: X509Certificate, {selector, matching, data}: TlsaRecord): boolean {
	const der = selector === 0 ? certificate.raw : certificate.publicKey.export({type: 'spki', format: 'der'});
	const digest = digests.get(matching);
	if (digest === undefined) {
		return false;
	}
	return (digest === null ? der.toString('hex') : createHash(digest.name).update(der).digest('hex')) === data;
}

/** The usable TLSA records for a mail server, or why it must not be contacted. */
type FoundTlsa =
	| 'none'
	| {readonly names: readonly string[]; readonly records: readonly TlsaRecord[]}
	| {readonly failure: string};

/**
 * Looks up the TLSA records of an MX host (RFC 7672 §2.2). They count only if DNSSEC secures every step: the domain's
 * MX records, the host's addresses, and the TLSA records. A response that fails validation may be an attack, so the
 * host is then skipped.
 */
async function findTlsa(domain: string, host: string, port: number, resolver: SecureResolver): Promise<FoundTlsa> {
	const mx = await resolver.mx(domain);
	if (mx.kind === 'failed') {
		return lookupFailure(`${domain} MX`, mx.code);
	}
	if (!mx.isAuthentic) {
		return 'none';
	}
	// The hosts may come from an earlier response that DNSSEC does not secure.
	if (mx.kind === 'found' ? !mx.records.includes(host) : host !== domain) {
		return {failure: `the signed MX records of ${domain} do not name ${host}`};
	}
	const addresses = await findAddresses(host, resolver);
	if (addresses.kind === 'failed') {
		return lookupFailure(host, addresses.code);
	}
	if (!addresses.isAuthentic) {
		return 'none'; // RFC 7672 §2.2.2: such zones' servers may fail on TLSA.
	}
	// The target of an alias comes first, then the name itself (§2.2.3).
	for (const base of new Set([addresses.canonicalName, host])) {
		const name = `_${port}._tcp.${base}`;
		const response = await resolver.tlsa(name);
		if (response.kind === 'failed') {
			return lookupFailure(`${name} TLSA`, response.code);
		}
		if (response.kind === 'found' && response.isAuthentic) {
			// A certificate under a trust anchor may also carry the domain's name (§3.2.2).
			return {names: [...new Set([base, host, domain])], records: response.records.filter(isUsable)};
		}
	}
	return 'none';
}

async function findAddresses(host: string, resolver: SecureResolver): Promise<SecureAnswer<string>> {
	const ipv4 = await resolver.a(host);
	return ipv4.kind === 'found' || ipv4.kind === 'failed' ? ipv4 : resolver.aaaa(host);
}

function lookupFailure(query: string, code: string): FoundTlsa {
	return {failure: `DNSSEC: the lookup of ${query} failed: ${code}`};
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

/** Returns the TLS failure for an error code of Node or OpenSSL. Unknown codes count as handshake failures. */
export function toTlsFailure(code: string | undefined): TlsFailure {
	return certificateFailures[code ?? ''] ?? 'validation-failure';
}

/** Returns a socket error's message for people. OpenSSL's own message consists of numbers and source files. */
export function toWords(error: NodeJS.ErrnoException & {readonly reason?: unknown}): string {
	const {code = '', message, reason} = error;
	return code.startsWith('ERR_SSL_') && typeof reason === 'string' ? `TLS: ${reason}` : withoutAdvice(message);
}

/** Describes a TLS failure for people. `message` is the library's message, used if the certificate is not the cause. */
export function certificateProblem(failure: TlsFailure, host: string, message: string): string {
	switch (failure) {
		case 'certificate-host-mismatch':
			return `the certificate is not for ${host}`;
		case 'certificate-expired':
			return `the certificate of ${host} has expired or is not valid yet`;
		case 'certificate-not-trusted':
			return `no authority that we trust vouches for the certificate of ${host}: ${message}`;
		default:
			return message;
	}
}

const noTls: ReadonlySet<string> = new Set(['ERR_SSL_WRONG_VERSION_NUMBER', 'ERR_SSL_PACKET_LENGTH_TOO_LONG']);

/** Whether the peer replied to the handshake with something other than TLS, so that no other version will help. */
export function speaksNoTls(code: string | undefined): boolean {
	return noTls.has(code ?? '');
}

const tlsWords =
	/crypt|\b(?:en)?cript(?:a|o)|cifr|chiffr|verschl(?:ü|ue)ssel|versleutel|szyfr|шифр|加密|暗号|\b(?:start)?tls|\bssl|\b(?:plain|clear)[- ]?text|(?:in|un)?secured? (?:connection|channel|session|transport|link)/i;
const addresses = /<[^>]*>|\S+@\S+/g;
/** Codes about an address or the message's content. */
const otherCodes = /^\d\.[126]\./;
const otherWords = /attach|archive|\bzip\b|\bpdf\b/i;

/** Whether a refusal demands TLS (RFC 3207 §4, RFC 5248 §2.4). */
export function demandsTls({code, enhanced, text}: SmtpReply): boolean {
	return (
		code === 530 ||
		/\.7\.(?:10|29)$/.test(enhanced ?? '') ||
		(!otherCodes.test(enhanced ?? '') && !otherWords.test(text) && tlsWords.test(text.replace(addresses, '')))
	);
}
