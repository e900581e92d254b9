import type {Moment} from '../kit/clock.ts';
import type {SavedSite} from '../mail/saved-site.ts';
import {
	allConnectionsOf,
	rateOf,
	restoreBackoff,
	restoreSlow,
	type SiteChange,
	type SiteState,
} from '../pace/site-state.ts';

/** What a node learnt of a site, to be joined with what others learnt. */
export type Learnt = {
	/** What to remember of it, as this node sees it. */
	readonly mine: SavedSite | null;
	/** What all nodes agreed on before; undefined: this node knows nothing yet. */
	readonly base: SavedSite | null | undefined;
	/** What happened here since then. */
	readonly changes: ReadonlySet<SiteChange>;
	/** Connections of a site that has all it may have. */
	readonly most: number;
};

/** Clocks are set, and times rounded. */
const sameMs = 1000;

/**
 * What all nodes remember from now on; `row`: what is remembered so far, which others may have changed. It is nothing for a site
 * that has all it may have, and for one that no other node has a part of (`isFirst`).
 */
export function joined({mine, base, changes, most}: Learnt, row: SavedSite | null, isFirst: boolean): SavedSite | null {
	if (base === undefined) {
		return changes.size === 0 && !(row === null && isFirst) ? row : mine;
	}
	if (isSame(row, base)) {
		return mine;
	}
	const windowOf = (saved: SavedSite | null) => saved?.window ?? most;
	const shrank = changes.has('halved') || changes.has('backed_off');
	const grown = windowOf(row) + windowOf(mine) - windowOf(base);
	const window = shrank ? Math.min(windowOf(mine), windowOf(row)) : Math.max(1, Math.min(grown, most));
	const backoff = later(changes.has('backed_off'), changes.has('resumed'), mine, row, 'suspendedUntil');
	const slow = later(changes.has('slowed'), false, mine, row, 'slowUntil');
	const mails = [mine, row].flatMap(saved => saved?.mailsPerSession ?? []);
	const mailsPerSession = mails.length === 0 ? null : Math.min(...mails);
	const waits = backoff?.suspendedUntil ?? null;
	const slowUntil = slow?.slowUntil ?? null;
	if (waits === null && slowUntil === null && mailsPerSession === null && window >= most) {
		return null;
	}
	return {
		suspendedUntil: waits,
		reason: waits === null ? null : (backoff?.reason ?? null),
		waitsFor: waits === null ? null : (backoff?.waitsFor ?? null),
		advice: waits === null ? null : (backoff?.advice ?? null),
		step: waits === null ? 0 : (backoff?.step ?? 0),
		window,
		slowUntil,
		slowPerMinute: slowUntil === null ? null : (slow?.slowPerMinute ?? null),
		slowConnections: slowUntil === null ? null : (slow?.slowConnections ?? null),
		mailsPerSession,
	};
}

/** The node that began it says how long it lasts, the longer of two; another node takes what the others say. */
function later(
	began: boolean,
	ended: boolean,
	mine: SavedSite | null,
	row: SavedSite | null,
	until: 'suspendedUntil' | 'slowUntil',
): SavedSite | null {
	if (!began) {
		return ended ? mine : row;
	}
	return (row?.[until] ?? 0) > (mine?.[until] ?? 0) ? row : mine;
}

/** Whether two are the same, so that nothing needs to be written. */
export function isSame(one: SavedSite | null, other: SavedSite | null): boolean {
	if (one === null || other === null) {
		return one === other;
	}
	const near = (a: number | null, b: number | null) => (a === null || b === null ? a === b : Math.abs(a - b) < sameMs);
	return (
		near(one.suspendedUntil, other.suspendedUntil) &&
		near(one.slowUntil, other.slowUntil) &&
		one.window === other.window &&
		one.step === other.step &&
		one.waitsFor === other.waitsFor &&
		one.slowPerMinute === other.slowPerMinute &&
		one.slowConnections === other.slowConnections &&
		one.mailsPerSession === other.mailsPerSession
	);
}

/** Gives the site what all agreed on, where this node said something else (`said`); changes since then stay. */
export function adopt(
	site: SiteState,
	said: SavedSite | null,
	agreed: SavedSite | null,
	meanwhile: ReadonlySet<SiteChange>,
	now: Moment,
	longestWait: number,
): void {
	if (isSame(said, agreed)) {
		return;
	}
	const most = site.pace.connections;
	const change = (agreed?.window ?? most) - (said?.window ?? most);
	if (change < 0) {
		// Tries that began before end as they began: one fault halves once.
		site.stale = Math.max(site.stale, Math.floor(site.connections) - 1);
	}
	site.connections = Math.max(1, Math.min(site.connections + change, most));
	if (agreed?.mailsPerSession != null) {
		site.mailsPerSession = Math.min(site.mailsPerSession, agreed.mailsPerSession);
	}
	if (!(meanwhile.has('backed_off') || meanwhile.has('resumed')) && backoffOf(said) !== backoffOf(agreed)) {
		const wasBackingOff = site.backoff !== null;
		restoreBackoff(site, agreed, now, longestWait);
		site.answers = site.backoff ? false : wasBackingOff || site.answers;
		site.failures = 0;
	}
	if (!meanwhile.has('slowed') && slowOf(said) !== slowOf(agreed)) {
		restoreSlow(site, agreed, now, longestWait);
	}
}

const backoffOf = (saved: SavedSite | null) => JSON.stringify([saved?.suspendedUntil ?? null, saved?.step ?? 0]);
const slowOf = (saved: SavedSite | null) => JSON.stringify([saved?.slowUntil ?? null, saved?.slowPerMinute ?? null]);

/** Connections and mails per minute that all nodes together may have, by what they agreed on; `said`: by this node. */
export function totalsOf(
	site: SiteState,
	said: SavedSite | null,
	agreed: SavedSite | null,
	now: Moment,
	longestWait: number,
): {readonly connections: number; readonly perMinute: number | null} {
	const seen: SiteState = {...site, share: null, bucket: null};
	adopt(seen, said, agreed, new Set(), now, longestWait);
	return {connections: allConnectionsOf(seen, now.monotonic), perMinute: rateOf(seen)};
}
