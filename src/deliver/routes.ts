import {isIP} from 'node:net';
import type {DnsAnswer, MxRecord, Resolver} from '../mail/dns.ts';
import type {BounceCategory, Outcome} from '../mail/outcome.ts';
import {isPublicAddress} from '../mail/public-address.ts';
import {suppresses} from './classify-reply.ts';
import type {Route} from './route.ts';

/** No host to talk to: the outcome, and what the attempt record says. */
export type NoRoute = {
	readonly outcome: Outcome;
	readonly code: number | null;
	readonly enhanced: string;
	readonly reply: string;
};

export type MxRoutesOptions = {
	readonly resolver: Resolver;
	/** A number in [0, 1). */
	readonly random: () => number;
	readonly port: number;
	/** For a lab: also addresses that are not public. */
	readonly allowPrivateMx: boolean;
	/** Where this system itself takes mail: an MX there is a loop. */
	readonly ownAddresses: ReadonlySet<string>;
};

/** An earlier try was deferred with category `unknown_domain` or `no_address`, long enough ago. */
export type Doubts = {readonly nxdomainBefore?: boolean; readonly noAddressBefore?: boolean};

/** R1.6: a domain with more addresses than this gets no more tries for them. */
export const mostAddresses = 5;

const minute = 60_000;

/**
 * Where mail for a domain goes (RFC 5321 §5.1, RFC 7505): hosts by preference, equal ones shuffled, the domain itself
 * where it has no MX; each with its addresses, IPv6 and IPv4 in turn. An answer that DNS could not give decides nothing.
 */
export async function mxRoutes(domain: string, doubts: Doubts, options: MxRoutesOptions): Promise<Route[] | NoRoute> {
	const {resolver, random} = options;
	const answer = await resolver.mx(domain, doubts.nxdomainBefore === true || doubts.noAddressBefore === true);
	switch (answer.kind) {
		case 'failed':
			return dnsFailure(`the look-up of ${domain} MX failed: ${answer.code}`);
		case 'nxdomain':
			return unknownDomain(domain, doubts);
		case 'nodata':
			return addressRoutes([{exchange: domain, priority: 0}], domain, doubts, options);
		case 'found':
			return isNullMx(answer.records)
				? refusal('unknown_domain', '5.1.10', `${domain} takes no mail (null MX)`, 556)
				: addressRoutes(inOrder(usable(answer.records), random), domain, doubts, options);
	}
}

const bare = (name: string): string => name.toLowerCase().replace(/\.$/, '');

function isNullMx(records: readonly MxRecord[]): boolean {
	return records.every(({exchange}) => bare(exchange) === '');
}

/** A null MX beside others means nothing, and an address is no name. */
function usable(records: readonly MxRecord[]): MxRecord[] {
	return records
		.map(({exchange, priority}) => ({exchange: bare(exchange), priority}))
		.filter(({exchange}) => exchange !== '' && isIP(exchange) === 0);
}

/** RFC 5321 §5.1: lowest preference first, equal ones in random order to spread the load. */
function inOrder(records: readonly MxRecord[], random: () => number): MxRecord[] {
	return records
		.map(record => ({record, lot: random()}))
		.sort((a, b) => a.record.priority - b.record.priority || a.lot - b.lot)
		.map(({record}) => record);
}

async function addressRoutes(
	hosts: readonly MxRecord[],
	domain: string,
	doubts: Doubts,
	options: MxRoutesOptions,
): Promise<Route[] | NoRoute> {
	const routes: Route[] = [];
	let failure: string | null = null;
	let refused: string | null = null;
	for (const {exchange: host} of hosts) {
		const found = await hostAddresses(host, doubts.noAddressBefore === true, options.resolver);
		failure ??= found.failure;
		if (found.addresses.some(address => options.ownAddresses.has(address))) {
			// RFC 5321 §5.1: this host and all after it would hand the mail back to us.
			refused = `the mail for ${domain} would loop: ${host} is this system`;
			break;
		}

		for (const address of found.addresses) {
			if (options.allowPrivateMx || isPublicAddress(address)) {
				routes.push({host, address, port: options.port, tls: 'opportunistic', implicitTls: false, login: null});
			} else {
				refused ??= `${host} has no public address`;
			}
		}

		if (routes.length >= mostAddresses) {
			return routes.slice(0, mostAddresses);
		}
	}

	if (routes.length > 0) {
		return routes;
	}

	if (failure !== null) {
		return dnsFailure(failure);
	}

	return refused === null
		? noAddress(domain, doubts)
		: refusal('network', refused.endsWith('this system') ? '5.4.6' : '5.4.4', refused);
}

async function hostAddresses(
	host: string,
	fresh: boolean,
	resolver: Resolver,
): Promise<{addresses: string[]; failure: string | null}> {
	const [v6, v4] = await Promise.all([resolver.aaaa(host, fresh), resolver.a(host, fresh)]);
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

function deferral(category: BounceCategory, enhanced: string, reply: string, waitMs?: number): NoRoute {
	const wait = waitMs === undefined ? {} : {waitMs};
	return {outcome: {kind: 'deferred', category, reason: `${enhanced} ${reply}`, ...wait}, code: null, enhanced, reply};
}

function refusal(category: BounceCategory, enhanced: string, reply: string, code: number | null = null): NoRoute {
	const reason = `${enhanced} ${reply}`;
	const outcome: Outcome = {kind: 'bounced', type: 'permanent', category, reason, suppresses: suppresses(category)};
	return {outcome, code, enhanced, reply};
}

function dnsFailure(reply: string): NoRoute {
	return deferral('dns_temp', '4.4.3', reply);
}

/** One such answer may be a resolver's glitch; it is final when given again 15 minutes later. */
function unknownDomain(domain: string, {nxdomainBefore = false}: Doubts): NoRoute {
	const reply = `${domain} does not exist`;
	return nxdomainBefore
		? refusal('unknown_domain', '5.1.2', reply)
		: deferral('unknown_domain', '4.1.2', reply, 15 * minute);
}

function noAddress(domain: string, {noAddressBefore = false}: Doubts): NoRoute {
	const reply = `no mail host of ${domain} has an address`;
	return noAddressBefore ? refusal('no_address', '5.4.4', reply) : deferral('no_address', '4.4.4', reply, 60 * minute);
}
