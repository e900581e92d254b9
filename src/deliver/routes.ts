import {createHash} from 'node:crypto';
import {isIP} from 'node:net';
import {suppresses} from '../mail/bounce.ts';
import type {DnsAnswer, MxRecord, Resolver} from '../mail/dns.ts';
import type {BounceCategory, Outcome} from '../mail/outcome.ts';
import {isPublicAddress} from '../mail/public-address.ts';
import type {TlsResult} from '../mail/tls-result.ts';
import type {Source} from '../mail/way.ts';
import type {Families} from './families.ts';
import type {Route} from './route.ts';
import type {DemandOf, HostDemand} from './tls-demand.ts';

/** No host to talk to: the outcome, and what the attempt record says. */
export type NoRoute = {
	readonly outcome: Outcome;
	readonly code: number | null;
	readonly enhanced: string;
	readonly reply: string;
	readonly tlsResult?: TlsResult;
};

export type MxRoutesOptions = {
	readonly resolver: Resolver;
	/** What there is a way to. */
	readonly families: (sources: readonly Source[]) => Promise<Families>;
	readonly port: number;
	/** For a lab: also addresses that are not public. */
	readonly allowPrivateMx: boolean;
	/** Where this system itself takes mail: an MX there is a loop. */
	readonly ownAddresses: ReadonlySet<string>;
	/** What TLS is demanded of each host; absent: TLS where it is offered. */
	readonly demandOf?: DemandOf;
};

/** For which copy a way is sought. */
export type Seeking = {
	readonly recipientId: string;
	readonly terms: {readonly sources: readonly Source[]};
	/** An earlier try was deferred with category `unknown_domain` or `no_address`, long enough ago. */
	readonly nxdomainBefore?: boolean;
	readonly noAddressBefore?: boolean;
};

/** R1.6: a domain with more addresses than this gets no more tries for them. */
export const mostAddresses = 5;
/** A domain may name many hosts that nobody knows, each for the time of a look-up that fails. */
const mostFailures = 3;

const minute = 60_000;

/** How far apart two such answers must be before the second one is final. */
export const confirmAfterMs = {unknown_domain: 15 * minute, no_address: 60 * minute};

/**
 * Where mail for a domain goes (RFC 5321 §5.1, RFC 7505): hosts by preference, equal ones in an order of the copy's own,
 * the domain itself where it has no MX; each with its addresses, IPv6 and IPv4 in turn. An answer that DNS could not give
 * decides nothing.
 */
export async function mxRoutes(domain: string, copy: Seeking, options: MxRoutesOptions): Promise<Route[] | NoRoute> {
	const {nxdomainBefore = false, noAddressBefore = false} = copy;
	const answer = await options.resolver.mx(domain, nxdomainBefore || noAddressBefore);
	switch (answer.kind) {
		case 'failed':
			return dnsFailure(`the look-up of ${domain} MX failed: ${answer.code}`);
		case 'nxdomain':
			return unknownDomain(domain, nxdomainBefore);
		case 'nodata':
			return addressRoutes([{exchange: domain, priority: 0}], domain, copy, options);
		case 'found':
			return isNullMx(answer.records)
				? refusal('unknown_domain', '5.1.10', `${domain} takes no mail (null MX)`, 556)
				: addressRoutes(inOrder(usable(answer.records), copy.recipientId), domain, copy, options);
	}
}

const bare = (name: string): string => name.toLowerCase().replace(/\.$/, '');

function isNullMx(records: readonly MxRecord[]): boolean {
	return records.every(({exchange}) => bare(exchange) === '');
}

// What else stands there would go into commands, logs and certificates' names.
const hostNames = /^[a-z0-9_.-]{1,253}$/;

/** A null MX beside others means nothing, and an address is no name. */
function usable(records: readonly MxRecord[]): MxRecord[] {
	return records
		.map(({exchange, priority}) => ({exchange: bare(exchange), priority}))
		.filter(({exchange}) => hostNames.test(exchange) && isIP(exchange) === 0);
}

/**
 * RFC 5321 §5.1: lowest preference first, equal ones in random order to spread the load. Each copy draws its own lots and
 * keeps them: a host that knows a copy from its first try (greylisting) is asked first again.
 */
function inOrder(records: readonly MxRecord[], recipientId: string): MxRecord[] {
	const lot = ({exchange}: MxRecord) => createHash('sha1').update(`${recipientId} ${exchange}`).digest().readUInt32BE();
	return records
		.map(record => ({record, lot: lot(record)}))
		.sort((a, b) => a.record.priority - b.record.priority || a.lot - b.lot)
		.map(({record}) => record);
}

async function addressRoutes(
	hosts: readonly MxRecord[],
	domain: string,
	{terms, noAddressBefore = false}: Seeking,
	options: MxRoutesOptions,
): Promise<Route[] | NoRoute> {
	const families = await options.families(terms.sources);
	const routes: Route[] = [];
	let failures = 0;
	let unmet: Extract<HostDemand, {kind: 'refused'}> | null = null;
	let failure: string | null = null;
	let refused: string | null = null;
	for (const {exchange: host} of hosts) {
		const found = await hostAddresses(host, noAddressBefore, families, options.resolver);
		failure ??= found.failure;
		failures += found.failure === null ? 0 : 1;
		if (found.addresses.some(address => options.ownAddresses.has(address))) {
			// RFC 5321 §5.1: this host and all after it would hand the mail back to us.
			refused = `the mail for ${domain} would loop: ${host} is this system`;
			break;
		}

		const demand = found.addresses.length > 0 ? await options.demandOf?.(host) : undefined;
		if (demand?.kind === 'refused') {
			unmet ??= demand;
			failures += demand.by === 'dnssec' ? 1 : 0;
		} else {
			const allowed = found.addresses.filter(address => options.allowPrivateMx || isPublicAddress(address));
			refused ??= allowed.length < found.addresses.length ? `${host} has no public address` : null;
			const common = {host, port: options.port, implicitTls: false, login: null};
			const asked = {tls: demand?.tls ?? 'opportunistic', tlsPolicy: demand?.policy} as const;
			routes.push(...allowed.map(address => ({...common, ...asked, address})));
		}

		if (routes.length >= mostAddresses || failures >= mostFailures) {
			break;
		}
	}

	if (routes.length > 0) {
		return routes.slice(0, mostAddresses);
	}

	if (unmet !== null) {
		return policyFailure(unmet);
	}

	if (failure !== null) {
		return dnsFailure(failure);
	}

	if (refused !== null) {
		return refusal('network', refused.endsWith('this system') ? '5.4.6' : '5.4.4', refused);
	}

	const others = await otherAddresses(hosts, families, options.resolver);
	if (others.some(address => options.allowPrivateMx || isPublicAddress(address))) {
		const family = families.v6 ? 'IPv4' : 'IPv6';
		return deferral(
			'config',
			'4.4.4',
			`the mail hosts of ${domain} have only ${family}, by which nothing is sent here`,
		);
	}

	return others.length > 0
		? refusal('network', '5.4.4', `no mail host of ${domain} has a public address`)
		: noAddress(domain, noAddressBefore);
}

/** The hosts' addresses of the family that there is no way to: that is not the domain's fault. */
async function otherAddresses(
	hosts: readonly MxRecord[],
	{v4, v6}: Families,
	resolver: Resolver,
): Promise<readonly string[]> {
	if (v4 && v6) {
		return [];
	}

	const found = await Promise.all(
		hosts.slice(0, mostAddresses).map(({exchange}) => hostAddresses(exchange, false, {v4: !v4, v6: !v6}, resolver)),
	);
	return found.flatMap(({addresses}) => addresses);
}

async function hostAddresses(
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

/** No host of the domain is one that its policy allows: the policy may be renewed, the records mended. */
function policyFailure({by, reason}: Extract<HostDemand, {kind: 'refused'}>): NoRoute {
	return by === 'sts'
		? {...deferral('policy', '4.7.5', reason), tlsResult: {policy: 'sts', result: 'validation-failure'}}
		: {...deferral('dns_temp', '4.7.5', reason), tlsResult: {policy: 'tlsa', result: 'dnssec-invalid'}};
}

/** One such answer may be a resolver's glitch; it is final when given again 15 minutes later. */
function unknownDomain(domain: string, nxdomainBefore: boolean): NoRoute {
	const reply = `${domain} does not exist`;
	return nxdomainBefore
		? refusal('unknown_domain', '5.1.2', reply)
		: deferral('unknown_domain', '4.1.2', reply, confirmAfterMs.unknown_domain);
}

function noAddress(domain: string, noAddressBefore: boolean): NoRoute {
	const reply = `no mail host of ${domain} has an address`;
	return noAddressBefore
		? refusal('no_address', '5.4.4', reply)
		: deferral('no_address', '4.4.4', reply, confirmAfterMs.no_address);
}
