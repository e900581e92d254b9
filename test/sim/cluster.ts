import {createNode, type SimNode} from './node.ts';
import {createShareTables} from './share-tables.ts';
import {createChance, createTime} from './time.ts';
import {createWorld} from './world.ts';

export type ClusterOptions = {
	readonly seed: number;
	readonly nodes: number;
	readonly destinations: number;
	readonly mailsPerSecond: number;
	/** Simulated time under load. */
	readonly seconds: number;
};

export type ClusterReport = {
	readonly accepted: number;
	readonly delivered: number;
	/** What must never be. */
	readonly broken: readonly string[];
	/** Sites that used all of their cap at some time. */
	readonly atCap: number;
	/** Where there is a rate: the most in any minute, of so many. */
	readonly maxPerMinute: number;
	readonly perMinute: number;
	/** Sites with work and without a rate of which nothing arrived, though they were well. */
	readonly starved: readonly string[];
	/** The longest that nothing of a site that is well was claimed while mail waited, milliseconds. */
	readonly maxWaitMs: number;
	/** Deliveries of the node with least and with most, against the mean of those that lived all the time. */
	readonly least: number;
	readonly most: number;
	/** Copies of sites that are well, of which nothing was claimed for longer than a dead node's term lasts. */
	readonly backlog: number;
	readonly renewalsPerSecond: number;
	/** Part of the time under the lock. */
	readonly locked: number;
	readonly maxRenewalMs: number;
};

const mailMs = 200;
const maxSessions = 128;
const noticeMs = 200;
/** Mail that nobody took for so long is told to all. */
const staleMs = 50;

/** Nodes that die, join and are cut off from the store while sites throttle and fall silent. */
export async function runCluster({seed, nodes: count, destinations, mailsPerSecond, seconds}: ClusterOptions) {
	const time = createTime();
	const chance = createChance(seed);
	const world = createWorld(time, destinations, mailsPerSecond, mailMs / 1000);
	const tables = createShareTables(time);
	const nodes: SimNode[] = [];
	const hindered = new Set<SimNode>();
	let accepted = 0;
	const alive = () => nodes.filter(({isAlive, isCutOff}) => isAlive && !isCutOff);
	const anyOf = <Item>(items: readonly Item[]): Item => items[Math.floor(chance() * items.length)] as Item;
	const join = () => {
		nodes.push(
			createNode({
				...{id: `node${nodes.length}`, time, world, tables, chance, maxSessions},
				mailMs: () => mailMs * (0.5 + chance()),
			}),
		);
	};

	/** The first is alone for a while, then the others come. */
	const warmUp = 6000;
	join();
	time.after(1000, () => {
		for (let node = 1; node < count; node++) {
			time.after(chance() * 1000, join);
		}
	});
	const end = warmUp + seconds * 1000;

	function accept(): void {
		if (time.now() >= end) {
			return;
		}
		anyOf(alive()).arrived(world.pick(chance()));
		accepted++;
		time.after((-Math.log(1 - chance()) * 1000) / mailsPerSecond, accept);
	}
	function notice(): void {
		const now = time.now();
		const stale = world.sites.filter(({waiting, waitsSince}) => waiting > 0 && now - waitsSince > staleMs);
		for (const node of alive()) {
			node.noticed(stale);
		}
		time.after(noticeMs, notice);
	}
	function moods(): void {
		const site = anyOf(world.sites);
		site.mood = chance() < 0.5 ? 'throttling' : 'down';
		time.after(2000 + chance() * 4000, () => {
			site.mood = 'well';
		});
		time.after(200, moods);
	}
	function deaths(): void {
		if (time.now() < end - 4000) {
			const node = anyOf(alive());
			node.kill();
			time.after(2000 * chance(), join);
			const other = anyOf(alive());
			other.cutOff(true);
			hindered.add(other);
			time.after(9000, () => other.cutOff(false));
			time.after(6000, deaths);
		}
	}
	time.after(500, accept);
	time.after(noticeMs, notice);
	time.after(warmUp, moods);
	time.after(warmUp, deaths);
	await time.run(warmUp);
	const steady = new Map(nodes.map(node => [node, node.delivered]));
	const {renewals: r0, lockedMs: l0} = {...tables.told};
	await time.run(end);

	const lasting = nodes.filter(node => node.isAlive && !hindered.has(node) && node.age() > end - 2500);
	const before = (node: SimNode) => steady.get(node) ?? 0;
	const mean = lasting.reduce((sum, node) => sum + node.delivered - before(node), 0) / lasting.length;
	const told = lasting.map(node => node.delivered - before(node));
	const rated = world.sites.filter(({perMinute}) => perMinute !== null);
	const {renewals, lockedMs, maxMs} = tables.told;
	return {
		accepted,
		delivered: world.sites.reduce((sum, {delivered}) => sum + delivered, 0),
		broken: world.broken,
		atCap: world.sites.filter(({maxOpen, cap}) => maxOpen === cap).length,
		maxPerMinute: Math.max(...rated.map(({maxPerMinute}) => maxPerMinute)),
		perMinute: rated[0]?.perMinute ?? 0,
		starved: world.sites
			.filter(
				({perMinute, delivered, waiting, wasDown}) =>
					perMinute === null && delivered === 0 && waiting > 0 && !wasDown,
			)
			.map(({name}) => name),
		maxWaitMs: Math.max(...world.sites.map(({maxWait}) => maxWait)),
		least: Math.min(...told) / mean,
		most: Math.max(...told) / mean,
		backlog: world.sites
			.filter(({perMinute, waitsSince, wasDown}) => perMinute === null && !wasDown && end - waitsSince > 10_000)
			.reduce((sum, {waiting}) => sum + waiting, 0),
		renewalsPerSecond: (renewals - r0) / seconds,
		locked: (lockedMs - l0) / (seconds * 1000),
		maxRenewalMs: maxMs,
	} satisfies ClusterReport;
}
