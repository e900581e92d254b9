import {setTimeout as pause} from 'node:timers/promises';
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
};

type Wanted = {
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
	readonly fits: (session: Session) => boolean;
	readonly grant: (slot: Slot | null) => void;
};

type Idle = {readonly session: Session; readonly timer: NodeJS.Timeout};

type Site = {
	limit: number;
	readonly waiters: Waiter[];
	/** High mail in a row that others waited for. */
	inRow: number;
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

/** Of eight connections that are lent while both wait, one is for what is not high. */
const mostInRow = 7;

const longestTimer = 2 ** 31 - 1;

/** Lends slots for connections, site by site in turn, and keeps sessions warm between mails. */
export class ConnectionPool {
	readonly #options: PoolOptions;
	readonly #sites = new Map<string, Site>();
	/** Sites with waiters; the one served last is at the end. */
	readonly #waiting = new Map<string, Site>();
	/** Busy, idle and ending: all that may be a connection. */
	#open = 0;
	#idle = 0;
	#ending = 0;
	#closed: (() => void) | null = null;

	constructor(options: PoolOptions) {
		this.#options = options;
	}

	/**
	 * Waits for a slot at the site, which holds at most `limit` connections, idle ones included, or what was allowed since;
	 * null: stopped before, or none within the time.
	 */
	acquire(name: string, limit: number, {fits, waitMs, precedence, signal}: Wanted): Promise<Slot | null> {
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
				site.waiters.splice(site.waiters.indexOf(waiter), 1);
				if (site.waiters.length === 0) {
					this.#waiting.delete(name);
				}
				this.#forget(name, site);
				resolve(null);
			};
			signal?.addEventListener('abort', leave, {once: true});
			site.waiters.push(waiter);
			this.#waiting.set(name, site);
			this.#serve();
			if (!isServed) {
				timer = setTimeout(leave, Math.min(waitMs, longestTimer));
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
		for (const waiter of limit === 0 ? site.waiters.splice(0) : []) {
			waiter.grant(null);
		}
		if (site.waiters.length === 0) {
			this.#waiting.delete(name);
		}
		this.#forget(name, site);
		this.#serve();
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
		for (const site of this.#waiting.values()) {
			waiting += site.waiters.length;
		}
		return {busy: this.#open - this.#idle - this.#ending, idle: this.#idle, waiting};
	}

	/** Sends the waiting away, ends idle sessions, waits for the busy ones. */
	async close(): Promise<void> {
		const emptied = new Promise<void>(resolve => {
			this.#closed = resolve;
		});
		for (const site of this.#waiting.values()) {
			for (const waiter of site.waiters.splice(0)) {
				waiter.grant(null);
			}
		}
		this.#waiting.clear();
		for (const [name, site] of this.#sites) {
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
			site = {limit, waiters: [], inRow: 0, idle: [], busy: 0, ending: 0, expected: 0};
			this.#sites.set(name, site);
		}
		return site;
	}

	#forget(name: string, site: Site): void {
		if (site.busy + site.ending + site.idle.length + site.waiters.length + site.expected === 0) {
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

	#lend(name: string, site: Site, session: Session | null): Slot {
		site.busy += 1;
		if (session === null) {
			this.#open += 1;
		}
		return {
			session,
			isAllowed: () => site.limit > 0,
			release: back => {
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

	/** What the site's first waiter can have now; `full`: nothing until a connection elsewhere ends. */
	#offer(name: string, site: Site, waiter: Waiter): Slot | 'later' | 'full' {
		if (site.busy + site.ending >= Math.max(1, site.limit - waiter.leaves)) {
			return 'later';
		}
		const fitting = lastFitting(site, waiter);
		if (fitting !== -1) {
			return this.#lend(name, site, this.#takeIdle(site, fitting));
		}
		if (site.busy + site.ending + site.idle.length >= site.limit) {
			this.#endIdle(name, site);
			return 'later';
		}
		return this.#open < this.#options.maxSessions ? this.#lend(name, site, null) : 'full';
	}

	/** Ends the oldest idle session of some site. */
	#endSomeIdle(): void {
		for (const [name, site] of this.#sites) {
			if (site.idle.length > 0) {
				this.#endIdle(name, site);
				return;
			}
		}
	}

	/** Serves the next waiter of each site, again and again until nothing can be lent. */
	#serve(): void {
		for (let lent = true; lent; ) {
			lent = false;
			let full = 0;
			for (const [name, site] of [...this.#waiting]) {
				const waiter = nextWaiter(site);
				const slot = this.#offer(name, site, waiter);
				if (slot === 'later') {
					continue;
				}
				if (slot === 'full') {
					full += 1;
					// At once, before a site that comes later takes the idle session again.
					if (this.#ending < full) {
						this.#endSomeIdle();
					}
					continue;
				}
				lent = true;
				site.inRow = waiter.isHigh && site.waiters.some(({isHigh}) => !isHigh) ? site.inRow + 1 : 0;
				site.waiters.splice(site.waiters.indexOf(waiter), 1);
				this.#waiting.delete(name);
				if (site.waiters.length > 0) {
					this.#waiting.set(name, site);
				}
				waiter.grant(slot);
			}
		}
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

/** High mail goes first, but not always. */
function nextWaiter({waiters, inRow}: Site): Waiter {
	const wanted = inRow < mostInRow;
	return waiters.find(({isHigh}) => isHigh === wanted) ?? (waiters[0] as Waiter);
}
