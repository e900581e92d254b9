import {LRUCache} from 'lru-cache';
import type {Settings} from '../config/settings.ts';
import type {Clock} from '../mail/clock.ts';
import type {Resolver} from '../mail/dns.ts';
import {parseRoute, type RouteChoice} from '../mail/route-choice.ts';
import {withPasswords} from '../mail/sealed-route.ts';
import type {LaneKey, Way} from '../mail/way.ts';
import type {Destinations} from '../pace/destinations.ts';
import {mxHosts} from '../pace/site-name.ts';
import {type Network, needsHosts, type Preference, wayFor} from '../pace/way-of.ts';
import type {Vault} from '../store/sealed.ts';
import type {Store} from '../store/store.ts';
import {findWorkspace} from '../store/workspaces.ts';
import {createWarmUpShares} from './warm-up-shares.ts';

export type WaysOptions = {
	readonly settings: Settings;
	/** As MAILCTL_DESTINATIONS_FILE says at the start. */
	readonly destinations: Destinations;
	readonly store: Pick<Store, 'reader'>;
	readonly vault: Pick<Vault, 'open'>;
	readonly resolver: Pick<Resolver, 'mx'>;
	readonly clock: Clock;
};

const mostWays = 20_000;
/** DNS answers, the day, the figures of a day: all are asked again within this, milliseconds. */
const freshMs = 10_000;
const noPreference: Preference = {pool: null, route: null};

/** Where each workspace's mail for a destination goes, and how fast. */
export function createWays({settings, destinations: first, store, vault, resolver, clock}: WaysOptions) {
	const network = networkOf(settings);
	let destinations = first;
	const shares = createWarmUpShares({
		warmUps: settings.warmUps,
		relays: settings.relays,
		reader: store.reader,
		destinations: () => destinations,
		clock,
	});
	const preferences = new LRUCache<string, Promise<Preference>>({max: 10_000});
	const ways = new LRUCache<string, Promise<Way>>({max: mostWays, ttl: freshMs});

	async function readPreference(workspaceId: string): Promise<Preference> {
		const row = await findWorkspace(store.reader, workspaceId);
		return row === undefined
			? noPreference
			: {pool: row.source_pool, route: row.route === null ? null : openRoute(row.id, row.route, vault)};
	}

	async function find({destination, workspaceId}: LaneKey): Promise<Way> {
		const preference = await kept(preferences, workspaceId, () => readPreference(workspaceId));
		const hosts = needsHosts(destination, preference, network, destinations)
			? mxHosts(destination, await resolver.mx(destination))
			: [destination];
		return wayFor(destination, hosts, preference, network, destinations, await shares.today());
	}

	function forget(): void {
		preferences.clear();
		ways.clear();
	}

	return {
		/** Rejects where the store cannot be read; where DNS does not answer, the site is the domain. */
		wayOf: async (key: LaneKey): Promise<Way> =>
			await kept(ways, `${key.workspaceId} ${key.destination}`, () => find(key)),
		/** What workspaces want is read again. */
		forget,
		/** Another destinations file holds from now on. */
		reload(next: Destinations): void {
			destinations = next;
			forget();
		},
	};
}

export type Ways = ReturnType<typeof createWays>;

/** Remembers what is being found out and what was, but no failure. */
function kept<T>(cache: LRUCache<string, Promise<T>>, key: string, find: () => Promise<T>): Promise<T> {
	const known = cache.get(key);
	if (known !== undefined) {
		return known;
	}

	const found = find();
	cache.set(key, found);
	found.catch(() => cache.get(key) === found && cache.delete(key));
	return found;
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
