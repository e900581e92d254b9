import type {Moment} from '../kit/clock.ts';
import type {Precedence, Route} from '../mail/route.ts';
import type {WarmUpDay} from './pace/choose-route.ts';
import {connectionsOf} from './pace/site-state.ts';
import type {Rank} from './ranks.ts';
import {type DestinationQueue, type Pool, reservedFrom, type Site} from './site.ts';

/** Permission to claim at most `limit` recipients. If `asksNext`, the claim also reads when the next one is due. */
export type ClaimPermit = {
	readonly queue: DestinationQueue;
	readonly site: Site;
	readonly route: Omit<Route, 'warmUp'>;
	readonly rank: Rank;
	pool: Pool;
	readonly limit: number;
	readonly asksNext: boolean;
	/** Whether mail was just accepted for a queue in which other mail is due. */
	readonly newestFirst: boolean;
	/** The warm-up day in which its recipients count, or `null` if the source address is not warming up. */
	readonly warmUp: WarmUpDay | null;
};

export type ClaimResult = {
	readonly count: number;
	/** When the next recipient of the queue is due. `null` if there is none, or if the claim did not read it. */
	readonly nextDue: number | null;
	/** How many recipients the warm-up day has, including these; `null` without a warm-up. */
	readonly warmedUp: number | null;
};

/** The terms under which a recipient may be delivered now. */
export type TravelTerms = {
	readonly route: Omit<Route, 'warmUp'>;
	readonly connections: number;
	/** `null` unless the mail is high priority or must leave a connection to such mail. */
	readonly precedence: Precedence | null;
};

/** Returns the terms for a claimed recipient now, or `null` if its provider has begun to back off since the claim. */
export function travelTerms({site, route, queue}: ClaimPermit, now: Moment): TravelTerms | null {
	const connections = connectionsOf(site.state, now.monotonic);
	if (connections === 0) {
		return null;
	}
	const {mailsPerSession} = site.state;
	const isLowered = mailsPerSession < route.terms.mailsPerSession;
	const isHigh = queue.priority === 'high';
	const leaves = reservedFrom(site, queue, now.monotonic);
	const precedence = isHigh || leaves > 0 ? {isHigh, leaves} : null;
	return {connections, precedence, route: isLowered ? {...route, terms: {...route.terms, mailsPerSession}} : route};
}
