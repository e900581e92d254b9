import {storeTime} from '../kit/time.ts';
import type {QueueKey} from '../mail/route.ts';
import type {WaitReason} from '../mail/wait-reason.ts';
import {type Moment, savedSite} from '../pace/saved.ts';
import {connectionsOf, isProbing, mailsAllowed} from '../pace/site.ts';
import type {QueueWaitNote, QueueWaitRow} from '../store/queue/open-recipients.ts';
import type {SiteNote} from '../store/queue/sites.ts';
import type {DestinationQueue} from './destination-queue.ts';
import {inFlightOf, ownCapacity, type Site} from './site.ts';

export type NotesOptions = {
	readonly waiting: (now: Moment) => Iterable<DestinationQueue>;
	readonly maxInFlight: number;
	readonly noteSites: (notes: readonly SiteNote[]) => Promise<void>;
	readonly noteWaits: (note: QueueWaitNote) => Promise<void>;
	readonly moment: () => Moment;
	/** Whether the paces of sites are this node's alone: else nodes write down together what they agree on. */
	readonly isAlone: () => boolean;
};

/** What is noted of a lane: it is written again only if one of these changes. */
type Noted = Wait & {readonly since: number};

/** A lane that moves again this soon waits for nothing, milliseconds, unless its site is left alone. */
const soonMs = 2000;
/** Lanes whose waits are told, of all that wait; and how much is written at once. */
const mostQueues = 5000;
const mostChanges = 1000;

/** Writes down what lanes wait for, and how sites are doing, for those who look from outside and for the next start. */
export function createNotes({waiting, maxInFlight, noteSites, noteWaits, moment, isAlone}: NotesOptions) {
	const noted = new Map<DestinationQueue, Noted>();
	const changed = new Set<Site>();
	let writing = false;
	/** What could not be written: it goes before anything newer. */
	let unwritten: QueueWaitNote | null = null;

	function waitsNow(now: Moment): QueueWaitNote {
		const rows: QueueWaitRow[] = [];
		const seen = new Set<DestinationQueue>();
		let looked = 0;
		for (const queue of waiting(now)) {
			if (++looked > mostQueues || rows.length === mostChanges) {
				break;
			}
			const isSoon = now.monotonic - queue.since < soonMs;
			if (!isSoon || isStopped(queue)) {
				seen.add(queue);
				rows.push(...changeOf(queue, now));
			}
		}
		const complete = rows.length < mostChanges;
		const ended: QueueKey[] = [];
		for (const [queue, {since}] of noted) {
			if (since !== queue.since || (complete && !seen.has(queue))) {
				noted.delete(queue);
				ended.push(queue);
			}
		}
		return {ended, rows};
	}

	function changeOf(queue: DestinationQueue, now: Moment): QueueWaitRow[] {
		const {reason, until} = waitOf(queue, maxInFlight, now);
		const before = noted.get(queue);
		if (before?.since === queue.since && isSameReason(before.reason, reason) && isSameTime(before.until, until)) {
			return [];
		}
		noted.set(queue, {since: queue.since, reason, until});
		const {destination, workspaceId} = queue;
		const wall = until === null ? null : storeTime(now.now + Math.max(0, until - now.monotonic));
		const site = siteOf(queue)?.name ?? '';
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
function isStopped(queue: DestinationQueue): boolean {
	const {state} = queue;
	return state === 'suspended' || state === 'spent' || (siteOf(queue)?.state.backoff ?? null) !== null;
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
function waitOf(queue: DestinationQueue, most: number, now: Moment): Wait {
	const {state, spent} = queue;
	if (state === 'suspended') {
		return {reason: {code: 'operator'}, until: null};
	}
	if (state === 'spent' && spent) {
		const {source, group, perDay} = spent;
		const endOfDay = now.monotonic + (queue.at ?? now.now) - now.now;
		return {reason: {code: 'warm_up', source, group, perDay}, until: endOfDay};
	}
	const site = siteOf(queue);
	return site ? waitAt(site, most, now) : {reason: {code: 'dns'}, until: null};
}

/** Where the lane's mail goes, or went last. */
const siteOf = ({placed, restsAt}: DestinationQueue): Site | null => placed?.site ?? restsAt;

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
	if (ownCapacity(site, most, now.monotonic) < 1) {
		const connections = connectionsOf(site.state, now.monotonic);
		return {reason: {code: 'pace', connections, copies: inFlightOf(site)}, until: null};
	}
	return {reason: {code: 'turn'}, until: null};
}
