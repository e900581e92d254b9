import {createHash} from 'node:crypto';
import {isIP, isIPv6} from 'node:net';
import {noOwnRetry, type OwnRetry} from '../mail/retry.ts';
import type {Pace, Route, RouteChoice, Source, Terms} from '../mail/route.ts';
import {simulatorDomain} from '../mail/simulator.ts';
import type {DnsAnswer, MxRecord, Resolver} from '../net/dns.ts';
import type {Relay} from '../net/relay-url.ts';
import {
	type Destinations,
	domainProvider,
	effectivePace,
	hostsDecideRetry,
	mxProvider,
	type Provider,
} from './destinations.ts';

/** What the settings say of how mail travels. */
export type Network = {
	readonly delivery: 'capture' | 'mx' | 'relay';
	/** MAILCTL_RELAY_URL; may be empty. */
	readonly relays: readonly Relay[];
	readonly acceptMeans: 'sent' | 'delivered';
	readonly sources: readonly Source[];
	/** Addresses of `sources` by the name of their pool. */
	readonly pools: ReadonlyMap<string, readonly string[]>;
};

/** What a workspace wants; null: nothing special. */
export type Preference = {readonly pool: string | null; readonly route: RouteChoice | null};

/** What a source that is new may send to a provider's hosts today; null: as much as there is. */
export type DailyShares = (address: string, provider: string) => number | null;

type Plain = Omit<Route, 'warmUp'>;

/** Files and the simulator need no pace. */
const localPace: Pace = {
	connections: 64,
	startConnections: 64,
	mailsPerSession: 1000,
	perMinute: null,
	failures: 1000,
	reactions: [],
};

/**
 * Whether the route depends on the MX hosts of the destination: not if its mail goes to a smarthost anyway (R1.8), nor if
 * it does not leave the machine.
 */
export function needsHosts(
	destination: string,
	preference: Preference,
	network: Network,
	destinations: Destinations,
): boolean {
	if (network.delivery === 'capture' || destination === simulatorDomain) {
		return false;
	}
	const named = domainProvider(destinations, destination);
	const hostsDecide =
		named === undefined &&
		(hostsDecideRetry(destinations) || [...destinations.byMx.values()].some(({route}) => route !== null));
	return hostsDecide || smarthosts(named ?? destinations.other, preference, network).length === 0;
}

/** A destination's own rules for retries: those of its route, without the rest of it. Asks DNS only where hosts decide. */
export function ownRetryOf(
	destination: string,
	delivery: Network['delivery'],
	destinations: Destinations,
	resolver: Pick<Resolver, 'mx'>,
): OwnRetry | Promise<OwnRetry> {
	if (delivery === 'capture' || destination === simulatorDomain) {
		return noOwnRetry;
	}
	const named = domainProvider(destinations, destination);
	return named !== undefined || !hostsDecideRetry(destinations)
		? (named ?? destinations.other).retry
		: resolver.mx(destination).then(answer => mxProvider(destinations, mxHosts(destination, answer)[0] ?? '').retry);
}

/** Where mail goes, with whom it shares a pace, and how fast; `hosts` are the destination's, in order of preference. */
export function chooseRoute(
	destination: string,
	hosts: readonly string[],
	preference: Preference,
	network: Network,
	destinations: Destinations,
	shares: DailyShares,
): Route {
	if (destination === simulatorDomain || network.delivery === 'capture') {
		return {...localRoute(destination === simulatorDomain ? simulatorDomain : 'capture'), warmUp: null};
	}
	const provider = effectivePace(destinations, destination, hosts);
	const sources = pooled(provider.pool ?? preference.pool, network);
	const relays = smarthosts(provider, preference, network);
	if (relays.length > 0) {
		return {...smarthostRoute(relays, sources, network, destinations, provider), warmUp: null};
	}
	const own = sourcesFor(sources, destination);
	// A domain with an entry of its own has a pace of its own, also where others have the same hosts.
	const named = domainProvider(destinations, destination);
	const name = named === undefined ? hostsName(hosts) : `${hostsName(hosts)} as ${named.name}`;
	const route = directRoute(name, own, provider);
	const shareOf = ({address}: Source) => shares(address, provider.name);
	const [scarce, ...others] = own.filter(source => shareOf(source) !== null);
	if (scarce === undefined) {
		return {...route, warmUp: null};
	}
	// IPv4 or IPv6 is decided at connect time, so both use the smaller share.
	const least = others.reduce((a, b) => ((shareOf(b) as number) < (shareOf(a) as number) ? b : a), scarce);
	const known = sourcesFor(
		sources.filter(source => shareOf(source) === null),
		destination,
	);
	const throughKnown = known.length > 0 ? directRoute(name, known, provider) : null;
	return {
		...route,
		warmUp: {
			source: least.address,
			group: provider.name,
			perDay: shareOf(least) as number,
			overflow:
				network.relays.length > 0
					? smarthostRoute(network.relays, sources, network, destinations, provider)
					: throughKnown,
		},
	};
}

/** The smarthosts that the mail goes to, none where it goes to MX hosts: the destination's word, the workspace's, the settings'. */
function smarthosts(provider: Provider, preference: Preference, {delivery, relays}: Network): readonly Relay[] {
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

/** An unknown pool is all sources: mail is not to wait for a name. */
function pooled(pool: string | null, {sources, pools}: Network): readonly Source[] {
	const addresses = pool === null ? undefined : pools.get(pool);
	return addresses === undefined ? sources : sources.filter(({address}) => addresses.includes(address));
}

function directRoute(name: string, sources: readonly Source[], {name: provider, pace, retry, tls}: Provider): Plain {
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
): Plain {
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

function localRoute(site: string): Plain {
	return {site, provider: 'default', pace: localPace, retry: noOwnRetry, terms: termsTo({kind: 'mx'}, localPace, [])};
}

function termsTo(nextHop: Terms['nextHop'], {mailsPerSession}: Pace, sources: readonly Source[]): Terms {
	return {nextHop, tls: 'opportunistic', mtaSts: null, sources, mailsPerSession};
}

/**
 * The addresses that a destination gets its mail from: one of each family that there is. A destination keeps its own, for
 * greylisting and reputation go by it, also when others are added: each address draws a lot with each destination, and the
 * highest wins.
 */
export function sourcesFor(sources: readonly Source[], destination: string): readonly Source[] {
	const families = [sources.filter(({address}) => !isIPv6(address)), sources.filter(({address}) => isIPv6(address))];
	return families.flatMap(family => best(family, ({address}) => draw(address, destination)));
}

function draw(address: string, destination: string): string {
	return createHash('sha256').update(`${address} ${destination}`).digest('hex');
}

function best<T>(items: readonly T[], worth: (item: T) => string): T[] {
	const ranked = items.map(item => ({item, worth: worth(item)})).sort((a, b) => (a.worth < b.worth ? 1 : -1));
	return ranked.slice(0, 1).map(({item}) => item);
}

/** Longer names are cut and end in a hash: a domain may name twenty hosts of 250 characters. */
const longestName = 150;
/** Other names get no mail, and could imitate the name of another site. */
const hostNames = /^[a-z0-9_.-]{1,253}$/;

/**
 * The mail hosts of a domain in order of preference (equal ones by name), as DNS named them; the domain itself without
 * hosts, or if DNS gave no usable answer.
 */
export function mxHosts(domain: string, answer: DnsAnswer<MxRecord>): readonly string[] {
	const records = answer.kind === 'found' ? answer.records : [];
	const hosts = records
		.map(({exchange, priority}) => ({host: exchange.toLowerCase().replace(/\.$/, ''), priority}))
		.filter(({host}) => hostNames.test(host) && isIP(host) === 0)
		.sort((a, b) => a.priority - b.priority || (a.host < b.host ? -1 : 1))
		.map(({host}) => host);
	return hosts.length > 0 ? [...new Set(hosts)] : [domain];
}

/**
 * One name for a set of hosts in any order: domains with the same hosts have one site, and share its pace. What
 * the hosts have in common is written once: `(alt1|alt2)?.aspmx.l.google.com` are that host and two under it.
 */
export function hostsName(hosts: readonly string[]): string {
	const sorted = [...new Set(hosts)].sort();
	const common = sorted.reduce(commonEnd);
	if (sorted.length === 1 || common.split('.').length < 2) {
		return bounded(sorted.join('+'));
	}
	const fronts = sorted.map(host => host.slice(0, Math.max(0, host.length - common.length - 1)));
	const bare = fronts.includes('') ? '?' : '';
	return bounded(`(${fronts.filter(front => front !== '').join('|')})${bare}.${common}`);
}

/** The name of the site that these smarthosts are, without a password. */
export function smarthostName(relays: readonly Relay[]): string {
	const names = relays.map(({host, port, user}) => `${user === null ? '' : `${user}@`}${host}:${port}`);
	return `smarthost ${bounded(names.join('+'))}`;
}

/** What is sent from another address has a pace of its own. */
export function fromSources(name: string, sources: readonly Source[]): string {
	return sources.length === 0 ? name : `${name} from ${sources.map(({address}) => address).join('+')}`;
}

/** The labels that both names end in. */
function commonEnd(a: string, b: string): string {
	const left = a.split('.');
	const right = b.split('.');
	let same = 0;
	while (same < Math.min(left.length, right.length) && left.at(-1 - same) === right.at(-1 - same)) {
		same++;
	}
	return same === 0 ? '' : left.slice(-same).join('.');
}

function bounded(name: string): string {
	const hash = () => createHash('sha256').update(name).digest('hex').slice(0, 12);
	return name.length <= longestName ? name : `${name.slice(0, longestName)}…${hash()}`;
}
