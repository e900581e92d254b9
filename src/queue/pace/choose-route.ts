import {createHash} from 'node:crypto';
import {isIP, isIPv6} from 'node:net';
import {dayMs} from '../../kit/time.ts';
import {maxWait, noOwnRetry, type OwnRetry, type RetrySchedule} from '../../mail/retry.ts';
import type {Pace, Route, RouteChoice, Source, Terms} from '../../mail/route.ts';
import {simulatorDomain} from '../../mail/simulator.ts';
import type {DnsAnswer, MxRecord, Resolver} from '../../net/dns.ts';
import type {Relay} from '../../net/relay-url.ts';

/** The settings about how mail leaves. */
export type Network = {
	readonly delivery: 'capture' | 'mx' | 'relay';
	/** MAILCTL_RELAY_URL; may be empty. */
	readonly relays: readonly Relay[];
	readonly acceptMeans: 'sent' | 'delivered';
	readonly sources: readonly Source[];
	/** The addresses of `sources` in each pool, by its name. */
	readonly pools: ReadonlyMap<string, readonly string[]>;
};

/** A workspace's preferences; `null` for no preference. */
export type Preference = {readonly pool: string | null; readonly route: RouteChoice | null};

/** Returns how much a new source address may send to a provider today; `null` means no limit. */
export type DailyShares = (address: string, provider: string) => number | null;

type BaseRoute = Omit<Route, 'warmUp'>;

/** Files and the simulator need no limits. */
const localPace: Pace = {
	connections: 64,
	startConnections: 64,
	mailsPerSession: 1000,
	perMinute: null,
	failures: 1000,
	reactions: [],
};

/** Whether the route depends on the destination's mail servers: not if mail goes to a relay (R1.8) or a file. */
export function needsHosts(
	destination: string,
	preference: Preference,
	network: Network,
	destinations: Destinations,
): boolean {
	if (network.delivery === 'capture' || destination === simulatorDomain) {
		return false;
	}
	const entry = longestMatch(destinations.byDomain, destination);
	const dependsOnHosts =
		entry === undefined &&
		(hostsDecideRetry(destinations) || [...destinations.byMx.values()].some(({route}) => route !== null));
	return dependsOnHosts || selectRelays(entry ?? destinations.other, preference, network).length === 0;
}

/** Returns a destination's own retry rules. Queries DNS only if mail servers decide the rules. */
export function ownRetryOf(
	destination: string,
	delivery: Network['delivery'],
	destinations: Destinations,
	resolver: Pick<Resolver, 'mx'>,
): OwnRetry | Promise<OwnRetry> {
	if (delivery === 'capture' || destination === simulatorDomain) {
		return noOwnRetry;
	}
	const entry = longestMatch(destinations.byDomain, destination);
	return entry !== undefined || !hostsDecideRetry(destinations)
		? (entry ?? destinations.other).retry
		: resolver
				.mx(destination)
				.then(answer => mxProvider(destinations, mxHosts(destination, answer)[0] ?? '').retry);
}

/**
 * Decides where mail goes, which limits it shares, and how fast it is sent. `hosts` are the destination's mail servers
 * in order of preference.
 */
export function chooseRoute(
	destination: string,
	hosts: readonly string[],
	preference: Preference,
	network: Network,
	destinations: Destinations,
	shares: DailyShares,
): Route {
	if (destination === simulatorDomain || network.delivery === 'capture') {
		const site = destination === simulatorDomain ? simulatorDomain : 'capture';
		const terms = termsTo({kind: 'mx'}, localPace, []);
		return {site, provider: 'default', pace: localPace, retry: noOwnRetry, terms, warmUp: null};
	}
	const provider = findProvider(destinations, destination, hosts);
	const sources = sourcesInPool(provider.pool ?? preference.pool, network);
	const relays = selectRelays(provider, preference, network);
	if (relays.length > 0) {
		return {...smarthostRoute(relays, sources, network, destinations, provider), warmUp: null};
	}
	const chosen = sourcesFor(sources, destination);
	// A domain with its own entry has its own limits, even if other domains use the same mail servers.
	const entry = longestMatch(destinations.byDomain, destination);
	const name = entry === undefined ? hostsName(hosts) : `${hostsName(hosts)} as ${entry.name}`;
	const route = directRoute(name, chosen, provider);
	const shareFor = ({address}: Source) => shares(address, provider.name);
	const [limited, ...rest] = chosen.filter(source => shareFor(source) !== null);
	if (limited === undefined) {
		return {...route, warmUp: null};
	}
	// IPv4 or IPv6 is chosen only when connecting, so both use the smaller share.
	const smallest = rest.reduce((a, b) => ((shareFor(b) as number) < (shareFor(a) as number) ? b : a), limited);
	const established = sourcesFor(
		sources.filter(source => shareFor(source) === null),
		destination,
	);
	const throughEstablished = established.length > 0 ? directRoute(name, established, provider) : null;
	return {
		...route,
		warmUp: {
			source: smallest.address,
			group: provider.name,
			perDay: shareFor(smallest) as number,
			overflow:
				network.relays.length > 0
					? smarthostRoute(network.relays, sources, network, destinations, provider)
					: throughEstablished,
		},
	};
}

/**
 * Returns the relays for the mail, or none if it goes to mail servers directly. The destination's route takes
 * precedence over the workspace's and the settings'.
 */
function selectRelays(provider: Provider, preference: Preference, {delivery, relays}: Network): readonly Relay[] {
	const choice = provider.route ?? preference.route ?? {kind: delivery === 'relay' ? 'relay' : 'mx'};
	switch (choice.kind) {
		case 'mx':
			return [];
		case 'relay':
			return relays;
		case 'smarthosts':
			return choice.relays;
	}
}

/** Returns the sources of a pool: all sources if it is unknown, so that a wrong name does not stop mail. */
function sourcesInPool(pool: string | null, {sources, pools}: Network): readonly Source[] {
	const addresses = pool === null ? undefined : pools.get(pool);
	return addresses === undefined ? sources : sources.filter(({address}) => addresses.includes(address));
}

function directRoute(
	name: string,
	sources: readonly Source[],
	{name: provider, pace, retry, tls}: Provider,
): BaseRoute {
	return {
		site: fromSources(name, sources),
		provider,
		pace,
		retry,
		terms: {...termsTo({kind: 'mx'}, pace, sources), tls},
	};
}

function smarthostRoute(
	relays: readonly Relay[],
	pool: readonly Source[],
	{acceptMeans}: Network,
	{smarthost: pace}: Destinations,
	{retry}: Provider,
): BaseRoute {
	const name = smarthostName(relays);
	const sources = sourcesFor(pool, name);
	return {
		site: fromSources(name, sources),
		provider: 'smarthost',
		pace,
		retry,
		terms: termsTo({kind: 'relay', relays, acceptMeans}, pace, sources),
	};
}

function termsTo(nextHop: Terms['nextHop'], {mailsPerSession}: Pace, sources: readonly Source[]): Terms {
	return {nextHop, tls: 'opportunistic', mtaSts: null, sources, mailsPerSession};
}

/**
 * Returns the source addresses for a destination: one of each IP family, if available. A destination keeps its address
 * even when others are added, because greylisting and reputation depend on it. To achieve this, the address with the
 * highest hash for the destination is chosen.
 */
export function sourcesFor(sources: readonly Source[], destination: string): readonly Source[] {
	const families = [sources.filter(({address}) => !isIPv6(address)), sources.filter(({address}) => isIPv6(address))];
	const hashOf = ({address}: Source) => createHash('sha256').update(`${address} ${destination}`).digest('hex');
	return families.flatMap(family => {
		const hashed = family.map(source => ({source, hash: hashOf(source)}));
		const [highest] = hashed.sort((a, b) => (a.hash < b.hash ? 1 : -1));
		return highest === undefined ? [] : [highest.source];
	});
}

/** Longer names are truncated and end in a hash: a domain may have twenty mail servers with names of 250 characters. */
const maxNameLength = 150;
/** Mail servers with other names are ignored: they cannot receive mail, and could imitate another provider. */
const hostNamePattern = /^[a-z0-9_.-]{1,253}$/;

/**
 * Returns a domain's mail servers in order of preference, those with equal preference by name. Returns the domain
 * itself if it has none or DNS gave no usable answer.
 */
export function mxHosts(domain: string, answer: DnsAnswer<MxRecord>): readonly string[] {
	const records = answer.kind === 'found' ? answer.records : [];
	const hosts = records
		.map(({exchange, priority}) => ({host: exchange.toLowerCase().replace(/\.$/, ''), priority}))
		.filter(({host}) => hostNamePattern.test(host) && isIP(host) === 0)
		.sort((a, b) => a.priority - b.priority || (a.host < b.host ? -1 : 1))
		.map(({host}) => host);
	return hosts.length > 0 ? [...new Set(hosts)] : [domain];
}

/**
 * Returns a name for a set of mail servers, regardless of their order: domains with the same mail servers share limits.
 * The common part is written once: `(alt1|alt2)?.aspmx.l.google.com` stands for that host and two below it.
 */
export function hostsName(hosts: readonly string[]): string {
	const sorted = [...new Set(hosts)].sort();
	const common = sorted.reduce(commonSuffix);
	if (sorted.length === 1 || common.split('.').length < 2) {
		return truncate(sorted.join('+'));
	}
	const prefixes = sorted.map(host => host.slice(0, Math.max(0, host.length - common.length - 1)));
	const optional = prefixes.includes('') ? '?' : '';
	return truncate(`(${prefixes.filter(prefix => prefix !== '').join('|')})${optional}.${common}`);
}

/** Returns the name for the limits of these relays, without passwords. */
export function smarthostName(relays: readonly Relay[]): string {
	const names = relays.map(({host, port, user}) => `${user === null ? '' : `${user}@`}${host}:${port}`);
	return `smarthost ${truncate(names.join('+'))}`;
}

/** Mail sent from another address has limits of its own. */
export function fromSources(name: string, sources: readonly Source[]): string {
	return sources.length === 0 ? name : `${name} from ${sources.map(({address}) => address).join('+')}`;
}

/** Returns the labels that both names end in. */
function commonSuffix(a: string, b: string): string {
	const left = a.split('.');
	const right = b.split('.');
	let shared = 0;
	while (shared < Math.min(left.length, right.length) && left.at(-1 - shared) === right.at(-1 - shared)) {
		shared++;
	}
	return shared === 0 ? '' : left.slice(-shared).join('.');
}

function truncate(name: string): string {
	const hash = () => createHash('sha256').update(name).digest('hex').slice(0, 12);
	return name.length <= maxNameLength ? name : `${name.slice(0, maxNameLength)}…${hash()}`;
}

/** The rules for a group of destinations: an entry of the destinations file merged with the defaults. */
export type Provider = {
	/** The name of the entry, or `default` if none matches. */
	readonly name: string;
	readonly pace: Pace;
	readonly tls: Terms['tls'];
	/** `null` to use the workspace's or the settings' route. */
	readonly route: RouteChoice | null;
	/** A pool of MAILCTL_SOURCE_POOLS, or `null` to use the workspace's. */
	readonly pool: string | null;
	readonly retry: OwnRetry;
};

/** The parsed destinations file. Names are in lower case without a final dot. */
export type Destinations = {
	readonly byDomain: ReadonlyMap<string, Provider>;
	readonly byMx: ReadonlyMap<string, Provider>;
	readonly other: Provider;
	/** The limits for every relay. */
	readonly smarthost: Pace;
};

/**
 * Returns the rules for a destination: the entry for its domain, else the one for its most preferred mail server, else
 * the default. An entry also covers names below its own; the longest match wins.
 */
export function findProvider(destinations: Destinations, domain: string, mxHosts: readonly string[]): Provider {
	return longestMatch(destinations.byDomain, domain) ?? mxProvider(destinations, mxHosts[0] ?? domain);
}

/** Returns the entry for a mail server, or the default. */
export function mxProvider({byMx, other}: Destinations, host: string): Provider {
	return longestMatch(byMx, host) ?? other;
}

/** Whether an entry for mail servers has retry rules of its own, so that DNS decides which rules apply. */
function hostsDecideRetry({byMx, other}: Destinations): boolean {
	return [...byMx.values()].some(({retry}) => retry !== other.retry);
}

/** Returns the longest wait of any schedule in use, in milliseconds. `defaultSchedule` is the one from the settings. */
export function maxWaitOfAll(destinations: Destinations, defaultSchedule: RetrySchedule): number {
	return Math.max(
		...ownRetries(destinations).map(({schedule}) => maxWait(schedule ?? defaultSchedule)),
		maxWait(defaultSchedule),
	);
}

/** Returns the shortest lifetime of any destination, in milliseconds, or `defaultLifetime` if none is shorter. */
export function minLifetimeOf(destinations: Destinations, defaultLifetime: number): number {
	return Math.min(...ownRetries(destinations).map(({lifetime}) => lifetime ?? defaultLifetime), defaultLifetime);
}

function ownRetries({byDomain, byMx, other}: Destinations): OwnRetry[] {
	return [other, ...byDomain.values(), ...byMx.values()].map(({retry}) => retry);
}

function longestMatch(entries: ReadonlyMap<string, Provider>, name: string): Provider | undefined {
	for (let suffix = name; suffix !== ''; suffix = suffix.slice(suffix.indexOf('.') + 1)) {
		const entry = entries.get(suffix);
		if (entry !== undefined || !suffix.includes('.')) {
			return entry;
		}
	}
	return undefined;
}

/** Longer patterns are rejected; no reply needs them. */
export const maxPatternLength = 200;

/**
 * Compiles a pattern of the destinations file: text anywhere in a reply, ignoring case, in which `*` matches anything.
 * Matching takes time linear in the reply: the expression is anchored, and each part is searched once, after the one
 * before it, in a lookahead that the engine never backtracks into.
 */
export function replyPattern(text: string): RegExp {
	const parts = text.split('*').filter(part => part !== '');
	const lookaheads = parts.map((part, index) => `(?=([^]*?${escapeRegExp(part)}))\\${index + 1}`);
	return new RegExp(`^${lookaheads.join('')}`, 'i');
}

function escapeRegExp(text: string): string {
	return text.replace(/[\\^$.*+?()[\]{}|/-]/g, '\\$&');
}

/** Returns the pattern that `replyPattern` compiled, with runs of `*` reduced to one. */
export function patternText({source}: RegExp): string {
	const parts = [...source.matchAll(/\(\?=\(\[\^\]\*\?((?:\\.|[^\\)])*)\)\)/g)];
	return parts.map(([, part = '']) => part.replace(/\\(.)/g, '$1')).join('*');
}

/**
 * How a new source address is introduced to receivers (R8.4): as public guides advise, it starts small and doubles
 * daily.
 */
export type WarmUp = {
	readonly address: string;
	/** The first UTC day on which it sends, such as `2026-11-01`. */
	readonly start: string;
	/** The messages a day to one provider from which the address counts as known and has no limit. */
	readonly target: number;
};

export const defaultTarget = 100_000;

const firstDays = [50, 100, 200, 400, 800, 1500, 3000, 5000];
const dailyGrowth = 1.5;

/** After a day with a higher rate of deferred sessions or of complaints, the share does not grow. */
const maxDeferralRate = 0.1;
const maxComplaintRate = 0.001;
/** Rates of fewer sessions or messages are ignored: one deferral in three is no evidence. */
const minSample = 20;

/** The outcome of one day's sessions and messages. */
export type DayFigures = {
	readonly conversations: number;
	readonly deferred: number;
	readonly delivered: number;
	readonly complained: number;
};

/** Returns the UTC day of a time, such as `2026-11-21`. */
export function utcDay(milliseconds: number): string {
	return new Date(milliseconds).toISOString().slice(0, 10);
}

/** Returns the past UTC days since `start`; none if it is in the future. */
export function daysBefore(start: string, today: string): string[] {
	const days: string[] = [];
	for (let time = Date.parse(start); time < Date.parse(today); time += dayMs) {
		days.push(utcDay(time));
	}
	return days;
}

/** Whether a day went so badly that the share does not grow. */
export function isBad({conversations, deferred, delivered, complained}: DayFigures): boolean {
	return (
		(conversations >= minSample && deferred / conversations > maxDeferralRate) ||
		(delivered >= minSample && complained / delivered > maxComplaintRate)
	);
}

/** Returns how many messages may go to one provider after this many days of growth; `null` means no limit. */
export function dailyShare(growthDays: number, target: number): number | null {
	const last = firstDays.length - 1;
	const share =
		growthDays <= last
			? (firstDays[growthDays] as number)
			: Math.floor((firstDays[last] as number) * dailyGrowth ** Math.min(growthDays - last, 100));
	return share >= target ? null : share;
}

/**
 * Returns how much a new source address may send to one provider today: 0 before its start, `null` once it is known.
 * `figures` are those of the days since the start; a missing day counts as good.
 */
export function shareOf(
	{start, target}: Pick<WarmUp, 'start' | 'target'>,
	today: string,
	figures: ReadonlyMap<string, DayFigures>,
): number | null {
	if (today < start) {
		return 0;
	}
	const goodDays = daysBefore(start, today).filter(day => {
		const dayFigures = figures.get(day);
		return dayFigures === undefined || !isBad(dayFigures);
	});
	return dailyShare(goodDays.length, target);
}

/** A day of a new source address, on which mail to a group of providers counts towards a limit. */
export type WarmUpDay = {
	readonly source: string;
	readonly group: string;
	/** UTC, such as `2026-11-21`. */
	readonly day: string;
	readonly perDay: number;
};

type DailyShare = Pick<NonNullable<Route['warmUp']>, 'source' | 'group' | 'perDay'>;

/** What new source addresses have sent today as far as this process knows. The store's count is authoritative. */
export class SentToday {
	readonly #sent = new Map<string, {readonly day: string; readonly recipients: number}>();

	/** Returns how many recipients the address may still send to in the group today. */
	left(warmUp: DailyShare, now: number): number {
		const sent = this.#sent.get(keyOf(warmUp));
		return warmUp.perDay - (sent?.day === utcDay(now) ? sent.recipients : 0);
	}

	dayOf({source, group, perDay}: DailyShare, now: number): WarmUpDay {
		return {source, group, perDay, day: utcDay(now)};
	}

	/** Adopts the store's count. Returns whether the day's share is used up. */
	note(day: WarmUpDay, recipients: number): boolean {
		this.#sent.set(keyOf(day), {day: day.day, recipients});
		return recipients >= day.perDay;
	}

	endOfDay(now: number): number {
		return (Math.floor(now / dayMs) + 1) * dayMs;
	}
}

function keyOf({source, group}: Pick<DailyShare, 'source' | 'group'>): string {
	return `${source} ${group}`;
}
