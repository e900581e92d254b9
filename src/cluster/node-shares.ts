import type {Moment} from '../kit/clock.ts';
import {lot} from '../kit/collections.ts';
import type {SavedSite} from '../mail/saved-site.ts';
import {hasPart, isBackingOff, isProbing, type SiteShare, setRate, takeOver} from '../pace/site-state.ts';
import type {SharedSites, Shares} from '../queue/site.ts';
import type {NodeTerm} from '../store/queue/sites.ts';

// Nodes that share a PostgreSQL store divide what they may have of each site evenly. Each node has a term, a row in the
// store that it renews every second. The row names the set of nodes by which the node divides: it uses no more of any
// site than its part in that set. It begins nothing beyond its least part in the sets of all rows. So all nodes keep
// within their parts of the set that was written first, and the sum is never more than the cap (decision 40).

/** How long a node may use its parts without renewing its term, by the server's clock, milliseconds. */
export const termMs = 6000;
/** By its own clock the term ends earlier, milliseconds: in that time its idle sessions end. */
const termMarginMs = 500;
/** What another node sent within the last minute counts for a rate; it may have sent until the end of its term. */
const rateMs = 60_000 + termMs;

/** A node's part of `cap` where `nodes` divide it evenly; the site's lots decide who has one more of what remains. */
export function evenPart(cap: number, nodes: readonly string[], self: string, site: string): number {
	if (!nodes.includes(self)) {
		return 0;
	}
	const part = Math.floor(cap / nodes.length);
	const rest = Math.floor(cap) % nodes.length;
	if (rest === 0) {
		return part;
	}
	const own = lot(site, self);
	const isAhead = (node: string) => {
		const other = lot(site, node);
		return other > own || (other === own && node > self);
	};
	return nodes.filter(isAhead).length < rest ? part + 1 : part;
}

/** A set of nodes, as their terms name it: ids in order, with spaces between them. */
type NodeSet = string;

/** No node of this version has anything: one of a version before, which divides otherwise, is alive. */
const nobody: NodeSet = '';

const nodesOf = (set: NodeSet): readonly string[] => (set === nobody ? [] : set.split(' '));

/** The node's least part of `cap` in any of these sets. */
function minPart(cap: number, sets: readonly NodeSet[], self: string, site: string): number {
	return Math.min(...sets.map(set => evenPart(cap, nodesOf(set), self, site)));
}

/** Whether the node's part in `set` is at least that in one of `sets`, for any site: fewer nodes have greater parts. */
function isCovered(set: NodeSet, sets: readonly NodeSet[], self: string): boolean {
	const nodes = nodesOf(set);
	return sets.map(nodesOf).some(other => {
		return !other.includes(self) || (nodes.includes(self) && nodes.every(node => other.includes(node)));
	});
}

/** Which nodes divide by `terms`: all that are alive. */
function aliveIn(terms: readonly NodeTerm[], self: string): NodeSet {
	const others = terms.filter(({node}) => node !== self);
	if (others.some(({knows}) => knows === null)) {
		return nobody;
	}
	return [self, ...others.map(({node}) => node)].sort().join(' ');
}

type NodeSharesOptions = {
	/** A daemon's boot id. */
	readonly node: string;
	/**
	 * Renews the node's term, one node at a time; `choose` says what it knows, by all terms. Returns them as they are
	 * then.
	 */
	readonly renewTerm: (choose: (terms: readonly NodeTerm[]) => string) => Promise<readonly NodeTerm[]>;
	/** What the store remembers of sites that are paused or slowed. */
	readonly readPauses: () => Promise<ReadonlyMap<string, SavedSite>>;
	/** Connections by site, idle ones included. All that was allowed before counts. */
	readonly countConnections: () => Promise<ReadonlyMap<string, number>>;
	readonly moment: () => Moment;
	readonly maxWait: () => number;
	readonly observer: {readonly storeFailed: (error: unknown) => void};
};

/** What this node has of each site, where several nodes share a store. */
export class NodeShares implements Shares {
	readonly #options: NodeSharesOptions;
	#sites: SharedSites | null = null;
	/** When the term ends, by the node's monotonic clock. */
	#until = Number.NEGATIVE_INFINITY;
	#isOver = true;
	/** The sets that limit connections now. */
	#sets: readonly NodeSet[] = [nobody];
	/** The sets that limit rates now, and until when each does. */
	#rateSets: readonly NodeSet[] = [nobody];
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

	/** The node's parts of a site, each computed once for the same sets: every mail asks for them. */
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
		const began = moment().monotonic;
		const terms = await renewTerm(known => this.#choose(known, isDrained));
		const named = terms.flatMap(({knows}) => knows ?? []);
		this.#begin([...new Set([...named, aliveIn(terms, node)])].sort(), began);
		const before = this.#pauses;
		this.#pauses = await readPauses();
		this.#takeOver(before);
	}

	/**
	 * The set for the node's row: all nodes that are alive, once the node uses no more than its part in it and in those
	 * of all others; until then the one that it named before.
	 */
	#choose(terms: readonly NodeTerm[], isDrained: boolean): NodeSet {
		const {node} = this.#options;
		const alive = aliveIn(terms, node);
		const former = terms.find(term => term.node === node)?.knows ?? null;
		const sets = [alive, ...terms.flatMap(({knows}) => knows ?? [])];
		const isReady = isDrained && sets.every(set => isCovered(set, this.#sets, node));
		return former === null || isReady ? alive : former;
	}

	/** Whether the node has no more connections than its parts. */
	#isWithinParts(counted: ReadonlyMap<string, number>): boolean {
		return [...counted].every(([name, connections]) => {
			const site = this.#sites?.find(name);
			const cap = site?.state.pace.connections ?? 0;
			return connections <= minPart(cap, this.#sets, this.#options.node, name);
		});
	}

	/** The term was renewed at `began`: these sets limit the node from now on. */
	#begin(sets: readonly NodeSet[], began: number): void {
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
		const isSame = (some: readonly NodeSet[], others: readonly NodeSet[]) => some.join('\n') === others.join('\n');
		const isNews = this.#isOver || !isSame(sets, this.#sets) || !isSame(rateSets, this.#rateSets);
		this.#until = began + termMs - termMarginMs;
		if (isNews) {
			this.#isOver = false;
			this.#sets = sets;
			this.#rateSets = rateSets;
			this.#regradeAll();
			this.#sites?.look();
		}
		this.#leaveOthers();
	}

	#regradeAll(): void {
		const {monotonic} = this.#options.moment();
		for (const site of this.#sites?.sites() ?? []) {
			this.#sites?.regrade(site, state => setRate(state, monotonic));
		}
	}

	/** Leaves the mail of sites of which this node has no part. */
	#leaveOthers(): void {
		const {monotonic} = this.#options.moment();
		for (const site of this.#sites?.sites() ?? []) {
			if (!hasPart(site.state, monotonic) && !isBackingOff(site.state, monotonic)) {
				this.#sites?.leave(site);
			}
		}
	}

	/** Applies what other nodes were told by sites since `before`. */
	#takeOver(before: ReadonlyMap<string, SavedSite>): void {
		const {moment, maxWait} = this.#options;
		for (const site of this.#sites?.sites() ?? []) {
			const pause = {before: before.get(site.name) ?? null, after: this.#pauses.get(site.name) ?? null};
			if (
				JSON.stringify(pause.before) !== JSON.stringify(pause.after) ||
				isProbing(site.state, moment().monotonic)
			) {
				site.saved ||= pause.after !== null;
				this.#sites?.regrade(site, state => takeOver(state, pause, moment(), maxWait()));
			}
		}
	}
}
