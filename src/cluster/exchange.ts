import {lot} from '../kit/collections.ts';
import type {SavedSite, ShareRow, Sharers} from '../mail/saved-site.ts';
import {joined, type Learnt} from './learnt.ts';

/** How long a node may use its part without asking again, by the server's clock, milliseconds. */
export const shareMs = 6000;
/** By its own clock it ends earlier, milliseconds: in that time its idle sessions end. */
export const shareMarginMs = 500;

/** What all nodes together may have of a site. */
type Totals = {readonly connections: number; readonly perMinute: number | null};

/** What a node says of a site, and wants of it. */
export type SiteAsk = {
	readonly site: string;
	readonly provider: string;
	readonly wants: number;
	/** Connections that it may be holding now. */
	readonly held: number;
	/** Mails per minute of its part within the last minute. */
	readonly heldPerMinute: number;
	/** Null: only connections of the site are known here. */
	readonly learnt: Learnt | null;
	/** By what all nodes agreed on. */
	readonly totals: (agreed: SavedSite | null) => Totals;
};

export type SiteAnswer = {
	readonly site: string;
	/** What to remember of the site. */
	readonly agreed: SavedSite | null;
	/** Connections that the node may have from now on. */
	readonly may: number;
	readonly perMinute: number | null;
	/** No other node has a part of it. */
	readonly isFirst: boolean;
	/** What others know of the node from now on. */
	readonly row: ShareRow;
};

/** What a node gets of the sites it asks for. `shares`: what live nodes have of them. `rows`: what is remembered of them. */
export function answersTo(
	asks: readonly SiteAsk[],
	sharers: Sharers,
	shares: readonly ShareRow[],
	rows: ReadonlyMap<string, SavedSite>,
): SiteAnswer[] {
	const others = new Map<string, ShareRow[]>();
	for (const share of shares) {
		if (share.node !== sharers.node) {
			others.set(share.site, [...(others.get(share.site) ?? []), share]);
		}
	}
	return asks.map(ask => answerTo(ask, sharers, others.get(ask.site) ?? [], rows.get(ask.site) ?? null));
}

function answerTo(
	ask: SiteAsk,
	{node, nodes, isBlocked}: Sharers,
	others: readonly ShareRow[],
	row: SavedSite | null,
): SiteAnswer {
	const {site, wants, held, heldPerMinute, learnt} = ask;
	const isFirst = others.every(({slots, perMinute}) => slots === 0 && (perMinute ?? 0) === 0);
	const agreed = learnt === null ? row : joined(learnt, row, isFirst);
	const totals = learnt === null ? {connections: 0, perMinute: null} : ask.totals(agreed);
	const nothing = {may: 0, held, fair: 0};
	const mine = {node, wants: Math.min(wants, totals.connections), slots: held};
	const shared = isBlocked ? nothing : shareNow({of: site, total: totals.connections, nodes, mine, others});
	const total = totals.perMinute;
	// A node without a connection needs no part of the rate.
	const part = (name: string, slots: number, perMinute: number): Part => ({
		node: name,
		wants: slots > 0 ? (total ?? 0) : 0,
		slots: perMinute,
	});
	const rated =
		total === null || isBlocked
			? {may: 0, held: heldPerMinute}
			: shareNow({
					of: site,
					total,
					nodes: 1 + others.length,
					mine: part(node, shared.may, heldPerMinute),
					others: others.map(other => part(other.node, other.slots, other.perMinute ?? total)),
				});
	return {
		site,
		agreed,
		may: shared.may,
		perMinute: total === null ? null : rated.may,
		isFirst,
		row: {
			site,
			node, // A node that lost the lots need not be known: the others take the mail.
			wants: shared.fair > 0 ? mine.wants : 0,
			slots: shared.held,
			perMinute: total === null ? null : rated.held,
		},
	};
}

/** A node's part of something that several nodes share, and how much it could use. */
type Part = {readonly node: string; readonly wants: number; readonly slots: number};

/**
 * Divides a total max-min fairly: no node gets more than it wants, and of a scarce total all get the same. Nodes draw lots for
 * the indivisible rest (`of`: of what), always with the same result, so that each wins somewhere.
 */
export function fairShares(of: string, total: number, parts: readonly Part[]): ReadonlyMap<string, number> {
	const shares = new Map<string, number>();
	const inOrder = [...parts].sort((a, b) => a.wants - b.wants);
	let left = Math.max(0, total);
	let level = 0;
	for (const [index, {node, wants}] of inOrder.entries()) {
		level = Math.floor(left / (inOrder.length - index));
		if (wants > level) {
			const unsatisfied = inOrder.slice(index).sort((a, b) => lot(of, b.node) - lot(of, a.node));
			for (const [rank, one] of unsatisfied.entries()) {
				shares.set(one.node, level + (rank < left - level * unsatisfied.length ? 1 : 0));
			}
			return shares;
		}
		shares.set(node, wants);
		left -= wants;
	}
	return shares;
}

type Division = {
	readonly of: string;
	/** What all nodes together may have now. */
	readonly total: number;
	/** Live nodes, this one included: a part of the surplus is kept for those that want nothing yet. */
	readonly nodes: number;
	/** `slots`: what it may be using until it says that it uses less. */
	readonly mine: Part;
	/** The others that have or want a part. */
	readonly others: readonly Part[];
};

/**
 * What a node `may` use now, what is `fair`, and what it is `held` to have: others get that only once this node no longer uses
 * it. A node with more than its share returns it as its sessions end, and one with less gets what is free.
 */
export function shareNow({of, total, nodes, mine, others}: Division): {
	readonly may: number;
	readonly held: number;
	readonly fair: number;
} {
	const shares = fairShares(of, total, [mine, ...others]);
	let surplus = Math.max(0, total);
	for (const share of shares.values()) {
		surplus -= share;
	}
	const fair = shares.get(mine.node) as number;
	const target = fair + Math.floor(surplus / nodes);
	const free = others.reduce((left, {slots}) => left - slots, total);
	const may = Math.max(0, Math.min(target, free));
	return {may, held: Math.max(may, mine.slots), fair};
}

/** What a node wants, and how often in a row it needed less than half of that. */
export type Wants = {readonly wants: number; readonly idle: number};

/** Exchanges with lower needs before less is wanted: a value that changes all the time would be written all the time. */
const patience = 5;

/** More is wanted at once, in powers of two; less after a while. */
export function wantedNow({wants, idle}: Wants, needs: number): Wants {
	if (needs > wants) {
		return {wants: 2 ** Math.ceil(Math.log2(needs)), idle: 0};
	}
	if (2 * needs >= wants && needs > 0) {
		return {wants, idle: 0};
	}
	return idle + 1 < patience ? {wants, idle: idle + 1} : {wants: Math.floor(wants / 2), idle: 0};
}
