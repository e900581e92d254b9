import type {SecureAnswer, SecureResolver, TlsaRecord} from '../net/dns.ts';
import {isUsable} from './tlsa.ts';

/** The records by which a host's certificate is judged, those that we can use; or why the host may not be talked to. */
export type FoundTlsa =
	| 'none'
	| {readonly names: readonly string[]; readonly records: readonly TlsaRecord[]}
	| {readonly failure: string};

/**
 * The TLSA records of an MX host (RFC 7672 §2.2). They count only where DNSSEC vouches for each step: the MX records of
 * the domain, the host's addresses, the records themselves. An answer that did not validate may be an attack: the host is
 * left alone.
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
			// An anchor's certificate may bear the domain's name too (§3.2.2).
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
