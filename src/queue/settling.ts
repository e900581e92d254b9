import type {Moment} from '../pace/saved.ts';
import {connectionsOf, type SiteChange, type SiteEnd, spend, tried} from '../pace/site.ts';
import type {Brought, Grant, Lent} from './grant.ts';
import type {LaneRegistry} from './lane-registry.ts';
import type {Placing} from './placing.ts';
import type {Room} from './room.ts';
import {isProven, type Site} from './site.ts';
import type {SiteRegistry} from './site-registry.ts';
import type {SiteTurns} from './site-turns.ts';
import type {Waking} from './waking.ts';
import type {WarmUp} from './warm-up.ts';

export type SettlingOptions = {
	readonly room: Room;
	readonly sites: SiteRegistry;
	readonly turns: SiteTurns;
	readonly registry: LaneRegistry;
	readonly placing: Placing;
	readonly waking: Waking;
	readonly warmUp: WarmUp;
	/** No site waits longer for its next try, milliseconds. */
	readonly longestWait: () => number;
	/** A site's pace changed. */
	readonly onSite: (site: Site, changes: readonly SiteChange[]) => void;
};

/** What becomes of a grant: its claim brought copies, each travels as its site may have it then, and each is settled. */
export function createSettling(options: SettlingOptions) {
	const {room, sites, turns, registry, placing, waking, warmUp, longestWait, onSite} = options;

	return {
		/** A full claim means that more may be due. */
		claimed({lane, site, rank, limit, asksNext, warmUp: day}: Grant, brought: Brought, now: Moment): void {
			const free = limit - brought.count;
			lane.state = 'idle';
			lane.inFlight += brought.count;
			room.take(site, rank, -free);
			spend(site.state, -free, now.monotonic);
			const spent = day !== null && brought.warmedUp !== null && warmUp.note(day, brought.warmedUp);
			if (free === 0) {
				lane.asksNext ||= asksNext;
			} else if (brought.nextDue !== null) {
				registry.waitUntil(lane, brought.nextDue);
			}
			if (free === 0 || lane.again || spent) {
				lane.again = false;
				waking.wake(lane, now);
			} else {
				lane.fresh = false;
				placing.rest(lane);
			}
			turns.enlist(site, now);
		},

		/** How a claimed copy may travel now; null: its site is left alone since. */
		lend({site, way}: Grant, now: Moment): Lent | null {
			const connections = connectionsOf(site.state, now.monotonic);
			if (connections === 0) {
				return null;
			}
			const {mailsPerSession} = site.state;
			const lowered = mailsPerSession < way.terms.mailsPerSession;
			return {connections, way: lowered ? {...way, terms: {...way.terms, mailsPerSession}} : way};
		},

		/** A claimed copy is settled; `end`: what its try tells of the site, null where none was asked. */
		settled({lane, site, rank}: Grant, end: SiteEnd | null, now: Moment): void {
			lane.inFlight--;
			room.take(site, rank, -1);
			if (end) {
				const before = isProven(site);
				const changes = tried(site.state, end, now.monotonic, longestWait());
				sites.noteSuspension(site);
				if (isProven(site) !== before) {
					room.moved(site, before);
				}
				if (changes.length > 0) {
					onSite(site, changes);
				}
			}
			turns.enlist(site, now);
			placing.rest(lane);
		},
	};
}
