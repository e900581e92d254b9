/** What is remembered of a site over a restart; times are wall clock, milliseconds. */
export type SavedSite = {
	/** When one mail may try again; null: the site is not suspended. */
	readonly suspendedUntil: number | null;
	readonly reason: string | null;
	readonly waitsFor: 'suspension' | 'route' | null;
	/** What an operator can do about it, where a host blocks us. */
	readonly advice: string | null;
	/** How often in a row the site backed off. */
	readonly step: number;
	/** Connections. */
	readonly window: number;
	readonly slowUntil: number | null;
	readonly slowPerMinute: number | null;
	readonly slowConnections: number | null;
	/** Null: as many as the destination may have. */
	readonly mailsPerSession: number | null;
};

/** What a node is known to have of a site, and could use. */
export type ShareRow = {
	readonly site: string;
	readonly node: string;
	/** Connections. */
	readonly slots: number;
	readonly wants: number;
	/** Of the mails that all may send; null: no limit. */
	readonly perMinute: number | null;
};

/** Who shares the sites now. */
export type Sharers = {
	readonly node: string;
	/** Nodes that live, this one included. */
	readonly nodes: number;
	/** Another one still has all sites for itself: nothing may be taken before it has said what it holds. */
	readonly isBlocked: boolean;
};

/** Whether there is nothing to be known of it. */
export function isNothing({slots, wants, perMinute}: ShareRow): boolean {
	return slots === 0 && wants === 0 && (perMinute ?? 0) === 0;
}
