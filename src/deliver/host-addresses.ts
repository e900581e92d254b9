import type {DnsAnswer, Resolver} from '../net/dns.ts';
import type {Families} from './families.ts';

/** The addresses of a host, IPv6 and IPv4 in turn, and why one of the look-ups failed. `fresh`: what was kept does not count. */
export async function hostAddresses(
	host: string,
	fresh: boolean,
	families: Families,
	resolver: Resolver,
): Promise<{addresses: string[]; failure: string | null}> {
	const none: DnsAnswer<string> = {kind: 'nodata'};
	const [v6, v4] = await Promise.all([
		families.v6 ? resolver.aaaa(host, fresh) : none,
		families.v4 ? resolver.a(host, fresh) : none,
	]);
	const failed = [v6, v4].find(answer => answer.kind === 'failed');
	return {
		addresses: interleaved(recordsOf(v6), recordsOf(v4)),
		failure: failed === undefined ? null : `the look-up of ${host} failed: ${failed.code}`,
	};
}

function recordsOf(answer: DnsAnswer<string>): readonly string[] {
	return answer.kind === 'found' ? answer.records : [];
}

function interleaved(first: readonly string[], second: readonly string[]): string[] {
	const all: string[] = [];
	for (let n = 0; n < Math.max(first.length, second.length); n++) {
		all.push(...first.slice(n, n + 1), ...second.slice(n, n + 1));
	}

	return all;
}

/** The hosts' addresses of the family that there is no way to: that is not the domain's fault. */
export async function otherAddresses(
	hosts: readonly string[],
	{v4, v6}: Families,
	resolver: Resolver,
): Promise<readonly string[]> {
	if (v4 && v6) {
		return [];
	}

	const found = await Promise.all(hosts.map(host => hostAddresses(host, false, {v4: !v4, v6: !v6}, resolver)));
	return found.flatMap(({addresses}) => addresses);
}
