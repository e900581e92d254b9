import type {Moment} from '../kit/clock.ts';
import type {SavedSite} from '../mail/saved-site.ts';
import {isNothing, type ShareRow} from '../mail/saved-site.ts';
import {allConnectionsOf, rateOf, type SiteChange, savedSite, setPart, setRate, type Term} from '../pace/site-state.ts';
import type {SharedSites, Shares, Site} from '../queue/site.ts';
import type {Writer} from '../store/engine/writer.ts';
import {exchangeShares, renewAlone, type ShareNews, type SiteNote} from '../store/queue/sites.ts';
import {answersTo, type SiteAnswer, type SiteAsk, shareMarginMs, shareMs, type Wants, wantedNow} from './exchange.ts';
import {adopt, isSame, totalsOf} from './learnt.ts';

/** What a node learns by exchanging what it has and wants. */
type Exchanged = ShareNews & {readonly answers: readonly SiteAnswer[]};

/** Where nodes share a store. */
type ShareStore = {
	/** In one transaction, and one node at a time. */
	readonly exchange: (asks: readonly SiteAsk[]) => Promise<Exchanged>;
	/** Keeps all sites; false: there is another node, or this one was taken for gone. */
	readonly renewAlone: () => Promise<boolean>;
	/** Connections by site, idle ones included. All that was allowed before counts. */
	readonly countConnections: () => Promise<ReadonlyMap<string, number>>;
};

type NodeSharesOptions = {
	readonly store: ShareStore;
	readonly moment: () => Moment;
	readonly longestWait: () => number;
	readonly observer: {readonly storeFailed: (error: unknown) => void};
};

/** How long it is remembered that others have a site, seconds. */
const mostRests = 30;

/**
 * What this node has of each site, where several nodes share a store. It is exchanged and renewed about once a second, and
 * asked for at once where there is nothing yet. Nothing is used after its term, by this node's own clock from before it asked.
 */
export function createNodeShares({store, moment, longestWait, observer}: NodeSharesOptions): Shares {
	let shared: SharedSites = {sites: () => [], regrade: () => undefined, leave: () => undefined};
	const term: Term = {until: Number.NEGATIVE_INFINITY, alone: false};
	const holdings = new Map<string, Holding>();
	const asking = new Set<Site>();
	let isOver = true;
	let underWay: Promise<void> | null = null;
	/** All that is held is to be exchanged soon. */
	let isDue = false;

	function holdingOf(name: string, site: Site | null): Holding {
		let holding = holdings.get(name);
		if (!holding) {
			holding = newHolding(site);
			holdings.set(name, holding);
		}
		holding.site = site ?? holding.site;
		return holding;
	}

	/** Reduces what the node has to what it is using. */
	function leaveAlone(): void {
		const {monotonic} = moment();
		for (const site of shared.sites()) {
			const {share, bucket} = site.state;
			const isUsed = site.inFlight > 0;
			if (share) {
				share.slots = isUsed ? allConnectionsOf(site.state, monotonic) : 0;
				share.perMinute = bucket && (isUsed || !bucket.isFull(monotonic)) ? bucket.perMinute : bucket && 0;
			}
			if (isUsed) {
				holdingOf(site.name, site).changes.add('grew');
			}
		}
		term.alone = false;
	}

	function enterAlone(): void {
		term.alone = true;
		holdings.clear();
		asking.clear();
		for (const site of shared.sites()) {
			shared.regrade(site, state => setRate(state, rateOf(state), moment().monotonic));
		}
	}

	/** Nothing may begin: idle sessions end, mail that waits for one is released. */
	function endTerm(): void {
		isOver = true;
		if (term.alone) {
			leaveAlone();
		}
		for (const site of shared.sites()) {
			if (site.state.share) {
				site.state.share.slots = 0;
			}
			shared.regrade(site, () => undefined);
		}
	}

	async function exchange(): Promise<void> {
		const reportsAll = isDue;
		const counted = reportsAll ? await store.countConnections() : null;
		isDue = false;
		const now = moment();
		if (!isOver && term.until <= now.monotonic) {
			endTerm();
		}
		const reported = new Map<string, Holding>();
		for (const name of reportsAll ? new Set([...holdings.keys(), ...(counted?.keys() ?? [])]) : []) {
			const holding = holdingOf(name, null);
			if (holding.row === null && !holding.isShort && !counted?.has(name) && inUse(holding) === 0) {
				rest(name, holding);
			} else {
				reported.set(name, holding);
			}
		}
		for (const site of asking) {
			if (reportsAll || isUnknown(site)) {
				const holding = holdingOf(site.name, site);
				holding.isShort = true;
				reported.set(site.name, holding);
				asking.delete(site);
			}
		}
		const asked = Array.from(reported, ([name, holding]) => askOf(name, holding, counted, now, longestWait()));
		const {isAlone, isBlocked, wasLost, answers} = await store.exchange(asked.map(({ask}) => ask)).catch(error => {
			for (const {holding, changes} of asked) {
				holding.changes = new Set([...changes, ...holding.changes]);
			}
			throw error;
		});
		if (wasLost && !isOver) {
			endTerm();
			isDue = true;
		}
		term.until = now.monotonic + shareMs - shareMarginMs;
		const wasOver = isOver;
		isOver = false;
		if (isAlone) {
			enterAlone();
			return;
		}
		isDue ||= isBlocked;
		for (const [index, {holding, ask}] of asked.entries()) {
			apply(holding, ask, answers[index] as SiteAnswer, wasOver);
		}
	}

	function apply(holding: Holding, {learnt}: SiteAsk, answer: SiteAnswer, wasOver: boolean): void {
		const {site, isShort} = holding;
		const {may, perMinute, agreed, row} = answer;
		holding.row = isNothing(row) ? null : row;
		holding.base = agreed;
		holding.gotAll = may >= holding.wants.wants;
		holding.isShort = false;
		holding.rests = 0;
		if (site?.state.share) {
			const {share} = site.state;
			const isChanged = share.slots !== may || share.perMinute !== perMinute || learnt?.mine !== agreed;
			site.saved = agreed !== null;
			if (isChanged || isShort || wasOver) {
				shared.regrade(site, state => {
					share.slots = may;
					setPart(state, perMinute, answer.isFirst, moment().monotonic);
					adopt(state, learnt?.mine ?? null, agreed, holding.changes, moment(), longestWait());
				});
			}
		}
		if (site && may === 0 && !answer.isFirst && allConnectionsOf(site.state, moment().monotonic) > 0) {
			shared.leave(site);
		}
	}

	/** Others have the site, or no node wants it. That is remembered for a while, so that not every mail asks for it. */
	function rest(name: string, holding: Holding): void {
		holding.rests++;
		if (holding.rests === mostRests) {
			holdings.delete(name);
		}
	}

	async function round(): Promise<void> {
		if (term.alone) {
			const began = moment().monotonic;
			isDue = false;
			if (await store.renewAlone()) {
				term.until = began + shareMs - shareMarginMs;
				return;
			}
			leaveAlone();
			isDue = true;
		}
		await exchange();
	}

	async function rounds(): Promise<void> {
		try {
			do {
				await round();
			} while (isAskedAtOnce());
		} catch (error) {
			observer.storeFailed(error);
		} finally {
			underWay = null;
		}
	}

	/** A node that got all it wanted may get more; otherwise others have it until their next exchange. */
	function isUnknown({name}: Site): boolean {
		return holdings.get(name)?.gotAll ?? true;
	}

	function isAskedAtOnce(): boolean {
		return !isOver && !term.alone && !isDue && [...asking].some(isUnknown);
	}

	function start(): Promise<void> {
		// A microtask later: sites of the same turn are asked for together.
		underWay ??= Promise.resolve().then(rounds);
		return underWay;
	}

	return {
		join(sites) {
			shared = sites;
		},

		newShare: () => ({term, slots: 0, perMinute: null}),

		short(site) {
			if (!asking.has(site) && !term.alone) {
				asking.add(site);
				if (!underWay && isAskedAtOnce()) {
					void start();
				}
			}
		},

		changed(site, changes) {
			for (const change of changes) {
				holdings.get(site.name)?.changes.add(change);
			}
		},

		renew() {
			isDue = true;
			return start();
		},

		advance() {
			if (!isOver && term.until <= moment().monotonic) {
				endTerm();
			}
			if (isDue && !underWay && !isOver) {
				void start();
			}
		},

		settled: () => underWay ?? Promise.resolve(),

		get isAlone() {
			return term.alone;
		},
	};
}

/** A site that this node has or wants a part of. */
type Holding = {
	/** Null: the site is forgotten here, but connections may be open. */
	site: Site | null;
	/** What others know of this node's part; null: nothing. */
	row: ShareRow | null;
	wants: Wants;
	/** More could have been used since the last exchange. */
	isShort: boolean;
	/** The last exchange brought all that was wanted. */
	gotAll: boolean;
	/** Exchanges in a row with nothing to say. */
	rests: number;
	/** What all nodes agreed on; undefined: nothing yet. */
	base: SavedSite | null | undefined;
	/** What changed since then. */
	changes: Set<SiteChange>;
};

function newHolding(site: Site | null): Holding {
	return {
		...{site, row: null, wants: {wants: 0, idle: 0}, isShort: false, gotAll: true, rests: 0},
		...{base: undefined, changes: new Set()},
	};
}

/** Connections that this node may be using. */
const inUse = ({site}: Holding): number => site?.state.share?.slots ?? 0;

/** What to say of a site and ask for; `counted`: connections by site, null where they were not counted. */
function askOf(
	name: string,
	holding: Holding,
	counted: ReadonlyMap<string, number> | null,
	now: Moment,
	longestWait: number,
) {
	const {site, base, changes, isShort} = holding;
	const slots = inUse(holding);
	const used = site ? Math.min(site.peak, slots) : 0;
	const all = site ? allConnectionsOf(site.state, now.monotonic) : 0;
	holding.wants = wantedNow(holding.wants, Math.min(all, isShort ? Math.max(1, 2 * slots) : used));
	holding.changes = new Set();
	const mine = site && savedSite(site.state, now);
	if (site) {
		site.peak = site.inFlight;
	}
	const bucket = site?.state.bucket ?? null;
	const isSpent = bucket !== null && !(bucket.isFull(now.monotonic) && (site as Site).inFlight === 0);
	const ask: SiteAsk = {
		site: name,
		provider: site?.provider ?? '',
		// A part that was not used for a while is not asked for.
		wants: slots > 0 || isShort ? holding.wants.wants : 0,
		held: Math.max(slots, counted ? (counted.get(name) ?? 0) : (holding.row?.slots ?? 0)),
		heldPerMinute: isSpent ? bucket.perMinute : 0,
		learnt: site && {mine, base, changes, most: site.state.pace.connections},
		totals: agreed => (site ? totalsOf(site.state, mine, agreed, now, longestWait) : {connections: 0, perMinute: null}),
	};
	return {ask, holding, changes};
}

type Options = Pick<ShareStore, 'countConnections'> & {
	readonly writer: Writer;
	/** A daemon's boot id. */
	readonly node: string;
	/** In the store's form. */
	readonly now: () => string;
};

/** Decides what each node may have while no other node does. */
export function shareStoreOf({writer, node, now, countConnections}: Options): ShareStore {
	return {
		countConnections,
		renewAlone: () => writer.transaction(trx => renewAlone(trx, node, shareMs)),
		async exchange(asks) {
			let answers: readonly SiteAnswer[] = [];
			const news = await writer.transaction(trx => {
				answers = []; // It may be run again.
				return exchangeShares(trx, {
					node,
					shareMs,
					sites: asks.map(({site}) => site),
					decide(sharers, shares, rows) {
						answers = answersTo(asks, sharers, shares, rows);
						return {shares: answers.map(({row}) => row), sites: siteNotes(asks, answers, rows, now())};
					},
				});
			});
			return {...news, answers};
		},
	};
}

/** What to write of what all nodes agreed on. */
function siteNotes(
	asks: readonly SiteAsk[],
	answers: readonly SiteAnswer[],
	rows: ReadonlyMap<string, SavedSite>,
	at: string,
): SiteNote[] {
	return answers.flatMap(({site, agreed}, index) => {
		const {learnt, provider} = asks[index] as SiteAsk;
		const isKnown = learnt === null || isSame(agreed, rows.get(site) ?? null);
		return isKnown ? [] : [{site, provider, saved: agreed, at}];
	});
}
