import {storeTime} from '../mail/time.ts';
import type {LaneKey, LaneWait} from '../mail/way.ts';
import {type Moment, savedSite} from '../pace/saved.ts';
import {connectionsOf, isProbing, mailsAllowed} from '../pace/site.ts';
import type {LaneWaitNote, LaneWaitRow} from '../store/queue/lane-waits.ts';
import type {SiteNote} from '../store/queue/sites.ts';
import type {Lane} from './lane.ts';
import {inFlightOf, ownRoom, type Site} from './site.ts';

export type NotesOptions = {
	readonly waiting: (now: Moment) => Iterable<Lane>;
	readonly maxInFlight: number;
	readonly noteSites: (notes: readonly SiteNote[]) => Promise<void>;
	readonly noteWaits: (note: LaneWaitNote) => Promise<void>;
	readonly moment: () => Moment;
};

/** What is noted of a lane: it is written again only if one of these changes. */
type Noted = {
	readonly since: number;
	readonly waitsFor: LaneWait;
	readonly until: number | null;
	readonly gets: number | null;
};

/** A lane that moves again this soon waits for nothing, milliseconds, unless its site is left alone. */
const soonMs = 2000;
/** Lanes whose waits are told, of all that wait; and how much is written at once. */
const mostLanes = 5000;
const mostChanges = 1000;

/** Writes down what lanes wait for, and how sites are doing, for those who look from outside and for the next start. */
export function createNotes({waiting, maxInFlight, noteSites, noteWaits, moment}: NotesOptions) {
	const noted = new Map<Lane, Noted>();
	const changed = new Set<Site>();
	let writing = false;
	/** What could not be written: it goes before anything newer. */
	let unwritten: LaneWaitNote | null = null;

	function waitsNow(now: Moment): LaneWaitNote {
		const rows: LaneWaitRow[] = [];
		const seen = new Set<Lane>();
		let looked = 0;
		for (const lane of waiting(now)) {
			if (++looked > mostLanes || rows.length === mostChanges) {
				break;
			}
			const isSoon = now.monotonic - lane.since < soonMs;
			if (!isSoon || isStopped(lane)) {
				seen.add(lane);
				rows.push(...changeOf(lane, now));
			}
		}
		const complete = rows.length < mostChanges;
		const ended: LaneKey[] = [];
		for (const [lane, {since}] of noted) {
			if (since !== lane.since || (complete && !seen.has(lane))) {
				noted.delete(lane);
				ended.push(lane);
			}
		}
		return {ended, rows};
	}

	function changeOf(lane: Lane, now: Moment): LaneWaitRow[] {
		const {waitsFor, until, gets, detail} = waitOf(lane, maxInFlight, now);
		const before = noted.get(lane);
		const isKnown = before?.since === lane.since && before.waitsFor === waitsFor && before.gets === gets;
		if (isKnown && isSame(before.until, until)) {
			return [];
		}
		noted.set(lane, {since: lane.since, waitsFor, until, gets});
		const {destination, workspaceId} = lane;
		const wall = until === null ? null : storeTime(now.now + Math.max(0, until - now.monotonic));
		const site = siteOf(lane)?.name ?? '';
		return [{destination, workspaceId, site, waitsFor, detail: detail(), until: wall, at: storeTime(now.now)}];
	}

	function sitesNow(sites: readonly Site[], now: Moment): SiteNote[] {
		const notes: SiteNote[] = [];
		for (const site of sites) {
			changed.delete(site);
			const saved = savedSite(site.state, now);
			if (saved || site.saved) {
				notes.push({site: site.name, provider: site.provider, saved, at: storeTime(now.now)});
			}
			site.saved = saved !== null;
		}
		return notes;
	}

	async function writeSites(): Promise<void> {
		const written = [...changed].slice(0, mostChanges);
		const notes = sitesNow(written, moment());
		try {
			await (notes.length > 0 && noteSites(notes));
		} catch (error) {
			for (const site of written) {
				changed.add(site);
				site.saved = true;
			}
			throw error;
		}
	}

	async function writeWaits(): Promise<void> {
		unwritten ??= waitsNow(moment());
		await (unwritten.ended.length + unwritten.rows.length > 0 && noteWaits(unwritten));
		unwritten = null;
	}

	return {
		/** The pace of this site changed. */
		changed: (site: Site): void => void changed.add(site),

		/** To be called once a second; rejects if the store cannot be written. */
		async write(): Promise<void> {
			if (writing) {
				return;
			}
			writing = true;
			try {
				await Promise.all([writeSites(), writeWaits()]);
			} finally {
				writing = false;
			}
		},
	};
}

/** Whether nothing of it goes for a while, however little it has waited. */
function isStopped(lane: Lane): boolean {
	const {state} = lane;
	return state === 'suspended' || state === 'spent' || (siteOf(lane)?.state.backoff ?? null) !== null;
}

/** Clocks do not run quite alike. */
function isSame(one: number | null, other: number | null): boolean {
	return one === null || other === null ? one === other : Math.abs(one - other) < 1000;
}

/** Why a lane's mail is not claimed. */
export type Wait = {
	readonly waitsFor: LaneWait;
	/** Monotonic milliseconds; null: nobody knows. */
	readonly until: number | null;
	/** What the site gets now, connections or mails per minute; null: that is not why. */
	readonly gets: number | null;
	/** For people: a sentence. */
	readonly detail: () => string;
};

/** Why a lane waits that has work, or whose site is left alone while its mail is due later. `most`: copies under way in all. */
export function waitOf(lane: Lane, most: number, now: Moment): Wait {
	const {destination, state, spent} = lane;
	const site = siteOf(lane);
	switch (state) {
		case 'suspended':
			return wait('operator', null, () => `an operator suspended ${destination}, mailctl queue resume lets it go on`);
		case 'spent':
			return wait('warm_up', now.monotonic + (lane.at ?? now.now) - now.now, () =>
				spent ? sharedOut(spent) : 'the source is new and has sent all of today',
			);
		default:
			return site
				? waitAt(site, destination, most, now)
				: wait('dns', null, () => `where mail for ${destination} goes is being found out`);
	}
}

/** Where the lane's mail goes, or went last. */
export const siteOf = ({placed, restsAt}: Lane): Site | null => placed?.site ?? restsAt;

function waitAt(site: Site, destination: string, most: number, now: Moment): Wait {
	const {backoff, slow, pace} = site.state;
	if (backoff) {
		const probing = isProbing(site.state, now.monotonic);
		const why =
			backoff.waitsFor === 'route' ? 'the smarthost refuses us' : `the hosts of ${destination} are left alone`;
		const then = probing ? '; one mail is on its way to find out whether that is over' : '';
		return wait(backoff.waitsFor, probing ? null : backoff.until, () => `${why}: ${backoff.reason}${then}`);
	}
	if (mailsAllowed(site.state, now.monotonic) < 1) {
		const perMinute = slow?.perMinute ?? pace.perMinute ?? 0;
		return wait(
			'rate',
			slow?.until ?? null,
			() => `its hosts get ${mails(perMinute)} per minute${slow ? ' for now' : ''}`,
			perMinute,
		);
	}
	if (ownRoom(site, most, now.monotonic) < 1) {
		const connections = connectionsOf(site.state, now.monotonic);
		return wait(
			'pace',
			null,
			() => `its hosts get ${connections} connections now, ${mails(inFlightOf(site))} are under way`,
			connections,
		);
	}
	return wait('turn', null, () => 'all sessions are busy with other mail, its turn comes');
}

function wait(waitsFor: LaneWait, until: number | null, detail: () => string, gets: number | null = null): Wait {
	return {waitsFor, until, gets, detail};
}

const sharedOut = ({source, group, perDay}: {source: string; group: string; perDay: number}): string =>
	perDay === 0
		? `${source} is new and does not send yet (MAILCTL_WARM_UP)`
		: `${source} is new and has sent ${group} the ${mails(perDay)} of today`;

const mails = (n: number): string => (n === 1 ? '1 mail' : `${n} mails`);
