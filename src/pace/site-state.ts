import type {Moment} from '../kit/clock.ts';
import type {Pace, PaceReaction} from '../mail/route.ts';
import type {SavedSite} from '../mail/saved-site.ts';
import {blockReaction} from './blocks.ts';
import {Bucket} from './bucket.ts';

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

/** Connections that a node may have at a site; `share` null: no other node shares the store. */
function sharedOut(share: SiteShare | null, now: number): number {
	const isOver = share !== null && share.term.until <= now;
	return isOver ? 0 : share === null || share.term.alone ? Number.POSITIVE_INFINITY : share.slots;
}

/** How a try ended, as far as it says something about the site. */
export type SiteEnd = {
	/**
	 * `answered`: a host accepted or refused this mail. `throttled`: it wants less of us, or hung up. `failed`: no host opened a
	 * session. `locked_out`: our smarthost refuses us, whichever the mail.
	 */
	readonly kind: 'answered' | 'throttled' | 'failed' | 'locked_out';
	/** Whether any host replied at all. */
	readonly spoke: boolean;
	/** Refusals, the code first. */
	readonly replies: readonly string[];
	/** For people: why. */
	readonly reason: string;
	/** The last reply refuses whatever comes from our address. */
	readonly isBlock?: boolean;
};

/** A pause that the site takes by itself. Operators suspend destinations, not sites. */
type Backoff = {
	/** Then one recipient may try. */
	until: number;
	/** How many there were in a row; 0: a reply asked for it. */
	step: number;
	reason: string;
	/** Why its queues wait. */
	waitsFor: 'suspension' | 'route';
	/** What an operator can do about it; null: wait. */
	advice: string | null;
};

/** What a site may have now, and why. All times are monotonic milliseconds. */
export type SiteState = {
	pace: Pace;
	/** Connections at once; fractions add up until they are whole. */
	connections: number;
	/** Whether a host replied at the last try; null: unknown. */
	answers: boolean | null;
	/** Tries in a row that failed. */
	failures: number;
	/** Ends still to come of tries begun before the last halving: one fault halves once. */
	stale: number;
	backoff: Backoff | null;
	slow: {until: number; perMinute: number; connections: number} | null;
	mailsPerSession: number;
	bucket: Bucket | null;
	/** This node's part of all that; null: everything. */
	share: SiteShare | null;
};

/** A change worth a line in the log. */
export type SiteChange =
	| 'backed_off'
	| 'resumed'
	| 'route_stopped'
	| 'route_resumed'
	| 'slowed'
	| 'sessions_shortened'
	| 'halved'
	| 'grew';

const minute = 60_000;
/** How long a site backs off, time after time (R8.2). */
const backoffs = [1, 2, 5, 15, 30, 60].map(minutes => minutes * minute);

/** A new site. */
export function newSite(pace: Pace, share: SiteShare | null = null, now = 0): SiteState {
	const site: SiteState = {
		pace,
		connections: Math.min(pace.startConnections, pace.connections),
		answers: null,
		failures: 0,
		stale: 0,
		backoff: null,
		slow: null,
		mailsPerSession: pace.mailsPerSession,
		bucket: null,
		share,
	};
	setRate(site, pace.perMinute, now);
	return site;
}

/** The destinations file may have changed the site's pace. */
export function setPace(site: SiteState, pace: Pace, now: number): void {
	if (site.pace === pace) {
		return;
	}
	const shortened = site.mailsPerSession < site.pace.mailsPerSession;
	site.mailsPerSession = Math.min(pace.mailsPerSession, shortened ? site.mailsPerSession : pace.mailsPerSession);
	site.connections = Math.min(site.connections, pace.connections);
	site.pace = pace;
	setRate(site, rateOf(site), now);
}

/** A try that is not over has heard nothing for a while: the next one may not either. */
export function fallSilent(site: SiteState): void {
	site.answers = false;
}

/** Whether nothing may try it now. */
export function isBackingOff(site: SiteState, now: number): boolean {
	return site.backoff !== null && site.backoff.until > now;
}

/** Whether one recipient may find out if the site works again. */
export function isProbing(site: SiteState, now: number): boolean {
	return site.backoff !== null && site.backoff.until <= now;
}

/** Connections that this node may have to the site now; 0: it backs off, or other nodes have them. */
export function connectionsOf(site: SiteState, now: number): number {
	return Math.min(allConnectionsOf(site, now), sharedOut(site.share, now));
}

/** Whether other nodes have connections that this node could use. */
export function isShort(site: SiteState, now: number): boolean {
	return sharedOut(site.share, now) < allConnectionsOf(site, now);
}

/** Connections that the site may have now from all nodes together; 0: it backs off. */
export function allConnectionsOf(site: SiteState, now: number): number {
	endSlow(site, now);
	if (site.backoff) {
		return site.backoff.until <= now ? 1 : 0;
	}
	return Math.max(1, Math.floor(Math.min(site.connections, site.slow?.connections ?? Number.POSITIVE_INFINITY)));
}

/** When the site may start something: `now`, or later. */
export function opensAt(site: SiteState, now: number): number {
	if (site.backoff && site.backoff.until > now) {
		return site.backoff.until;
	}
	endSlow(site, now);
	return site.bucket ? Math.max(now, site.bucket.nextAt(now)) : now;
}

/** Mails that the rate allows now; `Infinity` without a rate. */
export function mailsAllowed(site: SiteState, now: number): number {
	endSlow(site, now);
	return site.bucket ? site.bucket.left(now) : Number.POSITIVE_INFINITY;
}

/** Takes mails from the rate; a negative number gives them back. */
export function spend(site: SiteState, mails: number, now: number): void {
	site.bucket?.take(mails, now);
}

function endSlow(site: SiteState, now: number): void {
	if (site.slow && site.slow.until <= now) {
		site.slow = null;
		setRate(site, site.pace.perMinute, now);
	}
}

/**
 * Changes what the site may have after a try (R8.2, R8.3; Postfix's scheduler). No wait is longer than `longestWait`.
 * Answers what changed.
 */
export function tried(site: SiteState, end: SiteEnd, now: number, longestWait: number): SiteChange[] {
	const changes: SiteChange[] = [];
	site.answers = end.spoke;
	switch (end.kind) {
		case 'locked_out':
			changes.push(...backOff(site, 'route', end.reason, now, longestWait));
			break;
		case 'failed':
			site.failures++;
			changes.push(...halve(site));
			if (isProbing(site, now) || (site.backoff === null && site.failures >= site.pace.failures)) {
				changes.push(...backOff(site, site.backoff?.waitsFor ?? 'suspension', end.reason, now, longestWait));
			}
			break;
		case 'throttled':
			changes.push(...resume(site, now), ...halve(site));
			break;
		case 'answered':
			changes.push(...resume(site, now), ...grow(site));
			break;
	}
	for (const [n, reply] of end.replies.entries()) {
		const isBlock = end.isBlock === true && n === end.replies.length - 1;
		const reaction = reactionTo(site, reply, isBlock);
		if (reaction) {
			changes.push(...react(site, reaction, end.reason || reply, now, longestWait));
		}
	}
	return changes;
}

function backOff(
	site: SiteState,
	waitsFor: Backoff['waitsFor'],
	reason: string,
	now: number,
	longestWait: number,
): SiteChange[] {
	if (site.backoff && site.backoff.until > now) {
		return []; // Tries that began before it end one after the other.
	}
	const isNews = waitsFor === 'route' && site.backoff?.waitsFor !== 'route';
	const step = (site.backoff?.step ?? 0) + 1;
	const wait = backoffs[step - 1] ?? (backoffs.at(-1) as number);
	site.backoff = {until: now + Math.min(wait, longestWait), step, reason, waitsFor, advice: null};
	site.connections = 1;
	return isNews ? ['backed_off', 'route_stopped'] : ['backed_off'];
}

/** Lets one recipient try now, at an operator's wish. False: the site does not back off. */
export function probeNow(site: SiteState, now: number): boolean {
	if (!site.backoff || site.backoff.until <= now) {
		return false;
	}
	site.backoff.until = now;
	return true;
}

/** Ends a backoff, if its time is over: the result of a try that began before it says nothing new. */
function resume(site: SiteState, now: number): SiteChange[] {
	site.failures = 0;
	if (!isProbing(site, now)) {
		return [];
	}
	const wasRoute = site.backoff?.waitsFor === 'route';
	site.backoff = null;
	site.connections = Math.min(site.pace.startConnections, site.pace.connections);
	site.stale = 0;
	return wasRoute ? ['resumed', 'route_resumed'] : ['resumed'];
}

/** One more connection for each window's worth of success. */
function grow(site: SiteState): SiteChange[] {
	const before = Math.floor(site.connections);
	site.stale = Math.max(0, site.stale - 1);
	site.connections = Math.min(site.pace.connections, site.connections + 1 / site.connections);
	return Math.floor(site.connections) > before ? ['grew'] : [];
}

function halve(site: SiteState): SiteChange[] {
	if (site.stale > 0) {
		site.stale--;
		return [];
	}
	const before = Math.floor(site.connections);
	site.stale = before - 1;
	site.connections = Math.max(1, Math.floor(before / 2));
	return before > 1 ? ['halved'] : [];
}

function reactionTo(site: SiteState, reply: string, isBlock: boolean): PaceReaction | null {
	const known = site.pace.reactions.find(({text}) => text.test(reply));
	return known?.reaction ?? (isBlock ? blockReaction : commonReaction(site, reply));
}

function commonReaction(site: SiteState, reply: string): PaceReaction | null {
	for (const {text, reaction} of commonReactions) {
		const found = text.exec(reply);
		if (found) {
			return reaction(found, site.mailsPerSession);
		}
	}
	return null;
}

function react(
	site: SiteState,
	reaction: PaceReaction,
	reason: string,
	now: number,
	longestWait: number,
): SiteChange[] {
	switch (reaction.kind) {
		case 'suspend': {
			const until = now + Math.min(reaction.forMs, longestWait);
			if (site.backoff && site.backoff.until >= until) {
				return [];
			}
			const {advice = null} = reaction;
			site.backoff = {until, step: site.backoff?.step ?? 0, reason, waitsFor: 'suspension', advice};
			return ['backed_off'];
		}
		case 'slow': {
			const {perMinute, connections, forMs} = reaction;
			site.slow = {until: now + Math.min(forMs, longestWait), perMinute, connections};
			setRate(site, rateOf(site), now);
			return ['slowed'];
		}
		case 'mails_per_session': {
			if (reaction.mails >= site.mailsPerSession) {
				return [];
			}
			site.mailsPerSession = Math.max(1, reaction.mails);
			return ['sessions_shortened'];
		}
	}
}

type CommonReaction = {
	readonly text: RegExp;
	/** By the match and the mails that a connection may carry now. */
	readonly reaction: (found: RegExpExecArray, mailsPerSession: number) => PaceReaction;
};

const reputationMs = 90 * 60_000;

/** Replies of any host, where the destination has no rule of its own (R8.3). */
const commonReactions: readonly CommonReaction[] = [
	{
		text: /(?:max(?:imum)?|too many|limit)\D{0,40}?(\d{1,4})?\s?(?:messages|mails|e-?mails|transactions)\b.{0,20}\b(?:per|in|on|for) (?:this |one |a |each |the |single )*(?:connection|session)/i,
		reaction: (found, now) => ({
			kind: 'mails_per_session',
			mails: found[1] === undefined ? Math.max(1, Math.floor(now / 2)) : Math.max(1, Number(found[1])),
		}),
	},
	{
		text: /(?:deferred|rate.?limited|throttled|delayed|blocked)\b.{0,60}\b(?:user complaints|ip.{0,12}reputation)|^4.{0,80}\breputation of (?:your|the) ip|^4.{0,80}\b(?:low|poor|bad) (?:ip )?reputation/i,
		reaction: () => ({kind: 'slow', perMinute: 1, connections: 1, forMs: reputationMs}),
	},
];

type Rated = Pick<SiteState, 'bucket' | 'share'>;

/** Mails per minute of all nodes together; null: any number. */
export function rateOf({slow, pace}: Pick<SiteState, 'slow' | 'pace'>): number | null {
	return slow ? Math.min(slow.perMinute, pace.perMinute ?? slow.perMinute) : pace.perMinute;
}

/** Sets the rate of the site, or this node's part of it; null: any number. */
export function setRate(site: Rated, perMinute: number | null, now: number): void {
	const {share} = site;
	if (share === null || share.term.alone) {
		fillBy(site, perMinute, now, true);
	} else {
		const part = share.perMinute ?? Number.POSITIVE_INFINITY;
		fillBy(site, perMinute === null ? share.perMinute : Math.min(perMinute, part), now, false);
	}
}

/**
 * Sets this node's part of the rate. `isFirst`: no other node has one, so nothing was sent lately; else what others sent in the
 * last minute counts too, and the bucket begins empty.
 */
export function setPart(site: Rated, perMinute: number | null, isFirst: boolean, now: number): void {
	if (site.share) {
		site.share.perMinute = perMinute;
	}
	fillBy(site, perMinute, now, isFirst);
}

function fillBy(site: Rated, perMinute: number | null, now: number, full: boolean): void {
	const {bucket} = site;
	if (perMinute === null) {
		site.bucket = null;
	} else if (bucket === null || (bucket.perMinute === 0 && full)) {
		site.bucket = new Bucket(perMinute, full && perMinute > 0 ? undefined : 0, now);
	} else if (bucket.perMinute !== perMinute) {
		site.bucket = bucket.withRate(perMinute, now);
	}
}

/** What to remember of a site over a restart; null: nothing, it has all it may have. */
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
		advice: backoff?.advice ?? null,
		step: backoff?.step ?? 0,
		window: Math.floor(site.connections),
		slowUntil: slow && wall(slow.until),
		slowPerMinute: slow?.perMinute ?? null,
		slowConnections: slow?.connections ?? null,
		mailsPerSession: shortened ? site.mailsPerSession : null,
	};
}

/** Restores a site at a later time. No wait is longer than `longestWait`, even if a clock was set meanwhile. */
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

/** Restores the backoff that was saved, for at most `cap`, or ends it. */
export function restoreBackoff(site: SiteState, saved: SavedSite | null, {now, monotonic}: Moment, cap: number): void {
	if (saved === null || saved.suspendedUntil === null) {
		site.backoff = null;
		return;
	}
	site.answers = false;
	site.backoff = {
		until: monotonic + Math.min(saved.suspendedUntil - now, cap),
		step: saved.step,
		reason: saved.reason ?? '',
		waitsFor: saved.waitsFor ?? 'suspension',
		advice: saved.advice,
	};
}

/** Restores the slow-down that was saved, for at most `cap`, or ends it. */
export function restoreSlow(site: SiteState, saved: SavedSite | null, {now, monotonic}: Moment, cap: number): void {
	const until = saved?.slowUntil ?? null;
	site.slow =
		saved === null || until === null || until <= now
			? null
			: {
					until: monotonic + Math.min(until - now, cap),
					perMinute: saved.slowPerMinute ?? 1,
					connections: saved.slowConnections ?? 1,
				};
	setRate(site, rateOf(site), monotonic);
}
