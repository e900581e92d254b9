import type {Knex} from 'knex';
import {dayMs} from '../../kit/time.ts';
import {idFloor, idTime} from '../../mail/ids.ts';
import {dequeueDeliveries} from '../../resources/webhooks/queue-store.ts';
import {deleteDeliveries} from '../../resources/webhooks/store.ts';
import {hasDays} from '../engine/dialect.ts';
import {maxIdLagMs} from '../engine/rows.ts';

/*
 * On PostgreSQL, the tables of messages are partitioned by day (UTC) of the id that their rows belong to, so that a
 * whole day can be dropped at once. Rows without a partition of their day, because a clock was far ahead or the day is
 * long past, go to `<table>_other`. Rows stored by an older version are in `<table>_former`. On SQLite all of this does
 * nothing.
 */

/** The partitioned tables (`migrations/029_schema.ts`), each with the id that dates its rows. */
const tables = [
	['messages', 'id', 'msg'],
	['recipients', 'id', 'rcp'],
	['attempts', 'recipient_id', 'rcp'],
	['engagement', 'recipient_id', 'rcp'],
	['events', 'message_id', 'msg'],
	['attachments', 'message_id', 'msg'],
	['message_terms', 'message_id', 'msg'],
	['webhook_deliveries', 'id', 'whd'],
	['webhook_attempts', 'delivery_id', 'whd'],
] as const;

/** How many days after today have partitions: more than can pass between two sweeps. */
const daysAhead = 3;

/** A partition of each table: a half-open range in milliseconds. `name` is the suffix of the tables' names. */
export type Day = {readonly name: string; readonly from: number; readonly to: number};

const startOf = (time: number) => Math.floor(time / dayMs) * dayMs;

async function listDays(database: Knex): Promise<Day[]> {
	const {rows}: {rows: Array<{name: string; bound: string}>} = await database.raw(
		`select substr(c.relname, length('messages_') + 1) as name, pg_get_expr(c.relpartbound, c.oid) as bound
		from pg_inherits as i join pg_class as c on c.oid = i.inhrelid
		where i.inhparent = 'messages'::regclass order by 1`,
	);
	return rows
		.filter(({name}) => name !== 'other')
		.map(({name, bound}) => {
			const [to = '', from] = [...bound.matchAll(/msg_\w{26}/g)].map(([id]) => id).reverse();
			return {name, from: from === undefined ? 0 : idTime(from), to: idTime(to)};
		})
		.sort((a, b) => a.from - b.from);
}

/** Shortens the wait for locks, because other transactions that need the table queue behind this one while it waits. */
export async function limitLockWait(trx: Knex.Transaction): Promise<void> {
	if (hasDays(trx)) {
		await trx.raw(`set local lock_timeout = '100ms'`);
	}
}

/** Creates missing partitions of today and the next days, or of days in the past. */
export async function createDays(
	trx: Knex.Transaction,
	now: number,
	{from = now, to = now + daysAhead * dayMs}: {readonly from?: number; readonly to?: number} = {},
): Promise<void> {
	if (!hasDays(trx)) {
		return;
	}
	const existing = await listDays(trx);
	for (let start = startOf(from); start <= to; start += dayMs) {
		if (!existing.some(day => start < day.to && start + dayMs > day.from)) {
			await createDay(trx, start);
		}
	}
}

async function createDay(trx: Knex.Transaction, start: number): Promise<void> {
	const name = new Date(start).toISOString().slice(0, 10).replaceAll('-', '');
	const bounds = tables.map(([table, key, prefix]) => ({
		table,
		key,
		from: idFloor(prefix, start),
		to: idFloor(prefix, start + dayMs),
	}));
	const occupied = bounds.map(
		({table, key, from, to}) => `exists (select from ${table}_other
		where ${key} >= '${from}' and ${key} < '${to}')`,
	);
	const {rows} = await trx.raw(`select ${occupied.join(' or ')} as occupied`);
	// Rows do not move. If a day already has rows in `<table>_other`, all its rows stay there.
	if (rows[0].occupied || (await hasPartition(trx, 'messages', name))) {
		return;
	}
	for (const {table, from, to} of bounds) {
		// Attached after creation: creating it as a partition would lock out everybody who uses the table. The free
		// space in pages of `recipients` allows the update at the end of an attempt without new index entries.
		const storage = table === 'recipients' ? 'with (fillfactor = 50)' : '';
		await trx.raw(`create table ${table}_${name} (like ${table} including all) ${storage}`);
		await trx.raw(
			`alter table ${table} attach partition ${table}_${name} for values from ('${from}') to ('${to}')`,
		);
	}
}

/** The old data that can be removed: a whole day at once, or single rows. */
type Past = {
	/** The oldest partition of the past without a recipient in the queue; `null` if there is none. */
	readonly day: Day | null;
	/** Without such a partition, rows before this time are removed one by one. A day is only removed as a whole. */
	readonly rowsBefore: number;
};

export async function findPast(database: Knex, before: number): Promise<Past> {
	if (!hasDays(database)) {
		return {day: null, rowsBefore: before};
	}
	const days = await listDays(database);
	const current = days.find(({name, from, to}) => name !== 'former' && from <= before && before < to);
	const rowsBefore = current?.from ?? before;
	for (const day of days.filter(({to}) => to <= before)) {
		const open = await database('queue')
			.where('recipient_id', '>=', idFloor('rcp', day.from))
			.where('recipient_id', '<', idFloor('rcp', day.to + maxIdLagMs))
			.first('recipient_id');
		if (open === undefined) {
			return {day, rowsBefore};
		}
	}
	return {day: null, rowsBefore};
}

/**
 * Removes what other tables and other days hold about the messages of a day: reports, webhook deliveries, and
 * recipients created after midnight of messages accepted before. At most `limit` rows of each; returns `false` if
 * nothing is left.
 */
export async function purgeRelated(trx: Knex.Transaction, {name, from, to}: Day, limit: number): Promise<boolean> {
	const ofDay = (table: string) =>
		trx(table).where('message_id', '>=', idFloor('msg', from)).where('message_id', '<', idFloor('msg', to));
	const reports: string[] = await ofDay('reports').limit(limit).pluck('id');
	await trx('reports').whereIn('id', reports).delete();
	const deliveries = ofDay('webhook_deliveries').limit(limit);
	if (await hasPartition(trx, 'webhook_deliveries', name)) {
		// The others are dropped with the day.
		deliveries.where(other => other.where('id', '<', idFloor('whd', from)).orWhere('id', '>=', idFloor('whd', to)));
	}
	const deliveryIds: string[] = await deliveries.pluck('id');
	await deleteDeliveries(trx, deliveryIds);
	const queued: string[] = await trx('webhook_queue')
		.where('delivery_id', '>=', idFloor('whd', from))
		.where('delivery_id', '<', idFloor('whd', to))
		.limit(limit)
		.pluck('delivery_id');
	await dequeueDeliveries(trx, queued);
	const lateRecipients: string[] = await ofDay('recipients')
		.where('id', '>=', idFloor('rcp', to))
		.where('id', '<', idFloor('rcp', to + maxIdLagMs))
		.limit(limit)
		.pluck('id');
	await trx('recipients').whereIn('id', lateRecipients).delete();
	await trx('attempts').whereIn('recipient_id', lateRecipients).delete();
	await trx('engagement').whereIn('recipient_id', lateRecipients).delete();
	return [reports, deliveryIds, queued, lateRecipients].some(({length}) => length === limit);
}

async function hasPartition(trx: Knex.Transaction, table: string, name: string): Promise<boolean> {
	const {rows} = await trx.raw('select to_regclass(?) is not null as found', [`${table}_${name}`]);
	return rows[0].found;
}

/** Drops a day with all its rows. A table that was partitioned later than others lacks the first days. */
export async function dropDay(trx: Knex.Transaction, {name}: Day): Promise<void> {
	await trx.raw(`drop table if exists ${tables.map(([table]) => `${table}_${name}`).join(', ')}`);
}
