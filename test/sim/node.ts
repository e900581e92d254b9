import {type ClaimPermit, travelTerms} from '../../src/queue/claim-permit.ts';
import {DestinationQueues} from '../../src/queue/destination-queues.ts';
import {NodeShares} from '../../src/queue/node-shares.ts';
import {connectionsOf} from '../../src/queue/pace/site-state.ts';
import type {Site} from '../../src/queue/site.ts';
import type {ShareTables} from './share-tables.ts';
import type {Time} from './time.ts';
import type {SimSite, World} from './world.ts';

/** The connections of a node to a site: as `ConnectionPool` of src/deliver lends them. */
type Pool = {limit: number; busy: number; idle: number; readonly waiters: ClaimPermit[]};

export type NodeOptions = {
	readonly id: string;
	readonly time: Time;
	readonly world: World;
	readonly tables: ShareTables;
	readonly chance: () => number;
	/** How long a mail takes, milliseconds. */
	readonly mailMs: () => number;
	readonly maxSessions: number;
};

const claimMs = 4;
const turnMs = 5;
const tickMs = 100;
const keptMs = 2000;
const retryMs = 5000;
/** After which others give back what a dead node had claimed, milliseconds. */
const givenBackMs = 8000;

/** A node: the queues, sites and shares of src, and a model of sending a mail. */
export function createNode({id, time, world, tables, chance, mailMs, maxSessions}: NodeOptions) {
	const pools = new Map<string, Pool>();
	const under = new Map<SimSite, number>();
	const born = time.now();
	let isAlive = true;
	let isCutOff = false;
	let isPlanned = false;
	let delivered = 0;
	const moment = () => ({now: time.now(), monotonic: time.now()});

	const countConnections = () =>
		new Map(
			[...pools].map(([site, {busy, idle}]) => [site, busy + idle] as const).filter(([, count]) => count > 0),
		);
	const shares = new NodeShares({
		node: id,
		renewTerm: tables.renewTermOf(id, () => !isCutOff),
		readPauses: async () => new Map(),
		countConnections: async () => countConnections(),
		moment,
		maxWait: () => 60_000,
		observer: {storeFailed: () => undefined},
	});
	const queues = new DestinationQueues({
		maxInFlight: maxSessions * 4,
		maxUnproven: Math.ceil(maxSessions * 0.75),
		retry: () => ({schedule: {waits: [60_000], repeatLast: true}, lifetime: 86_400_000}),
		remembered: () => undefined,
		shares,
	});
	shares.join({
		sites: () => queues.sites(),
		find: name => queues.find(name),
		regrade(site, how) {
			queues.regrade(site, how, moment());
			allow(site);
			plan();
		},
		leave: site => queues.leave(site),
		// It is noticed of what waits all the time.
		rescan: () => undefined,
	});

	function poolOf(name: string): Pool {
		let pool = pools.get(name);
		if (!pool) {
			pool = {limit: 0, busy: 0, idle: 0, waiters: []};
			pools.set(name, pool);
		}
		return pool;
	}

	function allow(site: Site): void {
		const pool = pools.get(site.name);
		if (!pool) {
			return;
		}
		pool.limit = connectionsOf(site.state, time.now());
		const simSite = world.of(site.name);
		while (pool.idle > 0 && pool.busy + pool.idle > pool.limit) {
			pool.idle--;
			world.closed(simSite);
		}
		for (const permit of pool.limit === 0 ? pool.waiters.splice(0) : []) {
			giveBack(permit, simSite);
		}
		serve(pool, simSite);
	}

	function later(ms: number, happens: () => void): void {
		time.after(ms, () => isAlive && happens());
	}

	function plan(): void {
		if (!isPlanned) {
			isPlanned = true;
			later(turnMs, turn);
		}
	}

	function turn(): void {
		isPlanned = false;
		for (let queue = queues.nextToFind(true); queue; queue = queues.nextToFind(true)) {
			queues.placed(queue, world.of(queue.destination).route, moment());
		}
		for (const permit of isCutOff ? [] : queues.permits(moment())) {
			later(claimMs, () => claimed(permit));
		}
	}

	function claimed(permit: ClaimPermit): void {
		const site = world.of(permit.queue.destination);
		const count = isCutOff ? 0 : world.claim(site, permit.limit);
		queues.claimed(permit, {count, nextDue: isCutOff ? time.now() + 1000 : null, warmedUp: null}, moment());
		under.set(site, (under.get(site) ?? 0) + count);
		for (let recipient = 0; recipient < count; recipient++) {
			const terms = travelTerms(permit, moment());
			if (terms === null) {
				giveBack(permit, site);
				continue;
			}
			const pool = poolOf(permit.site.name);
			pool.limit = terms.connections;
			pool.waiters.push(permit);
			serve(pool, site);
		}
		plan();
	}

	function serve(pool: Pool, site: SimSite): void {
		while (pool.waiters.length > 0 && pool.busy < pool.limit) {
			if (pool.idle > 0) {
				pool.idle--;
			} else if (pool.busy + pool.idle < pool.limit) {
				world.opened(site);
			} else {
				return;
			}
			pool.busy++;
			const permit = pool.waiters.shift() as ClaimPermit;
			later(mailMs(), () => sent(permit, pool, site));
		}
	}

	function sent(permit: ClaimPermit, pool: Pool, site: SimSite): void {
		const end = world.end(site);
		ended(site);
		if (end.kind === 'answered') {
			delivered++;
		} else {
			time.after(retryMs * (1 + chance()), () => world.arrive(site));
			queues.due(permit.queue, time.now() + 2 * retryMs, moment());
		}
		const changes = queues.done(permit, end, moment());
		if (changes.length > 0) {
			allow(permit.site);
		}
		pool.busy--;
		if (end.kind === 'failed' || pool.busy + pool.idle >= pool.limit) {
			world.closed(site);
		} else {
			pool.idle++;
			later(keptMs, () => {
				if (pool.idle > 0 && pool.waiters.length === 0) {
					pool.idle--;
					world.closed(site);
				}
			});
		}
		serve(pool, site);
		plan();
	}

	function ended(site: SimSite): void {
		under.set(site, (under.get(site) ?? 0) - 1);
	}

	function giveBack(permit: ClaimPermit, site: SimSite): void {
		ended(site);
		world.arrive(site);
		queues.due(permit.queue, time.now(), moment());
		queues.done(permit, null, moment());
	}

	function tick(): void {
		time.settle();
		shares.advance();
		queues.advance(moment());
		plan();
		later(tickMs, tick);
	}

	function renew(): void {
		time.settle();
		void shares.renew();
		later(1000, renew);
	}

	time.settle();
	void shares.renew().then(() => later(0, tick));
	later(1000 * (1 + chance()), renew);

	return {
		id,
		get isAlive() {
			return isAlive;
		},
		get isCutOff() {
			return isCutOff;
		},
		get delivered() {
			return delivered;
		},
		/** Milliseconds that it lives. */
		age: () => time.now() - born,
		/** It accepted mail for the site. */
		arrived(site: SimSite): void {
			world.arrive(site);
			queues.arrived(world.keyOf(site), moment());
			plan();
		},
		/** It is notified of waiting mail. */
		noticed(sites: readonly SimSite[]): void {
			for (const site of sites) {
				queues.noticed(world.keyOf(site), moment());
			}
			plan();
		},
		cutOff(is: boolean): void {
			isCutOff = is;
		},
		kill(): void {
			isAlive = false;
			for (const [name, {busy, idle}] of pools) {
				for (let connection = 0; connection < busy + idle; connection++) {
					world.closed(world.of(name));
				}
			}
			time.after(givenBackMs, () => {
				for (const [site, recipients] of under) {
					for (let recipient = 0; recipient < recipients; recipient++) {
						world.arrive(site);
					}
				}
			});
		},
	};
}

export type SimNode = ReturnType<typeof createNode>;
