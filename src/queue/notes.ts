import type {LaneKey} from '../mail/route.ts';
import {storeTime} from '../mail/time.ts';
import type {WaitReason} from '../mail/wait-reason.ts';
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
	/** Whether the paces of sites are this node's alone: else nodes write down together what they agree on. */
	readonly isAlone: () => boolean;
};

/** What is noted of a lane: it is written again only if one of these changes. */
type Noted = Wait & {readonly since: number};

/** A lane that moves again this soon waits for nothing, milliseconds, unless its site is left alone. */
const soonMs = 2000;
/** Lanes whose waits are told, of all that wait; and how much is written at once. */
const mostLanes = 5000;
const mostChanges = 1000;

/** Writes down what lanes wait for, and how sites are doing, for those who look from outside and for the next start. */
export function createNotes({waiting, maxInFlight, noteSites, noteWaits, moment, isAlone}: NotesOptions) {
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
		const {reason, until} = waitOf(lane, maxInFlight, now);
		const before = noted.get(lane);
		if (before?.since === lane.since && isSameReason(before.reason, reason) && isSameTime(before.until, until)) {
			return [];
		}
		noted.set(lane, {since: lane.since, reason, until});
		const {destination, workspaceId} = lane;
		const wall = until === null ? null : storeTime(now.now + Math.max(0, until - now.monotonic));
		const site = siteOf(lane)?.name ?? '';
		return [{destination, workspaceId, site, reason, until: wall, at: storeTime(now.now)}];
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
				await Promise.all([isAlone() && writeSites(), writeWaits()]);
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

/** How much is under way changes all the time: it is not why. */
function isSameReason(one: WaitReason, other: WaitReason): boolean {
	return one.code === other.code && allowedBy(one) === allowedBy(other);
}

/** What the site gets now, connections or mails per minute; null: that is not why. */
function allowedBy(reason: WaitReason): number | null {
	switch (reason.code) {
		case 'pace':
			return reason.connections;
		case 'rate':
			return reason.perMinute;
		default:
			return null;
	}
}

/** Clocks do not run quite alike. */
function isSameTime(one: number | null, other: number | null): boolean {
	return one === null || other === null ? one === other : Math.abs(one - other) < 1000;
}

/** Why a lane's mail is not claimed, and until when: monotonic milliseconds; null: nobody knows. */
type Wait = {readonly reason: WaitReason; readonly until: number | null};

/** Why a lane waits that has work, or whose site is left alone while its mail is due later. `most`: copies under way in all. */
function waitOf(lane: Lane, most: number, now: Moment): Wait {
	const {state, spent} = lane;
	if (state === 'suspended') {
		return {reason: {code: 'operator'}, until: null};
	}
	if (state === 'spent' && spent) {
		const {source, group, perDay} = spent;
		const endOfDay = now.monotonic + (lane.at ?? now.now) - now.now;
		return {reason: {code: 'warm_up', source, group, perDay}, until: endOfDay};
	}
	const site = siteOf(lane);
	return site ? waitAt(site, most, now) : {reason: {code: 'dns'}, until: null};
}

/** Where the lane's mail goes, or went last. */
const siteOf = ({placed, restsAt}: Lane): Site | null => placed?.site ?? restsAt;

function waitAt(site: Site, most: number, now: Moment): Wait {
	const {backoff, slow, pace} = site.state;
	if (backoff) {
		const probing = isProbing(site.state, now.monotonic);
		const {waitsFor, reason, until} = backoff;
		return {reason: {code: waitsFor, reply: reason, probing}, until: probing ? null : until};
	}
	if (mailsAllowed(site.state, now.monotonic) < 1) {
		const perMinute = slow?.perMinute ?? pace.perMinute ?? 0;
		return {reason: {code: 'rate', perMinute, slowed: slow !== null}, until: slow?.until ?? null};
	}
	if (ownRoom(site, most, now.monotonic) < 1) {
		const connections = connectionsOf(site.state, now.monotonic);
		return {reason: {code: 'pace', connections, recipients: inFlightOf(site)}, until: null};
	}
	return {reason: {code: 'turn'}, until: null};
}
