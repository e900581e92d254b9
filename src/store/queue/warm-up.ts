import type {Knex} from 'knex';

/** A day of a source that is new, and the group of sites that it sends to. */
export type WarmUpDay = {
	readonly source: string;
	readonly group: string;
	/** UTC, YYYY-MM-DD. */
	readonly day: string;
};

/** Copies that the source sent to the group that day. */
export async function readWarmUp(reader: Knex, {source, group, day}: WarmUpDay): Promise<number> {
	const row: {n: number} | undefined = await reader('warmup_days').where({source, provider: group, day}).first('n');
	return row?.n ?? 0;
}

/** Counts copies; answers how many there are then. */
export async function addWarmUp(
	trx: Knex.Transaction,
	{source, group, day}: WarmUpDay,
	copies: number,
): Promise<number> {
	const [row]: Array<{n: number}> = await trx('warmup_days')
		.insert({source, provider: group, day, n: copies})
		.onConflict(['source', 'provider', 'day'])
		.merge({n: trx.raw('warmup_days.n + ?', [copies])})
		.returning('n');
	return row?.n ?? copies;
}

/** Removes the counts of days before this one, at most so many; answers how many. */
export async function purgeWarmUp(trx: Knex.Transaction, day: string, limit: number): Promise<number> {
	const columns = ['source', 'provider', 'day'];
	const old = trx('warmup_days').where('day', '<', day).limit(limit).select(columns);
	return await trx('warmup_days').whereIn(columns, old).delete();
}
