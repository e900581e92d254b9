import {isIP, isIPv6} from 'node:net';
import {networkInterfaces} from 'node:os';
import {createSecureContext, rootCertificates} from 'node:tls';
import ipaddr from 'ipaddr.js';
import type {Knex} from 'knex';
import {LRUCache} from 'lru-cache';
import type {Settings} from '../config/settings.ts';
import {extraCa} from '../config/settings.ts';
import {fetchPolicy, type PolicyFailure, StsPolicies} from '../deliver/sts-policies.ts';
import type {Clock} from '../kit/clock.ts';
import {atMost} from '../kit/collections.ts';
import {storeTime} from '../kit/time.ts';
import type {OwnRetry} from '../mail/retry.ts';
import type {MtaSts, QueueKey, Route} from '../mail/route.ts';
import {parseRoute, type RouteChoice, withPasswords} from '../mail/route.ts';
import type {Resolver} from '../net/dns.ts';
import type {Relay} from '../net/relay-url.ts';
import {countTls, findPolicy, savePolicy} from '../resources/domains/tls-store.ts';
import {findWorkspace, listWorkspaces, type Workspace} from '../resources/workspaces/store.ts';
import {readComplaintFigures, readHostFigures} from '../store/queue/sites.ts';
import type {Vault} from '../store/sealed.ts';
import type {Store} from '../store/store.ts';
import {
	chooseRoute,
	type DailyShares,
	type DayFigures,
	type Destinations,
	daysBefore,
	mxHosts,
	mxProvider,
	type Network,
	needsHosts,
	ownRetryOf,
	type Preference,
	shareOf,
	utcDay,
	type WarmUp,
} from './pace/choose-route.ts';

type RouterOptions = {
	readonly settings: Settings;
	/** The current contents of MAILCTL_DESTINATIONS_FILE. */
	readonly destinations: () => Destinations;
	readonly store: Pick<Store, 'reader'>;
	readonly vault: Pick<Vault, 'open'>;
	readonly resolver: Pick<Resolver, 'mx'>;
	/** `null` if MTA-STS is not applied. */
	readonly policies: Pick<StsPolicies, 'policyFor'> | null;
	readonly clock: Clock;
};

const maxRoutes = 20_000;
/** DNS answers, the day and its figures are read again after this time, in milliseconds. */
const freshMs = 10_000;

type MaybePromise<T> = T | Promise<T>;

/** A workspace's preferences, and their stored form to detect changes. */
type StoredPreference = {readonly stored: string; readonly preference: Preference};

/**
 * Finds the route of each workspace's mail for a destination, with its limits and retry rules. Relies on DNS, the
 * destinations file, the settings and the workspaces' preferences. Never sends mail: the queue decides when a route is
 * used.
 */
export class Router {
	readonly #options: RouterOptions;
	readonly #network: Network;
	readonly #shares: WarmUpShares;
	readonly #preferences = new LRUCache<string, MaybePromise<StoredPreference>>(atMost(10_000));
	readonly #routes = new LRUCache<string, MaybePromise<Route>>({...atMost(maxRoutes), ttl: freshMs});

	constructor(options: RouterOptions) {
		const {warmUps, relays} = options.settings;
		this.#options = options;
		this.#network = createNetwork(options.settings);
		this.#shares = new WarmUpShares({...options, warmUps, relays, reader: options.store.reader});
	}

	/** Returns a known route at once. Rejects if the store cannot be read. Without DNS, the domain is the provider. */
	findRoute(key: QueueKey): MaybePromise<Route> {
		return cached(this.#routes, `${key.workspaceId} ${key.destination}`, () => this.#find(key));
	}

	/** Returns a destination's own retry rules without its route. */
	findOwnRetry(destination: string): MaybePromise<OwnRetry> {
		const {destinations, resolver} = this.#options;
		return ownRetryOf(destination, this.#network.delivery, destinations(), resolver);
	}

	/** Reads the workspaces' preferences again. Returns whether one of them changed. */
	async renew(): Promise<boolean> {
		let hasChanged = false;
		for (const row of await listWorkspaces(this.#options.store.reader)) {
			const known = await Promise.resolve(this.#preferences.get(row.id)).catch(() => undefined);
			if (known && known.stored !== preferenceText(row)) {
				this.#preferences.delete(row.id);
				hasChanged = true;
			}
		}
		if (hasChanged) {
			this.#routes.clear();
		}
		return hasChanged;
	}

	/** Call this when the destinations file has changed. */
	reload(): void {
		this.#routes.clear();
	}

	async #find({destination, workspaceId}: QueueKey): Promise<Route> {
		const {resolver, policies} = this.#options;
		const destinations = this.#options.destinations();
		const {preference} = await cached(this.#preferences, workspaceId, () => this.#readPreference(workspaceId));
		const needsMxHosts = needsHosts(destination, preference, this.#network, destinations);
		const hosts = needsMxHosts ? mxHosts(destination, await resolver.mx(destination)) : [destination];
		const shares = await this.#shares.today();
		const route = chooseRoute(destination, hosts, preference, this.#network, destinations, shares);
		return needsMxHosts && route.terms.nextHop.kind === 'mx'
			? withPolicy((await policies?.policyFor(destination)) ?? null, route)
			: route;
	}

	async #readPreference(workspaceId: string): Promise<StoredPreference> {
		const {store, vault} = this.#options;
		const row = await findWorkspace(store.reader, workspaceId);
		const route = row?.route ? openRoute(row.id, row.route, vault) : null;
		return {stored: preferenceText(row), preference: {pool: row?.source_pool ?? null, route}};
	}
}

/** Adds the requirements of the domain's policy to the route. They do not apply to relays. */
function withPolicy(mtaSts: MtaSts | null, {warmUp, ...route}: Route): Route {
	const applyPolicy = <T extends Pick<Route, 'terms'>>(target: T): T =>
		target.terms.nextHop.kind === 'mx' ? {...target, terms: {...target.terms, mtaSts}} : target;
	const overflow = warmUp?.overflow ?? null;
	return {...applyPolicy(route), warmUp: warmUp && {...warmUp, overflow: overflow && applyPolicy(overflow)}};
}

function preferenceText(row: Pick<Workspace, 'source_pool' | 'route'> | undefined): string {
	return `${row?.source_pool ?? ''} ${row?.route ?? ''}`;
}

/** Caches results and look-ups in progress, but no failures. */
function cached<T extends object>(
	cache: LRUCache<string, MaybePromise<T>>,
	key: string,
	find: () => Promise<T>,
): MaybePromise<T> {
	const known = cache.get(key);
	if (known !== undefined) {
		return known;
	}
	const pending = find();
	const isCurrent = () => cache.get(key) === pending;
	cache.set(key, pending);
	pending.then(
		value => isCurrent() && cache.set(key, value),
		() => isCurrent() && cache.delete(key),
	);
	return pending;
}

/** Returns the settings that concern routes. */
export function createNetwork(settings: Settings): Network {
	return {
		delivery: settings.delivery,
		relays: settings.relays,
		acceptMeans: settings.relayAcceptMeans,
		sources: settings.sourceAddresses.map(({ip, ehlo}) => ({address: ip, hostname: ehlo})),
		pools: new Map(settings.sourcePools.map(({name, addresses}) => [name, addresses])),
	};
}

function openRoute(workspaceId: string, stored: string, vault: Pick<Vault, 'open'>): RouteChoice {
	const parsed = parseRoute(withPasswords(stored, password => vault.open(workspaceId, password)));
	if (!parsed.ok) {
		throw new Error(`${workspaceId}: the stored route ${parsed.problem}`);
	}
	return parsed.route;
}

type WarmUpSharesOptions = {
	readonly warmUps: readonly WarmUp[];
	/** Replies of relays are ignored, because they reveal nothing about receivers. */
	readonly relays: readonly Relay[];
	readonly reader: Knex;
	readonly destinations: () => Destinations;
	readonly clock: Clock;
};

/** The number of past days examined. Earlier ones count as good. */
const maxDays = 60;

/**
 * Determines what new source addresses may send today, from the store's figures of each day: deferrals by the sessions
 * with a provider's mail servers, complaints by the mail of the whole installation.
 */
export class WarmUpShares {
	readonly #options: WarmUpSharesOptions;
	/** By day, then by provider. A past day does not change. */
	readonly #days = new Map<string, Promise<ReadonlyMap<string, DayFigures>>>();

	constructor(options: WarmUpSharesOptions) {
		this.#options = options;
	}

	/** Rejects if the store cannot be read. */
	async today(): Promise<DailyShares> {
		const {warmUps, clock} = this.#options;
		const today = utcDay(clock.now());
		const past = new Set(warmUps.flatMap(({start}) => daysBefore(start, today).slice(-maxDays)));
		const figures = new Map<string, ReadonlyMap<string, DayFigures>>();
		for (const day of past) {
			figures.set(day, await this.#figuresOf(day));
		}
		return (address, provider) => {
			const warmUp = warmUps.find(candidate => candidate.address === address);
			if (warmUp === undefined) {
				return null;
			}
			const providerFigures = [...figures].flatMap(([day, byProvider]) => {
				const dayFigures = byProvider.get(provider);
				return dayFigures === undefined ? [] : [[day, dayFigures] as const];
			});
			return shareOf(warmUp, today, new Map(providerFigures));
		};
	}

	#figuresOf(day: string): Promise<ReadonlyMap<string, DayFigures>> {
		let known = this.#days.get(day);
		if (known === undefined) {
			known = this.#read(day);
			this.#days.set(day, known);
			known.catch(() => this.#days.delete(day));
		}
		return known;
	}

	async #read(day: string): Promise<ReadonlyMap<string, DayFigures>> {
		const {relays, reader, destinations} = this.#options;
		const [hosts, complaints] = await Promise.all([
			readHostFigures(reader, day),
			readComplaintFigures(reader, day),
		]);
		const figures = new Map<string, DayFigures>();
		for (const {host, conversations, deferred} of hosts) {
			if (relays.some(relay => relay.host === host)) {
				continue;
			}
			const {name} = mxProvider(destinations(), host);
			const sum = figures.get(name) ?? {conversations: 0, deferred: 0};
			figures.set(name, {
				...complaints,
				conversations: sum.conversations + conversations,
				deferred: sum.deferred + deferred,
			});
		}
		return figures;
	}
}

type PoliciesOptions = {
	readonly settings: Settings;
	readonly store: Pick<Store, 'reader' | 'writer'>;
	readonly resolver: Resolver;
	readonly version: string;
	readonly clock: Clock;
	readonly observer: {
		readonly policyFailed: (failure: PolicyFailure) => void;
		readonly storeFailed: (error: unknown) => void;
	};
};

const fetchLimitMs = 60_000;

/** Opens the MTA-STS policies, which are cached in the store. Returns `null` if the settings do not apply them. */
export function openPolicies(options: PoliciesOptions): StsPolicies | null {
	const {settings, store, resolver, version, clock, observer} = options;
	if (!settings.mtaSts || settings.delivery === 'capture') {
		return null;
	}
	const ca = extraCa(settings);
	const write = (work: Parameters<Store['writer']['transaction']>[0]) =>
		store.writer.transaction(work).catch(observer.storeFailed);

	const fetchOptions = {
		resolver,
		port: settings.mtaStsPort,
		allowPrivate: settings.allowPrivateMx,
		secureContext: createSecureContext({
			minVersion: 'TLSv1.2',
			...(ca === null ? {} : {ca: [...rootCertificates, ca]}),
		}),
		userAgent: `mailctl/${version}`,
		limitMs: fetchLimitMs,
	};
	return new StsPolicies({
		resolver,
		fetch: domain => fetchPolicy(domain, fetchOptions),
		read: domain => findPolicy(store.reader, domain),
		// If this fails, the policy still applies until the daemon exits.
		save: async policy => void (await write(trx => savePolicy(trx, policy))),
		observer: {
			policyFailed(failure) {
				const {domain, failure: result} = failure;
				const day = storeTime(clock.now()).slice(0, 10);
				void write(trx => countTls(trx, [{day, domain, policy: 'sts', host: `mta-sts.${domain}`, result}]));
				observer.policyFailed(failure);
			},
		},
		clock,
	});
}

/**
 * Returns the addresses at which this system receives mail as a mail server; sending there would loop (RFC 5321 §5.1).
 * Returns none if the listener uses another port than mail servers do, and all of the machine's if it listens on all.
 */
export function ownAddresses(
	{inboundListen, mxPort}: Pick<Settings, 'inboundListen' | 'mxPort'>,
	interfaces: ReturnType<typeof networkInterfaces> = networkInterfaces(),
): string[] {
	if (inboundListen === null || inboundListen.port !== mxPort) {
		return [];
	}
	const {host} = inboundListen;
	if (host !== '0.0.0.0' && host !== '::') {
		// Names are not looked up: their addresses may change, and a listener in a lab is configured by its address.
		return isIP(host) === 0 ? [] : [canonical(host)];
	}
	// A socket on :: accepts IPv4 too.
	const addresses = Object.values(interfaces).flatMap(list => (list ?? []).map(({address}) => address));
	return addresses.filter(address => host === '::' || !isIPv6(address)).map(canonical);
}

/** Returns the address as the resolver writes it. */
function canonical(address: string): string {
	return ipaddr.parse(address.replace(/%.*$/, '')).toString();
}
