import type {SavedSite} from '../mail/saved-site.ts';
import {rateOf} from './rate.ts';
import {type Moment, restoreBackoff, restoreSlow} from './saved.ts';
import {allConnectionsOf, type SiteChange, type SiteState} from './site.ts';

/** What a node learnt of a site, to be joined with what others did. */
export type Learnt = {
	/** What is to be remembered of it, as this node sees it. */
	readonly mine: SavedSite | null;
	/** What all agreed on before; undefined: this node knows of nothing yet. */
	readonly base: SavedSite | null | undefined;
	/** What happened here since then. */
	readonly changes: ReadonlySet<SiteChange>;
	/** Connections of a site that does as well as it may. */
	readonly most: number;
};

/** Clocks are set, and times rounded. */
const sameMs = 1000;

/**
 * What all are to remember from now on; `row`: what is remembered, of which others may have changed something. Of a site
 * that does as well as it may that is nothing, nor of one that nobody has (`isFirst`).
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
		step: waits === null ? 0 : (backoff?.step ?? 0),
		window,
		slowUntil,
		slowPerMinute: slowUntil === null ? null : (slow?.slowPerMinute ?? null),
		slowConnections: slowUntil === null ? null : (slow?.slowConnections ?? null),
		mailsPerSession,
	};
}

/** Who began it says how long it lasts, the longer of two; who did not takes what others say. */
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

/** Whether two say the same, so that nothing is to be written. */
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

/** The site gets what all agreed on, where that is not what this node said (`said`); what happened here meanwhile stays. */
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
		const wasLeftAlone = site.backoff !== null;
		restoreBackoff(site, agreed, now, longestWait);
		site.answers = site.backoff ? false : wasLeftAlone || site.answers;
		site.failures = 0;
	}
	if (!meanwhile.has('slowed') && slowOf(said) !== slowOf(agreed)) {
		restoreSlow(site, agreed, now, longestWait);
	}
}

const backoffOf = (saved: SavedSite | null) => JSON.stringify([saved?.suspendedUntil ?? null, saved?.step ?? 0]);
const slowOf = (saved: SavedSite | null) => JSON.stringify([saved?.slowUntil ?? null, saved?.slowPerMinute ?? null]);

/** Connections that all nodes together may have, and mails per minute, by what they agreed on; `said`: by this node. */
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
