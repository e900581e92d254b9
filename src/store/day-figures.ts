import type {Knex} from 'knex';
import {idFloor} from '../mail/ids.ts';
import {simulatorDomain} from '../mail/simulator.ts';

/** Conversations with one host, and how many of them ended in a 4xx reply or without one. */
export type HostFigures = {readonly host: string; readonly conversations: number; readonly deferred: number};

/** A day is judged by so many conversations at most, the first ones: reading all of a busy day would take seconds. */
const mostRead = 20_000;
const dayMs = 86_400_000;

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
