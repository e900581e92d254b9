import type {Pace} from '../mail/route.ts';
import type {SavedSite} from '../mail/saved-site.ts';
import {rateOf, setRate} from './rate.ts';
import {newSite, type SiteState} from './site.ts';
import type {SiteShare} from './site-share.ts';

/** The same instant on both clocks. */
export type Moment = {readonly now: number; readonly monotonic: number};

/** What is to be remembered of a site; null: nothing, it does as well as it may. */
export function savedSite(site: SiteState, {now, monotonic}: Moment): SavedSite | null {
	const {backoff, slow, pace} = site;
	const shortened = site.mailsPerSession < pace.mailsPerSession;
	if (!backoff && !slow && !shortened && Math.floor(site.connections) >= pace.connections) {
		return null;
	}
	const wall = (at: number) => Math.round(now + at - monotonic);
	return {
		suspendedUntil: backoff && wall(backoff.until),
		reason: backoff?.reason ?? null,
		waitsFor: backoff?.waitsFor ?? null,
		step: backoff?.step ?? 0,
		window: Math.floor(site.connections),
		slowUntil: slow && wall(slow.until),
		slowPerMinute: slow?.perMinute ?? null,
		slowConnections: slow?.connections ?? null,
		mailsPerSession: shortened ? site.mailsPerSession : null,
	};
}

/** The site as it was, at a later time; no wait is longer than `longestWait`, whatever the clocks did meanwhile. */
export function restoredSite(
	pace: Pace,
	saved: SavedSite,
	moment: Moment,
	longestWait: number,
	share: SiteShare | null = null,
): SiteState {
	const site = newSite(pace, share, moment.monotonic);
	site.connections = Math.max(1, Math.min(saved.window, pace.connections));
	site.mailsPerSession = Math.min(saved.mailsPerSession ?? pace.mailsPerSession, pace.mailsPerSession);
	restoreBackoff(site, saved, moment, longestWait);
	restoreSlow(site, saved, moment, longestWait);
	return site;
}

/** It is left alone as long as was saved, or no longer. */
export function restoreBackoff(
	site: SiteState,
	saved: SavedSite | null,
	{now, monotonic}: Moment,
	longestWait: number,
): void {
	if (saved === null || saved.suspendedUntil === null) {
		site.backoff = null;
		return;
	}
	site.answers = false;
	site.backoff = {
		until: monotonic + Math.min(saved.suspendedUntil - now, longestWait),
		step: saved.step,
		reason: saved.reason ?? '',
		waitsFor: saved.waitsFor ?? 'suspension',
	};
}

/** It is slowed as long as was saved, or no longer. */
export function restoreSlow(
	site: SiteState,
	saved: SavedSite | null,
	{now, monotonic}: Moment,
	longestWait: number,
): void {
	const until = saved?.slowUntil ?? null;
	site.slow =
		saved === null || until === null || until <= now
			? null
			: {
					until: monotonic + Math.min(until - now, longestWait),
					perMinute: saved.slowPerMinute ?? 1,
					connections: saved.slowConnections ?? 1,
				};
	setRate(site, rateOf(site), monotonic);
}
