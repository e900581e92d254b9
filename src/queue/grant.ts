import type {Way} from '../mail/way.ts';
import type {Lane} from './lane.ts';
import type {Rank, Site} from './site.ts';
import type {WarmUpDay} from './warm-up.ts';

/** A claim to be made now: at most `limit` copies of this lane, and where it `asksNext`, when the next one is due. */
export type Grant = {
	readonly lane: Lane;
	readonly site: Site;
	readonly way: Omit<Way, 'warmUp'>;
	readonly rank: Rank;
	readonly limit: number;
	readonly asksNext: boolean;
	/** Mail was just accepted where other mail is due. */
	readonly newestFirst: boolean;
	/** Its copies count in this day of a new source; null: in none. */
	readonly warmUp: WarmUpDay | null;
};

/** What a claim brought. */
export type Brought = {
	readonly count: number;
	/** When the next copy of the lane is due (null: none, or it was not asked). */
	readonly nextDue: number | null;
	/** Copies of the warm-up's day, these included; null: there is none. */
	readonly warmedUp: number | null;
};

/** How a copy may travel now. */
export type Lent = {readonly way: Omit<Way, 'warmUp'>; readonly connections: number};
