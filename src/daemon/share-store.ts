import type {SavedSite} from '../mail/saved-site.ts';
import {answersTo, type SiteAnswer, type SiteAsk} from '../pace/exchange.ts';
import {isSame} from '../pace/learnt.ts';
import {shareMs} from '../pace/site-share.ts';
import type {ShareStore} from '../queue/node-shares.ts';
import type {Writer} from '../store/engine/writer.ts';
import {exchangeShares, renewAlone, type SiteNote} from '../store/queue/sites.ts';

type Options = Pick<ShareStore, 'countConnections'> & {
	readonly writer: Writer;
	/** A daemon's boot id. */
	readonly node: string;
	/** In the store's form. */
	readonly now: () => string;
};

/** Where nodes share the store: what each may have is decided while no other one does. */
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

/** What is to be written of what all agreed on. */
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
