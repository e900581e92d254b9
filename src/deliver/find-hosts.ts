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
export type Seeking = {
	readonly recipientId: string;
	readonly terms: {readonly sources: readonly Source[]};
	/** The hosts of earlier attempts, in order. */
	readonly asked?: readonly PreviousAttempt[];
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
	recipient: Seeking,
	options: MxHostsOptions,
): Promise<Host[] | NoHost> {
	const {wasNxdomain = false, hadNoAddress = false} = recipient;
	const answer = await options.resolver.mx(domain, wasNxdomain || hadNoAddress);
	switch (answer.kind) {
		case 'failed':
			return dnsFailure(`the MX lookup for ${domain} failed: ${answer.code}`);
		case 'nxdomain':
			return unknownDomain(domain, wasNxdomain);
		case 'nodata':
			return findHostAddresses([{exchange: domain, priority: 0}], domain, recipient, options);
		case 'found':
			return isNullMx(answer.records)
				? refusal('unknown_domain', '5.1.10', `${domain} does not accept mail (null MX)`, 556)
				: findHostAddresses(mailHosts(answer.records, recipient), domain, recipient, options);
	}
}

async function findHostAddresses(
	exchanges: readonly MxRecord[],
	domain: string,
	recipient: Seeking,
	options: MxHostsOptions,
): Promise<Host[] | NoHost> {
	const {terms, hadNoAddress = false, asked = []} = recipient;
	const families = await options.families.of(terms.sources);
	const lotOf = createLots(recipient);
	const lookUp = async ({exchange: host}: MxRecord) => {
		const result = await hostAddresses(host, hadNoAddress, families, options.resolver, lotOf);
		return {host, ...result, demand: result.addresses.length > 0 ? await options.demandOf?.(host) : undefined};
	};
	const hosts: Host[] = [];
	let unasked = 0;
	let isEnd = false;
	let unmet: Extract<HostDemand, {kind: 'refused'}> | null = null;
	let failure: string | null = null;
	let refused: string | null = null;
	// The first host alone is enough for most messages.
	for (let at = 0; at < exchanges.length && !isEnd && unasked < maxAddresses; ) {
		const batchSize = at === 0 ? 1 : asked.length === 0 && failure === null ? maxAddresses - unasked : hostsAtOnce;
		const wave = exchanges.slice(at, at + batchSize);
		at += wave.length;
		const isWhole = batchSize === hostsAtOnce;
		for (const result of await Promise.all(wave.map(lookUp))) {
			const {host, addresses, demand} = result;
			failure ??= result.failure;
			isEnd ||= result.failure !== null && isWhole;
			if (addresses.some(address => options.ownAddresses.has(address))) {
				// RFC 5321 §5.1: this host and all less preferred ones would send the message back to this system.
				refused = `the mail for ${domain} would loop: ${host} is this system`;
				isEnd = true;
				break;
			}
			if (demand?.kind === 'refused') {
				unmet ??= demand;
				isEnd ||= demand.by === 'dnssec' && isWhole;
				continue;
			}
			const allowed = addresses.filter(address => options.allowPrivateMx || isPublicAddress(address));
			refused ??= allowed.length < addresses.length ? `${host} has no public address` : null;
			const common = {name: host, port: options.port, implicitTls: false, login: null};
			const tlsOptions = {tls: demand?.tls ?? 'opportunistic', tlsPolicy: demand?.policy} as const;
			hosts.push(...allowed.map(address => ({...common, ...tlsOptions, address})));
			unasked += allowed.filter(address => !asked.some(one => one.host === host && one.ip === address)).length;
		}
	}
	if (hosts.length > 0) {
		return ofBothFamilies(inTurn(hosts, asked));
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
	const names = exchanges.slice(0, maxAddresses).map(({exchange}) => exchange);
	const others = await otherAddresses(names, families, options.resolver, lotOf);
	if (others.some(address => options.allowPrivateMx || isPublicAddress(address))) {
		const family = families.v6 ? 'IPv4' : 'IPv6';
		return deferral(
			'config',
			'4.4.4',
			`the mail servers of ${domain} have only ${family} addresses, but this machine does not send over ${family}`,
		);
	}
	return others.length > 0
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
	lotOf: RandomRank,
): Promise<{addresses: string[]; failure: string | null}> {
	const none: DnsAnswer<string> = {kind: 'nodata'};
	const [v6, v4] = await Promise.all([
		families.v6 ? resolver.aaaa(host, shouldBypassCache) : none,
		families.v4 ? resolver.a(host, shouldBypassCache) : none,
	]);
	const failed = [v6, v4].find(answer => answer.kind === 'failed');
	return {
		addresses: interleaved(shuffled(toRecords(v6), lotOf), shuffled(toRecords(v4), lotOf)),
		failure: failed === undefined ? null : `the address lookup for ${host} failed: ${failed.code}`,
	};
}

function toRecords(answer: DnsAnswer<string>): readonly string[] {
	return answer.kind === 'found' ? answer.records : [];
}

function interleaved(first: readonly string[], second: readonly string[]): string[] {
	const all: string[] = [];
	for (let n = 0; n < Math.max(first.length, second.length); n++) {
		all.push(...first.slice(n, n + 1), ...second.slice(n, n + 1));
	}
	return all;
}

/** Returns the hosts' addresses in the family that cannot be reached from here. */
async function otherAddresses(
	hosts: readonly string[],
	{v4, v6}: Reachable,
	resolver: Resolver,
	lotOf: RandomRank,
): Promise<readonly string[]> {
	if (v4 && v6) {
		return [];
	}
	const results = await Promise.all(
		hosts.map(host => hostAddresses(host, false, {v4: !v4, v6: !v6}, resolver, lotOf)),
	);
	return results.flatMap(({addresses}) => addresses);
}

const bare = (name: string): string => name.toLowerCase().replace(/\.$/, '');

/** RFC 7505: the domain does not accept mail. */
function isNullMx(records: readonly MxRecord[]): boolean {
	return records.every(({exchange}) => bare(exchange) === '');
}

// Other names are rejected because host names end up in commands, logs and certificate checks.
const hostNames = /^[a-z0-9_.-]{1,253}$/;

type RandomRank = (name: string) => number;

/** Returns a function that gives each name a random number, different for each recipient and attempt. */
function createLots({recipientId, asked}: Pick<Seeking, 'recipientId' | 'asked'>): RandomRank {
	const seed = `${recipientId} ${asked?.at(-1)?.n ?? 0} `;
	return name => hash32(seed, name);
}

/** Returns a domain's valid MX hosts by preference, those of equal preference in the recipient's random order. */
function mailHosts(records: readonly MxRecord[], recipient: Pick<Seeking, 'recipientId' | 'asked'>): MxRecord[] {
	const lotOf = createLots(recipient);
	return shuffled(usable(records), ({exchange}) => lotOf(exchange)).toSorted((a, b) => a.priority - b.priority);
}

/** Sorts by a random number that is drawn once per item. */
function shuffled<T>(all: readonly T[], lotOf: (one: T) => number): readonly T[] {
	if (all.length < 2) {
		return all;
	}
	const ranked = all.map(one => ({one, drawn: lotOf(one)}));
	return ranked.sort((a, b) => a.drawn - b.drawn).map(({one}) => one);
}

/**
 * Puts hosts not tried yet first, then those tried longest ago, so that eventually all are tried. A host that greylists
 * must see the message again, so it goes before all others.
 */
function inTurn(hosts: readonly Host[], previousHosts: readonly PreviousAttempt[]): readonly Host[] {
	if (previousHosts.length === 0) {
		return hosts;
	}
	const order = new Map(previousHosts.map(({host, ip}, index) => [`${host} ${ip}`, index]));
	const lastTry = previousHosts.at(-1)?.n;
	const greylisting = previousHosts.find(
		({n, phase, code}) => n === lastTry && phase === 'rcpt' && (code === 450 || code === 451),
	);
	if (greylisting !== undefined) {
		order.set(`${greylisting.host} ${greylisting.ip}`, -2);
	}
	const turnOf = ({name: host, address}: Host) => order.get(`${host} ${address}`) ?? -1;
	return hosts.toSorted((a, b) => turnOf(a) - turnOf(b));
}

/** Returns the first hosts, with at least one address of each family: one may be unreachable from here. */
function ofBothFamilies(hosts: readonly Host[]): Host[] {
	const first = hosts.slice(0, maxAddresses);
	const isV6 = isIPv6(first[0]?.address ?? '');
	const other = hosts.find(({address}) => isIPv6(address) !== isV6);
	return other === undefined || first.includes(other) ? first : [...first.slice(0, -1), other];
}

/** Drops records that are not usable: a null MX beside others has no meaning, and an IP address is not a host name. */
function usable(records: readonly MxRecord[]): MxRecord[] {
	return records
		.map(({exchange, priority}) => ({exchange: bare(exchange), priority}))
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

/** How long addresses are cached: asking the system takes as long as sending a message. */
const keptMs = 60_000;

/** Determines which address families can be used for sending. The machine's addresses are cached for a minute. */
export class Families {
	readonly #options: FamiliesOptions;
	#own: readonly string[] = [];
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
		const from = (sources.length === 0 ? this.#ownNow() : sources.map(({address}) => address)).filter(isIPv6);
		if (allowPrivate) {
			return {v4, v6: from.length > 0};
		}
		const named = await Promise.all(from.filter(isPublicAddress).map(address => this.#isNamed(address)));
		return {v4, v6: named.includes(true)};
	}

	#ownNow(): readonly string[] {
		const {clock, ownAddresses = interfaceAddresses} = this.#options;
		if (clock.monotonic() >= this.#ownUntil) {
			this.#own = ownAddresses();
			this.#ownUntil = clock.monotonic() + keptMs;
		}
		return this.#own;
	}

	async #isNamed(address: string): Promise<boolean> {
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
	const found = await lookup(host, {all: true, verbatim: true});
	return found.map(({address}) => address);
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
					hostTo(relay, address),
				);
				hostsByRelay.push(inTurn(hosts, previousHosts));
			} catch (error) {
				failure = `the smarthost ${relay.host} was not found: ${(error as NodeJS.ErrnoException).code ?? String(error)}`;
			}
		}
		const hosts = shared(hostsByRelay, Math.max(maxAddresses, hostsByRelay.length));
		return hosts.length > 0 ? hosts : deferral('config', '4.4.3', failure);
	}

	#addresses(host: string): Promise<readonly string[]> {
		if (isIP(host) !== 0) {
			return Promise.resolve([host]);
		}
		const known = this.#cached.get(host);
		if (known !== undefined && known.until > this.#clock.monotonic()) {
			return known.addresses;
		}
		const pending = this.#lookUp(host);
		this.#cached.set(host, {until: this.#clock.monotonic() + keptMs, addresses: pending});
		pending.catch(() => this.#cached.delete(host));
		return pending;
	}
}

function hostTo({host, port, secure, tls, user, password, api}: Relay, address: string): Host {
	const login = user === null || password === null ? null : {user, password};
	return {name: host, address, port, tls, implicitTls: secure, login, ...(api && {api})};
}

/** Returns at most `max` items in total, taking one from each list in turn, in the order of the lists. */
function shared<T>(lists: ReadonlyArray<readonly T[]>, max: number): T[] {
	const depths = lists.map(() => 0);
	let left = max;
	for (let depth = 0; left > 0 && lists.some(list => list.length > depth); depth++) {
		for (const [n, list] of lists.entries()) {
			if (list.length > depth && left > 0) {
				depths[n] = depth + 1;
				left--;
			}
		}
	}
	return lists.flatMap((list, n) => list.slice(0, depths[n]));
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
