import {lookup} from 'node:dns/promises';
import {isIP, isIPv6} from 'node:net';
import {networkInterfaces} from 'node:os';
import type {Clock} from '../kit/clock.ts';
import {hash32} from '../kit/collections.ts';
import {suppresses} from '../mail/bounce.ts';
import type {BounceCategory, Outcome, PreviousAttempt, TlsResult} from '../mail/outcome.ts';
import {cappedWait, type RetrySchedule} from '../mail/retry.ts';
import type {Source} from '../mail/route.ts';
import type {DnsAnswer, MxRecord, Resolver} from '../net/dns.ts';
import {reverseName} from '../net/host-name.ts';
import {isPublicAddress} from '../net/ip-address.ts';
import type {Relay} from '../net/relay-url.ts';
import type {DemandOf, Host, HostDemand} from './host.ts';

type MxHostsOptions = {
	readonly resolver: Resolver;
	/** The address families that can be reached. */
	readonly families: Pick<Families, 'of'>;
	readonly port: number;
	/** For test labs: also allows addresses that are not public. */
	readonly allowPrivateMx: boolean;
	/** The addresses at which this system receives mail: an MX there is a loop. */
	readonly ownAddresses: ReadonlySet<string>;
	/** Returns the TLS requirements for a host. Without it, TLS is used if offered. */
	readonly demandOf?: DemandOf;
};

/** The recipient to find mail servers for. */
export type RecipientSearch = {
	readonly recipientId: string;
	readonly terms: {readonly sources: readonly Source[]};
	/** The hosts of earlier attempts, in order. */
	readonly previousAttempts?: readonly PreviousAttempt[];
	/** Whether an earlier attempt was deferred as `unknown_domain` or `no_address`, long enough ago to confirm it. */
	readonly wasNxdomain?: boolean;
	readonly hadNoAddress?: boolean;
};

/** The maximum number of addresses per attempt (R1.6). */
const maxAddresses = 5;
/**
 * How many hosts are looked up together if those of the first attempts were not enough or a lookup failed. If a lookup
 * in such a group fails, no further hosts are looked up, because each failure takes its full timeout.
 */
const hostsAtOnce = 10;

/**
 * Finds the mail servers of a domain (RFC 5321 §5.1, RFC 7505): its MX hosts by preference, or the domain itself if it
 * has no MX records. Each comes with its addresses, alternating between IPv6 and IPv4. Hosts of equal preference and
 * addresses of one host are in random order, to spread the load. Those already tried for the recipient come last. A
 * failed lookup leads to a deferral, never to a bounce.
 */
export async function findMxHosts(
	domain: string,
	recipient: RecipientSearch,
	options: MxHostsOptions,
): Promise<Host[] | NoHost> {
	const {wasNxdomain = false, hadNoAddress = false} = recipient;
	const response = await options.resolver.mx(domain, wasNxdomain || hadNoAddress);
	switch (response.kind) {
		case 'failed':
			return dnsFailure(`the MX lookup for ${domain} failed: ${response.code}`);
		case 'nxdomain':
			return unknownDomain(domain, wasNxdomain);
		case 'nodata':
			return findHostAddresses([{exchange: domain, priority: 0}], domain, recipient, options);
		case 'found':
			return isNullMx(response.records)
				? refusal('unknown_domain', '5.1.10', `${domain} does not accept mail (null MX)`, 556)
				: findHostAddresses(mailHosts(response.records, recipient), domain, recipient, options);
	}
}

async function findHostAddresses(
	exchanges: readonly MxRecord[],
	domain: string,
	recipient: RecipientSearch,
	options: MxHostsOptions,
): Promise<Host[] | NoHost> {
	const {terms, hadNoAddress = false, previousAttempts = []} = recipient;
	const families = await options.families.of(terms.sources);
	const rankOf = createRandomRank(recipient);
	const lookUp = async ({exchange: host}: MxRecord) => {
		const result = await hostAddresses(host, hadNoAddress, families, options.resolver, rankOf);
		return {host, ...result, demand: result.addresses.length > 0 ? await options.demandOf?.(host) : undefined};
	};
	const hosts: Host[] = [];
	let untried = 0;
	let isDone = false;
	let unmetDemand: Extract<HostDemand, {kind: 'refused'}> | null = null;
	let failure: string | null = null;
	let refusedReason: string | null = null;
	// The first host is enough for most messages.
	for (let start = 0; start < exchanges.length && !isDone && untried < maxAddresses; ) {
		const size =
			start === 0 ? 1 : previousAttempts.length === 0 && failure === null ? maxAddresses - untried : hostsAtOnce;
		const batch = exchanges.slice(start, start + size);
		start += batch.length;
		const isLargeBatch = size === hostsAtOnce;
		for (const result of await Promise.all(batch.map(lookUp))) {
			const {host, addresses, demand} = result;
			failure ??= result.failure;
			isDone ||= result.failure !== null && isLargeBatch;
			if (addresses.some(address => options.ownAddresses.has(address))) {
				// RFC 5321 §5.1: this host and all less preferred ones would send the message back to this system.
				refusedReason = `the mail for ${domain} would loop: ${host} is this system`;
				isDone = true;
				break;
			}
			if (demand?.kind === 'refused') {
				unmetDemand ??= demand;
				isDone ||= demand.by === 'dnssec' && isLargeBatch;
				continue;
			}
			const allowed = addresses.filter(address => options.allowPrivateMx || isPublicAddress(address));
			refusedReason ??= allowed.length < addresses.length ? `${host} has no public address` : null;
			const common = {name: host, port: options.port, implicitTls: false, login: null};
			const tlsOptions = {tls: demand?.tls ?? 'opportunistic', tlsPolicy: demand?.policy} as const;
			hosts.push(...allowed.map(address => ({...common, ...tlsOptions, address})));
			untried += allowed.filter(
				ip => !previousAttempts.some(attempt => attempt.host === host && attempt.ip === ip),
			).length;
		}
	}
	if (hosts.length > 0) {
		return withBothFamilies(untriedFirst(hosts, previousAttempts));
	}
	if (unmetDemand !== null) {
		return policyFailure(unmetDemand);
	}
	if (failure !== null) {
		return dnsFailure(failure);
	}
	if (refusedReason !== null) {
		return refusal('network', refusedReason.endsWith('this system') ? '5.4.6' : '5.4.4', refusedReason);
	}
	const names = exchanges.slice(0, maxAddresses).map(({exchange}) => exchange);
	const unreachable = await unreachableAddresses(names, families, options.resolver, rankOf);
	if (unreachable.some(address => options.allowPrivateMx || isPublicAddress(address))) {
		return wrongFamily(domain, families);
	}
	return unreachable.length > 0
		? refusal('network', '5.4.4', `no mail server of ${domain} has a public address`)
		: noAddress(domain, hadNoAddress);
}

/**
 * Returns a host's addresses, alternating between IPv6 and IPv4, and the reason if a lookup failed. `shouldBypassCache`
 * bypasses the cache.
 */
async function hostAddresses(
	host: string,
	shouldBypassCache: boolean,
	families: Reachable,
	resolver: Resolver,
	rankOf: RandomRank,
): Promise<{addresses: string[]; failure: string | null}> {
	const none: DnsAnswer<string> = {kind: 'nodata'};
	const [v6, v4] = await Promise.all([
		families.v6 ? resolver.aaaa(host, shouldBypassCache) : none,
		families.v4 ? resolver.a(host, shouldBypassCache) : none,
	]);
	const failed = [v6, v4].find(response => response.kind === 'failed');
	return {
		addresses: interleave(shuffle(toRecords(v6), rankOf), shuffle(toRecords(v4), rankOf)),
		failure: failed === undefined ? null : `the address lookup for ${host} failed: ${failed.code}`,
	};
}

function toRecords(response: DnsAnswer<string>): readonly string[] {
	return response.kind === 'found' ? response.records : [];
}

function interleave(first: readonly string[], second: readonly string[]): string[] {
	const result: string[] = [];
	for (let index = 0; index < Math.max(first.length, second.length); index++) {
		result.push(...first.slice(index, index + 1), ...second.slice(index, index + 1));
	}
	return result;
}

/** Returns the hosts' addresses in the family that cannot be reached from here. */
async function unreachableAddresses(
	hosts: readonly string[],
	{v4, v6}: Reachable,
	resolver: Resolver,
	rankOf: RandomRank,
): Promise<readonly string[]> {
	if (v4 && v6) {
		return [];
	}
	const results = await Promise.all(
		hosts.map(host => hostAddresses(host, false, {v4: !v4, v6: !v6}, resolver, rankOf)),
	);
	return results.flatMap(({addresses}) => addresses);
}

const normalize = (name: string): string => name.toLowerCase().replace(/\.$/, '');

/** RFC 7505: the domain does not accept mail. */
function isNullMx(records: readonly MxRecord[]): boolean {
	return records.every(({exchange}) => normalize(exchange) === '');
}

// Other names are rejected because host names end up in commands, logs and certificate checks.
const hostNames = /^[a-z0-9_.-]{1,253}$/;

type RandomRank = (name: string) => number;

/** Returns a function that gives each name a random number, different for each recipient and attempt. */
function createRandomRank({
	recipientId,
	previousAttempts,
}: Pick<RecipientSearch, 'recipientId' | 'previousAttempts'>): RandomRank {
	const seed = `${recipientId} ${previousAttempts?.at(-1)?.n ?? 0} `;
	return name => hash32(seed, name);
}

/** Returns a domain's valid MX hosts by preference, those of equal preference in the recipient's random order. */
function mailHosts(
	records: readonly MxRecord[],
	recipient: Pick<RecipientSearch, 'recipientId' | 'previousAttempts'>,
): MxRecord[] {
	const rankOf = createRandomRank(recipient);
	return shuffle(usable(records), ({exchange}) => rankOf(exchange)).toSorted((a, b) => a.priority - b.priority);
}

/** Sorts by a random number that is drawn once per item. */
function shuffle<T>(items: readonly T[], rankOf: (item: T) => number): readonly T[] {
	if (items.length < 2) {
		return items;
	}
	const ranked = items.map(item => ({item, rank: rankOf(item)}));
	return ranked.sort((a, b) => a.rank - b.rank).map(({item}) => item);
}

/**
 * Puts hosts not tried yet first, then those tried longest ago, so that eventually all are tried. A host that greylists
 * must see the message again, so it goes before all others.
 */
function untriedFirst(hosts: readonly Host[], previousHosts: readonly PreviousAttempt[]): readonly Host[] {
	if (previousHosts.length === 0) {
		return hosts;
	}
	const order = new Map(previousHosts.map(({host, ip}, index) => [`${host} ${ip}`, index]));
	const lastAttempt = previousHosts.at(-1)?.n;
	const greylisting = previousHosts.find(
		({n, phase, code}) => n === lastAttempt && phase === 'rcpt' && (code === 450 || code === 451),
	);
	if (greylisting !== undefined) {
		order.set(`${greylisting.host} ${greylisting.ip}`, -2);
	}
	const positionOf = ({name: host, address}: Host) => order.get(`${host} ${address}`) ?? -1;
	return hosts.toSorted((a, b) => positionOf(a) - positionOf(b));
}

/** Returns the first hosts, with at least one address of each family: one may be unreachable from here. */
function withBothFamilies(hosts: readonly Host[]): Host[] {
	const first = hosts.slice(0, maxAddresses);
	const isV6 = isIPv6(first[0]?.address ?? '');
	const other = hosts.find(({address}) => isIPv6(address) !== isV6);
	return other === undefined || first.includes(other) ? first : [...first.slice(0, -1), other];
}

/** Drops records that are not usable: a null MX beside others has no meaning, and an IP address is not a host name. */
function usable(records: readonly MxRecord[]): MxRecord[] {
	return records
		.map(({exchange, priority}) => ({exchange: normalize(exchange), priority}))
		.filter(({exchange}) => hostNames.test(exchange) && isIP(exchange) === 0);
}

/** The address families that can be reached. */
type Reachable = {readonly v4: boolean; readonly v6: boolean};

type FamiliesOptions = {
	/** The setting MAILCTL_IPV6. */
	readonly ipv6: boolean;
	readonly resolver: Pick<Resolver, 'ptr'>;
	/** For test labs: addresses that are not public count too, and need no reverse name. */
	readonly allowPrivate: boolean;
	readonly clock: Clock;
	/** Returns the addresses of this machine. */
	readonly ownAddresses?: () => readonly string[];
};

/** How long addresses are cached, because reading them from the system takes as long as sending a message. */
const cacheMs = 60_000;

/** Determines which address families can be used for sending. The machine's addresses are cached for a minute. */
export class Families {
	readonly #options: FamiliesOptions;
	#ownAddresses: readonly string[] = [];
	#ownUntil = Number.NEGATIVE_INFINITY;

	constructor(options: FamiliesOptions) {
		this.#options = options;
	}

	/**
	 * Returns the families available with these sources; an empty list means the system chooses. IPv6 needs an address
	 * with a reverse name in DNS, because large providers permanently refuse mail from others (R1.6).
	 */
	async of(sources: readonly Source[]): Promise<Reachable> {
		const {ipv6, allowPrivate} = this.#options;
		const v4 = sources.length === 0 || sources.some(({address}) => !isIPv6(address));
		if (!ipv6) {
			return {v4, v6: false};
		}
		const addresses = sources.length === 0 ? this.#currentAddresses() : sources.map(({address}) => address);
		const v6Addresses = addresses.filter(isIPv6);
		if (allowPrivate) {
			return {v4, v6: v6Addresses.length > 0};
		}
		const results = await Promise.all(v6Addresses.filter(isPublicAddress).map(ip => this.#hasReverseName(ip)));
		return {v4, v6: results.includes(true)};
	}

	#currentAddresses(): readonly string[] {
		const {clock, ownAddresses = interfaceAddresses} = this.#options;
		if (clock.monotonic() >= this.#ownUntil) {
			this.#ownAddresses = ownAddresses();
			this.#ownUntil = clock.monotonic() + cacheMs;
		}
		return this.#ownAddresses;
	}

	async #hasReverseName(address: string): Promise<boolean> {
		// A failed lookup is no evidence that the name is missing.
		const {kind} = await this.#options.resolver.ptr(reverseName(address));
		return kind === 'found' || kind === 'failed';
	}
}

function interfaceAddresses(): string[] {
	return Object.values(networkInterfaces()).flatMap(list => (list ?? []).map(({address}) => address));
}

/** Returns a host's addresses according to the operating system, and throws if it knows none. */
export type LookUp = (host: string) => Promise<readonly string[]>;

export const systemLookUp: LookUp = async host => {
	const records = await lookup(host, {all: true, verbatim: true});
	return records.map(({address}) => address);
};

/** Resolves the addresses of relays, and caches them for a minute. */
export class RelayHosts {
	readonly #clock: Clock;
	readonly #lookUp: LookUp;
	readonly #cached = new Map<string, {readonly until: number; readonly addresses: Promise<readonly string[]>}>();

	constructor(clock: Clock, lookUp: LookUp = systemLookUp) {
		this.#clock = clock;
		this.#lookUp = lookUp;
	}

	/**
	 * Returns hosts in the order of the relays, with addresses already tried last. Relays that cannot be resolved are
	 * skipped. Each resolved relay is included at least once, however many addresses another one has.
	 */
	async find(relays: readonly Relay[], previousHosts: readonly PreviousAttempt[] = []): Promise<Host[] | NoHost> {
		const hostsByRelay: Array<readonly Host[]> = [];
		let failure = 'no relay is configured';
		for (const relay of relays) {
			try {
				const hosts = (relay.api ? [relay.host] : await this.#addresses(relay.host)).map(address =>
					toHost(relay, address),
				);
				hostsByRelay.push(untriedFirst(hosts, previousHosts));
			} catch (error) {
				failure = `the smarthost ${relay.host} was not found: ${(error as NodeJS.ErrnoException).code ?? String(error)}`;
			}
		}
		const hosts = takeInTurn(hostsByRelay, Math.max(maxAddresses, hostsByRelay.length));
		return hosts.length > 0 ? hosts : deferral('config', '4.4.3', failure);
	}

	#addresses(host: string): Promise<readonly string[]> {
		if (isIP(host) !== 0) {
			return Promise.resolve([host]);
		}
		const cached = this.#cached.get(host);
		if (cached !== undefined && cached.until > this.#clock.monotonic()) {
			return cached.addresses;
		}
		const pending = this.#lookUp(host);
		this.#cached.set(host, {until: this.#clock.monotonic() + cacheMs, addresses: pending});
		pending.catch(() => this.#cached.delete(host));
		return pending;
	}
}

function toHost({host, port, secure, tls, user, password, api}: Relay, address: string): Host {
	const login = user === null || password === null ? null : {user, password};
	return {name: host, address, port, tls, implicitTls: secure, login, ...(api && {api})};
}

/** Returns at most `max` items in total, taking one from each list in turn, in the order of the lists. */
function takeInTurn<T>(lists: ReadonlyArray<readonly T[]>, max: number): T[] {
	const depths = lists.map(() => 0);
	let remaining = max;
	for (let depth = 0; remaining > 0 && lists.some(list => list.length > depth); depth++) {
		for (const [index, list] of lists.entries()) {
			if (list.length > depth && remaining > 0) {
				depths[index] = depth + 1;
				remaining--;
			}
		}
	}
	return lists.flatMap((list, index) => list.slice(0, depths[index]));
}

/** The outcome when there is no mail server to contact, with the texts for the attempt record. */
export type NoHost = {
	readonly outcome: Outcome;
	readonly code: number | null;
	readonly enhanced: string;
	readonly reply: string;
	readonly tlsResult?: TlsResult;
};

const minute = 60_000;

/** How far apart two such responses must be before the second one is final. */
const confirmAfterMs = {unknown_domain: 15 * minute, no_address: 60 * minute};

/** A failure that may resolve itself. The next attempt waits at least `waitMs`. */
function deferral(category: BounceCategory, enhanced: string, reply: string, waitMs?: number): NoHost {
	const wait = waitMs === undefined ? {} : {waitMs};
	return {
		outcome: {kind: 'deferred', category, reason: `${enhanced} ${reply}`, ...wait},
		code: null,
		enhanced,
		reply,
	};
}

/** A permanent failure. `code` is the reply a mail server would have given, if there is an equivalent. */
function refusal(category: BounceCategory, enhanced: string, reply: string, code: number | null = null): NoHost {
	const reason = `${enhanced} ${reply}`;
	const outcome: Outcome = {kind: 'bounced', type: 'permanent', category, reason, suppresses: suppresses(category)};
	return {outcome, code, enhanced, reply};
}

/** A lookup that DNS could not answer. */
function dnsFailure(reply: string): NoHost {
	return deferral('dns_temp', '4.4.3', reply);
}

/** The domain's policy rules out all its hosts. The message is deferred, as the policy or records may be fixed. */
function policyFailure({by, reason}: Extract<HostDemand, {kind: 'refused'}>): NoHost {
	return by === 'sts'
		? {...deferral('policy', '4.7.5', reason), tlsResult: {policy: 'sts', result: 'validation-failure'}}
		: {...deferral('dns_temp', '4.7.5', reason), tlsResult: {policy: 'tlsa', result: 'dnssec-invalid'}};
}

/** The domain's mail servers have addresses only in a family over which this machine does not send. */
function wrongFamily(domain: string, {v6}: Reachable): NoHost {
	const family = v6 ? 'IPv4' : 'IPv6';
	const reply = `the mail servers of ${domain} have only ${family} addresses, but this machine does not send over ${family}`;
	return deferral('config', '4.4.4', reply);
}

/** A domain that does not exist. It may be a resolver's glitch, so it is final only 15 minutes later. */
function unknownDomain(domain: string, wasNxdomain: boolean): NoHost {
	const reply = `${domain} does not exist`;
	return wasNxdomain
		? refusal('unknown_domain', '5.1.2', reply)
		: deferral('unknown_domain', '4.1.2', reply, confirmAfterMs.unknown_domain);
}

/** No mail server of the domain has an address. This is final only when repeated at least an hour later. */
function noAddress(domain: string, hadNoAddress: boolean): NoHost {
	const reply = `no mail server of ${domain} has an address`;
	return hadNoAddress
		? refusal('no_address', '5.4.4', reply)
		: deferral('no_address', '4.4.4', reply, confirmAfterMs.no_address);
}

/**
 * Whether DNS reported a missing domain or address at the last attempt, long enough ago for a second such response to
 * be final. It does not count after a flush, which may bring the recipient back sooner.
 */
export function toConfirmations(
	recipient: {readonly last_category: string | null; readonly state_at: string},
	schedule: RetrySchedule,
	now: number,
): {wasNxdomain: boolean; hadNoAddress: boolean} {
	const hasWaitedFor = (category: keyof typeof confirmAfterMs): boolean =>
		recipient.last_category === category &&
		now - Date.parse(recipient.state_at) >= cappedWait(confirmAfterMs[category], schedule);
	return {wasNxdomain: hasWaitedFor('unknown_domain'), hadNoAddress: hasWaitedFor('no_address')};
}
