import type {Moment} from '../kit/clock.ts';
import {hash32} from '../kit/collections.ts';
import type {SavedSite} from '../mail/saved-site.ts';
import type {NodeTerm} from '../store/queue/sites.ts';
import {hasPart, isBackingOff, isProbing, type SiteShare, setRate, takeOver} from './pace/site-state.ts';
import type {SharedSites, Shares} from './site.ts';

// Nodes that share a PostgreSQL store divide each provider's limits evenly. Each node has a term: a row in the store,
// renewed every second, that names the set of nodes by which it divides. The node uses no more of a provider than its
// part in that set, and starts nothing beyond its smallest part in the sets of all rows. So all nodes stay within their
// parts of the set written first, and the sum never exceeds the cap (decision 40). This relies on the server's clock;
// nodes never talk to each other.

/** How long a node may use its parts without renewing its term, by the server's clock, in milliseconds. */
export const termMs = 6000;
/** How much earlier the term ends by the node's own clock, in milliseconds. Its idle sessions end in that time. */
const termMarginMs = 500;
/** What another node sent within the last minute counts towards a rate, and it may have sent until its term ended. */
const rateMs = 60_000 + termMs;

/** Returns a node's part of `cap`, divided evenly among `nodes`. A hash per provider decides who gets the remainder. */
export function evenPart(cap: number, nodes: readonly string[], self: string, site: string): number {
	if (!nodes.includes(self)) {
		return 0;
	}
	const part = Math.floor(cap / nodes.length);
	const remainder = Math.floor(cap) % nodes.length;
	if (remainder === 0) {
		return part;
	}
	const own = hash32(site, self);
	const isAhead = (node: string) => {
		const other = hash32(site, node);
		return other > own || (other === own && node > self);
	};
	return nodes.filter(isAhead).length < remainder ? part + 1 : part;
}

/** A set of nodes as their terms name it: sorted ids separated by spaces. */
type NodeSet = string;

/** No node of this version has a part, because a node of an older version, which divides differently, is alive. */
const noNodes: NodeSet = '';

const nodesOf = (set: NodeSet): readonly string[] => (set === noNodes ? [] : set.split(' '));

/** Returns the node's smallest part of `cap` in any of these sets. */
function minPart(cap: number, sets: readonly NodeSet[], self: string, site: string): number {
	return Math.min(...sets.map(set => evenPart(cap, nodesOf(set), self, site)));
}

/** Whether the node's part in `set` is at least its part in one of `sets`, for every provider. */
function isCovered(set: NodeSet, sets: readonly NodeSet[], self: string): boolean {
	const nodes = nodesOf(set);
	return sets.map(nodesOf).some(other => {
		return !other.includes(self) || (nodes.includes(self) && nodes.every(node => other.includes(node)));
	});
}

/** Returns the nodes that divide according to `terms`: all that are alive. */
function livingNodes(terms: readonly NodeTerm[], self: string): NodeSet {
	const others = terms.filter(({node}) => node !== self);
	if (others.some(({knows}) => knows === null)) {
		return noNodes;
	}
	return [self, ...others.map(({node}) => node)].sort().join(' ');
}

type NodeSharesOptions = {
	/** The daemon's boot id. */
	readonly node: string;
	/**
	 * Renews the node's term, one node at a time. `choose` returns the set for its row, given all terms. Returns the
	 * resulting terms.
	 */
	readonly renewTerm: (choose: (terms: readonly NodeTerm[]) => string) => Promise<readonly NodeTerm[]>;
	/** Reads what the store remembers about paused or slowed providers. */
	readonly readPauses: () => Promise<ReadonlyMap<string, SavedSite>>;
	/** Counts connections by provider, including idle ones and everything that was allowed before. */
	readonly countConnections: () => Promise<ReadonlyMap<string, number>>;
	readonly moment: () => Moment;
	readonly maxWait: () => number;
	readonly observer: {readonly storeFailed: (error: unknown) => void};
};

/** This node's part of each provider's limits while several nodes share a store. */
export class NodeShares implements Shares {
	readonly #options: NodeSharesOptions;
	#sites: SharedSites | null = null;
	/** When the term ends, by the node's monotonic clock. */
	#until = Number.NEGATIVE_INFINITY;
	#isOver = true;
	/** The sets that limit connections now. */
	#sets: readonly NodeSet[] = [noNodes];
	/** The sets that limit rates now, and until when each one does. */
	#rateSets: readonly NodeSet[] = [noNodes];
	readonly #rateUntil = new Map<NodeSet, number>();
	#pauses: ReadonlyMap<string, SavedSite> = new Map();
	#renewing: Promise<void> | null = null;

	constructor(options: NodeSharesOptions) {
		this.#options = options;
	}

	join(sites: SharedSites): void {
		this.#sites = sites;
	}

	newShare(site: string): SiteShare {
		const connections = this.#partsOf(site, () => this.#sets);
		return {
			connections: (total, now) => (now < this.#until ? connections(total) : 0),
			perMinute: this.#partsOf(site, () => this.#rateSets),
		};
	}

	/** Returns the node's parts of a provider, each computed once per set, because every message needs them. */
	#partsOf(site: string, setsNow: () => readonly NodeSet[]): (total: number) => number {
		const parts = new Map<number, number>();
		let sets: readonly NodeSet[] = [];
		return total => {
			if (sets !== setsNow()) {
				sets = setsNow();
				parts.clear();
			}
			const part = parts.get(total) ?? minPart(total, sets, this.#options.node, site);
			parts.set(total, part);
			return part;
		};
	}

	pauseOf(site: string): SavedSite | undefined {
		return this.#pauses.get(site);
	}

	renew(): Promise<void> {
		this.#renewing ??= this.#renew()
			.catch(this.#options.observer.storeFailed)
			.finally(() => {
				this.#renewing = null;
			});
		return this.#renewing;
	}

	advance(): void {
		if (!this.#isOver && this.#until <= this.#options.moment().monotonic) {
			this.#isOver = true;
			this.#regradeAll();
		}
	}

	settled(): Promise<void> {
		return this.#renewing ?? Promise.resolve();
	}

	async #renew(): Promise<void> {
		const {node, renewTerm, readPauses, countConnections, moment} = this.#options;
		const isDrained = this.#sets.length === 1 || this.#isWithinParts(await countConnections());
		const startedAt = moment().monotonic;
		const terms = await renewTerm(known => this.#chooseSet(known, isDrained));
		const termSets = terms.flatMap(({knows}) => knows ?? []);
		this.#applyTerm([...new Set([...termSets, livingNodes(terms, node)])].sort(), startedAt);
		const before = this.#pauses;
		this.#pauses = await readPauses();
		this.#takeOver(before);
	}

	/**
	 * Returns the set for the node's row. It names all living nodes once this node uses no more than its part in that
	 * set and in those of all others; until then, it names the previous set.
	 */
	#chooseSet(terms: readonly NodeTerm[], isDrained: boolean): NodeSet {
		const {node} = this.#options;
		const alive = livingNodes(terms, node);
		const previous = terms.find(term => term.node === node)?.knows ?? null;
		const sets = [alive, ...terms.flatMap(({knows}) => knows ?? [])];
		const isReady = isDrained && sets.every(set => isCovered(set, this.#sets, node));
		return previous === null || isReady ? alive : previous;
	}

	/** Whether the node has no more connections than its parts. */
	#isWithinParts(counts: ReadonlyMap<string, number>): boolean {
		return [...counts].every(([name, connections]) => {
			const site = this.#sites?.find(name);
			const cap = site?.state.pace.connections ?? 0;
			return connections <= minPart(cap, this.#sets, this.#options.node, name);
		});
	}

	/** Applies the term that was renewed at `startedAt`: these sets limit the node from now on. */
	#applyTerm(sets: readonly NodeSet[], startedAt: number): void {
		const {monotonic} = this.#options.moment();
		for (const set of sets) {
			this.#rateUntil.set(set, monotonic + rateMs);
		}
		for (const [set, until] of this.#rateUntil) {
			if (until <= monotonic) {
				this.#rateUntil.delete(set);
			}
		}
		const rateSets = [...this.#rateUntil.keys()];
		const isSame = (a: readonly NodeSet[], b: readonly NodeSet[]) => a.join('\n') === b.join('\n');
		const hasChanged = this.#isOver || !isSame(sets, this.#sets) || !isSame(rateSets, this.#rateSets);
		this.#until = startedAt + termMs - termMarginMs;
		if (hasChanged) {
			this.#isOver = false;
			this.#sets = sets;
			this.#rateSets = rateSets;
			this.#regradeAll();
			this.#sites?.rescan();
		}
		this.#leaveToOthers();
	}

	#regradeAll(): void {
		const {monotonic} = this.#options.moment();
		for (const site of this.#sites?.sites() ?? []) {
			this.#sites?.regrade(site, state => setRate(state, monotonic));
		}
	}

	/** Leaves providers of which this node has no part to the other nodes. */
	#leaveToOthers(): void {
		const {monotonic} = this.#options.moment();
		for (const site of this.#sites?.sites() ?? []) {
			if (!hasPart(site.state, monotonic) && !isBackingOff(site.state, monotonic)) {
				this.#sites?.leave(site);
			}
		}
	}

	/** Applies what other nodes have learned about providers since `before`. */
	#takeOver(before: ReadonlyMap<string, SavedSite>): void {
		const {moment, maxWait} = this.#options;
		for (const site of this.#sites?.sites() ?? []) {
			const pause = {before: before.get(site.name) ?? null, after: this.#pauses.get(site.name) ?? null};
			if (
				JSON.stringify(pause.before) !== JSON.stringify(pause.after) ||
				isProbing(site.state, moment().monotonic)
			) {
				site.isSaved ||= pause.after !== null;
				this.#sites?.regrade(site, state => takeOver(state, pause, moment(), maxWait()));
			}
		}
	}
}
