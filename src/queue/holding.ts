import type {SavedSite} from '../mail/saved-site.ts';
import type {ShareRow} from '../mail/share-row.ts';
import type {SiteAsk} from '../pace/exchange.ts';
import {type Wants, wantedNow} from '../pace/fair-shares.ts';
import {totalsOf} from '../pace/learnt.ts';
import {type Moment, savedSite} from '../pace/saved.ts';
import {allConnectionsOf, type SiteChange} from '../pace/site.ts';
import {inFlightOf, type Site} from './site.ts';

/** A site of which this node has something, or wants some. */
export type Holding = {
	/** Null: it is forgotten here, but connections may be left. */
	site: Site | null;
	/** What others know of it; null: nothing. */
	row: ShareRow | null;
	wants: Wants;
	/** More could have been used since the last exchange. */
	isShort: boolean;
	/** The last exchange brought all that was wanted. */
	gotAll: boolean;
	/** Times in a row that there was nothing to tell. */
	rests: number;
	/** What all agreed on; undefined: nothing yet. */
	base: SavedSite | null | undefined;
	/** What was learnt since then. */
	changes: Set<SiteChange>;
};

export function newHolding(site: Site | null): Holding {
	return {
		...{site, row: null, wants: {wants: 0, idle: 0}, isShort: false, gotAll: true, rests: 0},
		...{base: undefined, changes: new Set()},
	};
}

/** Connections that it may be using by what it was given. */
export const inUse = ({site}: Holding): number => site?.state.share?.slots ?? 0;

/** What is to be told of a site and asked for; `counted`: connections by site, null where they were not counted. */
export function askOf(
	name: string,
	holding: Holding,
	counted: ReadonlyMap<string, number> | null,
	now: Moment,
	longestWait: number,
) {
	const {site, base, changes, isShort} = holding;
	const slots = inUse(holding);
	const used = site ? Math.min(site.peak, slots) : 0;
	const all = site ? allConnectionsOf(site.state, now.monotonic) : 0;
	holding.wants = wantedNow(holding.wants, Math.min(all, isShort ? Math.max(1, 2 * slots) : used));
	holding.changes = new Set();
	const mine = site && savedSite(site.state, now);
	if (site) {
		site.peak = inFlightOf(site);
	}
	const bucket = site?.state.bucket ?? null;
	const isSpent = bucket !== null && !(bucket.isFull(now.monotonic) && inFlightOf(site as Site) === 0);
	const ask: SiteAsk = {
		site: name,
		provider: site?.provider ?? '',
		// What it has not used for a while it does not ask for.
		wants: slots > 0 || isShort ? holding.wants.wants : 0,
		held: Math.max(slots, counted ? (counted.get(name) ?? 0) : (holding.row?.slots ?? 0)),
		heldPerMinute: isSpent ? bucket.perMinute : 0,
		learnt: site && {mine, base, changes, most: site.state.pace.connections},
		totals: agreed => (site ? totalsOf(site.state, mine, agreed, now, longestWait) : {connections: 0, perMinute: null}),
	};
	return {ask, holding, changes};
}
