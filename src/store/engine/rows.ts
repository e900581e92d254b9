import type {Knex} from 'knex';
import {systemClock} from '../../kit/clock.ts';
import {dayMs, hourMs} from '../../kit/time.ts';
import {type IdPrefix, idFloor, idTime, isId} from '../../mail/ids.ts';
import {copyText, unanswered} from '../postgres/postgres-client.ts';
import {hasBytes, hasDays, type IdRange, isWithin, type Row, rowSource, rowsOf} from './dialect.ts';

type Words<Text extends string> = Text extends `${infer First} ${infer Rest}` ? First | Words<Rest> : Text;

/**
 * The columns of a table for insert and select, by the names of their fields in code: the field `workspaceId` is the
 * column `workspace_id`. Each text has some of them, separated by spaces.
 */
export function columnsOf<const Texts extends readonly string[]>(...texts: Texts) {
	type Field = Words<Texts[number]>;
	const fields = texts.flatMap(text => text.split(' ')) as Field[];
	const names = fields.map(field => field.replaceAll(/[A-Z]/g, letter => `_${letter.toLowerCase()}`));
	return {
		fields,
		names,
		selected: names.map((name, index) => `${name} as ${fields[index]}`),
		/** The same in a join, where the table is called `table`. */
		selectedOf: (table: string) => names.map((name, index) => `${table}.${name} as ${fields[index]}`),
		/** The values of a new row, in the order of `names`. */
		valuesOf: (one: {readonly [Name in Field]: Row[number]}): Row => fields.map(field => one[field]),
	};
}

// PostgreSQL allows 65,535 parameters in a statement, SQLite 32,766.
const maxBindings = 30_000;

/**
 * Inserts many rows by as few statements as the engines allow. Each row holds its values in the order of `columns`.
 * `suffix` follows the rows (`on conflict … do nothing`). Without a suffix PostgreSQL gets several rows by COPY
 * (decision 24). The query builder costs three times as much for the same rows.
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
			await trx
				.raw(`copy ${table} (${columns.join(',')}) from stdin`)
				.options({...unanswered, copied: copyText(some)});
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

/** A workspace and an address in comparison form. */
export type Pair = readonly [workspaceId: string, addressKey: string];

/** One text for a pair, for maps: neither part can hold a space. */
export function pairKey(workspaceId: string, addressKey: string): string {
	return `${workspaceId} ${addressKey}`;
}

const maxPairs = 10_000;

/** The rows of a table for any of these pairs, by index probes, with workspace_id, address_key and `columns`. */
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

/** What a query finds for these pairs. Its source has them as column1 and column2. */
export async function selectOfPairs<Row>(
	trx: Knex,
	pairs: readonly Pair[],
	query: (source: string) => string,
): Promise<Row[]> {
	const found: Row[] = [];
	for (let start = 0; start < pairs.length; start += maxPairs) {
		const {sql, bindings} = rowSource(trx, pairs.slice(start, start + maxPairs), 2);
		found.push(...(await rowsOf<Row>(trx, query(sql), bindings)));
	}
	return found;
}

/** More than passes between the ids of a message and of its recipients, which are made in one transaction. */
export const lagMs = hourMs;

/**
 * A condition: a column of ids of this kind is made about when these ids were. To be added where rows that belong to
 * ids are looked up by another column, or by a join: PostgreSQL then opens the few days that they are in, not all
 * (`postgres/days.ts`).
 */
export function nearIds(
	database: Knex,
	column: string,
	prefix: IdPrefix,
	ids: readonly string[],
): [sql: string, bindings: Knex.RawBinding[]] {
	let [first, last] = [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY];
	if (hasDays(database)) {
		for (const id of ids) {
			const time = isId(id.slice(0, 3) as IdPrefix, id) ? idTime(id) : Number.NaN;
			first = Math.min(first, time);
			last = Math.max(last, time);
		}
	}
	// SQLite; no ids; ids that were never made.
	if (!(first <= last)) {
		return ['1 = 1', []];
	}
	return madeBetween(column, prefix, first - lagMs, last + lagMs);
}

/**
 * A condition: a column of ids of this kind is made in a span of time, milliseconds. PostgreSQL holds a plain range to
 * be a two-hundredth of a day that it knows nothing of yet, and would rather read it from end to end than look anything
 * up; of an array it does not think so.
 */
export function madeBetween(
	column: string,
	prefix: IdPrefix,
	from: number,
	to: number,
): [sql: string, bindings: Knex.RawBinding[]] {
	return [`${column} >= ? and ${column} <= any (array[?])`, [idFloor(prefix, from), idFloor(prefix, to)]];
}

/**
 * A condition: a column has one of these values, however many they are. PostgreSQL gets them one by one: then it opens
 * the days of these ids alone, and looks each of them up. SQLite gets one text (`rowSource`).
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

/** The same, to be added where rows are joined by the column: only PostgreSQL needs it. */
export function namedIds(
	database: Knex,
	column: string,
	ids: readonly string[],
): [sql: string, bindings: Knex.RawBinding[]] {
	return hasDays(database) ? among(database, column, ids) : ['1 = 1', []];
}

/** A condition: a column of ids of this kind is made at this time or later, milliseconds. */
export function idsSince(
	database: Knex,
	column: string,
	prefix: IdPrefix,
	time: number,
): [sql: string, bindings: Knex.RawBinding[]] {
	return hasDays(database) ? [`${column} >= ?`, [idFloor(prefix, time)]] : ['1 = 1', []];
}

/** How far back each part but the last goes from the one before. */
const partsMs = [2 * dayMs, 14 * dayMs];

/**
 * A range of ids of one kind in parts, the newest first, to be read one after the other until there are enough: only to
 * plan a statement takes PostgreSQL ten milliseconds and more if it may be about all days. The clock decides nothing
 * but where the parts meet.
 */
export function newestFirst(database: Knex, prefix: IdPrefix, {from = null, below}: IdRange): IdRange[] {
	const parts: IdRange[] = [];
	let end = below;
	let time = below === null ? systemClock.now() : idTime(below.slice(0, 30));
	for (const back of hasDays(database) && !(time < 0) ? partsMs : []) {
		time -= back;
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
 * Rows of a table, newest first, along an index: equality on each of its leading columns, and a range on the id that
 * ends it. It reads no row that it does not return, regardless of the engine's statistics.
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
		throw new RangeError('an index is read from a value on');
	}
	return reader(table)
		.where(Object.fromEntries(columns))
		.where(isWithin(reader, last, id, range))
		.orderBy([last[0], id].map(column => ({column, order: 'desc'})));
}

/**
 * The row of an address, one at most, if it is older than `after` (null: any). By its own index: SQLite would look for
 * it among all rows of the workspace where their order is asked for too.
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

/** What callers wrote into the rows of one page, octets; a single row may have more. */
const maxBytes = 1024 * 1024;

/** What of a table's rows may be large. */
const largeColumns = {messages: ['data', 'metadata'], webhook_deliveries: ['body']} as const;

/**
 * The first rows that fit one page together, at least one: a hundred large ones would hold up the main thread while
 * they are made an answer, and memory until a slow client has read it. Lengths are asked for, no row is read.
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

/** How many rows are read in all, and of each workspace. */
export type TurnLimits = {readonly limit: number; readonly perWorkspace: number};

/**
 * Rows that have a `workspace_id`, workspaces in turn: the first of each, then the second of each, so that no workspace
 * pushes others out of a bounded list. `order`: the columns that order the rows of one workspace.
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
