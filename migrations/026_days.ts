import type {Knex} from 'knex';
import {idFloor, idTime} from '../src/mail/ids.ts';

/** The tables whose rows go with a message, each with the id that tells its day. */
const tables = [
	['messages', 'id', 'msg'],
	['recipients', 'id', 'rcp'],
	['attempts', 'recipient_id', 'rcp'],
	['engagement', 'recipient_id', 'rcp'],
	['events', 'message_id', 'msg'],
	['attachments', 'message_id', 'msg'],
	['message_terms', 'message_id', 'msg'],
] as const;

const dayMs = 86_400_000;

/**
 * On PostgreSQL mail is kept by the day in which it was accepted (`src/store/days.ts`). Nothing is copied: what is there becomes
 * the part of all days until tomorrow, and is read once to prove it. SQLite keeps its tables.
 */
export async function up(knex: Knex, tell: (line: string) => void = () => undefined): Promise<void> {
	// A claim finds out from the queue alone which try it is for: the days of the copies are not known before.
	await knex.raw('alter table queue add column attempts integer not null default 0');
	await knex.raw(`update queue set attempts = (select r.attempts from recipients as r where r.id = queue.recipient_id)
		where exists (select 1 from recipients as r where r.id = queue.recipient_id and r.attempts > 0)`);
	if (knex.client.driverName === 'pg') {
		await divide(knex, tell);
	}
}

async function divide(knex: Knex, tell: (line: string) => void): Promise<void> {
	const names = tables.map(([table]) => table);
	const references: Row[] = await select(
		knex,
		`select conrelid::regclass as table, conname as name from pg_constraint
		where contype = 'f' and confrelid in ('messages'::regclass, 'recipients'::regclass)`,
	);
	for (const {table, name} of references) {
		// Checked for each row, and in the way of whoever drops a day.
		await knex.raw('alter table ?? drop constraint ??', [table, name]);
	}
	const bound = await readBound(knex);
	const sizes = await readSizes(knex);
	const total = [...sizes.values()].reduce((sum, bytes) => sum + bytes, 0);
	if (bound !== null) {
		const seconds = Math.ceil(total / megabyte / megabytesPerS);
		tell(
			`Mail is divided by day: ${megabytesOf(total)} are read once, about ${seconds} s where ${megabytesPerS} MB can be read in a second.`,
		);
	}
	const indexes: Row[] = await select(
		knex,
		`select c.relname as table, i.relname as name, pg_get_indexdef(i.oid) as definition,
			pg_get_constraintdef(p.oid) as key
		from pg_index as x join pg_class as i on i.oid = x.indexrelid join pg_class as c on c.oid = x.indrelid
		left join pg_constraint as p on p.conindid = i.oid
		where c.oid = any (cast(? as regclass[])) order by i.relname`,
		[`{${names.join()}}`],
	);
	for (const [table, key, prefix] of tables) {
		const [former, other] = [`${table}_former`, `${table}_other`];
		const own = indexes.filter(index => index.table === table);
		await knex.raw('alter table ?? rename to ??', [table, former]);
		for (const {name} of own) {
			await knex.raw('alter index ?? rename to ??', [name, name.replace(table, former)]);
		}
		await knex.raw(`create table ?? (like ?? including defaults including storage) partition by range (${key})`, [
			table,
			former,
		]);
		for (const {name, key: primary, definition} of own) {
			await knex.raw(primary ? `alter table ${table} add constraint ${name} ${primary}` : String(definition));
		}
		await knex.raw('create table ?? partition of ?? default', [other, table]);
		if (bound === null) {
			await knex.raw('drop table ??', [former]);
		} else {
			const bytes = sizes.get(table) ?? 0;
			if (bytes > 100 * megabyte) {
				tell(`Reading ${table}, ${megabytesOf(bytes)}.`);
			}
			const bounds = `for values from (minvalue) to ('${idFloor(prefix, bound)}')`;
			await knex.raw(`alter table ?? attach partition ?? ${bounds}`, [table, former]);
		}
	}
}

const megabyte = 1_000_000;
const megabytesPerS = 200;
const megabytesOf = (bytes: number) => `${Math.round(bytes / megabyte)} MB`;

/** Octets of the tables' rows. */
async function readSizes(knex: Knex): Promise<ReadonlyMap<string, number>> {
	const rows = await select<{table: string; bytes: string}>(
		knex,
		`select relname as table, pg_relation_size(oid) as bytes from pg_class where oid = any (cast(? as regclass[]))`,
		[`{${tables.map(([table]) => table).join()}}`],
	);
	return new Map(rows.map(({table, bytes}) => [table, Number(bytes)]));
}

type Row = {readonly table: string; readonly name: string; readonly definition?: string; readonly key?: string | null};

async function select<Found>(knex: Knex, sql: string, bindings: Knex.RawBinding[] = []): Promise<Found[]> {
	return (await knex.raw(sql, bindings)).rows;
}

/** The first midnight, milliseconds, from which on a day has a part of its own; null: there is nothing yet. */
async function readBound(knex: Knex): Promise<number | null> {
	const [row] = await select<{now: string; messages: string | null; recipients: string | null}>(
		knex,
		`select extract(epoch from now()) * 1000 as now, (select max(id) from messages) as messages,
			(select max(id) from recipients) as recipients`,
	);
	if (!row?.messages) {
		return null;
	}
	// A clock may have been ahead.
	const last = Math.max(Number(row.now), ...[row.messages, row.recipients ?? row.messages].map(idTime));
	return (Math.floor(last / dayMs) + 2) * dayMs;
}
