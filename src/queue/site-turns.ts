import type {Moment} from '../pace/saved.ts';
import {opensAt} from '../pace/site.ts';
import {createAgenda} from './agenda.ts';
import type {Lane} from './lane.ts';
import type {Room} from './room.ts';
import {ownRoom, rankAt, ranks, type Site} from './site.ts';
import {addTurn, hasTurn, removeTurn} from './turns.ts';

export type SiteTurnsOptions = {
	readonly room: Room;
	/** Copies claimed and not yet settled, in all. */
	readonly maxInFlight: number;
};

/** Ready lanes wait at their site, and the site waits in the room's rows while it may start something. */
export function createSiteTurns({room, maxInFlight}: SiteTurnsOptions) {
	/** Sites that may not start anything now. */
	const openLater = createAgenda<Site>();

	function unqueue(lane: Lane, {ready}: Site): void {
		for (const rank of ranks) {
			removeTurn(ready[rank], lane);
		}
	}

	/** The site takes its turns while it has work and may start some; it keeps its place in the row. */
	function enlist(site: Site, {monotonic}: Moment): void {
		const {ready, state} = site;
		openLater.remove(site);
		const wants = new Set(ranks.filter(rank => ready[rank].size > 0).map(rank => rankAt(site, rank)));
		if (wants.size === 0) {
			room.delist(site);
			return;
		}
		const opens = opensAt(state, monotonic);
		if (opens > monotonic) {
			room.delist(site);
			openLater.set(site, opens);
		} else if (ownRoom(site, maxInFlight, monotonic) <= 0) {
			room.delist(site); // Until one of its copies is settled.
		} else {
			room.enlist(site, wants);
		}
	}

	return {
		enlist,
		unqueue,

		/** The lane waits for its turn at the site. */
		queue(lane: Lane, site: Site, now: Moment): void {
			const rank = lane.fresh ? (lane.asksNext ? 'mixed' : 'fresh') : 'backlog';
			if (!hasTurn(site.ready[rank], lane)) {
				unqueue(lane, site);
				addTurn(site.ready[rank], lane);
			}
			enlist(site, now);
		},

		/** Sites that may start something by now take their turns. */
		advance(now: Moment): void {
			for (let site = openLater.next(now.monotonic); site; site = openLater.next(now.monotonic)) {
				enlist(site, now);
			}
		},
	};
}

export type SiteTurns = ReturnType<typeof createSiteTurns>;
