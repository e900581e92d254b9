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
