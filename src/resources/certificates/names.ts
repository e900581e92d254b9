import {isIP} from 'node:net';
import ipaddr from 'ipaddr.js';
import type {Resolver} from '../../net/dns.ts';
import {isPublicAddress} from '../../net/ip-address.ts';
import {findAddresses} from '../../net/pinned-connection.ts';

type NamesInput = {
	readonly hostname: string;
	/** The host of links, or `null` if it is not configured. */
	readonly publicHost: string | null;
	/** The link hosts of verified domains. */
	readonly linkHosts: readonly string[];
	/** Domains that receive mail here, and may therefore have an MTA-STS policy (RFC 8461). */
	readonly mailDomains: readonly string[];
	/** Names with a certificate that links in delivered messages may still use. */
	readonly former: readonly string[];
	/**
	 * The addresses of this machine. Private ones exist on many machines, so they count only if a configured name
	 * resolves to them.
	 */
	readonly addresses: readonly string[];
	readonly resolver: Pick<Resolver, 'a' | 'aaaa'>;
	/** Whether a workspace's name is known to resolve to this machine, so that no lookup is needed. */
	readonly isSure: (name: string) => boolean;
};

/**
 * Whether to order a certificate. `no` is the reason as a clause, or `null` if operators need not know it. `unknown`
 * means that DNS did not respond.
 */
export type Wish = 'yes' | 'unknown' | {readonly no: string | null};

/**
 * The number of new names that a workspace may have per day, the additional ones for each of its domains (link host and
 * `mta-sts.`), and the maximum. CAs limit the orders of an account: Let's Encrypt allows 300 in three hours.
 */
const [baseNew, newPerDomain, maxNew] = [5, 2, 50];

/** The maximum number of concurrent lookups. There may be thousands of names, and unresponsive name servers. */
const maxConcurrent = 32;

const isFullName = (name: string | null): name is string => name?.includes('.') === true && isIP(name) === 0;
const normalize = (address: string): string =>
	isIP(address) === 0 ? address : ipaddr.process(address).toNormalizedString();

/**
 * Determines the names that need a certificate. The two configured names always do. Other names do only if all their
 * addresses belong to this installation, because the CA could not validate them otherwise.
 */
export async function findWishes(input: NamesInput): Promise<Map<string, Wish>> {
	const {hostname, publicHost, linkHosts, mailDomains, former, addresses, resolver, isSure} = input;
	const wishes = new Map<string, Wish>();
	const ownAddresses = new Set(addresses.filter(isPublicAddress).map(normalize));
	let areAddressesKnown = true;
	for (const name of [hostname, publicHost].filter(isFullName)) {
		wishes.set(name, 'yes');
		const lookup = await findAddresses(name, resolver, false);
		areAddressesKnown &&= lookup.kind !== 'failed';
		for (const address of lookup.kind === 'found' ? lookup.addresses : []) {
			ownAddresses.add(normalize(address));
		}
	}
	const checkName = async (name: string, isExpected: boolean): Promise<Wish> => {
		const lookup = await findAddresses(name, resolver, false);
		if (lookup.kind === 'failed') {
			return 'unknown';
		}
		const isForeign = (address: string) => !ownAddresses.has(normalize(address));
		const other = lookup.kind === 'found' ? lookup.addresses.find(isForeign) : undefined;
		if (lookup.kind === 'found' && other === undefined) {
			return 'yes';
		}
		if (other !== undefined && !areAddressesKnown) {
			return 'unknown';
		}
		const reason = other === undefined ? 'has no address in DNS' : `points to ${other}, which is not this machine`;
		return {no: isExpected ? `${name} ${reason}` : null};
	};
	const optionalNames = new Map([
		...former.map(name => [name, false] as const),
		...mailDomains.map(name => [`mta-sts.${name}`, false] as const),
		...linkHosts.map(name => [name, true] as const),
	]);
	const remaining = [...optionalNames].filter(([name]) => !wishes.has(name))[Symbol.iterator]();
	const checkRemaining = async () => {
		for (const [name, isExpected] of remaining) {
			wishes.set(name, isSure(name) ? 'yes' : await checkName(name, isExpected));
		}
	};
	await Promise.all(Array.from({length: maxConcurrent}, checkRemaining));
	return wishes;
}

/**
 * Returns a function that decides whether one more name may be ordered. The CA's limits apply to the whole
 * installation, and a workspace that keeps changing its hosts must not use them up. `owners` maps domains to
 * workspaces, and `recent` contains the names of the last day.
 */
export function newNames(owners: ReadonlyMap<string, string>, recent: readonly string[]): (name: string) => boolean {
	const remaining = new Map<string, number>();
	for (const owner of owners.values()) {
		remaining.set(owner, Math.min((remaining.get(owner) ?? baseNew) + newPerDomain, maxNew));
	}
	const take = (name: string): boolean => {
		const labels = name.split('.');
		const owner = labels
			.map((_, index) => owners.get(labels.slice(index).join('.')))
			.find(workspaceId => workspaceId !== undefined);
		const allowed = remaining.get(owner ?? '') ?? 1;
		remaining.set(owner ?? '', owner === undefined ? 1 : allowed - 1);
		return allowed > 0;
	};
	recent.forEach(take);
	return take;
}
