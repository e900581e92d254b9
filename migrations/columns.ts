import type {Knex} from 'knex';

/**
 * The column types of the schema, chosen so that both drivers hand back the same JavaScript value and both engines sort
 * alike: ids, times (fixed-width UTC text) and JSON are text in byte order, flags are `*_at` times.
 */
export type Columns = {
	text: (table: Knex.CreateTableBuilder, name: string) => Knex.ColumnBuilder;
	integer: (table: Knex.CreateTableBuilder, name: string) => Knex.ColumnBuilder;
	bytes: (table: Knex.CreateTableBuilder, name: string) => Knex.ColumnBuilder;
};

export function columnsFor(knex: Knex): Columns {
	const postgres = knex.client.driverName === 'pg';
	return {
		text: (table, name) => table.specificType(name, postgres ? 'text collate "C"' : 'text'),
		integer: (table, name) => table.specificType(name, 'integer'),
		bytes: (table, name) => table.specificType(name, postgres ? 'bytea' : 'blob'),
	};
}

/** `where` clauses of partial indexes are the same text on both engines. */
export async function partialIndex(
	knex: Knex,
	name: string,
	table: string,
	columns: string,
	where: string,
	unique = false,
): Promise<void> {
	await knex.raw(`create ${unique ? 'unique ' : ''}index ${name} on ${table} (${columns}) where ${where}`);
}

/**
 * A table whose rows lie in the order of their key. On SQLite it then is a single B-tree (`without rowid`): small rows that
 * are written often and read by the beginning of their key cost half as much.
 */
export async function clusteredTable(
	knex: Knex,
	name: string,
	key: readonly string[],
	define: (table: Knex.CreateTableBuilder) => void,
): Promise<void> {
	const create = knex.schema.createTable(name, table => {
		define(table);
		table.primary([...key]);
	});
	if (knex.client.driverName === 'pg') {
		await create;
		return;
	}
	for (const {sql} of create.toSQL()) {
		await knex.raw(`${sql} without rowid`);
	}
}
