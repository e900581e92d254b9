import type {Knex} from 'knex';
import {dayMs} from '../../kit/time.ts';
import {idFloor} from '../../mail/ids.ts';
import {simulatorDomain} from '../../mail/simulator.ts';

/** A day of a source that is new, and the group of sites that it sends to. */
export type WarmUpDay = {
	readonly source: string;
	readonly group: string;
	/** UTC, YYYY-MM-DD. */
	readonly day: string;
};

/** Copies that new sources were counted for on a day. */
export type WarmUpCount = {readonly source: string; readonly provider: string; readonly n: number};

export async function readWarmUps(reader: Knex, day: string): Promise<WarmUpCount[]> {
	return await reader('warmup_days').where({day}).orderBy(['source', 'provider']).select('source', 'provider', 'n');
}

/** Counts copies; answers how many there are then. Nobody else counts any until the transaction ends. */
export async function addWarmUp(
	trx: Knex.Transaction,
	{source, group, day}: WarmUpDay,
	recipients: number,
): Promise<number> {
	const [row]: Array<{n: number}> = await trx('warmup_days')
		.insert({source, provider: group, day, n: recipients})
		.onConflict(['source', 'provider', 'day'])
		.merge({n: trx.raw('warmup_days.n + ?', [recipients])})
		.returning('n');
	return row?.n ?? recipients;
}

/** Removes the counts of days before this one, at most this many; answers how many. */
export async function purgeWarmUp(trx: Knex.Transaction, day: string, limit: number): Promise<number> {
	const columns = ['source', 'provider', 'day'];
	const old = trx('warmup_days').where('day', '<', day).limit(limit).select(columns);
	return await trx('warmup_days').whereIn(columns, old).delete();
}

/** Conversations with one host, and how many of them ended in a 4xx reply or without one. */
export type HostFigures = {readonly host: string; readonly conversations: number; readonly deferred: number};

/** A day is judged by so many conversations at most, the first ones: reading all of a busy day would take seconds. */
const mostRead = 20_000;

/** The conversations of a UTC day (`2026-11-05`) about copies that were accepted on it, by host. */
export async function readHostFigures(reader: Knex, day: string): Promise<HostFigures[]> {
	const start = Date.parse(day);
	const first = reader('attempts')
		.select('host', 'code')
		.where('recipient_id', '>=', idFloor('rcp', start))
		.where('recipient_id', '<', idFloor('rcp', start + dayMs))
		.whereNotNull('host')
		.whereNot('host', simulatorDomain)
		.orderBy(['recipient_id', 'n', 'position'])
		.limit(mostRead)
		.as('first');
	const rows: Array<{host: string; n: number | string; deferred: number | string}> = await reader
		.from(first)
		.select('host')
		.count({n: '*'})
		.sum({deferred: reader.raw('case when code is null or code between 400 and 499 then 1 else 0 end')})
		.groupBy('host');
	return rows.map(({host, n, deferred}) => ({host, conversations: Number(n), deferred: Number(deferred)}));
}

/** Mails delivered and complained of on a UTC day, all workspaces together. */
export async function readComplaintFigures(
	reader: Knex,
	day: string,
): Promise<{readonly delivered: number; readonly complained: number}> {
	const rows: Array<{status: string; n: number | string}> = await reader('usage_days')
		.select('status')
		.sum({n: 'n'})
		.where({day})
		.whereIn('status', ['delivered', 'complained'])
		.groupBy('status');
	const of = (status: string) => Number(rows.find(row => row.status === status)?.n ?? 0);
	return {delivered: of('delivered'), complained: of('complained')};
}
