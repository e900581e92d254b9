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
