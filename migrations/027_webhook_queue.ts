import type {Knex} from 'knex';
import {idFloor, idTime} from '../src/mail/ids.ts';
import {type DividedTable, divide, type FirstPart, select} from './by-day.ts';
import {clusteredTable, columnsFor, partialIndex} from './columns.ts';

const tables = [
	['webhook_deliveries', 'id', 'whd'],
	['webhook_attempts', 'delivery_id', 'whd'],
] as const satisfies readonly DividedTable[];

/** Deliveries that are to be posted, in a narrow table; then deliveries can lie by day, as mail does (`026_days.ts`). */
export async function up(knex: Knex, tell: (line: string) => void = () => undefined): Promise<void> {
	const {text, integer} = columnsFor(knex);
	await clusteredTable(knex, 'webhook_queue', ['delivery_id'], table => {
		text(table, 'delivery_id').notNullable();
		text(table, 'endpoint_id').notNullable().references('webhook_endpoints.id').onDelete('CASCADE');
		text(table, 'next_attempt_at').notNullable();
		/** Which replay of the delivery it is for. */
		integer(table, 'generation').notNullable();
		/** A daemon's boot id. */
		text(table, 'claimed_by');
	});
	await knex.raw(`insert into webhook_queue (delivery_id, endpoint_id, next_attempt_at, generation, claimed_by)
		select id, endpoint_id, next_attempt_at, generation, claimed_by
		from webhook_deliveries where next_attempt_at is not null order by id`);
	const due = 'endpoint_id, next_attempt_at, delivery_id';
	await partialIndex(knex, 'webhook_queue_due', 'webhook_queue', due, 'claimed_by is null');
	await partialIndex(knex, 'webhook_queue_claimed', 'webhook_queue', 'claimed_by', 'claimed_by is not null');
	for (const name of ['webhook_deliveries_due', 'webhook_deliveries_claimed']) {
		await knex.raw(`drop index ${name}`);
	}
	for (const name of ['next_attempt_at', 'claimed_by']) {
		await knex.raw(`alter table webhook_deliveries drop column ${name}`);
	}
	if (knex.client.driverName === 'pg') {
		await knex.raw(`alter table webhook_queue set
			(autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 500, autovacuum_vacuum_cost_delay = 0)`);
		for (const [table, name] of [
			['webhook_attempts', 'webhook_attempts_delivery_id_foreign'],
			['webhook_deliveries', 'webhook_deliveries_endpoint_id_foreign'],
		] as const) {
			await knex.raw('alter table ?? drop constraint ??', [table, name]);
		}
		const first = await readFirstPart(knex);
		// What a clock that was ahead made, or all where mail has no days yet, goes to the rows without a day.
		for (const [table, key, prefix] of tables) {
			const later = idFloor(prefix, first?.until ?? 0);
			await knex.raw(
				`create temporary table later_${table} on commit drop as select * from ${table} where ${key} >= ?`,
				[later],
			);
			await knex(table).where(key, '>=', later).delete();
		}
		await divide(knex, {what: 'Webhook deliveries', tables, first}, tell);
		for (const [table] of tables) {
			await knex.raw(`insert into ${table} select * from later_${table}`);
		}
	}
}

/** Until where mail has its days already: the part is of the last of them, and goes with it. Null: there are none. */
async function readFirstPart(knex: Knex): Promise<FirstPart | null> {
	const parts = await select<{name: string; bound: string}>(
		knex,
		`select substr(c.relname, length('messages_') + 1) as name, pg_get_expr(c.relpartbound, c.oid) as bound
		from pg_inherits as i join pg_class as c on c.oid = i.inhrelid where i.inhparent = 'messages'::regclass`,
	);
	const ends = parts.flatMap(({name, bound}) => {
		const id = bound.match(/msg_\w{26}/g)?.at(-1);
		return id === undefined ? [] : [{name, until: idTime(id)}];
	});
	return ends.sort((a, b) => a.until - b.until).at(-1) ?? null;
}
