import type {Knex} from 'knex';
import {rowSource} from './dialect.ts';

type Value = string | number | Uint8Array | null;
export type Row = readonly Value[];

// PostgreSQL allows 65,535 parameters in a statement, SQLite 32,766.
const maxBindings = 30_000;

/**
 * Inserts many rows by as few statements as the engines allow. Each row holds its values in the order of `columns`.
 * `suffix` follows the rows (`on conflict … do nothing`). The query builder costs three times as much for the same rows.
 */
export async function insertRows(
	trx: Knex.Transaction,
	table: string,
	columns: readonly string[],
	rows: readonly Row[],
	suffix = '',
): Promise<void> {
	const into = `insert into ${table} (${columns.join(',')})`;
	const perStatement = Math.floor(maxBindings / columns.length);
	for (let start = 0; start < rows.length; start += perStatement) {
		const {sql, bindings} = rowSource(trx, rows.slice(start, start + perStatement), columns.length);
		await trx.raw(`${into} ${sql} ${suffix}`, bindings as Knex.RawBinding[]);
	}
}
