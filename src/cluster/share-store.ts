import type {SavedSite} from '../mail/saved-site.ts';
import type {Writer} from '../store/engine/writer.ts';
import type {SiteNote} from '../store/queue/sites.ts';
import {exchangeShares, renewAlone} from '../store/queue/sites.ts';
import {answersTo, type SiteAnswer, type SiteAsk, shareMs} from './exchange.ts';
import {isSame} from './learnt.ts';
import type {ShareStore} from './node-shares.ts';

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
