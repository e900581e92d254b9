import {answersTo, shareMs} from '../../src/cluster/exchange.ts';
import type {createNodeShares} from '../../src/cluster/node-shares.ts';
import type {SavedSite} from '../../src/mail/saved-site.ts';
import {isNothing, type ShareRow} from '../../src/mail/saved-site.ts';
import type {Time} from './time.ts';

type ShareStore = Parameters<typeof createNodeShares>[0]['store'];
type Exchanged = Awaited<ReturnType<ShareStore['exchange']>>;

/** To the server and back, and how long an exchange holds the lock, milliseconds. */
const tripMs = 1;
const lockMs = 3;

/** What the tables `leases`, `lease_terms` and `sites` hold, with the transactions of src/store/queue/sites.ts. */
export function createShareTables(time: Time) {
	const terms = new Map<string, {until: number; alone: boolean}>();
	const shares = new Map<string, Map<string, ShareRow>>();
	const sites = new Map<string, SavedSite>();
	let freeAt = 0;
	const told = {exchanges: 0, lockedMs: 0, longestMs: 0, rows: 0};

	function removeRows(node: string): void {
		for (const rows of shares.values()) {
			rows.delete(node);
		}
	}

	function exchange(node: string, asks: Parameters<ShareStore['exchange']>[0]): Exchanged {
		const now = time.now();
		for (const [other, {until}] of terms) {
			if (other !== node && until <= now) {
				terms.delete(other);
				removeRows(other);
			}
		}
		const mine = terms.get(node);
		const wasLost = mine === undefined || mine.until <= now;
		const others = [...terms].filter(([other]) => other !== node);
		const isAlone = others.length === 0;
		const isBlocked = others.some(([, {alone}]) => alone);
		if (wasLost || isAlone) {
			removeRows(node);
		}
		terms.set(node, {until: now + shareMs, alone: isAlone});
		if (isAlone) {
			return {isAlone, isBlocked, wasLost, answers: []};
		}
		const known = asks.flatMap(({site}) => [...(shares.get(site)?.values() ?? [])]);
		const answers = answersTo(asks, {node, nodes: others.length + 1, isBlocked}, known, sites);
		for (const [index, {site, row, agreed}] of answers.entries()) {
			const rows = shares.get(site) ?? new Map<string, ShareRow>();
			const before = rows.get(node);
			const isKnown = before?.slots === row.slots && before.wants === row.wants && before.perMinute === row.perMinute;
			told.rows += isKnown || (!before && isNothing(row)) ? 0 : 1;
			if (isNothing(row)) {
				rows.delete(node);
			} else {
				rows.set(node, row);
			}
			shares.set(site, rows);
			if (asks[index]?.learnt && agreed) {
				sites.set(site, agreed);
			} else if (asks[index]?.learnt) {
				sites.delete(site);
			}
		}
		return {isAlone, isBlocked, wasLost, answers};
	}

	return {
		/** The store as a node sees it; `answers`: whether the node reaches it. */
		storeOf: (
			node: string,
			countConnections: () => ReadonlyMap<string, number>,
			answers: () => boolean,
		): ShareStore => ({
			countConnections: async () => countConnections(),
			renewAlone: () => later(1, answers, () => renewAlone(node)),
			exchange: asks => later(lockMs, answers, () => exchange(node, asks)),
		}),
		remove(node: string): void {
			terms.delete(node);
			removeRows(node);
		},
		told,
	};

	function renewAlone(node: string): boolean {
		const mine = terms.get(node);
		if (!mine?.alone || mine.until <= time.now()) {
			return false;
		}
		mine.until = time.now() + shareMs;
		return terms.size === 1;
	}

	/** One after the other, as the lock has it. */
	function later<Result>(heldMs: number, answers: () => boolean, work: () => Result): Promise<Result> {
		return new Promise((resolve, reject) => {
			if (!answers()) {
				time.after(tripMs, () => {
					time.settle();
					reject(new Error('the store is away'));
				});
				return;
			}
			const asked = time.now();
			const begins = Math.max(asked + tripMs, freeAt);
			freeAt = begins + heldMs;
			told.exchanges++;
			told.lockedMs += heldMs;
			told.longestMs = Math.max(told.longestMs, freeAt + tripMs - asked);
			time.after(begins - asked, () => {
				const result = work();
				time.after(heldMs + tripMs, () => {
					time.settle();
					resolve(result);
				});
			});
		});
	}
}

export type ShareTables = ReturnType<typeof createShareTables>;
