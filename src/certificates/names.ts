import {isIP} from 'node:net';
import ipaddr from 'ipaddr.js';
import type {Resolver} from '../net/dns.ts';
import {isPublicAddress} from '../net/ip-address.ts';
import {addressesOf} from '../net/pinned-connection.ts';

type NamesInput = {
	readonly hostname: string;
	/** The host of links; null: it is not set. */
	readonly publicHost: string | null;
	/** Of verified domains. */
	readonly linkHosts: readonly string[];
	/** Domains of ours that receive mail, which may have a policy (RFC 8461). */
	readonly mailDomains: readonly string[];
	/** Names with a certificate that mail may still have links with. */
	readonly former: readonly string[];
	/**
	 * Of this machine. Private ones may be those of any machine: they count where a name of the settings leads there.
	 */
	readonly addresses: readonly string[];
	readonly resolver: Pick<Resolver, 'a' | 'aaaa'>;
	/** Whether a name of others leads here, so that DNS is not asked. */
	readonly isSure: (name: string) => boolean;
};

/**
 * Whether a certificate is wanted. `no`: why not, a clause; null: no reason that an operator needs. `unknown`: DNS did
 * not answer.
 */
export type Wish = 'yes' | 'unknown' | {readonly no: string | null};

/**
 * How many new names a workspace may have in a day, how many more for each domain (its link host and `mta-sts.`), and
 * the maximum. A CA limits the orders of the whole account: Let's Encrypt allows 300 in three hours.
 */
const [baseNew, newPerDomain, maxNew] = [5, 2, 50];

/** Names that are looked up at once: there may be thousands, and servers that do not answer. */
const maxConcurrent = 32;

const isFullName = (name: string | null): name is string => name?.includes('.') === true && isIP(name) === 0;
const normal = (address: string): string =>
	isIP(address) === 0 ? address : ipaddr.process(address).toNormalizedString();

/**
 * Which names a certificate is to be had for. The two that the settings name are ours; the others only where all their
 * addresses are among ours. Nothing else is ever asked for.
 */
export async function findWishes(input: NamesInput): Promise<Map<string, Wish>> {
	const {hostname, publicHost, linkHosts, mailDomains, former, addresses, resolver, isSure} = input;
	const wishes = new Map<string, Wish>();
	const ours = new Set(addresses.filter(isPublicAddress).map(normal));
	let areKnown = true;
	for (const name of [hostname, publicHost].filter(isFullName)) {
		wishes.set(name, 'yes');
		const found = await addressesOf(name, resolver, false);
		areKnown &&= found.kind !== 'failed';
		for (const address of found.kind === 'found' ? found.addresses : []) {
			ours.add(normal(address));
		}
	}
	const lookAt = async (name: string, isExpected: boolean): Promise<Wish> => {
		const found = await addressesOf(name, resolver, false);
		if (found.kind === 'failed') {
			return 'unknown';
		}
		const other = found.kind === 'found' ? found.addresses.find(address => !ours.has(normal(address))) : undefined;
		if (found.kind === 'found' && other === undefined) {
			return 'yes';
		}
		if (other !== undefined && !areKnown) {
			return 'unknown';
		}
		const why = other === undefined ? 'has no address in DNS' : `leads to ${other}, which is not here`;
		return {no: isExpected ? `${name} ${why}` : null};
	};
	const others = new Map([
		...former.map(name => [name, false] as const),
		...mailDomains.map(name => [`mta-sts.${name}`, false] as const),
		...linkHosts.map(name => [name, true] as const),
	]);
	const rest = [...others].filter(([name]) => !wishes.has(name))[Symbol.iterator]();
	const queue = async () => {
		for (const [name, isExpected] of rest) {
			wishes.set(name, isSure(name) ? 'yes' : await lookAt(name, isExpected));
		}
	};
	await Promise.all(Array.from({length: maxConcurrent}, queue));
	return wishes;
}

/**
 * Answers whether one more name may be ordered: the limits of the CA are those of the whole installation, and a
 * workspace that changes its hosts all the time would use them up. `owners`: the workspace of each domain. `recent`:
 * names of the last day.
 */
export function newNames(owners: ReadonlyMap<string, string>, recent: readonly string[]): (name: string) => boolean {
	const left = new Map<string, number>();
	for (const owner of owners.values()) {
		left.set(owner, Math.min((left.get(owner) ?? baseNew) + newPerDomain, maxNew));
	}
	const take = (name: string): boolean => {
		const labels = name.split('.');
		const owner = labels.map((_, n) => owners.get(labels.slice(n).join('.'))).find(found => found !== undefined);
		const free = left.get(owner ?? '') ?? 1;
		left.set(owner ?? '', owner === undefined ? 1 : free - 1);
		return free > 0;
	};
	recent.forEach(take);
	return take;
}
