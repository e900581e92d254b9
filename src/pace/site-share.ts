/** How long a node may use what it was given without asking again, by the server's clock, milliseconds. */
export const shareMs = 6000;
/** So much earlier it ends by the node's own clock: in that time its idle sessions end. */
export const shareMarginMs = 500;

/** Until when a node may use what it has of all sites, by its monotonic clock; `alone`: it has all of them. */
export type Term = {until: number; alone: boolean};

/** What a node has of a site that several nodes share. */
export type SiteShare = {
	readonly term: Term;
	/** Connections that it may have. */
	slots: number;
	/** Its part of the site's mails per minute; null: no limit. */
	perMinute: number | null;
};

/** Connections that a node may have at a site; `lease` null: no other node shares the store. */
export function sharedOut(share: SiteShare | null, now: number): number {
	if (share === null) {
		return Number.POSITIVE_INFINITY;
	}
	const {term, slots} = share;
	if (term.until <= now) {
		return 0;
	}
	return term.alone ? Number.POSITIVE_INFINITY : slots;
}
