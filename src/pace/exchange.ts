import type {SavedSite} from '../mail/saved-site.ts';
import type {ShareRow, Sharers} from '../mail/share-row.ts';
import {type Part, shareNow} from './fair-shares.ts';
import {joined, type Learnt} from './learnt.ts';

/** What all nodes together may have of a site. */
export type Totals = {readonly connections: number; readonly perMinute: number | null};

/** What a node tells of a site, and would have of it. */
export type SiteAsk = {
	readonly site: string;
	readonly provider: string;
	readonly wants: number;
	/** Connections that it may be holding now. */
	readonly held: number;
	/** Mails per minute by which it sent within the last one. */
	readonly heldPerMinute: number;
	/** Null: nothing is known of the site here but its connections. */
	readonly learnt: Learnt | null;
	/** By what all agreed on. */
	readonly totals: (agreed: SavedSite | null) => Totals;
};

export type SiteAnswer = {
	readonly site: string;
	/** What is to be remembered of it. */
	readonly agreed: SavedSite | null;
	/** Connections that the node may have from now on. */
	readonly may: number;
	readonly perMinute: number | null;
	/** No other node has anything of it. */
	readonly isFirst: boolean;
	/** What is known of the node from now on. */
	readonly row: ShareRow;
};

/** What a node gets of the sites it asks for. `leases`: what nodes that live have of them. `rows`: what is remembered of them. */
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

/** What a node gets of a site. `others`: what other nodes that live have of it. `row`: what is remembered of it. */
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
	// Who has no connection needs no part of the rate.
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
			node, // Who lost the lots need not be known: the others take the mail.
			wants: shared.fair > 0 ? mine.wants : 0,
			slots: shared.held,
			perMinute: total === null ? null : rated.held,
		},
	};
}
