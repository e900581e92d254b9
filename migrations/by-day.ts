import type {Knex} from 'knex';
import {type IdPrefix, idFloor} from '../src/mail/ids.ts';

/** A table with the id that tells the day of its rows. */
export type DividedTable = readonly [table: string, key: string, prefix: IdPrefix];

/** The part for all before a moment, milliseconds. `name` ends theirs. */
export type FirstPart = {readonly name: string; readonly until: number};

const megabyte = 1_000_000;
const megabytesPerS = 200;
const megabytesOf = (bytes: number) => `${Math.round(bytes / megabyte)} MB`;

/**
 * Divides tables of PostgreSQL by day (`src/store/days.ts`). Nothing is copied: what is there becomes the first part, and is
 * read once to prove it. Null: there is nothing.
 */
export async function divide(
	knex: Knex,
	{
		what,
		tables,
		first,
	}: {readonly what: string; readonly tables: readonly DividedTable[]; readonly first: FirstPart | null},
	tell: (line: string) => void,
): Promise<void> {
	const names = tables.map(([table]) => table);
	const sizes = await readSizes(knex, names);
	if (first !== null) {
		tellReading(`${what} by day`, sizes, tell);
	}
	const indexes = await select<{table: string; name: string; definition: string; key: string | null}>(
		knex,
		`select c.relname as table, i.relname as name, pg_get_indexdef(i.oid) as definition,
			pg_get_constraintdef(p.oid) as key
		from pg_index as x join pg_class as i on i.oid = x.indexrelid join pg_class as c on c.oid = x.indrelid
		left join pg_constraint as p on p.conindid = i.oid
		where c.oid = any (cast(? as regclass[])) order by i.relname`,
		[`{${names.join()}}`],
	);
	for (const [table, key, prefix] of tables) {
		const [part, other] = [`${table}_${first?.name ?? 'former'}`, `${table}_other`];
		const own = indexes.filter(index => index.table === table);
		await knex.raw('alter table ?? rename to ??', [table, part]);
		for (const {name} of own) {
			await knex.raw('alter index ?? rename to ??', [name, name.replace(table, part)]);
		}
		await knex.raw(`create table ?? (like ?? including defaults including storage) partition by range (${key})`, [
			table,
			part,
		]);
		for (const {name, key: primary, definition} of own) {
			await knex.raw(primary ? `alter table ${table} add constraint ${name} ${primary}` : definition);
		}
		await knex.raw('create table ?? partition of ?? default', [other, table]);
		if (first === null) {
			await knex.raw('drop table ??', [part]);
		} else {
			const bytes = sizes.get(table) ?? 0;
			if (bytes > 100 * megabyte) {
				tell(`Reading ${table}, ${megabytesOf(bytes)}.`);
			}
			const bounds = `for values from (minvalue) to ('${idFloor(prefix, first.until)}')`;
			await knex.raw(`alter table ?? attach partition ?? ${bounds}`, [table, part]);
		}
	}
}

/** Says before tables are read how long that takes; nothing where they are empty. */
export function tellReading(what: string, sizes: ReadonlyMap<string, number>, tell: (line: string) => void): void {
	const total = [...sizes.values()].reduce((sum, bytes) => sum + bytes, 0);
	if (total > 0) {
		const seconds = Math.ceil(total / megabyte / megabytesPerS);
		tell(
			`${what}: ${megabytesOf(total)} are read once, about ${seconds} s where ${megabytesPerS} MB can be read in a second.`,
		);
	}
}

/** Octets of the rows of tables and their parts. */
export async function readSizes(knex: Knex, tables: readonly string[]): Promise<ReadonlyMap<string, number>> {
	const rows = await select<{table: string; bytes: string}>(
		knex,
		`select c.relname as table, pg_relation_size(c.oid)
			+ coalesce((select sum(pg_relation_size(p.relid)) from pg_partition_tree(c.oid) as p where p.isleaf), 0) as bytes
		from pg_class as c where c.oid = any (cast(? as regclass[]))`,
		[`{${tables.join()}}`],
	);
	return new Map(rows.map(({table, bytes}) => [table, Number(bytes)]));
}

export async function select<Found>(knex: Knex, sql: string, bindings: Knex.RawBinding[] = []): Promise<Found[]> {
	return (await knex.raw(sql, bindings)).rows;
}
