import type {Knex} from 'knex';
import {hasBytes, rowSource, rowsOf} from './dialect.ts';
import {copyText} from './postgres-copy.ts';
import {unanswered} from './postgres-pipeline.ts';

type Value = string | number | Uint8Array | null;
export type Row = readonly Value[];

// PostgreSQL allows 65,535 parameters in a statement, SQLite 32,766.
const maxBindings = 30_000;

/**
 * Inserts many rows by as few statements as the engines allow. Each row holds its values in the order of `columns`.
 * `suffix` follows the rows (`on conflict … do nothing`). Without a suffix PostgreSQL gets several rows by COPY (decision 24).
 * The query builder costs three times as much for the same rows.
 */
export async function insertRows(
	trx: Knex.Transaction,
	table: string,
	columns: readonly string[],
	rows: readonly Row[],
	suffix = '',
): Promise<void> {
	// The log gains nothing from a single row.
	if (trx.client.driverName === 'pg' && suffix === '' && rows.length > 1 && !hasBytes(rows)) {
		for (const some of chunks(rows, columns.length)) {
			await trx.raw(`copy ${table} (${columns.join(',')}) from stdin`).options({...unanswered, copied: copyText(some)});
		}
		return;
	}
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
		returned.push(...(await rowsOf<Returned>(trx, `${sql} ${suffix}`, bindings)));
	}
	return returned;
}

function* inserts(trx: Knex.Transaction, table: string, columns: readonly string[], rows: readonly Row[]) {
	const into = `insert into ${table} (${columns.join(',')})`;
	for (const some of chunks(rows, columns.length)) {
		const {sql, bindings} = rowSource(trx, some, columns.length);
		yield {sql: `${into} ${sql}`, bindings};
	}
}

function* chunks(rows: readonly Row[], width: number) {
	const perStatement = Math.floor(maxBindings / width);
	for (let start = 0; start < rows.length; start += perStatement) {
		yield rows.slice(start, start + perStatement);
	}
}
