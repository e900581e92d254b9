import type {Knex} from 'knex';
import {rowSource} from './dialect.ts';
import {unanswered} from './postgres-pipeline.ts';

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
	for (const {sql, bindings} of inserts(trx, table, columns, rows)) {
		await trx.raw(`${sql} ${suffix}`, bindings as Knex.RawBinding[]).options(unanswered);
	}
}

/** The same, waiting for each statement; answers what the suffix returns (`on conflict … do nothing returning id`). */
export async function insertReturning<Returned>(
	trx: Knex.Transaction,
	table: string,
	columns: readonly string[],
	rows: readonly Row[],
	suffix = '',
): Promise<Returned[]> {
	const returned: Returned[] = [];
	for (const {sql, bindings} of inserts(trx, table, columns, rows)) {
		const answer = await trx.raw(`${sql} ${suffix}`, bindings as Knex.RawBinding[]);
		returned.push(...(Array.isArray(answer) ? answer : answer.rows));
	}
	return returned;
}

function* inserts(trx: Knex.Transaction, table: string, columns: readonly string[], rows: readonly Row[]) {
	const into = `insert into ${table} (${columns.join(',')})`;
	const perStatement = Math.floor(maxBindings / columns.length);
	for (let start = 0; start < rows.length; start += perStatement) {
		const {sql, bindings} = rowSource(trx, rows.slice(start, start + perStatement), columns.length);
		yield {sql: `${into} ${sql}`, bindings};
	}
}
