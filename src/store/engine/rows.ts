import type {Knex} from 'knex';
import {systemClock} from '../../kit/clock.ts';
import {snakeCase} from '../../kit/text.ts';
import {dayMs, hourMs} from '../../kit/time.ts';
import {type IdPrefix, idFloor, idTime, isId} from '../../mail/ids.ts';
import {copyText, unanswered} from '../postgres/postgres-client.ts';
import {hasBytes, hasDays, type IdRange, isWithin, queryRows, type Row, rowSource} from './dialect.ts';

type Words<Text extends string> = Text extends `${infer First} ${infer Rest}` ? First | Words<Rest> : Text;

/**
 * The columns of a table for insert and select, by the names of their fields in code: the field `workspaceId` is the
 * column `workspace_id`. Each text contains some of them, separated by spaces.
 */
export function toColumns<const Texts extends readonly string[]>(...texts: Texts) {
	type Field = Words<Texts[number]>;
	const fields = texts.flatMap(text => text.split(' ')) as Field[];
	const names = fields.map(snakeCase);
	return {
		fields,
		names,
		selected: names.map((name, index) => `${name} as ${fields[index]}`),
		/** Like `selected`, but for a join in which the table is called `table`. */
		selectedOf: (table: string) => names.map((name, index) => `${table}.${name} as ${fields[index]}`),
		/** Returns the values of a new row, in the order of `names`. */
		valuesOf: (row: {readonly [Name in Field]: Row[number]}): Row => fields.map(field => row[field]),
	};
}

// PostgreSQL allows 65,535 parameters in a statement, SQLite 32,766.
const maxBindings = 30_000;

/**
 * Inserts many rows with as few statements as the engines allow. Each row has its values in the order of `columns`.
 * `suffix` follows the rows (`on conflict … do nothing`). Without a suffix, PostgreSQL gets several rows by COPY
 * (decision 24). The query builder would cost three times as much.
 */
export async function insertRows(
	trx: Knex.Transaction,
	table: string,
	columns: readonly string[],
	rows: readonly Row[],
	suffix = '',
): Promise<void> {
	// COPY has no advantage for a single row.
	if (trx.client.driverName === 'pg' && suffix === '' && rows.length > 1 && !hasBytes(rows)) {
		for (const chunk of chunks(rows, columns.length)) {
			await trx
				.raw(`copy ${table} (${columns.join(',')}) from stdin`)
				.options({...unanswered, copied: copyText(chunk)});
		}
		return;
	}
	for (const {sql, bindings} of inserts(trx, table, columns, rows)) {
		await trx.raw(`${sql} ${suffix}`, bindings as Knex.RawBinding[]).options(unanswered);
	}
}

/** Like `insertRows`, but waits for each statement and returns what the suffix selects (`returning id`). */
export async function insertReturning<Returned>(
	trx: Knex.Transaction,
	table: string,
	columns: readonly string[],
	rows: readonly Row[],
	suffix = '',
): Promise<Returned[]> {
	const returned: Returned[] = [];
	for (const {sql, bindings} of inserts(trx, table, columns, rows)) {
		returned.push(...(await queryRows<Returned>(trx, `${sql} ${suffix}`, bindings)));
	}
	return returned;
}

function* inserts(trx: Knex.Transaction, table: string, columns: readonly string[], rows: readonly Row[]) {
	const into = `insert into ${table} (${columns.join(',')})`;
	for (const chunk of chunks(rows, columns.length)) {
		const {sql, bindings} = rowSource(trx, chunk, columns.length);
		yield {sql: `${into} ${sql}`, bindings};
	}
}

function* chunks(rows: readonly Row[], width: number) {
	const perStatement = Math.floor(maxBindings / width);
	for (let start = 0; start < rows.length; start += perStatement) {
		yield rows.slice(start, start + perStatement);
	}
}

/** A workspace and an address in comparison form. */
export type Pair = readonly [workspaceId: string, addressKey: string];

/** Returns one text for a pair, as a key of maps. Neither part can contain a space. */
export function pairKey(workspaceId: string, addressKey: string): string {
	return `${workspaceId} ${addressKey}`;
}

const maxPairs = 10_000;

/** Returns a table's rows for any of these pairs by index lookups: workspace_id, address_key and `columns`. */
export async function selectPairs<Row>(
	trx: Knex,
	table: string,
	columns: readonly string[],
	pairs: readonly Pair[],
): Promise<Array<Row & {workspace_id: string; address_key: string}>> {
	const selected = ['workspace_id', 'address_key', ...columns].join(', ');
	return await selectOfPairs(
		trx,
		pairs,
		source => `select ${selected} from ${table} where (workspace_id, address_key) in (${source})`,
	);
}

/** Returns what a query finds for these pairs, which its source provides as column1 and column2. */
export async function selectOfPairs<Row>(
	trx: Knex,
	pairs: readonly Pair[],
	query: (source: string) => string,
): Promise<Row[]> {
	const rows: Row[] = [];
	for (let start = 0; start < pairs.length; start += maxPairs) {
		const {sql, bindings} = rowSource(trx, pairs.slice(start, start + maxPairs), 2);
		rows.push(...(await queryRows<Row>(trx, query(sql), bindings)));
	}
	return rows;
}

/** More than the time between the ids of a message and of its recipients, which one transaction creates. */
export const maxIdLagMs = hourMs;

/**
 * An SQL condition: a column contains ids that were created at about the same time as these ids. Add it when related
 * rows are looked up by another column or by a join. PostgreSQL then reads only the partitions of those days, not all
 * of them (`postgres/days.ts`).
 */
export function createdNearIds(
	database: Knex,
	column: string,
	prefix: IdPrefix,
	ids: readonly string[],
): [sql: string, bindings: Knex.RawBinding[]] {
	let [oldest, newest] = [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY];
	if (hasDays(database)) {
		for (const id of ids) {
			const time = isId(id.slice(0, 3) as IdPrefix, id) ? idTime(id) : Number.NaN;
			oldest = Math.min(oldest, time);
			newest = Math.max(newest, time);
		}
	}
	// This is the case for SQLite, and if no id is valid.
	if (!(oldest <= newest)) {
		return ['1 = 1', []];
	}
	return createdBetween(column, prefix, oldest - maxIdLagMs, newest + maxIdLagMs);
}

/**
 * An SQL condition: a column contains ids created within a span of time (milliseconds). Without statistics, PostgreSQL
 * assumes that a plain range matches few rows, and would scan it instead of looking up rows. The array prevents that.
 */
export function createdBetween(
	column: string,
	prefix: IdPrefix,
	from: number,
	to: number,
): [sql: string, bindings: Knex.RawBinding[]] {
	return [`${column} >= ? and ${column} <= any (array[?])`, [idFloor(prefix, from), idFloor(prefix, to)]];
}

/**
 * An SQL condition: a column has one of these values, however many there are. PostgreSQL gets them as separate
 * parameters, so it reads only the partitions of their days and looks each of them up. SQLite gets one text
 * (`rowSource`).
 */
export function among(
	database: Knex,
	column: string,
	values: readonly string[],
): [sql: string, bindings: Knex.RawBinding[]] {
	if (hasDays(database)) {
		return values.length === 0 ? ['false', []] : [`${column} in (${values.map(() => '?').join()})`, [...values]];
	}
	return [`${column} in (select value from json_each(?))`, [JSON.stringify(values)]];
}

/** Like `among`, an additional condition on a joined column. Only PostgreSQL needs it, to skip partitions. */
export function namedIds(
	database: Knex,
	column: string,
	ids: readonly string[],
): [sql: string, bindings: Knex.RawBinding[]] {
	return hasDays(database) ? among(database, column, ids) : ['1 = 1', []];
}

/** An SQL condition: a column contains ids created at this time (milliseconds) or later. */
export function idsSince(
	database: Knex,
	column: string,
	prefix: IdPrefix,
	time: number,
): [sql: string, bindings: Knex.RawBinding[]] {
	return hasDays(database) ? [`${column} >= ?`, [idFloor(prefix, time)]] : ['1 = 1', []];
}

/** The lengths of the newest parts. A last part covers the rest. */
const partLengthsMs = [2 * dayMs, 14 * dayMs];

/**
 * Splits a range of ids into parts, the newest first, to be read until there are enough rows. PostgreSQL needs ten
 * milliseconds or more just to plan a statement that may concern all days. A wrong clock loses no rows: it only moves
 * the boundaries between the parts.
 */
export function newestFirst(database: Knex, prefix: IdPrefix, {from = null, below}: IdRange): IdRange[] {
	const parts: IdRange[] = [];
	let end = below;
	let time = below === null ? systemClock.now() : idTime(below.slice(0, 30));
	for (const length of hasDays(database) && !(time < 0) ? partLengthsMs : []) {
		time -= length;
		const start = idFloor(prefix, time);
		if (start <= (from ?? '')) {
			break;
		}
		parts.push({from: start, below: end});
		end = start;
	}
	return [...parts, {from, below: end}];
}

/**
 * Queries rows of a table, newest first, along an index: its leading columns have fixed values, and its last column is
 * an id within a range. It reads no row that it does not return, regardless of the engine's statistics.
 */
export function alongIndex(
	reader: Knex,
	table: string,
	{leading, id}: {readonly leading: Readonly<Record<string, string>>; readonly id: string},
	range: IdRange,
): Knex.QueryBuilder {
	const columns = Object.entries(leading);
	const last = columns.pop();
	if (last === undefined) {
		throw new RangeError('an index needs at least one leading column');
	}
	return reader(table)
		.where(Object.fromEntries(columns))
		.where(isWithin(reader, last, id, range))
		.orderBy([last[0], id].map(column => ({column, order: 'desc'})));
}

/**
 * Queries the row of an address, if it is older than `after` (`null` for any). The query has no order, because SQLite
 * would otherwise search all rows of the workspace instead of using the index of the address.
 */
export function rowOfAddress(
	reader: Knex,
	table: 'contacts' | 'suppressions',
	address: {readonly workspace_id: string; readonly address_key: string},
	after: string | null,
): Knex.QueryBuilder {
	const query = reader(table).where(address);
	return after === null ? query : query.where('id', '<', after);
}

/** The maximum size of caller-provided content in the rows of a page, in octets. A single row may exceed it. */
const maxBytes = 1024 * 1024;

/** The columns that may be large. */
const largeColumns = {messages: ['data', 'metadata'], webhook_deliveries: ['body']} as const;

/**
 * Returns the first ids whose rows fit one page together, at least one. A hundred large rows would block the main
 * thread while the response is built, and use memory until a slow client has read it. It reads only lengths, not rows.
 */
export async function firstThatFit(
	reader: Knex,
	table: keyof typeof largeColumns,
	ids: readonly string[],
): Promise<readonly string[]> {
	if (ids.length === 0) {
		return ids;
	}
	const lengths = largeColumns[table].map(column => `coalesce(octet_length(${column}), 0)`);
	const rows: Array<{id: string; bytes: number}> = await reader(table)
		.whereIn('id', ids)
		.select('id', reader.raw(`${lengths.join(' + ')} as bytes`));
	const bytesOf = new Map(rows.map(({id, bytes}) => [id, bytes]));
	let total = 0;
	const end = ids.findIndex((id, index) => {
		total += bytesOf.get(id) ?? 0;
		return index > 0 && total > maxBytes;
	});
	return end === -1 ? ids : ids.slice(0, end);
}

/** The maximum number of rows, in total and per workspace. */
export type TurnLimits = {readonly limit: number; readonly perWorkspace: number};

/**
 * Selects rows that have a `workspace_id`, taking workspaces in turn: the first row of each, then the second of each.
 * So no workspace crowds out others in a bounded list. `order` names the columns that order the rows of one workspace.
 */
export async function selectInTurns<Row>(
	database: Knex,
	rows: Knex.QueryBuilder,
	order: string,
	{limit, perWorkspace}: TurnLimits,
): Promise<Row[]> {
	const numbered = database
		.from(rows.as('r'))
		.select('r.*', database.raw(`row_number() over (partition by r.workspace_id order by ${order}) as turn`));
	return await database
		.from(numbered.as('t'))
		.where('turn', '<=', perWorkspace)
		.orderByRaw(`turn, ${order}`)
		.limit(limit);
}
