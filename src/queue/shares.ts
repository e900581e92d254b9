import type {SiteChange, SiteShare, SiteState} from '../pace/site-state.ts';
import type {Site} from './site.ts';

/** The sites of this node, as shares change them. */
export type SharedSites = {
	readonly sites: () => Iterable<Site>;
	/** What the site may have changes by `how`. */
	readonly regrade: (site: Site, how: (state: SiteState) => void) => void;
	/** Other nodes have all of the site: its mail is left to them, and comes back if they do not take it. */
	readonly leave: (site: Site) => void;
};

/** What this node may use of each site. `src/cluster/` has what nodes that share a store do. */
export type Shares = {
	/** Whether no other node uses the sites. */
	readonly isAlone: boolean;
	/** To be called once, before anything else. */
	readonly join: (sites: SharedSites) => void;
	/** For a site that is new here; null: all of it. */
	readonly newShare: () => SiteShare | null;
	/** The site could use more than this node has of it. */
	readonly short: (site: Site) => void;
	/** A try changed what the site may have. */
	readonly changed: (site: Site, changes: readonly SiteChange[]) => void;
	/** To be called once a second, and awaited before anything is claimed. */
	readonly renew: () => Promise<void>;
	/** To be called ten times a second. */
	readonly advance: () => void;
	/** Resolves when nothing is being exchanged. */
	readonly settled: () => Promise<void>;
};

/** Where one node has the store for itself: everything. */
export const noOtherNodes: Shares = {
	isAlone: true,
	join: () => undefined,
	newShare: () => null,
	short: () => undefined,
	changed: () => undefined,
	renew: async () => undefined,
	advance: () => undefined,
	settled: async () => undefined,
};
