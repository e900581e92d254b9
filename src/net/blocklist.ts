import {isIP} from 'node:net';
import type {DnsAnswer, Resolver} from './dns.ts';
import {reverseName} from './host-name.ts';

/** A DNS list of spam sources (RFC 5782). */
export type Blocklist = {
	readonly zone: string;
	readonly name: string;
	/** What it lists. `ip` covers both address families. */
	readonly kind: 'ip' | 'ipv4' | 'domain';
	/** The answers that mean "listed" and "resolver refused", such as `127.0.0.2` or `127.0.0.2-11`. */
	readonly listed: readonly string[];
	readonly refused: readonly string[];
	/** The page for removal requests. `{source}` stands for the listed address or domain. */
	readonly delist: string;
	/** A name in the zone that is always listed; empty for that of RFC 5782 §5. */
	readonly test: string;
};

export type Listing = {
	/** `refused`: the list does not serve this resolver. `unknown`: it returned no credible answer. */
	readonly state: 'listed' | 'clear' | 'refused' | 'unknown';
	readonly answer: string | null;
	/** The list's own explanation if the source is listed, or mailctl's if the state is not known. */
	readonly reason: string | null;
};

const maxReasonLength = 300;

export const doesList = ({kind}: Blocklist, source: string): boolean =>
	({0: ['domain'], 4: ['ip', 'ipv4'], 6: ['ip']})[isIP(source)]?.includes(kind) === true;

/** Returns the name to look up for a source (RFC 5782 §2.1, §2.4, §3). */
export const nameOnList = (source: string, zone: string): string =>
	isIP(source) === 0 ? `${source}.${zone}` : reverseName(source).replace(/(?:in-addr|ip6)\.arpa$/, zone);

/** Looks up a source. A list with wrong test entries does not count: an abandoned one lists nothing, or everything. */
export async function askBlocklist(list: Blocklist, source: string, resolver: Resolver): Promise<Listing> {
	// RFC 5782 §5: an entry that every list has, and one that no list has.
	const [always, never] = list.kind === 'domain' ? ['test', 'invalid'] : ['2.0.0.127', '1.0.0.127'];
	const name = nameOnList(source, list.zone);
	const [listing, test, empty] = await Promise.all([
		resolver.a(name, true).then(answer => toListing(list, answer)),
		resolver.a(`${list.test || always}.${list.zone}`).then(answer => toListing(list, answer)),
		resolver.a(`${never}.${list.zone}`).then(answer => toListing(list, answer)),
	]);
	const listings = [listing, test, empty];
	const inconclusive =
		listings.find(({state}) => state === 'refused') ?? listings.find(({state}) => state === 'unknown');
	if (inconclusive !== undefined) {
		return inconclusive;
	}
	if (test.state !== 'listed' || empty.state !== 'clear') {
		const problem = empty.state === 'listed' ? 'lists everything' : 'lacks its test entry';
		return {state: 'unknown', answer: listing.answer, reason: `the list ${problem} (RFC 5782)`};
	}
	const explanation = listing.state === 'listed' ? await resolver.txt(name, true) : null;
	const text =
		explanation?.kind === 'found'
			? explanation.records
					.join(' ')
					.replaceAll(/\p{C}+/gu, ' ')
					.trim()
			: '';
	return {...listing, reason: text.slice(0, maxReasonLength) || null};
}

function toListing({listed, refused}: Blocklist, answer: DnsAnswer<string>): Listing {
	if (answer.kind === 'nxdomain' || answer.kind === 'nodata') {
		return {state: 'clear', answer: null, reason: null};
	}
	const records = answer.kind === 'found' ? answer.records : [];
	const isIn = (ranges: readonly string[]) => records.some(ip => ranges.some(range => isInRange(ip, range)));
	const result = answer.kind === 'found' ? records.join(', ') : answer.code;
	if (result === 'EREFUSED' || isIn(refused)) {
		return {state: 'refused', answer: result, reason: 'the list refuses this resolver'};
	}
	const reason = answer.kind === 'found' ? `the list returned ${result}` : `no response (${result})`;
	return isIn(listed) ? {state: 'listed', answer: result, reason: null} : {state: 'unknown', answer: result, reason};
}

function isInRange(address: string, range: string): boolean {
	const [, net, first, last = first] = /^(.*\.)(\d+)(?:-(\d+))?$/.exec(range) ?? [];
	const host = Number(address.slice(net?.length));
	return address.startsWith(`${net}`) && host >= Number(first) && host <= Number(last);
}

export const delistLink = ({delist}: Blocklist, source: string): string =>
	delist.replaceAll('{source}', encodeURIComponent(source));
