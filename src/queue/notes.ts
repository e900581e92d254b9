import type {Moment} from '../kit/clock.ts';
import {storeTime} from '../kit/time.ts';
import {laneText, type QueueKey} from '../mail/route.ts';
import type {WaitReason} from '../mail/wait-reason.ts';
import type {QueueWaitNote, QueueWaitRow} from '../store/queue/open-recipients.ts';
import type {SiteNote} from '../store/queue/sites.ts';
import {connectionsOf, isProbing, mailsAllowed, savedSite} from './pace/site-state.ts';
import {type Rank, rankOf} from './ranks.ts';
import {type DestinationQueue, ownCapacity, rankAt, type Site} from './site.ts';

export type NotesOptions = {
	readonly queues: {readonly waiting: (now: Moment) => Iterable<DestinationQueue>};
	readonly maxInFlight: number;
	readonly noteSites: (notes: readonly SiteNote[]) => Promise<void>;
	readonly noteWaits: (note: QueueWaitNote) => Promise<void>;
	readonly moment: () => Moment;
};

/** What was last stored about a queue. It is written again only if one of these fields changes. */
type Noted = Wait & {readonly queue: DestinationQueue; readonly since: number};

/** A queue that has waited for less than this (ms) is not stored, unless its provider is backing off. */
const minWaitMs = 2000;
/** The maximum number of waiting queues examined, and of rows written at once. */
const maxQueues = 5000;
const maxChanges = 1000;

/** Writes what queues are waiting for and how providers are doing, for the CLI, the dashboard and the next start. */
export class QueueNotes {
	readonly #options: NotesOptions;
	/** By destination and workspace. Of several priorities, the queue that has waited longest is stored. */
	readonly #noted = new Map<string, Noted>();
	/** Providers to be written, and whether only their number of connections changed. */
	readonly #changed = new Map<Site, boolean>();
	#isWriting = false;
	/** A note that could not be written. It must be written before any newer one. */
	#unwritten: QueueWaitNote | null = null;

	constructor(options: NotesOptions) {
		this.#options = options;
	}

	/** Marks the provider as changed. `isWindow` means that only its number of connections changed. */
	changed(site: Site, isWindow: boolean): void {
		this.#changed.set(site, isWindow && (this.#changed.get(site) ?? true));
	}

	/** Writes what has changed. Call it once a second; it rejects if the store cannot be written. */
	async write(): Promise<void> {
		if (this.#isWriting) {
			return;
		}
		this.#isWriting = true;
		try {
			await Promise.all([this.#writeSites(), this.#writeWaits()]);
		} finally {
			this.#isWriting = false;
		}
	}

	async #writeSites(): Promise<void> {
		const {moment, noteSites} = this.#options;
		const written = [...this.#changed].slice(0, maxChanges);
		const notes = this.#sitesNow(written, moment());
		try {
			await (notes.length > 0 && noteSites(notes));
		} catch (error) {
			for (const [site, isWindow] of written) {
				this.changed(site, isWindow);
				site.isSaved = true;
			}
			throw error;
		}
	}

	#sitesNow(sites: ReadonlyArray<readonly [Site, boolean]>, now: Moment): SiteNote[] {
		const notes: SiteNote[] = [];
		for (const [site, isWindow] of sites) {
			this.#changed.delete(site);
			const saved = savedSite(site.state, now);
			if (saved || site.isSaved) {
				notes.push({site: site.name, provider: site.provider, saved, isWindow, at: storeTime(now.now)});
			}
			site.isSaved = saved !== null;
		}
		return notes;
	}

	async #writeWaits(): Promise<void> {
		const {moment, noteWaits} = this.#options;
		this.#unwritten ??= this.#waitsNow(moment());
		await (this.#unwritten.ended.length + this.#unwritten.rows.length > 0 && noteWaits(this.#unwritten));
		this.#unwritten = null;
	}

	#waitsNow(now: Moment): QueueWaitNote {
		const rows: QueueWaitRow[] = [];
		const lanes = new Set<string>();
		let examined = 0;
		for (const queue of this.#options.queues.waiting(now)) {
			if (++examined > maxQueues || rows.length === maxChanges) {
				break;
			}
			const isRecent = now.monotonic - queue.since < minWaitMs;
			const lane = laneText(queue);
			if ((!isRecent || isStopped(queue)) && !lanes.has(lane)) {
				lanes.add(lane);
				rows.push(...this.#changeOf(queue, now));
			}
		}
		const isComplete = rows.length < maxChanges;
		const ended: QueueKey[] = [];
		for (const [lane, {queue, since}] of this.#noted) {
			if (since !== queue.since || (isComplete && !lanes.has(lane))) {
				this.#noted.delete(lane);
				ended.push(queue);
			}
		}
		return {ended, rows};
	}

	#changeOf(queue: DestinationQueue, now: Moment): QueueWaitRow[] {
		const {reason, until} = waitOf(queue, this.#options.maxInFlight, now);
		const lane = laneText(queue);
		const noted = this.#noted.get(lane);
		if (noted?.since === queue.since && isSameReason(noted.reason, reason) && isSameTime(noted.until, until)) {
			return [];
		}
		this.#noted.set(lane, {queue, since: queue.since, reason, until});
		const {destination, workspaceId} = queue;
		const untilTime = until === null ? null : storeTime(now.now + Math.max(0, until - now.monotonic));
		const site = siteOf(queue)?.name ?? '';
		return [{destination, workspaceId, site, reason, until: untilTime, at: storeTime(now.now)}];
	}
}

/** Whether the queue is stopped for a while and should be stored at once. */
function isStopped(queue: DestinationQueue): boolean {
	const {state} = queue;
	return state === 'suspended' || state === 'spent' || (siteOf(queue)?.state.backoff ?? null) !== null;
}

/** The number of recipients in flight changes all the time, so it is not compared. */
function isSameReason(a: WaitReason, b: WaitReason): boolean {
	return a.code === b.code && allowedBy(a) === allowedBy(b);
}

/** The number of connections or messages per minute that the provider may have, or `null` if that is not the reason. */
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

/** The wall clock and the monotonic clock drift apart, so times within a second count as equal. */
function isSameTime(a: number | null, b: number | null): boolean {
	return a === null || b === null ? a === b : Math.abs(a - b) < 1000;
}

/** Why a queue's mail is not claimed, and until when in monotonic milliseconds (`null` if unknown). */
type Wait = {readonly reason: WaitReason; readonly until: number | null};

/** Returns why a queue is waiting. `maxInFlight` is the maximum number of recipients in flight. */
function waitOf(queue: DestinationQueue, maxInFlight: number, now: Moment): Wait {
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
	return site ? waitAt(site, rankOf(queue), maxInFlight, now) : {reason: {code: 'dns'}, until: null};
}

/** The provider that the queue is placed at, or was placed at last. */
const siteOf = ({placed, restsAt}: DestinationQueue): Site | null => placed?.site ?? restsAt;

function waitAt(site: Site, rank: Rank, maxInFlight: number, now: Moment): Wait {
	const {backoff, slow, pace} = site.state;
	if (backoff) {
		const probing = isProbing(site.state, now.monotonic);
		const {waitsFor, reason, until} = backoff;
		return {reason: {code: waitsFor, reply: reason, probing}, until: probing ? null : until};
	}
	if (mailsAllowed(site.state, now.monotonic) < 1) {
		const perMinute = slow?.perMinute ?? pace.perMinute ?? 0;
		const reply = slow === null ? {} : {reply: slow.reason};
		return {reason: {code: 'rate', perMinute, slowed: slow !== null, ...reply}, until: slow?.until ?? null};
	}
	if (ownCapacity(site, rankAt(site, rank), maxInFlight, now.monotonic) < 1) {
		const connections = connectionsOf(site.state, now.monotonic);
		return {reason: {code: 'pace', connections, copies: site.inFlight}, until: null};
	}
	return {reason: {code: 'turn'}, until: null};
}
