import {setTimeout as pause} from 'node:timers/promises';
import {groupBy} from '../kit/collections.ts';
import {addTurn, endTurn, type FairRing, removeTurn} from '../kit/fair-ring.ts';
import type {Precedence} from '../mail/route.ts';
import type {Session} from './open-session.ts';

/** The right to hold one connection to a site. */
export type Slot = {
	/** A session to use again, or null: open one. */
	readonly session: Session | null;
	/** Whether the site may have connections now: another node may have them since the slot was lent. */
	readonly isAllowed: () => boolean;
	/** Gives the slot back, with the session if another mail can be sent on it. */
	readonly release: (session: Session | null) => void;
	/** Reports that the server is silent. If others need the slot before `hear`, `giveUp` is called. */
	readonly fallSilent: (giveUp: () => void) => void;
	/** Ends the silence. */
	readonly hear: () => void;
};

type Wanted = {
	readonly workspaceId: string;
	/** Whether this mail may go on an idle session. */
	readonly fits: (session: Session) => boolean;
	/** It waits no longer. */
	readonly waitMs: number;
	/** Absent: it waits its turn, and may have any connection. */
	readonly precedence?: Precedence | undefined;
	readonly signal?: AbortSignal | undefined;
};

type PoolOptions = {
	/** Connections at once, all sites. */
	readonly maxSessions: number;
	readonly idleMs: number;
	/** For the QUIT of an idle session. */
	readonly quitMs: number;
};

type Waiter = Precedence & {
	readonly workspaceId: string;
	readonly fits: (session: Session) => boolean;
	readonly grant: (slot: Slot | null) => void;
};

type Silent = {readonly workspaceId: string; readonly giveUp: () => void};

type Idle = {readonly session: Session; readonly timer: NodeJS.Timeout};

/**
 * One workspace's recipients that wait for a connection to a site. `highInRow` counts how often high priority went
 * first while another priority waited.
 */
type Lane = {readonly waiters: Waiter[]; highInRow: number};

type Site = {
	limit: number;
	/** By workspace. */
	readonly lanes: Map<string, Lane>;
	/** Whether a session here was good for another message: a server that pauses is likely to go on. */
	hasReplied: boolean;
	readonly idle: Idle[];
	busy: number;
	ending: number;
	/** Mails that are announced. */
	expected: number;
};

/**
 * A host counts a connection until it has processed its end: a new one at that moment would exceed the limit and be
 * refused. After this time, milliseconds, a connection counts as gone.
 */
export const goneMs = 50;

/** The share of the sessions that may wait for silent servers, and the part of it that is never given up. */
const silentShare = 0.375;
const patientShare = 0.5;

/** While both wait, every eighth connection of a workspace goes to a recipient that is not of high priority. */
const maxHighInRow = 7;

const maxTimerMs = 2 ** 31 - 1;

/** Lends slots for connections, site by site in turn, and keeps sessions warm between mails. */
export class ConnectionPool {
	readonly #options: PoolOptions;
	readonly #sites = new Map<string, Site>();
	/** The names of the sites where a workspace has waiters, by workspace. The ones served last are at the end. */
	readonly #waiting: FairRing<string> = new Map();
	/** Silent slots, the longest silent first. */
	readonly #silent = new Set<Silent>();
	readonly #maxSilent: number;
	/** Slots that were given up and are not released yet. */
	#leaving = 0;
	/** Busy, idle and ending: all that may be a connection. */
	#open = 0;
	#idle = 0;
	#ending = 0;
	/** Waiters of this round that need a connection elsewhere to end. */
	#wanting = 0;
	#closed: (() => void) | null = null;

	constructor(options: PoolOptions) {
		this.#options = options;
		this.#maxSilent = Math.max(1, Math.floor(options.maxSessions * silentShare));
	}

	/**
	 * Waits for a slot at the site, which holds at most `limit` connections, idle ones included, or what was allowed
	 * since; null: stopped before, or none within the time.
	 */
	acquire(
		name: string,
		limit: number,
		{workspaceId, fits, waitMs, precedence, signal}: Wanted,
	): Promise<Slot | null> {
		const site = this.#siteOf(name, Math.max(1, limit));
		if (this.#closed !== null || signal?.aborted === true || site.limit === 0 || waitMs <= 0) {
			this.#forget(name, site);
			return Promise.resolve(null);
		}
		return new Promise(resolve => {
			let timer: NodeJS.Timeout | undefined;
			let isServed = false;
			const waiter: Waiter = {
				...(precedence ?? {isHigh: false, leaves: 0}),
				workspaceId,
				fits,
				grant(slot) {
					isServed = true;
					clearTimeout(timer);
					signal?.removeEventListener('abort', leave);
					resolve(slot);
				},
			};
			const leave = () => {
				clearTimeout(timer);
				signal?.removeEventListener('abort', leave);
				this.#removeWaiter(name, site, waiter);
				this.#forget(name, site);
				resolve(null);
			};
			signal?.addEventListener('abort', leave, {once: true});
			const lane = site.lanes.get(workspaceId) ?? {waiters: [], highInRow: 0};
			lane.waiters.push(waiter);
			site.lanes.set(workspaceId, lane);
			addTurn(this.#waiting, workspaceId, name);
			this.#serve();
			if (!isServed) {
				timer = setTimeout(leave, Math.min(waitMs, maxTimerMs));
			}
		});
	}

	/**
	 * Announces mail for the site, which may have that many connections. Later limits hold for it too. Call the result
	 * when the mail comes or is cancelled.
	 */
	expect(name: string, limit: number): () => void {
		const site = this.#siteOf(name, limit);
		site.expected += 1;
		this.allow(name, limit);
		return () => {
			site.expected -= 1;
			this.#forget(name, site);
		};
	}

	/** Sets the site's connection limit; 0 sends waiting mail away. */
	allow(name: string, limit: number): void {
		const site = this.#sites.get(name);
		if (site === undefined) {
			return;
		}
		site.limit = limit;
		while (site.idle.length > 0 && site.busy + site.idle.length > limit) {
			this.#endIdle(name, site);
		}
		if (limit === 0) {
			this.#sendAway(name, site);
		}
		this.#forget(name, site);
		this.#serve();
	}

	#sendAway(name: string, site: Site): void {
		for (const waiter of [...site.lanes.values()].flatMap(({waiters}) => [...waiters])) {
			this.#removeWaiter(name, site, waiter);
			waiter.grant(null);
		}
	}

	#removeWaiter(name: string, {lanes}: Site, waiter: Waiter): void {
		const {workspaceId} = waiter;
		const waiters = lanes.get(workspaceId)?.waiters ?? [];
		waiters.splice(waiters.indexOf(waiter), 1);
		if (waiters.length === 0) {
			lanes.delete(workspaceId);
			removeTurn(this.#waiting, workspaceId, name);
		}
	}

	/** Connections by site, those that are idle or ending included. */
	bySite(): Array<readonly [site: string, connections: number]> {
		const counts = Array.from(
			this.#sites,
			([name, site]) => [name, site.busy + site.ending + site.idle.length] as const,
		);
		return counts.filter(([, connections]) => connections > 0);
	}

	count(): {readonly busy: number; readonly idle: number; readonly waiting: number} {
		let waiting = 0;
		for (const {lanes} of this.#sites.values()) {
			for (const {waiters} of lanes.values()) {
				waiting += waiters.length;
			}
		}
		return {busy: this.#open - this.#idle - this.#ending, idle: this.#idle, waiting};
	}

	/** Sends the waiting away, ends idle sessions, waits for the busy ones. */
	async close(): Promise<void> {
		const emptied = new Promise<void>(resolve => {
			this.#closed = resolve;
		});
		for (const [name, site] of this.#sites) {
			this.#sendAway(name, site);
			while (site.idle.length > 0) {
				this.#endIdle(name, site);
			}
		}
		if (this.#open > 0) {
			await emptied;
		}
	}

	#siteOf(name: string, limit: number): Site {
		let site = this.#sites.get(name);
		if (site === undefined) {
			site = {
				limit,
				lanes: new Map(),
				hasReplied: false,
				idle: [],
				busy: 0,
				ending: 0,
				expected: 0,
			};
			this.#sites.set(name, site);
		}
		return site;
	}

	#forget(name: string, site: Site): void {
		if (site.busy + site.ending + site.idle.length + site.lanes.size + site.expected === 0) {
			this.#sites.delete(name);
		}
		if (this.#open === 0) {
			this.#closed?.();
		}
	}

	#takeIdle(site: Site, index: number): Session {
		const [taken] = site.idle.splice(index, 1) as [Idle];
		clearTimeout(taken.timer);
		this.#idle -= 1;
		return taken.session;
	}

	/** Ends an idle session, by default the one idle for longest; its slot is free when it is gone. */
	#endIdle(name: string, site: Site, index = 0): void {
		void this.#end(name, site, this.#takeIdle(site, index).connection.quit(this.#options.quitMs));
	}

	async #end(name: string, site: Site, quit?: Promise<void>): Promise<void> {
		site.ending += 1;
		this.#ending += 1;
		await quit;
		await pause(goneMs);
		site.ending -= 1;
		this.#ending -= 1;
		this.#open -= 1;
		this.#forget(name, site);
		this.#serve();
	}

	#dropLost(name: string, site: Site, session: Session): void {
		const index = site.idle.findIndex(entry => entry.session === session);
		if (index !== -1) {
			this.#takeIdle(site, index);
			void this.#end(name, site);
		}
	}

	#keep(name: string, site: Site, session: Session): void {
		const timer = setTimeout(() => {
			const index = site.idle.findIndex(entry => entry.session === session);
			if (index !== -1) {
				this.#endIdle(name, site, index);
			}
		}, this.#options.idleMs);
		site.idle.push({session, timer});
		this.#idle += 1;
	}

	#lend(name: string, site: Site, session: Session | null, workspaceId: string): Slot {
		let silent: Silent | null = null;
		let isGivenUp = false;
		const hear = () => {
			if (silent !== null) {
				this.#silent.delete(silent);
				silent = null;
			}
		};
		site.busy += 1;
		if (session === null) {
			this.#open += 1;
		}
		return {
			session,
			isAllowed: () => site.limit > 0,
			hear,
			fallSilent: giveUp => {
				silent ??= {
					workspaceId,
					giveUp: () => {
						isGivenUp = true;
						this.#leaving += 1;
						giveUp();
					},
				};
				this.#silent.add(silent);
				if (site.hasReplied) {
					this.#serve();
				} else {
					this.#makeRoom();
				}
			},
			release: back => {
				hear();
				this.#leaving -= isGivenUp ? 1 : 0;
				site.hasReplied ||= back !== null;
				site.busy -= 1;
				if (back === null || back.connection.lost() !== null) {
					void this.#end(name, site);
				} else {
					if (back !== session) {
						back.connection.onceLost(() => this.#dropLost(name, site, back));
					}
					this.#keep(name, site, back);
					if (this.#closed !== null || site.busy + site.idle.length > site.limit) {
						this.#endIdle(name, site);
					}
				}
				this.#forget(name, site);
				this.#serve();
			},
		};
	}

	/**
	 * If too many slots are silent, gives up one of the workspace that has the most of them. Its oldest ones keep
	 * waiting until their timeouts, so that a server that is merely slow has a chance.
	 */
	#makeRoom(): void {
		if (this.#silent.size <= this.#maxSilent) {
			return;
		}
		let largest: readonly Silent[] = [];
		for (const slots of groupBy([...this.#silent], ({workspaceId}) => workspaceId).values()) {
			largest = slots.length > largest.length ? slots : largest;
		}
		const index = Math.min(Math.floor(this.#maxSilent * patientShare), largest.length - 1);
		const slot = largest[index] as Silent;
		this.#silent.delete(slot);
		slot.giveUp();
	}

	/** What a waiter can have now; `full`: nothing until a connection elsewhere ends. */
	#offer(name: string, site: Site, waiter: Waiter): Slot | 'later' | 'full' {
		if (site.busy + site.ending >= Math.max(1, site.limit - waiter.leaves)) {
			return 'later';
		}
		const fitting = lastFitting(site, waiter);
		if (fitting !== -1) {
			return this.#lend(name, site, this.#takeIdle(site, fitting), waiter.workspaceId);
		}
		if (site.busy + site.ending + site.idle.length >= site.limit) {
			this.#endIdle(name, site);
			return 'later';
		}
		return this.#open < this.#options.maxSessions ? this.#lend(name, site, null, waiter.workspaceId) : 'full';
	}

	/** Ends the oldest idle session of some site. Where none is idle, a silent one has to go. */
	#endSome(): void {
		for (const [name, site] of this.#idle > 0 ? this.#sites : []) {
			if (site.idle.length > 0) {
				this.#endIdle(name, site);
				return;
			}
		}
		this.#makeRoom();
	}

	/** Serves workspaces in turn, and the sites of each in turn, until nothing more can be lent. */
	#serve(): void {
		for (let lent = true; lent; ) {
			lent = false;
			this.#wanting = 0;
			for (const [workspaceId, names] of [...this.#waiting]) {
				for (const name of [...names]) {
					if (this.#serveOne(name, workspaceId)) {
						lent = true;
						break;
					}
				}
			}
		}
	}

	/** Lends a connection to the workspace's next recipient at the site, if it can have one. */
	#serveOne(name: string, workspaceId: string): boolean {
		const site = this.#sites.get(name);
		const lane = site?.lanes.get(workspaceId);
		if (!(site && lane)) {
			return false;
		}
		const waiter = nextWaiter(lane);
		const slot = this.#offer(name, site, waiter);
		if (slot === 'full') {
			this.#wanting += 1;
			// At once, before a site that comes later takes the idle session again.
			if (this.#ending + this.#leaving < this.#wanting) {
				this.#endSome();
			}
		}
		if (typeof slot === 'string') {
			return false;
		}
		lane.highInRow = waiter.isHigh && lane.waiters.some(({isHigh}) => !isHigh) ? lane.highInRow + 1 : 0;
		endTurn(this.#waiting, {group: workspaceId, item: name});
		this.#removeWaiter(name, site, waiter);
		if (lane.waiters.length > 0) {
			addTurn(this.#waiting, workspaceId, name);
		}
		waiter.grant(slot);
		return true;
	}
}

/** -1: no idle session fits. */
function lastFitting({idle}: Site, waiter: Waiter): number {
	let at = idle.length - 1;
	while (at >= 0 && !waiter.fits((idle[at] as Idle).session)) {
		at--;
	}
	return at;
}

/** High priority goes first, but not always. */
function nextWaiter({waiters, highInRow}: Lane): Waiter {
	const wanted = highInRow < maxHighInRow;
	return waiters.find(({isHigh}) => isHigh === wanted) ?? (waiters[0] as Waiter);
}
