import type {Knex} from 'knex';
import {simulatorDomain} from '../mail/simulator.ts';
import {monthOf, storeTime} from '../mail/time.ts';
import {countMonth, countUsage, giveBack} from '../store/usage.ts';
import type {Accepted, Draft, Send} from './draft.ts';

/** The sends of one workspace in a group. */
type Share = {
	readonly workspaceId: string;
	readonly quota: number | null;
	/** Positions in the group of the sends that count. */
	readonly counted: number[];
	simulated: number;
};

/**
 * Counts the sends that were accepted and refuses those above their workspace's monthly quota, the last ones of the group
 * first: as if they were judged one by one, in order. Answers the positions of the refused besides the results.
 */
export async function countSends(
	trx: Knex.Transaction,
	drafts: readonly Draft[],
	results: readonly Accepted[],
	now: number,
): Promise<{readonly results: readonly Accepted[]; readonly over: ReadonlySet<number>}> {
	const shares = sharesOf(drafts, results);
	const over = new Set<number>();
	if (shares.length === 0) {
		return {results, over};
	}
	const month = monthOf(now);
	const totals = await countMonth(
		trx,
		month.name,
		shares.map(({workspaceId, counted, simulated}) => ({workspaceId, accepted: counted.length, test: simulated})),
	);
	const judged = [...results];
	const excess: Array<{workspaceId: string; n: number}> = [];
	for (const {workspaceId, quota, counted} of shares) {
		const above = quota === null ? 0 : Math.min(counted.length, (totals.get(workspaceId) ?? 0) - quota);
		if (quota !== null && above > 0) {
			excess.push({workspaceId, n: above});
			for (const index of counted.splice(-above)) {
				judged[index] = {ok: false, code: 'quota_exceeded', quota: {limit: quota, endsAt: month.end}};
				over.add(index);
			}
		}
	}
	await giveBack(trx, month.name, excess);
	const at = storeTime(now);
	await countUsage(
		trx,
		shares.flatMap(({workspaceId, counted: {length: n}}) =>
			n > 0 ? [{workspaceId, at, status: 'accepted' as const, n}] : [],
		),
	);
	return {results: judged, over};
}

function sharesOf(drafts: readonly Draft[], results: readonly Accepted[]): Share[] {
	const shares = new Map<string, Share>();
	for (const [index, {send, quota}] of drafts.entries()) {
		const result = results[index] as Accepted;
		if (!result.ok || result.replayed) {
			continue;
		}
		const {workspaceId} = send;
		const share = shares.get(workspaceId) ?? {workspaceId, quota, counted: [], simulated: 0};
		shares.set(workspaceId, share);
		if (isSimulated(send)) {
			share.simulated++;
		} else {
			share.counted.push(index);
		}
	}
	return [...shares.values()];
}

/** Whether nothing of it can leave the machine. */
function isSimulated({mode, to, cc}: Send): boolean {
	return mode === 'test' || [to, ...cc].every(({domain}) => domain === simulatorDomain);
}
