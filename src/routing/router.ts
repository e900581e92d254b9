import {LRUCache} from 'lru-cache';
import type {Settings} from '../config/settings.ts';
import {atMost} from '../kit/at-most.ts';
import type {Clock} from '../kit/clock.ts';
import type {OwnRetry} from '../mail/retry.ts';
import type {MtaSts, QueueKey, Route} from '../mail/route.ts';
import {parseRoute, type RouteChoice, withPasswords} from '../mail/route-choice.ts';
import type {MtaStsPolicies} from '../mta-sts/mta-sts.ts';
import type {Resolver} from '../net/dns.ts';
import {chooseRoute, mxHosts, type Network, needsHosts, ownRetryOf, type Preference} from '../pace/choose-route.ts';
import type {Destinations} from '../pace/destinations.ts';
import type {Vault} from '../store/sealed.ts';
import type {Store} from '../store/store.ts';
import {findWorkspace, listWorkspaces, type Workspace} from '../store/workspaces.ts';
import {createWarmUpShares} from './warm-up-shares.ts';

export type RouterOptions = {
	readonly settings: Settings;
	/** As MAILCTL_DESTINATIONS_FILE says now. */
	readonly destinations: () => Destinations;
	readonly store: Pick<Store, 'reader'>;
	readonly vault: Pick<Vault, 'open'>;
	readonly resolver: Pick<Resolver, 'mx'>;
	/** Null: MTA-STS is not obeyed. */
	readonly policies: Pick<MtaStsPolicies, 'policyOf'> | null;
	readonly clock: Clock;
};

const mostRoutes = 20_000;
/** DNS answers, the day, the figures of a day: all are asked again within this, milliseconds. */
const freshMs = 10_000;

type Found<T> = T | Promise<T>;

/** What a workspace wants, and the same as it is stored, to see it change. */
type StoredPreference = {readonly stored: string; readonly preference: Preference};

/** Where each workspace's mail for a destination goes, and how fast. */
export function createRouter(options: RouterOptions) {
	const {settings, destinations, store, vault, resolver, policies, clock} = options;
	const network = networkOf(settings);
	const shares = createWarmUpShares({
		warmUps: settings.warmUps,
		relays: settings.relays,
		reader: store.reader,
		destinations,
		clock,
	});
	const preferences = new LRUCache<string, Found<StoredPreference>>(atMost(10_000));
	const routes = new LRUCache<string, Found<Route>>({...atMost(mostRoutes), ttl: freshMs});

	async function readPreference(workspaceId: string): Promise<StoredPreference> {
		const row = await findWorkspace(store.reader, workspaceId);
		const stored = wishOf(row);
		const route = row?.route ? openRoute(row.id, row.route, vault) : null;
		return {stored, preference: {pool: row?.source_pool ?? null, route}};
	}

	async function find({destination, workspaceId}: QueueKey): Promise<Route> {
		const {preference} = await kept(preferences, workspaceId, () => readPreference(workspaceId));
		const hostsCount = needsHosts(destination, preference, network, destinations());
		const hosts = hostsCount ? mxHosts(destination, await resolver.mx(destination)) : [destination];
		const route = chooseRoute(destination, hosts, preference, network, destinations(), await shares.today());
		return hostsCount && route.terms.nextHop.kind === 'mx'
			? obeying((await policies?.policyOf(destination)) ?? null, route)
			: route;
	}

	return {
		/** At once where it is known. Rejects where the store cannot be read; where DNS does not answer, the site is the domain. */
		routeOf: (key: QueueKey): Found<Route> => kept(routes, `${key.workspaceId} ${key.destination}`, () => find(key)),
		/** Reads again what workspaces want; answers whether one of them wants something else than before. */
		async renew(): Promise<boolean> {
			let changed = false;
			for (const row of await listWorkspaces(store.reader)) {
				const known = await Promise.resolve(preferences.get(row.id)).catch(() => undefined);
				if (known && known.stored !== wishOf(row)) {
					preferences.delete(row.id);
					changed = true;
				}
			}

			if (changed) {
				routes.clear();
			}

			return changed;
		},
		/** The destinations file changed. */
		reload: (): void => routes.clear(),
		/** A destination's own rules for retries, without its route. */
		ownRetryOf: (destination: string): Found<OwnRetry> =>
			ownRetryOf(destination, settings.delivery, destinations(), resolver),
	};
}

export type Router = ReturnType<typeof createRouter>;

/** The way with what the domain's policy asks of its hosts; a smarthost is none of them. */
function obeying(mtaSts: MtaSts | null, {warmUp, ...route}: Route): Route {
	const obey = <T extends Pick<Route, 'terms'>>(one: T): T =>
		one.terms.nextHop.kind === 'mx' ? {...one, terms: {...one.terms, mtaSts}} : one;
	const overflow = warmUp?.overflow ?? null;
	return {...obey(route), warmUp: warmUp && {...warmUp, overflow: overflow && obey(overflow)}};
}

function wishOf(row: Pick<Workspace, 'source_pool' | 'route'> | undefined): string {
	return `${row?.source_pool ?? ''} ${row?.route ?? ''}`;
}

/** Remembers what is being found out and what was, but no failure. */
function kept<T extends object>(cache: LRUCache<string, Found<T>>, key: string, find: () => Promise<T>): Found<T> {
	const known = cache.get(key);
	if (known !== undefined) {
		return known;
	}

	const finding = find();
	const isKept = () => cache.get(key) === finding;
	cache.set(key, finding);
	finding.then(
		found => isKept() && cache.set(key, found),
		() => isKept() && cache.delete(key),
	);
	return finding;
}

/** What the settings say of how mail travels. */
export function networkOf(settings: Settings): Network {
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
		throw new Error(`${workspaceId}: the stored route ${parsed.fault}`);
	}

	return parsed.route;
}
