import type {SavedSite} from '../mail/saved-site.ts';
import type {Way} from '../mail/way.ts';
import {type Moment, restoredSite} from '../pace/saved.ts';
import {isLeftAlone, newSite, probeNow, setPace} from '../pace/site.ts';
import type {Lane} from './lane.ts';
import {inFlightOf, newSiteOf, type Site} from './site.ts';

export type SiteRegistryOptions = {
	/** No site waits longer for its next try, milliseconds. */
	readonly longestWait: () => number;
	/** What is remembered of a site. */
	readonly remembered: (site: string) => SavedSite | undefined;
};

/** Sites without work of which it is remembered how they did. */
const mostIdleSites = 10_000;

/** The sites that have lanes, or had some lately. */
export function createSiteRegistry({longestWait, remembered}: SiteRegistryOptions) {
	const sites = new Map<string, Site>();
	const idleSites = new Set<Site>();
	const suspended = new Set<Site>();
	/** Sites to be probed of which nothing but what is remembered is known yet. */
	const toProbe = new Set<string>();

	function noteSuspension(site: Site): void {
		if (site.state.suspension) {
			suspended.add(site);
		} else {
			suspended.delete(site);
		}
	}

	function siteOf(way: Omit<Way, 'warmUp'>, now: Moment): Site {
		let site = sites.get(way.site);
		if (!site) {
			const saved = remembered(way.site);
			const state = saved ? restoredSite(way.pace, saved, now, longestWait()) : newSite(way.pace);
			site = newSiteOf(way, state, saved !== undefined);
			sites.set(way.site, site);
			if (toProbe.delete(way.site)) {
				probeNow(state, now.monotonic);
			}
			noteSuspension(site);
		}
		setPace(site.state, way.pace);
		site.provider = way.provider;
		return site;
	}

	function forgetIdle(): void {
		for (const idle of idleSites) {
			if (idleSites.size <= mostIdleSites) {
				return;
			}
			idleSites.delete(idle);
			// What is left alone, or has copies under way, is not to be taken for a new one.
			if (!idle.saved && idle.state.suspension === null && inFlightOf(idle) === 0) {
				sites.delete(idle.name);
			}
		}
	}

	return {
		/** A lane goes where this way leads. */
		enter(way: Omit<Way, 'warmUp'>, now: Moment): Site {
			const site = siteOf(way, now);
			site.lanes++;
			idleSites.delete(site);
			return site;
		},

		/** A lane goes there no more. */
		leave(site: Site): void {
			site.lanes--;
			if (site.lanes === 0 && !site.saved) {
				idleSites.add(site);
			}
			forgetIdle();
		},

		/** The lane was there last, and its mail is due later. */
		rest(lane: Lane, site: Site): void {
			lane.restsAt = site;
			site.resting.add(lane);
		},

		/** The lane rests no more, or may rest elsewhere. */
		endRest(lane: Lane): void {
			lane.restsAt?.resting.delete(lane);
			lane.restsAt = null;
		},

		/** Its suspension may have begun or ended. */
		noteSuspension,

		/** Lanes that rest at sites which are left alone. */
		*leftAlone({monotonic}: Moment): Generator<Lane> {
			for (const {state, resting} of suspended) {
				if (isLeftAlone(state, monotonic)) {
					yield* resting;
				}
			}
		},

		/** One copy may try the site, where it is left alone; answers it if it may start something sooner now. */
		probe(name: string, now: Moment): Site | undefined {
			const site = sites.get(name);
			if (!site) {
				toProbe.add(name);
			}
			return site && probeNow(site.state, now.monotonic) ? site : undefined;
		},

		all: (): Iterable<Site> => sites.values(),
	};
}

export type SiteRegistry = ReturnType<typeof createSiteRegistry>;
