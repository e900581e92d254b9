import {setTimeout as pause} from 'node:timers/promises';
import type {Session} from './open-session.ts';

/** The right to hold one connection to a site. */
export type Place = {
	/** A session to use again, or null: open one. */
	readonly session: Session | null;
	/** Gives the place back, with the session if another mail can be sent on it. */
	readonly release: (session: Session | null) => void;
};

type Wanted = {
	/** Whether an idle session leads where this mail goes. */
	readonly fits: (session: Session) => boolean;
	/** It waits no longer. */
	readonly waitMs: number;
	readonly signal?: AbortSignal | undefined;
};

export type Pool = {
	/**
	 * Waits for a place at the site, which holds at most `limit` connections, idle ones included, or what was allowed since;
	 * null: stopped before, or none within the time.
	 */
	readonly acquire: (site: string, limit: number, wanted: Wanted) => Promise<Place | null>;
	/**
	 * Announces mail for the site, which may have that many connections. Later limits hold for it too. Call the result
	 * when the mail comes or is cancelled.
	 */
	readonly expect: (site: string, limit: number) => () => void;
	/** Sets the site's connection limit; 0 sends waiting mail away. */
	readonly allow: (site: string, limit: number) => void;
	readonly count: () => {readonly busy: number; readonly idle: number; readonly waiting: number};
	/** Connections by site, those that are idle or ending included. */
	readonly bySite: () => Array<readonly [site: string, connections: number]>;
	/** Sends the waiting away, ends idle sessions, waits for the busy ones. */
	readonly close: () => Promise<void>;
};

type PoolOptions = {
	/** Connections at once, all sites. */
	readonly maxSessions: number;
	readonly idleMs: number;
	/** For the QUIT of an idle session. */
	readonly quitMs: number;
};

type Waiter = {
	readonly fits: (session: Session) => boolean;
	readonly grant: (place: Place | null) => void;
};

type Idle = {readonly session: Session; readonly timer: NodeJS.Timeout};

type Site = {
	limit: number;
	readonly waiters: Waiter[];
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

const longestTimer = 2 ** 31 - 1;

/** Lends places for connections, site by site in turn, and keeps sessions warm between mails. */
export function createPool({maxSessions, idleMs, quitMs}: PoolOptions): Pool {
	const sites = new Map<string, Site>();
	/** Sites with waiters; the one served last is at the end. */
	const turns = new Map<string, Site>();
	let open = 0; // Busy, idle and ending: all that may be a connection.
	let idle = 0;
	let ending = 0;
	let closed: (() => void) | null = null;

	function siteOf(name: string, limit: number): Site {
		let site = sites.get(name);
		if (site === undefined) {
			site = {limit, waiters: [], idle: [], busy: 0, ending: 0, expected: 0};
			sites.set(name, site);
		}

		return site;
	}

	function forget(name: string, site: Site): void {
		if (site.busy + site.ending + site.idle.length + site.waiters.length + site.expected === 0) {
			sites.delete(name);
		}

		if (open === 0) {
			closed?.();
		}
	}

	function takeIdle(site: Site, index: number): Session {
		const [taken] = site.idle.splice(index, 1) as [Idle];
		clearTimeout(taken.timer);
		idle -= 1;
		return taken.session;
	}

	/** Ends an idle session, by default the one idle for longest; its place is free when it is gone. */
	function endIdle(name: string, site: Site, index = 0): void {
		void end(name, site, takeIdle(site, index).connection.quit(quitMs));
	}

	async function end(name: string, site: Site, quit?: Promise<void>): Promise<void> {
		site.ending += 1;
		ending += 1;
		await quit;
		await pause(goneMs);
		site.ending -= 1;
		ending -= 1;
		open -= 1;
		forget(name, site);
		serve();
	}

	function dropLost(name: string, site: Site, session: Session): void {
		const index = site.idle.findIndex(entry => entry.session === session);
		if (index !== -1) {
			takeIdle(site, index);
			void end(name, site);
		}
	}

	function keep(name: string, site: Site, session: Session): void {
		const timer = setTimeout(() => {
			const index = site.idle.findIndex(entry => entry.session === session);
			if (index !== -1) {
				endIdle(name, site, index);
			}
		}, idleMs);
		site.idle.push({session, timer});
		idle += 1;
	}

	function lend(name: string, site: Site, session: Session | null): Place {
		site.busy += 1;
		if (session === null) {
			open += 1;
		}

		return {
			session,
			release(back) {
				site.busy -= 1;
				if (back === null || back.connection.lost() !== null) {
					void end(name, site);
				} else {
					if (back !== session) {
						back.connection.onceLost(() => dropLost(name, site, back));
					}

					keep(name, site, back);
					if (closed !== null || site.busy + site.idle.length > site.limit) {
						endIdle(name, site);
					}
				}

				forget(name, site);
				serve();
			},
		};
	}

	/** What the site's first waiter can have now; `full`: nothing until a connection elsewhere ends. */
	function offer(name: string, site: Site, waiter: Waiter): Place | 'later' | 'full' {
		if (site.busy + site.ending >= site.limit) {
			return 'later';
		}

		const fitting = site.idle.findLastIndex(({session}) => waiter.fits(session));
		if (fitting !== -1) {
			return lend(name, site, takeIdle(site, fitting));
		}

		if (site.busy + site.ending + site.idle.length >= site.limit) {
			endIdle(name, site);
			return 'later';
		}

		return open < maxSessions ? lend(name, site, null) : 'full';
	}

	/** Ends the oldest idle session of some site. */
	function makeRoom(): void {
		for (const [name, site] of sites) {
			if (site.idle.length > 0) {
				endIdle(name, site);
				return;
			}
		}
	}

	/** Serves the first waiter of each site, again and again until nothing can be lent. */
	function serve(): void {
		for (let lent = true; lent; ) {
			lent = false;
			let full = 0;
			for (const [name, site] of [...turns]) {
				const waiter = site.waiters[0] as Waiter;
				const place = offer(name, site, waiter);
				if (place === 'later') {
					continue;
				}

				if (place === 'full') {
					full += 1;
					// At once, before a site that comes later takes the idle session again.
					if (ending < full) {
						makeRoom();
					}

					continue;
				}

				lent = true;
				site.waiters.shift();
				turns.delete(name);
				if (site.waiters.length > 0) {
					turns.set(name, site);
				}

				waiter.grant(place);
			}
		}
	}

	function allow(name: string, limit: number): void {
		const site = sites.get(name);
		if (site === undefined) {
			return;
		}

		site.limit = limit;
		while (site.idle.length > 0 && site.busy + site.idle.length > limit) {
			endIdle(name, site);
		}

		for (const waiter of limit === 0 ? site.waiters.splice(0) : []) {
			waiter.grant(null);
		}

		if (site.waiters.length === 0) {
			turns.delete(name);
		}

		forget(name, site);
		serve();
	}

	return {
		acquire(name, limit, {fits, waitMs, signal}) {
			const site = siteOf(name, Math.max(1, limit));
			if (closed !== null || signal?.aborted === true || site.limit === 0 || waitMs <= 0) {
				forget(name, site);
				return Promise.resolve(null);
			}

			return new Promise(resolve => {
				let timer: NodeJS.Timeout | undefined;
				let isServed = false;
				const waiter: Waiter = {
					fits,
					grant(place) {
						isServed = true;
						clearTimeout(timer);
						signal?.removeEventListener('abort', leave);
						resolve(place);
					},
				};
				const leave = () => {
					clearTimeout(timer);
					signal?.removeEventListener('abort', leave);
					site.waiters.splice(site.waiters.indexOf(waiter), 1);
					if (site.waiters.length === 0) {
						turns.delete(name);
					}

					forget(name, site);
					resolve(null);
				};
				signal?.addEventListener('abort', leave, {once: true});
				site.waiters.push(waiter);
				turns.set(name, site);
				serve();
				if (!isServed) {
					timer = setTimeout(leave, Math.min(waitMs, longestTimer));
				}
			});
		},
		expect(name, limit) {
			const site = siteOf(name, limit);
			site.expected += 1;
			allow(name, limit);
			return () => {
				site.expected -= 1;
				forget(name, site);
			};
		},
		allow,
		bySite() {
			const counts = Array.from(sites, ([name, site]) => [name, site.busy + site.ending + site.idle.length] as const);
			return counts.filter(([, connections]) => connections > 0);
		},
		count() {
			let waiting = 0;
			for (const site of turns.values()) {
				waiting += site.waiters.length;
			}

			return {busy: open - idle - ending, idle, waiting};
		},
		async close() {
			const emptied = new Promise<void>(resolve => {
				closed = resolve;
			});
			for (const site of turns.values()) {
				for (const waiter of site.waiters.splice(0)) {
					waiter.grant(null);
				}
			}

			turns.clear();
			for (const [name, site] of sites) {
				while (site.idle.length > 0) {
					endIdle(name, site);
				}
			}

			if (open === 0) {
				return;
			}

			await emptied;
		},
	};
}
