import type {Moment} from '../../kit/clock.ts';
import type {Pace, PaceReaction} from '../../mail/route.ts';
import type {SavedSite} from '../../mail/saved-site.ts';
import {blockReaction} from './blocks.ts';
import {Bucket} from './bucket.ts';

/** This node's part of a provider's limits, which several nodes share. */
export type SiteShare = {
	/** Its part of this many connections; 0 if its term has ended. */
	readonly connections: (total: number, now: number) => number;
	/** Its part of this many messages per minute. */
	readonly perMinute: (total: number) => number;
};

/** What the end of an attempt reveals about the provider. */
export type SiteEnd = {
	/**
	 * The kind of result:
	 * - `answered`: a mail server accepted or rejected this message
	 * - `throttled`: a mail server wants less mail from us, or hung up
	 * - `failed`: no mail server opened a session
	 * - `locked_out`: our relay rejects us, whatever the message
	 */
	readonly kind: 'answered' | 'throttled' | 'failed' | 'locked_out';
	/** Whether any mail server replied at all. */
	readonly hasReplied: boolean;
	/** Rejections, each beginning with its code. */
	readonly replies: readonly string[];
	/** The reason, for people. */
	readonly reason: string;
	/** Whether the last reply rejects everything from our address. */
	readonly isBlock?: boolean;
};

/** A pause that mailctl decides on. Operators suspend destinations, not providers. */
type Backoff = {
	/** The time from which one recipient may probe the provider. */
	until: number;
	/** The number of backoffs in a row; 0 if a reply requested this one. */
	step: number;
	reason: string;
	/** Why its queues are waiting. */
	waitsFor: 'suspension' | 'route';
	/** What an operator can do about it; `null` if waiting is enough. */
	advice: string | null;
};

/**
 * The current limits of a provider and the reasons for them. All times are monotonic milliseconds. This folder decides
 * how much a provider may receive and by which route. It relies only on what is passed in; it never sends, claims or
 * stores anything.
 */
export type SiteState = {
	pace: Pace;
	/**
	 * The number of concurrent connections; fractions add up to whole ones. If it has reached this node's part, it is
	 * the number that all nodes may have.
	 */
	connections: number;
	/** Whether a mail server replied at the last attempt; `null` if unknown. */
	isResponding: boolean | null;
	/** The number of failed attempts in a row. */
	failures: number;
	/** How many attempts begun before the last halving are unfinished. Their failures do not halve again. */
	stale: number;
	backoff: Backoff | null;
	/** Lower limits that a reply asked for, and that reply. */
	slow: {until: number; perMinute: number; connections: number; reason: string} | null;
	mailsPerSession: number;
	bucket: Bucket | null;
	/** `null` if no other node shares the provider. */
	readonly share: SiteShare | null;
};

/** A change that is worth a log line. */
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
/** Pauses whose ends differ by less are the same, in milliseconds: clocks are adjusted and times rounded. */
const toleranceMs = 1000;
/** How long a provider backs off each time in a row (R8.2). */
const backoffs = [1, 2, 5, 15, 30, 60].map(minutes => minutes * minute);

/** Creates the state of a new provider. */
export function newSite(pace: Pace, share: SiteShare | null = null, now = 0): SiteState {
	const site: SiteState = {
		pace,
		connections: 1,
		isResponding: null,
		failures: 0,
		stale: 0,
		backoff: null,
		slow: null,
		mailsPerSession: pace.mailsPerSession,
		bucket: null,
		share,
	};
	startWindow(site, now);
	setRate(site, now);
	return site;
}

/** Applies the provider's limits from the destinations file, which may have changed. */
export function setPace(site: SiteState, pace: Pace, now: number): void {
	if (site.pace === pace) {
		return;
	}
	const isShortened = site.mailsPerSession < site.pace.mailsPerSession;
	site.mailsPerSession = Math.min(pace.mailsPerSession, isShortened ? site.mailsPerSession : pace.mailsPerSession);
	site.connections = Math.min(site.connections, pace.connections);
	site.pace = pace;
	setRate(site, now);
}

/** Notes that an unfinished attempt has received nothing for a while. The next one may not either. */
export function fallSilent(site: SiteState): void {
	site.isResponding = false;
}

/** Whether nothing may be attempted there now. */
export function isBackingOff(site: SiteState, now: number): boolean {
	return site.backoff !== null && site.backoff.until > now;
}

/** Whether one recipient may find out if the provider works again. */
export function isProbing(site: SiteState, now: number): boolean {
	return site.backoff !== null && site.backoff.until <= now;
}

/** Returns this node's part of what all nodes together may have. */
function partOf({share}: SiteState, total: number, now: number): number {
	return share ? share.connections(total, now) : total;
}

/** Sets the connections that a new provider starts with. Of several nodes, each has at least one. */
function startWindow(site: SiteState, now: number): void {
	setWindow(site, Math.max(1, partOf(site, site.pace.startConnections, now)), now);
}

/** Sets the window. If it has reached this node's part, it grows along with that part. */
function setWindow(site: SiteState, window: number, now: number): void {
	const max = site.pace.connections;
	const part = partOf(site, max, now);
	site.connections = part > 0 && window >= part ? max : Math.min(window, max);
}

/** Returns how many connections this node may have to the provider now; 0 while backing off or if others have them. */
export function connectionsOf(site: SiteState, now: number): number {
	endSlow(site, now);
	if (site.backoff) {
		return site.backoff.until <= now ? partOf(site, 1, now) : 0;
	}
	const total = Math.min(site.pace.connections, site.slow?.connections ?? Number.POSITIVE_INFINITY);
	return Math.min(Math.max(1, Math.floor(Math.min(site.connections, total))), partOf(site, total, now));
}

/** Whether this node has any part of the provider's limits now. */
export function hasPart(site: SiteState, now: number): boolean {
	return connectionsOf(site, now) > 0 && site.bucket?.perMinute !== 0;
}

/** Returns when the provider may start something: `now` or later. */
export function opensAt(site: SiteState, now: number): number {
	if (site.backoff && site.backoff.until > now) {
		return site.backoff.until;
	}
	endSlow(site, now);
	const next = site.bucket ? Math.max(now, site.bucket.nextAt(now)) : now;
	return Math.min(next, site.slow?.until ?? Number.POSITIVE_INFINITY);
}

/** Returns how many messages the rate allows now; `Infinity` without a rate. */
export function mailsAllowed(site: SiteState, now: number): number {
	endSlow(site, now);
	return site.bucket ? site.bucket.left(now) : Number.POSITIVE_INFINITY;
}

/** Takes messages from the rate; a negative number returns them. */
export function spend(site: SiteState, messages: number, now: number): void {
	site.bucket?.take(messages, now);
}

function endSlow(site: SiteState, now: number): void {
	if (site.slow && site.slow.until <= now) {
		site.slow = null;
		setRate(site, now);
	}
}

/** Adjusts the limits after an attempt (R8.2, R8.3; like Postfix's scheduler). No wait is longer than `maxWait`. */
export function noteAttempt(site: SiteState, end: SiteEnd, now: number, maxWait: number): SiteChange[] {
	const changes: SiteChange[] = [];
	site.isResponding = end.hasReplied;
	switch (end.kind) {
		case 'locked_out':
			changes.push(...backOff(site, 'route', end.reason, now, maxWait));
			break;
		case 'failed':
			site.failures++;
			changes.push(...halve(site, now));
			if (isProbing(site, now) || (site.backoff === null && site.failures >= site.pace.failures)) {
				changes.push(...backOff(site, site.backoff?.waitsFor ?? 'suspension', end.reason, now, maxWait));
			}
			break;
		case 'throttled':
			changes.push(...resume(site, now), ...halve(site, now));
			break;
		case 'answered':
			changes.push(...resume(site, now), ...grow(site, now));
			break;
	}
	for (const [index, reply] of end.replies.entries()) {
		const isBlock = end.isBlock === true && index === end.replies.length - 1;
		const reaction = reactionTo(site, reply, isBlock);
		if (reaction) {
			changes.push(...react(site, reaction, end.reason || reply, now, maxWait));
		}
	}
	return changes;
}

function backOff(
	site: SiteState,
	waitsFor: Backoff['waitsFor'],
	reason: string,
	now: number,
	maxWait: number,
): SiteChange[] {
	if (site.backoff && site.backoff.until > now) {
		return []; // Attempts that began before the backoff are ending one by one.
	}
	const isNewLockout = waitsFor === 'route' && site.backoff?.waitsFor !== 'route';
	const step = (site.backoff?.step ?? 0) + 1;
	const wait = backoffs[step - 1] ?? (backoffs.at(-1) as number);
	site.backoff = {until: now + Math.min(wait, maxWait), step, reason, waitsFor, advice: null};
	site.connections = 1;
	return isNewLockout ? ['backed_off', 'route_stopped'] : ['backed_off'];
}

/** Lets one recipient probe the provider now, as an operator requested. Returns `false` if it is not backing off. */
export function probeNow(site: SiteState, now: number): boolean {
	if (!site.backoff || site.backoff.until <= now) {
		return false;
	}
	site.backoff.until = now;
	return true;
}

/** Ends a backoff whose time is over. Before that, the result of an attempt that began earlier is no news. */
function resume(site: SiteState, now: number): SiteChange[] {
	site.failures = 0;
	if (!isProbing(site, now)) {
		return [];
	}
	const wasRoute = site.backoff?.waitsFor === 'route';
	site.backoff = null;
	startWindow(site, now);
	site.stale = 0;
	return wasRoute ? ['resumed', 'route_resumed'] : ['resumed'];
}

/** Adds one connection for each window's worth of successes. */
function grow(site: SiteState, now: number): SiteChange[] {
	const before = Math.floor(site.connections);
	site.stale = Math.max(0, site.stale - 1);
	setWindow(site, site.connections + 1 / site.connections, now);
	return Math.floor(site.connections) > before ? ['grew'] : [];
}

function halve(site: SiteState, now: number): SiteChange[] {
	if (site.stale > 0) {
		site.stale--;
		return [];
	}
	const part = partOf(site, site.pace.connections, now);
	const before = Math.floor(part > 0 ? Math.min(site.connections, part) : site.connections);
	site.stale = before - 1;
	site.connections = Math.max(1, Math.floor(before / 2));
	return before > 1 ? ['halved'] : [];
}

function reactionTo(site: SiteState, reply: string, isBlock: boolean): PaceReaction | null {
	const rule = site.pace.reactions.find(({text}) => text.test(reply));
	return rule?.reaction ?? (isBlock ? blockReaction : commonReaction(site, reply));
}

function commonReaction(site: SiteState, reply: string): PaceReaction | null {
	for (const {text, reaction} of commonReactions) {
		const match = text.exec(reply);
		if (match) {
			return reaction(match, site.mailsPerSession);
		}
	}
	return null;
}

function react(site: SiteState, reaction: PaceReaction, reason: string, now: number, maxWait: number): SiteChange[] {
	switch (reaction.kind) {
		case 'suspend': {
			const until = now + Math.min(reaction.forMs, maxWait);
			if (site.backoff && site.backoff.until >= until) {
				return [];
			}
			const {advice = null} = reaction;
			site.backoff = {until, step: site.backoff?.step ?? 0, reason, waitsFor: 'suspension', advice};
			return ['backed_off'];
		}
		case 'slow': {
			const {perMinute, connections, forMs} = reaction;
			site.slow = {until: now + Math.min(forMs, maxWait), perMinute, connections, reason};
			setRate(site, now);
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
	/** The reaction to a match, given how many messages a connection may carry now. */
	readonly reaction: (match: RegExpExecArray, mailsPerSession: number) => PaceReaction;
};

const reputationMs = 90 * 60_000;

/** Reactions to replies of any mail server, unless the destination has a rule of its own (R8.3). */
const commonReactions: readonly CommonReaction[] = [
	{
		text: /(?:max(?:imum)?|too many|limit)\D{0,40}?(\d{1,4})?\s?(?:messages|mails|e-?mails|transactions)\b.{0,20}\b(?:per|in|on|for) (?:this |one |a |each |the |single )*(?:connection|session)/i,
		reaction: (match, now) => ({
			kind: 'mails_per_session',
			mails: match[1] === undefined ? Math.max(1, Math.floor(now / 2)) : Math.max(1, Number(match[1])),
		}),
	},
	{
		text: /(?:deferred|rate.?limited|throttled|delayed|blocked)\b.{0,60}\b(?:user complaints|ip.{0,12}reputation)|^4.{0,80}\breputation of (?:your|the) ip|^4.{0,80}\b(?:low|poor|bad) (?:ip )?reputation/i,
		reaction: () => ({kind: 'slow', perMinute: 1, connections: 1, forMs: reputationMs}),
	},
];

/** Sets this node's part of the provider's rate, which applies to all nodes together. */
export function setRate(site: SiteState, now: number): void {
	const {slow, pace, share, bucket} = site;
	const total = slow ? Math.min(slow.perMinute, pace.perMinute ?? slow.perMinute) : pace.perMinute;
	const part = share && total !== null ? share.perMinute(total) : total;
	if (part === null) {
		site.bucket = null;
	} else if (bucket?.perMinute !== part) {
		site.bucket = bucket?.withRate(part, now) ?? new Bucket(part);
	}
}

/** Returns what to remember about a provider across a restart, or `null` if nothing limits it. */
export function savedSite(site: SiteState, {now, monotonic}: Moment): SavedSite | null {
	const {backoff, slow, pace} = site;
	const isShortened = site.mailsPerSession < pace.mailsPerSession;
	if (!backoff && !slow && !isShortened && Math.floor(site.connections) >= pace.connections) {
		return null;
	}
	const toWallClock = (at: number) => Math.round(now + at - monotonic);
	return {
		suspendedUntil: backoff && toWallClock(backoff.until),
		reason: backoff?.reason ?? null,
		waitsFor: backoff?.waitsFor ?? null,
		advice: backoff?.advice ?? null,
		step: backoff?.step ?? 0,
		window: Math.floor(site.connections),
		slowUntil: slow && toWallClock(slow.until),
		slowPerMinute: slow?.perMinute ?? null,
		slowConnections: slow?.connections ?? null,
		slowReason: slow?.reason ?? null,
		mailsPerSession: isShortened ? site.mailsPerSession : null,
	};
}

/** Restores a provider at a later time. No wait is longer than `maxWait`, even if a clock was adjusted meanwhile. */
export function restoredSite(
	pace: Pace,
	saved: SavedSite,
	moment: Moment,
	maxWait: number,
	share: SiteShare | null = null,
): SiteState {
	const site = newSite(pace, share, moment.monotonic);
	site.connections = Math.max(1, Math.min(saved.window, pace.connections));
	site.mailsPerSession = Math.min(saved.mailsPerSession ?? pace.mailsPerSession, pace.mailsPerSession);
	restoreBackoff(site, saved, moment, maxWait);
	restoreSlow(site, saved, moment, maxWait);
	return site;
}

/** Restores the saved backoff, for at most `cap`. */
function restoreBackoff(site: SiteState, saved: SavedSite, {now, monotonic}: Moment, cap: number): void {
	if (saved.suspendedUntil === null) {
		return;
	}
	site.isResponding = false;
	site.backoff = {
		until: monotonic + Math.min(saved.suspendedUntil - now, cap),
		step: saved.step,
		reason: saved.reason ?? '',
		waitsFor: saved.waitsFor ?? 'suspension',
		advice: saved.advice,
	};
}

/** Restores the saved slowdown, for at most `cap`. */
function restoreSlow(site: SiteState, saved: SavedSite, {now, monotonic}: Moment, cap: number): void {
	if (saved.slowUntil === null || saved.slowUntil <= now) {
		return;
	}
	site.slow = {
		until: monotonic + Math.min(saved.slowUntil - now, cap),
		perMinute: saved.slowPerMinute ?? 1,
		connections: saved.slowConnections ?? 1,
		reason: saved.slowReason ?? '',
	};
	setRate(site, monotonic);
}

/**
 * Applies what another node learned about the provider: `before` and `after` are what the store had at two times. The
 * longer pause wins. An expired pause ends when the node that may probe got a reply, which removes it from the store.
 */
export function takeOver(
	site: SiteState,
	{before, after}: {readonly before: SavedSite | null; readonly after: SavedSite | null},
	moment: Moment,
	maxWait: number,
): void {
	const {now, monotonic} = moment;
	const isLonger = (until: number, current: {readonly until: number} | null) =>
		current === null || until - now > current.until - monotonic + toleranceMs;
	const suspendedUntil = after?.suspendedUntil ?? null;
	if (suspendedUntil === null) {
		if (partOf(site, 1, monotonic) === 0) {
			resume(site, monotonic);
		}
	} else if (suspendedUntil !== before?.suspendedUntil && isLonger(suspendedUntil, site.backoff)) {
		restoreBackoff(site, after as SavedSite, moment, maxWait);
	}
	const slowUntil = after?.slowUntil ?? null;
	if (slowUntil !== null && slowUntil !== before?.slowUntil && isLonger(slowUntil, site.slow)) {
		restoreSlow(site, after as SavedSite, moment, maxWait);
	}
	site.mailsPerSession = Math.min(site.mailsPerSession, after?.mailsPerSession ?? site.mailsPerSession);
}
