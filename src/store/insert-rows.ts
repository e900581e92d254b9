import type {Knex} from 'knex';

type Value = string | number | Uint8Array | null;
export type Row = readonly Value[];

// SQLite allows 32,766 parameters in a statement, PostgreSQL 65,535.
const maxBindings = 30_000;

/**
 * Inserts many rows by as few statements as the engines allow. Each row holds its values in the order of `columns`.
 * `suffix` follows the values (`on conflict … do nothing`). The query builder costs three times as much for the same rows.
 */
export async function insertRows(
	trx: Knex.Transaction,
	table: string,
	columns: readonly string[],
	rows: readonly Row[],
	suffix = '',
): Promise<void> {
	const perStatement = Math.floor(maxBindings / columns.length);
	const row = `(${columns.map(() => '?').join(',')})`;
	for (let start = 0; start < rows.length; start += perStatement) {
		const part = rows.slice(start, start + perStatement);
		const values = new Array(part.length).fill(row).join(',');
		await trx.raw(
			`insert into ${table} (${columns.join(',')}) values ${values} ${suffix}`,
			part.flat() as Knex.RawBinding[],
		);
	}
}
