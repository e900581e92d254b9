import type {Knex} from 'knex';
import {rowSource} from './dialect.ts';

type Value = string | number | Uint8Array | null;
export type Row = readonly Value[];

// PostgreSQL allows 65,535 parameters in a statement, SQLite 32,766.
const maxBindings = 30_000;

/**
 * Inserts many rows by as few statements as the engines allow. Each row holds its values in the order of `columns`.
 * `suffix` follows the rows (`on conflict … do nothing returning id`). The query builder costs three times as much for the
 * same rows. Answers what the suffix returns.
 */
export async function insertRows<Returned = never>(
	trx: Knex.Transaction,
	table: string,
	columns: readonly string[],
	rows: readonly Row[],
	suffix = '',
): Promise<Returned[]> {
	const into = `insert into ${table} (${columns.join(',')})`;
	const perStatement = Math.floor(maxBindings / columns.length);
	const returned: Returned[] = [];
	for (let start = 0; start < rows.length; start += perStatement) {
		const {sql, bindings} = rowSource(trx, rows.slice(start, start + perStatement), columns.length);
		const answer = await trx.raw(`${into} ${sql} ${suffix}`, bindings as Knex.RawBinding[]);
		returned.push(...(Array.isArray(answer) ? answer : answer.rows));
	}
	return returned;
}
