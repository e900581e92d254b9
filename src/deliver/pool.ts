import {setTimeout as pause} from 'node:timers/promises';
import {groupBy} from '../kit/collections.ts';
import {addTurn, endTurn, type FairRing, removeTurn} from '../kit/fair-ring.ts';
import type {Precedence} from '../mail/route.ts';
import type {Session} from './open-session.ts';

/** The right to hold one connection to a provider. */
export type Slot = {
	/** An idle session to reuse, or `null` to open one. */
	readonly session: Session | null;
	/** Whether the provider may have connections now. Its limit may have become 0 since the slot was granted. */
	readonly isAllowed: () => boolean;
	/** Returns the slot, together with the session if it can carry another message. */
	readonly release: (session: Session | null) => void;
	/** Reports that the server is silent. If others need the slot before `noteReply` is called, `giveUp` is called. */
	readonly fallSilent: (giveUp: () => void) => void;
	/** Reports that the server replied. */
	readonly noteReply: () => void;
};

type SlotRequest = {
	readonly workspaceId: string;
	/** Whether an idle session can carry this message. */
	readonly fits: (session: Session) => boolean;
	/** The maximum time to wait. */
	readonly waitMs: number;
	/** Absent for a message of normal priority that may use any connection. */
	readonly precedence?: Precedence | undefined;
	readonly signal?: AbortSignal | undefined;
};

type PoolOptions = {
	/** The maximum number of simultaneous connections to all providers together. */
	readonly maxSessions: number;
	readonly idleMs: number;
	/** The time limit for QUIT on an idle session. */
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
 * One workspace's recipients waiting for a connection to a provider. `highInRow` counts how often high priority went
 * first while another priority was waiting.
 */
type Lane = {readonly waiters: Waiter[]; highInRow: number};

type Site = {
	limit: number;
	/** By workspace id. */
	readonly lanes: Map<string, Lane>;
	/** Whether a session here was reusable for another message: if this server pauses, it is likely to continue. */
	hasReplied: boolean;
	readonly idle: Idle[];
	busy: number;
	closing: number;
	/** The number of messages announced with `expect`. */
	expected: number;
};

/**
 * How long a closed connection still counts, in milliseconds. A mail server counts a connection until it has processed
 * the close; a new one at that moment would exceed its limit and be refused.
 */
export const closeGraceMs = 50;

/** The share of sessions that may wait for silent servers, and the part of that share that is never given up. */
const silentShare = 0.375;
const patientShare = 0.5;

/** While both are waiting, every eighth connection of a workspace goes to a recipient without high priority. */
const maxHighInRow = 7;

const maxTimerMs = 2 ** 31 - 1;

/** Grants connection slots, taking turns between providers, and keeps sessions open between messages. */
export class ConnectionPool {
	readonly #options: PoolOptions;
	readonly #sites = new Map<string, Site>();
	/** For each workspace, the providers where it has recipients waiting. Those served last come last. */
	readonly #waiting: FairRing<string> = new Map();
	/** Silent slots, the longest silent first. */
	readonly #silent = new Set<Silent>();
	readonly #maxSilent: number;
	/** The number of slots that were given up but not released yet. */
	#givenUp = 0;
	/** All possible connections: busy, idle and closing. */
	#open = 0;
	#idle = 0;
	#closing = 0;
	/** The number of waiters in this round that need another connection to close first. */
	#blockedWaiters = 0;
	#closed: (() => void) | null = null;

	constructor(options: PoolOptions) {
		this.#options = options;
		this.#maxSilent = Math.max(1, Math.floor(options.maxSessions * silentShare));
	}

	/**
	 * Waits for a slot at the provider, which may hold `limit` connections, including idle ones, unless `allow` has
	 * changed that since. Returns `null` if the wait was aborted or timed out.
	 */
	acquire(
		name: string,
		limit: number,
		{workspaceId, fits, waitMs, precedence, signal}: SlotRequest,
	): Promise<Slot | null> {
		const site = this.#siteOf(name, Math.max(1, limit));
		if (this.#closed !== null || signal?.aborted === true || site.limit === 0 || waitMs <= 0) {
			this.#forgetUnused(name, site);
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
				this.#forgetUnused(name, site);
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
	 * Announces a message for the provider and sets its connection limit, which later calls may change. Call the result
	 * when the message arrives or is cancelled.
	 */
	expect(name: string, limit: number): () => void {
		const site = this.#siteOf(name, limit);
		site.expected += 1;
		this.allow(name, limit);
		return () => {
			site.expected -= 1;
			this.#forgetUnused(name, site);
		};
	}

	/** Sets the provider's connection limit. With 0, waiting messages are turned away. */
	allow(name: string, limit: number): void {
		const site = this.#sites.get(name);
		if (site === undefined) {
			return;
		}
		site.limit = limit;
		while (site.idle.length > 0 && site.busy + site.idle.length > limit) {
			this.#closeIdle(name, site);
		}
		if (limit === 0) {
			this.#rejectWaiters(name, site);
		}
		this.#forgetUnused(name, site);
		this.#serve();
	}

	#rejectWaiters(name: string, site: Site): void {
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

	/** Returns the number of connections per provider, including idle and closing ones. */
	bySite(): Array<readonly [site: string, connections: number]> {
		const counts = Array.from(
			this.#sites,
			([name, site]) => [name, site.busy + site.closing + site.idle.length] as const,
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
		return {busy: this.#open - this.#idle - this.#closing, idle: this.#idle, waiting};
	}

	/** Turns waiting messages away, closes idle sessions, and waits for busy ones. */
	async close(): Promise<void> {
		const emptied = new Promise<void>(resolve => {
			this.#closed = resolve;
		});
		for (const [name, site] of this.#sites) {
			this.#rejectWaiters(name, site);
			while (site.idle.length > 0) {
				this.#closeIdle(name, site);
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
				closing: 0,
				expected: 0,
			};
			this.#sites.set(name, site);
		}
		return site;
	}

	#forgetUnused(name: string, site: Site): void {
		if (site.busy + site.closing + site.idle.length + site.lanes.size + site.expected === 0) {
			this.#sites.delete(name);
		}
		if (this.#open === 0) {
			this.#closed?.();
		}
	}

	#takeIdle(site: Site, index: number): Session {
		const [entry] = site.idle.splice(index, 1) as [Idle];
		clearTimeout(entry.timer);
		this.#idle -= 1;
		return entry.session;
	}

	/** Closes an idle session, by default the one idle longest. Its slot is free once the connection is gone. */
	#closeIdle(name: string, site: Site, index = 0): void {
		void this.#awaitClose(name, site, this.#takeIdle(site, index).connection.quit(this.#options.quitMs));
	}

	async #awaitClose(name: string, site: Site, quit?: Promise<void>): Promise<void> {
		site.closing += 1;
		this.#closing += 1;
		await quit;
		await pause(closeGraceMs);
		site.closing -= 1;
		this.#closing -= 1;
		this.#open -= 1;
		this.#forgetUnused(name, site);
		this.#serve();
	}

	#dropLost(name: string, site: Site, session: Session): void {
		const index = site.idle.findIndex(entry => entry.session === session);
		if (index !== -1) {
			this.#takeIdle(site, index);
			void this.#awaitClose(name, site);
		}
	}

	#keepIdle(name: string, site: Site, session: Session): void {
		const timer = setTimeout(() => {
			const index = site.idle.findIndex(entry => entry.session === session);
			if (index !== -1) {
				this.#closeIdle(name, site, index);
			}
		}, this.#options.idleMs);
		site.idle.push({session, timer});
		this.#idle += 1;
	}

	#grantSlot(name: string, site: Site, session: Session | null, workspaceId: string): Slot {
		let silent: Silent | null = null;
		let isGivenUp = false;
		const noteReply = () => {
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
			noteReply,
			fallSilent: giveUp => {
				silent ??= {
					workspaceId,
					giveUp: () => {
						isGivenUp = true;
						this.#givenUp += 1;
						giveUp();
					},
				};
				this.#silent.add(silent);
				if (site.hasReplied) {
					this.#serve();
				} else {
					this.#giveUpSilent();
				}
			},
			release: returned => {
				noteReply();
				this.#givenUp -= isGivenUp ? 1 : 0;
				site.hasReplied ||= returned !== null;
				site.busy -= 1;
				if (returned === null || returned.connection.lost() !== null) {
					void this.#awaitClose(name, site);
				} else {
					if (returned !== session) {
						returned.connection.onceLost(() => this.#dropLost(name, site, returned));
					}
					this.#keepIdle(name, site, returned);
					if (this.#closed !== null || site.busy + site.idle.length > site.limit) {
						this.#closeIdle(name, site);
					}
				}
				this.#forgetUnused(name, site);
				this.#serve();
			},
		};
	}

	/**
	 * If too many slots are silent, gives up one of the workspace that has the most. The oldest ones wait for their
	 * full timeouts, so that a server that is merely slow has a chance.
	 */
	#giveUpSilent(): void {
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

	/** Returns a slot if the waiter can have one now. `full` means that a connection elsewhere must close first. */
	#offer(name: string, site: Site, waiter: Waiter): Slot | 'later' | 'full' {
		if (site.busy + site.closing >= Math.max(1, site.limit - waiter.leaves)) {
			return 'later';
		}
		const fitting = lastFitting(site, waiter);
		if (fitting !== -1) {
			return this.#grantSlot(name, site, this.#takeIdle(site, fitting), waiter.workspaceId);
		}
		if (site.busy + site.closing + site.idle.length >= site.limit) {
			this.#closeIdle(name, site);
			return 'later';
		}
		return this.#open < this.#options.maxSessions ? this.#grantSlot(name, site, null, waiter.workspaceId) : 'full';
	}

	/** Closes the oldest idle session of some provider. If none is idle, a silent one is given up. */
	#freeConnection(): void {
		for (const [name, site] of this.#idle > 0 ? this.#sites : []) {
			if (site.idle.length > 0) {
				this.#closeIdle(name, site);
				return;
			}
		}
		this.#giveUpSilent();
	}

	/** Serves the workspaces in turn, and the providers of each in turn, until no more slots can be granted. */
	#serve(): void {
		for (let hasGranted = true; hasGranted; ) {
			hasGranted = false;
			this.#blockedWaiters = 0;
			for (const [workspaceId, names] of [...this.#waiting]) {
				for (const name of [...names]) {
					if (this.#serveOne(name, workspaceId)) {
						hasGranted = true;
						break;
					}
				}
			}
		}
	}

	/** Grants a connection to the workspace's next recipient at the provider, if possible. */
	#serveOne(name: string, workspaceId: string): boolean {
		const site = this.#sites.get(name);
		const lane = site?.lanes.get(workspaceId);
		if (!(site && lane)) {
			return false;
		}
		const waiter = nextWaiter(lane);
		const slot = this.#offer(name, site, waiter);
		if (slot === 'full') {
			this.#blockedWaiters += 1;
			// Do this immediately, before a provider later in this loop takes the idle session again.
			if (this.#closing + this.#givenUp < this.#blockedWaiters) {
				this.#freeConnection();
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

/** Returns the index of the most recently used session that fits, or -1. */
function lastFitting({idle}: Site, waiter: Waiter): number {
	let index = idle.length - 1;
	while (index >= 0 && !waiter.fits((idle[index] as Idle).session)) {
		index--;
	}
	return index;
}

/** Chooses high priority first, except after `maxHighInRow` in a row. */
function nextWaiter({waiters, highInRow}: Lane): Waiter {
	const isHighNext = highInRow < maxHighInRow;
	return waiters.find(({isHigh}) => isHigh === isHighNext) ?? (waiters[0] as Waiter);
}
