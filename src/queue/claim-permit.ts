import type {Moment} from '../kit/clock.ts';
import type {Precedence, Route} from '../mail/route.ts';
import type {WarmUpDay} from '../pace/choose-route.ts';
import {connectionsOf} from '../pace/site-state.ts';
import type {Rank} from './ranks.ts';
import {type DestinationQueue, keptFrom, type Pool, type Site} from './site.ts';

/** A claim to be made now: at most `limit` recipients of the queue, and if it `asksNext`, when the next one is due. */
export type ClaimPermit = {
	readonly queue: DestinationQueue;
	readonly site: Site;
	readonly route: Omit<Route, 'warmUp'>;
	readonly rank: Rank;
	/** What its recipients count as. */
	pool: Pool;
	readonly limit: number;
	readonly asksNext: boolean;
	/** Mail was just accepted where other mail is due. */
	readonly newestFirst: boolean;
	/** The day of a new source in which its recipients count; null: none. */
	readonly warmUp: WarmUpDay | null;
};

export type ClaimResult = {
	/** Recipients claimed. */
	readonly count: number;
	/** When the next recipient of the queue is due; null: there is no other, or the claim did not ask. */
	readonly nextDue: number | null;
	/** Recipients of the warm-up's day, these included; null: no warm-up. */
	readonly warmedUp: number | null;
};

/** How a recipient may travel now. */
export type TravelTerms = {
	readonly route: Omit<Route, 'warmUp'>;
	readonly connections: number;
	/** Null: it is neither high, nor has to leave a connection to such mail. */
	readonly precedence: Precedence | null;
};

/** How a claimed recipient may travel now; null: its site backs off since the claim. */
export function travelTerms({site, route, queue}: ClaimPermit, now: Moment): TravelTerms | null {
	const connections = connectionsOf(site.state, now.monotonic);
	if (connections === 0) {
		return null;
	}
	const {mailsPerSession} = site.state;
	const lowered = mailsPerSession < route.terms.mailsPerSession;
	const isHigh = queue.priority === 'high';
	const leaves = keptFrom(site, queue, now.monotonic);
	const precedence = isHigh || leaves > 0 ? {isHigh, leaves} : null;
	return {connections, precedence, route: lowered ? {...route, terms: {...route.terms, mailsPerSession}} : route};
}
