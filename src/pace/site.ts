import type {Pace, PaceReaction} from '../mail/route.ts';
import type {Bucket} from './bucket.ts';
import {commonReactions} from './common-reactions.ts';
import {rateOf, setRate} from './rate.ts';
import {type SiteShare, sharedOut} from './site-share.ts';

/** How a try ended, as far as it tells something of the site. */
export type SiteEnd = {
	/**
	 * `answered`: a host spoke of this mail, well or not. `throttled`: it wants less of us, or hung up. `failed`: no host let us
	 * in. `locked_out`: our smarthost refuses us, whatever the mail.
	 */
	readonly kind: 'answered' | 'throttled' | 'failed' | 'locked_out';
	/** Whether any host said a word. */
	readonly spoke: boolean;
	/** Refusals, the code first. */
	readonly replies: readonly string[];
	/** For people: why. */
	readonly reason: string;
};

/** The site is left alone, by itself: it is destinations that an operator suspends. */
export type Backoff = {
	/** Once this is over, one copy may try. */
	until: number;
	/** How many there were in a row; 0: a reply asked for it. */
	step: number;
	reason: string;
	/** Why lanes wait. */
	waitsFor: 'suspension' | 'route';
};

/** What a site may have for now, and why. All times are monotonic milliseconds. */
export type SiteState = {
	pace: Pace;
	/** Connections at once; a fraction counts when it is whole. */
	connections: number;
	/** Whether a host spoke at the last try; null: nothing is known. */
	answers: boolean | null;
	/** Tries in a row that failed. */
	failures: number;
	/** Ends still to come of tries begun before the last halving: one fault halves once. */
	stale: number;
	backoff: Backoff | null;
	slow: {until: number; perMinute: number; connections: number} | null;
	mailsPerSession: number;
	bucket: Bucket | null;
	/** What this node has of all that; null: everything. */
	share: SiteShare | null;
};

/** What changed so that it is worth a word. */
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
/** How long a site is left alone, time after time (R8.2). */
const backoffs = [1, 2, 5, 15, 30, 60].map(minutes => minutes * minute);

/** One of which nothing is known yet at `now`. */
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

/** The destinations file, or what it says of this site, may have changed. */
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

/** Whether nothing may try it now. */
export function isBackingOff(site: SiteState, now: number): boolean {
	return site.backoff !== null && site.backoff.until > now;
}

/** Whether one copy finds out if the site is well again. */
export function isProbing(site: SiteState, now: number): boolean {
	return site.backoff !== null && site.backoff.until <= now;
}

/** Connections that this node may have to the site now; 0: none, it is left alone or others have them. */
export function connectionsOf(site: SiteState, now: number): number {
	return Math.min(allConnectionsOf(site, now), sharedOut(site.share, now));
}

/** Whether others have what this node could use of the site. */
export function isShort(site: SiteState, now: number): boolean {
	return sharedOut(site.share, now) < allConnectionsOf(site, now);
}

/** Connections that the site may have now from all nodes together; 0: it is left alone. */
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

/** How many mails the rate allows now; `Infinity` where there is none. */
export function mailsAllowed(site: SiteState, now: number): number {
	endSlow(site, now);
	return site.bucket ? site.bucket.left(now) : Number.POSITIVE_INFINITY;
}

/** So many mails are on their way; a negative number gives them back. */
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
 * A try ended: what the site may have from now on (R8.2, R8.3; Postfix's scheduler). No wait is longer than
 * `longestWait`. Answers what changed.
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
	for (const reply of end.replies) {
		const reaction = reactionTo(site, reply);
		if (reaction) {
			changes.push(...react(site, reaction, end.reason, now, longestWait));
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
		return []; // Its tries that were under way end one after the other.
	}
	const isNews = waitsFor === 'route' && site.backoff?.waitsFor !== 'route';
	const step = (site.backoff?.step ?? 0) + 1;
	const wait = backoffs[step - 1] ?? (backoffs.at(-1) as number);
	site.backoff = {until: now + Math.min(wait, longestWait), step, reason, waitsFor};
	site.connections = 1;
	return isNews ? ['backed_off', 'route_stopped'] : ['backed_off'];
}

/** An operator wants it tried: one copy may, now. False: it is not left alone. */
export function probeNow(site: SiteState, now: number): boolean {
	if (!site.backoff || site.backoff.until <= now) {
		return false;
	}
	site.backoff.until = now;
	return true;
}

/** Only what was tried after its time ends a backoff: what was under way when it began says nothing new. */
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

function reactionTo(site: SiteState, reply: string): PaceReaction | null {
	const known = site.pace.reactions.find(({text}) => text.test(reply));
	return known ? known.reaction : commonReaction(site, reply);
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
			site.backoff = {until, step: site.backoff?.step ?? 0, reason, waitsFor: 'suspension'};
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
