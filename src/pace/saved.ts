import type {SavedSite} from '../mail/saved-site.ts';
import type {Pace} from '../mail/way.ts';
import {newSite, type SiteState, setRate} from './site.ts';

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
export function restoredSite(pace: Pace, saved: SavedSite, {now, monotonic}: Moment, longestWait: number): SiteState {
	const site = newSite(pace);
	const later = (at: number) => monotonic + Math.min(at - now, longestWait);
	site.connections = Math.max(1, Math.min(saved.window, pace.connections));
	site.mailsPerSession = Math.min(saved.mailsPerSession ?? pace.mailsPerSession, pace.mailsPerSession);
	if (saved.suspendedUntil !== null) {
		site.answers = false;
		site.backoff = {
			until: later(saved.suspendedUntil),
			step: saved.step,
			reason: saved.reason ?? '',
			waitsFor: saved.waitsFor ?? 'suspension',
		};
	}
	if (saved.slowUntil !== null && saved.slowUntil > now) {
		const [perMinute, connections] = [saved.slowPerMinute ?? 1, saved.slowConnections ?? 1];
		site.slow = {until: later(saved.slowUntil), perMinute, connections};
		setRate(site, Math.min(perMinute, pace.perMinute ?? perMinute));
	}
	return site;
}
