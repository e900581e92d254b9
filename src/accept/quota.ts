import type {Knex} from 'knex';
import {monthOf, storeTime} from '../kit/time.ts';
import {simulatorDomain} from '../mail/simulator.ts';
import {addToMonth, countMonth, countUsage, giveBack, type MonthCount} from '../store/usage.ts';
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
 * Refuses sends above their workspace's monthly quota, the last ones of the group first, as if they were decided one by
 * one, in order. Also returns the positions of the refused. All accepts of a workspace with a quota are serialized from
 * here to their commit; the others are counted by `countSends`.
 */
export async function holdToQuotas(
	trx: Knex.Transaction,
	drafts: readonly Draft[],
	results: readonly Accepted[],
	now: number,
): Promise<{readonly results: readonly Accepted[]; readonly over: ReadonlySet<number>}> {
	const limited = sharesOf(drafts, results).filter(({quota}) => quota !== null);
	const over = new Set<number>();
	if (limited.length === 0) {
		return {results, over};
	}
	const month = monthOf(now);
	const totals = await countMonth(trx, month.name, limited.map(monthCount));
	const judged = [...results];
	const excess: Array<{workspaceId: string; n: number}> = [];
	for (const {workspaceId, quota, counted} of limited) {
		const limit = quota ?? 0;
		const above = Math.min(counted.length, (totals.get(workspaceId) ?? 0) - limit);
		if (above > 0) {
			excess.push({workspaceId, n: above});
			for (const index of counted.slice(-above)) {
				judged[index] = {ok: false, code: 'quota_exceeded', quota: {limit, endsAt: month.end}};
				over.add(index);
			}
		}
	}
	await giveBack(trx, month.name, excess);
	return {results: judged, over};
}

/** Counts what was accepted. Last in its transaction: until the commit no other one counts for the same workspaces. */
export async function countSends(
	trx: Knex.Transaction,
	drafts: readonly Draft[],
	results: readonly Accepted[],
	now: number,
): Promise<void> {
	const shares = sharesOf(drafts, results);
	const unlimited = shares.filter(({quota}) => quota === null);
	await addToMonth(trx, monthOf(now).name, unlimited.map(monthCount));
	const at = storeTime(now);
	await countUsage(
		trx,
		shares.flatMap(({workspaceId, counted: {length: n}}) =>
			n > 0 ? [{workspaceId, at, status: 'accepted' as const, n}] : [],
		),
	);
}

function monthCount({workspaceId, counted, simulated}: Share): MonthCount {
	return {workspaceId, accepted: counted.length, test: simulated};
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
