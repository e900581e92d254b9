import {createHash, type X509Certificate} from 'node:crypto';
import type {TlsFailure} from '../mail/tls-result.ts';
import type {SecureAnswer, SecureResolver, TlsaRecord} from '../net/dns.ts';

const trustAnchor = 2; // DANE-TA
const endEntity = 3; // DANE-EE
/** Octets of each matching type; 0: the whole certificate. */
const digests = new Map([
	[0, null],
	[1, {name: 'sha256', octets: 32}],
	[2, {name: 'sha512', octets: 64}],
]);
const longestChain = 10;

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
		next !== undefined && sent.length < longestChain;
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
export async function findTlsa(
	domain: string,
	host: string,
	port: number,
	resolver: SecureResolver,
): Promise<FoundTlsa> {
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
