import {isNothing} from '../mail/share-row.ts';
import type {SiteAnswer, SiteAsk} from '../pace/exchange.ts';
import {adopt} from '../pace/learnt.ts';
import {rateOf, setPart, setRate} from '../pace/rate.ts';
import type {Moment} from '../pace/saved.ts';
import {allConnectionsOf, type SiteChange, type SiteState} from '../pace/site.ts';
import {type SiteShare, shareMarginMs, shareMs, type Term} from '../pace/site-share.ts';
import type {ShareNews} from '../store/queue/sites.ts';
import {askOf, type Holding, inUse, newHolding} from './holding.ts';
import {inFlightOf, type Site} from './site.ts';

/** What a node learns from telling the store what it has and wants. */
export type Exchanged = ShareNews & {readonly answers: readonly SiteAnswer[]};

/** Where nodes share a store. */
export type ShareStore = {
	/** In one transaction, and one node at a time. */
	readonly exchange: (asks: readonly SiteAsk[]) => Promise<Exchanged>;
	/** Goes on having all sites; false: another node is there, or this one was taken for gone. */
	readonly renewAlone: () => Promise<boolean>;
	/** Connections by site, idle ones included: nothing that was allowed before is missing. */
	readonly countConnections: () => Promise<ReadonlyMap<string, number>>;
};

export type SharesOptions = {
	readonly store: ShareStore;
	readonly sites: () => Iterable<Site>;
	/** The site may have more or less from now on; `how` changes its pace. */
	readonly regrade: (site: Site, how: (state: SiteState) => void) => void;
	/** Other nodes have all of the site: its mail is left to them, and comes back if it is not taken. */
	readonly leave: (site: Site) => void;
	readonly moment: () => Moment;
	readonly longestWait: () => number;
	readonly onError: (error: unknown) => void;
};

/** So long, in seconds, it is remembered that others have a site. */
const mostRests = 30;

/**
 * What this node has of each site, where several nodes share a store: told and renewed about once a second, and asked for
 * at once where there is none yet. Nothing is used after its term, by this node's own clock from before it asked.
 */
export function createShares({store, sites, regrade, leave, moment, longestWait, onError}: SharesOptions) {
	const term: Term = {until: Number.NEGATIVE_INFINITY, alone: false};
	const holdings = new Map<string, Holding>();
	const asking = new Set<Site>();
	let isOver = true;
	let underWay: Promise<void> | null = null;
	/** All that is held is to be told, soon. */
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

	/** From now on it has what it is using, no more. */
	function leaveAlone(): void {
		const {monotonic} = moment();
		for (const site of sites()) {
			const {share, bucket} = site.state;
			const isUsed = inFlightOf(site) > 0;
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
		for (const site of sites()) {
			regrade(site, state => setRate(state, rateOf(state), moment().monotonic));
		}
	}

	/** Nothing may be begun: idle sessions end, what waits for one comes back. */
	function endTerm(): void {
		isOver = true;
		if (term.alone) {
			leaveAlone();
		}
		for (const site of sites()) {
			if (site.state.share) {
				site.state.share.slots = 0;
			}
			regrade(site, () => undefined);
		}
	}

	async function exchange(): Promise<void> {
		const tellsAll = isDue;
		const counted = tellsAll ? await store.countConnections() : null;
		isDue = false;
		const now = moment();
		if (!isOver && term.until <= now.monotonic) {
			endTerm();
		}
		const told = new Map<string, Holding>();
		for (const name of tellsAll ? new Set([...holdings.keys(), ...(counted?.keys() ?? [])]) : []) {
			const holding = holdingOf(name, null);
			if (holding.row === null && !holding.isShort && !counted?.has(name) && inUse(holding) === 0) {
				rest(name, holding);
			} else {
				told.set(name, holding);
			}
		}
		for (const site of asking) {
			if (tellsAll || isUnknown(site)) {
				const holding = holdingOf(site.name, site);
				holding.isShort = true;
				told.set(site.name, holding);
				asking.delete(site);
			}
		}
		const asked = Array.from(told, ([name, holding]) => askOf(name, holding, counted, now, longestWait()));
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
				regrade(site, state => {
					share.slots = may;
					setPart(state, perMinute, answer.isFirst, moment().monotonic);
					adopt(state, learnt?.mine ?? null, agreed, holding.changes, moment(), longestWait());
				});
			}
		}
		if (site && may === 0 && !answer.isFirst && allConnectionsOf(site.state, moment().monotonic) > 0) {
			leave(site);
		}
	}

	/** Others have it, or nobody wants it: that is remembered for a while, so that it is not asked for with each mail. */
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
			onError(error);
		} finally {
			underWay = null;
		}
	}

	/** Where all was given that was wanted there may be more; else others have it until they tell. */
	function isUnknown({name}: Site): boolean {
		return holdings.get(name)?.gotAll ?? true;
	}

	function isAskedAtOnce(): boolean {
		return !isOver && !term.alone && !isDue && [...asking].some(isUnknown);
	}

	function start(): Promise<void> {
		// A microtask later: what the same turn asks for is asked for together.
		underWay ??= Promise.resolve().then(rounds);
		return underWay;
	}

	return {
		/** For a site that is new here. */
		newShare: (): SiteShare => ({term, slots: 0, perMinute: null}),

		/** The site could use more than this node has of it. */
		short(site: Site): void {
			if (!asking.has(site) && !term.alone) {
				asking.add(site);
				if (!underWay && isAskedAtOnce()) {
					void start();
				}
			}
		},

		/** Something was learnt of the site by a try. */
		changed(site: Site, changes: readonly SiteChange[]): void {
			for (const change of changes) {
				holdings.get(site.name)?.changes.add(change);
			}
		},

		/** To be called once a second, and awaited before anything is claimed. */
		renew(): Promise<void> {
			isDue = true;
			return start();
		},

		/** To be called ten times a second. */
		advance(): void {
			if (!isOver && term.until <= moment().monotonic) {
				endTerm();
			}
			if (isDue && !underWay && !isOver) {
				void start();
			}
		},

		/** Resolves when nothing is being told. */
		settled: (): Promise<void> => underWay ?? Promise.resolve(),

		/** Whether the paces of sites are this node's alone. */
		get isAlone(): boolean {
			return term.alone;
		},
	};
}
